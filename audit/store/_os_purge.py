"""Old events on their way out of OpenSearch.

Which purge is the last one is decided in one place: a document of the state index, moved by compare-and-set, that holds
the record of the purge whole. Only then the record goes into its chain, and only then events are removed, in the order
of their numbers, so that whoever is cut off leaves the end of what was purged and no gap in it. Of each an empty
document stays: see GONE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from sentinel_core.audit.chain import Head, Linked
from sentinel_core.audit.errors import EventInvalid, PurgeFailed
from sentinel_core.audit.event import Event, parse_event
from sentinel_core.audit.instants import from_milliseconds, milliseconds, rfc3339
from sentinel_core.audit.retention.contract import OVERTAKEN, PURGED, Ends, Expired, Holder
from sentinel_core.audit.store._os_client import Client, encode, refused
from sentinel_core.audit.store._os_layout import FIELDS, GONE, NUMBER, Names, key, linked_of
from sentinel_core.audit.store._os_walk import Pager, by_source, queries

_KEY = key("purge")
_SOURCE = FIELDS["source"]
_MOST_SIGHTINGS = 10_000
_SIGHTED_AT_ONCE = 200
MOST_AT_ONCE = 1000
"""Events removed by one request."""
_DONE = (200, 201, 404)
"""What is gone already is no trouble."""


# -- the last purge ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Last:
    """The document that says which purge is the last one."""

    event: Event | None = None
    """The record as it was decided."""
    place: tuple[int, int] | None = None
    text: str | None = None


def read_last(client: Client, names: Names) -> Last:
    """As it is this moment."""
    path = "/_mget?filter_path=docs.found,docs._source,docs._seq_no,docs._primary_term"
    _, told = client.call("POST", path, {"docs": [{"_index": names.state, "_id": _KEY}]})
    each: dict[str, Any] = next(iter(told.get("docs", ())), {})  # without the index there is none
    if not each.get("found"):
        return Last()
    place, text = (each["_seq_no"], each["_primary_term"]), str(each["_source"].get("purge"))
    try:
        return Last(parse_event(text), place, text)
    except EventInvalid:  # somebody changed it: it is there, and says nothing
        return Last(Event("", "", PURGED, "audit", from_milliseconds(0), b""), place, text)


def decide(client: Client, names: Names, event: Event, after: Event | None) -> None:
    """Makes it the last one. Raises PurgeFailed where another one is by now."""
    last, text = read_last(client, names), event.to_json().decode()
    if (last.event and last.event.id) == (after and after.id):
        where: dict[str, Any] = {"_index": names.state, "_id": _KEY}
        if last.place is not None:
            where |= {"if_seq_no": last.place[0], "if_primary_term": last.place[1]}
        lines = [encode({"create" if last.place is None else "index": where}), encode({"purge": text})]
        (result,) = client.bulk(lines)
        if result["status"] in (200, 201):
            return
        if result["status"] != 409:
            raise refused(client.target, result["status"], result.get("error"))
        if read_last(client, names).text == text:  # carried out, and its answer was lost
            return
    raise PurgeFailed(OVERTAKEN, next_step="run it again")


# -- what is old -------------------------------------------------------------------------------------------------------


def expired(client: Client, names: Names, heads: Sequence[Head], before: datetime, future: datetime | None) -> Expired:
    """See `PurgingStore`. `heads`: what is not settled yet stays."""
    settled = {head.source: head.number for head in heads}
    old = {"range": {"@timestamp": {"lt": rfc3339(before)}}}
    young = {"range": {"@timestamp": {"gte": rfc3339(before)} | ({} if future is None else {"lt": rfc3339(future)})}}
    asked = {
        "old": {"filter": old, "aggs": {"last": {"max": {"field": NUMBER}}}},
        "young": {"filter": young, "aggs": {"first": {"min": {"field": NUMBER}}}},
    }
    ends: dict[str, int] = {}
    holders: list[Holder] = []
    for bucket in by_source(client, names, asked):
        source, last = bucket["key"]["source"], bucket["old"]["last"]["value"]
        if last is None or source not in settled:
            continue
        end, first = int(last), bucket["young"]["first"]["value"]
        if first is not None and first < end:
            end, holder = _held(client, names, source, old, int(first))
            holders.append(holder)
        if end:
            ends[source] = min(end, settled[source])
    return Expired(ends, holders)


def _held(client: Client, names: Names, source: str, old: dict[str, Any], number: int) -> tuple[int, Holder]:
    """The last old event of a source before one that is not, 0 for none; and that one."""
    here, front, behind = (
        {"range": {NUMBER: span}} for span in ({"gte": number, "lte": number}, {"lt": number}, {"gt": number})
    )
    asked = {
        "size": 0,
        "query": {"term": {_SOURCE: source}},
        "aggs": {
            "here": {"filter": here, "aggs": {"time": {"max": {"field": "@timestamp"}}}},
            "front": {"filter": _both(front, old), "aggs": {"last": {"max": {"field": NUMBER}}}},
            "behind": {"filter": _both(behind, old)},
        },
    }
    told = client.call("POST", f"/{names.events}/_search", asked)[1]["aggregations"]
    at = from_milliseconds(int(told["here"]["time"]["value"] or 0))  # none where it has just left
    return int(told["front"]["last"]["value"] or 0), Holder(source, number, at, told["behind"]["doc_count"])


def _both(*clauses: dict[str, Any]) -> dict[str, Any]:
    return {"bool": {"filter": list(clauses)}}


def linked(client: Client, names: Names, ends: Ends) -> Iterator[Linked]:
    """See `PurgingStore`; source by source."""
    refresh(client, names)
    pager = Pager(client, names, places=True)
    for query in queries(client, names, ends):
        for hits in pager.pages(query):
            seen: dict[str, list[tuple[str, int]]] = {}
            for each in _sightings(client, names, [hit["_id"] for hit in hits]):
                held = each["_source"]
                with suppress(ValueError, TypeError, KeyError):  # somebody changed it; no hash covers it
                    at = milliseconds(datetime.fromisoformat(held["time"]))
                    seen.setdefault(held["sighted"], []).append((str(held["instance"]), at))
            for hit in hits:
                yield _with_sightings(linked_of(hit["_source"]), hit["_source"], seen.get(hit["_id"], ()))


def _with_sightings(event: Linked, held: Mapping[str, Any], more: Sequence[tuple[str, int]]) -> Linked:
    if not event.previous:  # not as it was written
        return event
    first = {held.get(FIELDS["instance"]) or "": milliseconds(datetime.fromisoformat(held["@timestamp"]))}
    for instance, at in more:
        first.setdefault(instance, at)
    return event._replace(sightings=tuple(sorted(first.items(), key=lambda each: (each[1], each[0]))))


def _sightings(client: Client, names: Names, events: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The documents of all sightings of events, by their keys."""
    for start in range(0, len(events), _SIGHTED_AT_ONCE):
        some = events[start : start + _SIGHTED_AT_ONCE]
        asked = {"query": {"terms": {"sighted": some}}, "size": _MOST_SIGHTINGS}
        hits = client.call("POST", f"/{names.state}/_search?ignore_unavailable=true", asked)[1]["hits"]["hits"]
        if len(hits) == _MOST_SIGHTINGS and len(some) > 1:
            for event in some:
                yield from _sightings(client, names, [event])
        else:
            yield from hits


# -- removing ----------------------------------------------------------------------------------------------------------


def remove(client: Client, names: Names, ends: Ends) -> Iterator[int]:
    """See `PurgingStore`. Actions on one shard are carried out in their order, and so are requests: each is of one
    index, and where that has several shards, of one event."""
    refresh(client, names)
    pager = Pager(client, names, places=True, only=[NUMBER])
    before: str | None = None
    for query in queries(client, names, ends):
        for hits in pager.pages(query):
            _remove_sightings(client, names, [hit["_id"] for hit in hits])
            for index, run in groupby(hits, key=itemgetter("_index")):
                if index != before:
                    # What is gone from one index must not be seen later than what is gone from the next one.
                    refresh(client, names)
                    most, before = (MOST_AT_ONCE if _shards(client, index) == 1 else 1), index
                ids = [hit["_id"] for hit in run]
                for start in range(0, len(ids), most):
                    some = ids[start : start + most]
                    client.carry_out([line for name in some for line in _gone(index, name)], _DONE)
                    yield len(some)
    refresh(client, names)


def _gone(index: str, name: str) -> tuple[str, str]:
    return encode({"index": {"_index": index, "_id": name}}), encode(GONE)


def _shards(client: Client, index: str) -> int:
    return int(client.call("POST", f"/{index}/_count")[1]["_shards"]["total"])


def _remove_sightings(client: Client, names: Names, events: Sequence[str]) -> None:
    found = [hit["_id"] for hit in _sightings(client, names, events)]
    lines = [encode({"delete": {"_index": names.state, "_id": name}}) for name in found]
    client.carry_out(lines, _DONE, each=1)


def refresh(client: Client, names: Names) -> None:
    """So that all that was written is found."""
    client.call("POST", f"/{names.prefix}-*/_refresh", allowed=(404,))

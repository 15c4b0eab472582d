"""The audit store in OpenSearch or Elasticsearch, for many machines: monthly indices, one chain a source, several
writers at once. Speaks plain HTTP, which is the same for both products."""

from __future__ import annotations

import math
import os
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from sentinel_core.audit.chain import Head, Linked, Named, Stretch, Wanted
from sentinel_core.audit.chain import Page as ChainPage
from sentinel_core.audit.errors import (
    EventDamaged,
    EventRefused,
    StoreDenied,
    StoreMisconfigured,
    StoreMissing,
    StoreUnavailable,
)
from sentinel_core.audit.event import Event, restore_event, storable
from sentinel_core.audit.indexing import read_columns
from sentinel_core.audit.retention.contract import Ends, Expired
from sentinel_core.audit.store._os_arrival import arrived
from sentinel_core.audit.store._os_client import Client, encode
from sentinel_core.audit.store._os_inspect import inspect
from sentinel_core.audit.store._os_layout import (
    DATA,
    FIELDS,
    LAYOUT,
    Names,
    check,
    head_of,
    key,
    next_size,
    row_of,
    shown_head,
    shown_rows,
    templates,
    unpacked,
)
from sentinel_core.audit.store._os_linked import hashes_at, links, stretches
from sentinel_core.audit.store._os_purge import decide, expired, linked, read_last, remove
from sentinel_core.audit.store._os_query import ORDER, after, cursor, event_place, matcher, met_rows, place_of, question
from sentinel_core.audit.store._os_read import Read
from sentinel_core.audit.store._os_restore import without_record
from sentinel_core.audit.store._os_same import differing
from sentinel_core.audit.store._os_target import Target
from sentinel_core.audit.store._os_walk import heads_of, records, walk
from sentinel_core.audit.store._os_write import Writer
from sentinel_core.audit.store.contract import EventHead, Ingested, Page, Query, Refused, Row, Sighting, StoreCondition
from sentinel_core.audit.store.sqlite import check_id, is_one

_FIRST_EVENTS, _MOST_EVENTS = 64, 1000
"""Looked at in the first search for a question, and in any."""
_MOST_SIGHTINGS = 10_000
_FRESH_S = 1.0
_WITHOUT_DATA = {"excludes": [DATA]}
_THERE = {"exists": {"field": FIELDS["source"]}}
"""What is left of purged events has none."""
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, zlib.error)


def from_uri(rest: str, *, read_only: bool) -> OpenSearchStore:
    """What follows `opensearch://`. Raises StoreMisconfigured."""
    return OpenSearchStore(Target.parse(rest), read_only=read_only)


class OpenSearchStore:
    """Does all that `SqliteStore` does. It sees at once what it wrote itself; what others write is found by
    questions half a second later."""

    def __init__(self, target: Target, *, read_only: bool = False) -> None:
        self.target = target
        self._read_only = read_only
        self._names = Names(target.index)
        self._client = Client(target)
        self._lock = threading.Lock()
        self._writer: Writer | None = None
        self._wrote = self._shown = object()
        """Marks of the last write that ended, and of the last that a refresh began after: where they differ, what was
        written may not be found yet."""
        self._refreshed_s = -math.inf
        self._process = os.getpid()

    def ingest(self, events: Sequence[Event]) -> Ingested:
        """See `AuditStore`; where it raises StoreUnavailable part of the batch may be stored, and a repeat stores the
        rest. One thread at a time; any number of processes."""
        if self._read_only:
            raise StoreMisconfigured(f"{self.target} was opened for reading")
        batch: dict[int, Read] = {}
        refused: list[Refused] = []
        if self._process != os.getpid():  # another thread may have held it when this process was forked
            self._process, self._lock, self._writer = os.getpid(), threading.Lock(), None
        with self._lock:
            if self._writer is None:
                self._prepare()
                self._writer = Writer(self._client, self._names)
            try:
                new = self._writer.write(_taken(events, batch, refused))
            finally:  # where it fails, part may be there
                self._wrote = object()
        others = differing(self._client, self._names, batch) if new < len(batch) else {}
        refused += [Refused(place, reason) for place, reason in others.items()]
        return Ingested(new, len(batch) - new - len(others), tuple(refused))

    def _prepare(self) -> None:
        for name, template in templates(self._names).items():
            status, told = self._client.call("GET", f"/_index_template/{name}", allowed=(403, 404))
            if status == 403:
                raise StoreDenied(
                    f"{self.target} does not show index templates to {self.target.user or 'a client without a login'}; "
                    "grant manage_index_templates, see docs/audit.md"
                )
            there = told["index_templates"][0]["index_template"].get("version", 0) if status == 200 else 0
            if there > LAYOUT:
                raise StoreMisconfigured(
                    f"{self.target}: written by a newer version (layout {there}); upgrade this program"
                )
            if there < LAYOUT:
                self._client.call("PUT", f"/_index_template/{name}", template)

    # -- questions -----------------------------------------------------------------------------------------------------

    def query(self, query: Query) -> Page:
        """See `AuditStore`."""
        tests = [matcher(condition) for condition in query.conditions]
        place = None if query.after is None else place_of(query.after)
        asked = {"query": question(query), "sort": [{name: "desc"} for name in ORDER], "_source": _WITHOUT_DATA}
        found: list[tuple[Row, tuple[int, int, str, int]]] = []
        event = (0, 0, "")
        for held in self._events(asked, after(place), query.limit + 1):
            (head, rows), event = self._read(held), event_place(held, event)
            for number, row in met_rows(rows, head, tests):
                at = (*event, number)
                if place is None or at < place:
                    found.append((row_of(head, row), at))
                if len(found) > query.limit:
                    return Page(tuple(row for row, _ in found[:-1]), cursor(found[-2][1]))
        return Page(tuple(row for row, _ in found), None)

    def get(self, event_id: str, source: str | None = None) -> Event | None:
        """See `AuditStore`. Raises QueryInvalid for a beginning that is too short or not unique."""
        check_id(event_id, source)
        whole = {FIELDS["id"]: storable(event_id)} | ({} if source is None else {FIELDS["source"]: source})
        terms = [{"term": {name: text}} for name, text in whole.items()]
        hits = self._hits({"query": {"bool": {"filter": terms}}, "size": 2})
        if not hits and source is None:
            hits = self._hits({"query": {"prefix": {FIELDS["id"]: storable(event_id)}}, "size": 2})
        names = [(str(hit["_source"].get(FIELDS["id"])), str(hit["_source"].get(FIELDS["source"]))) for hit in hits]
        return self._whole(hits[0]["_source"]) if is_one(event_id, names) else None

    def arrived(self, query: Query) -> Page:
        """See `ArrivalStore`; source by source, as there is no other order of arrival."""
        tests = [matcher(condition) for condition in query.conditions]
        there = {head.source: head.number for head in self.heads()}
        found = False

        def search(asked: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
            nonlocal found
            if not found:  # what the chains tell of must be found, whoever wrote it
                found, self._wrote = True, object()
            return [hit["_source"] for hit in self._hits({**asked, "_source": _WITHOUT_DATA})]

        return arrived(query, there, tests, search, self._read)

    def events(self, heads: Sequence[EventHead]) -> Sequence[Event]:
        """See `ArrivalStore`."""
        found: dict[tuple[str, str], Event] = {}
        ids = {"terms": {FIELDS["id"]: sorted({head.id for head in heads})}}
        asked = {"query": {"bool": {"filter": [ids]}}, "sort": [{name: "asc"} for name in ORDER]}
        for held in self._events(asked, None, len(heads) + 1):
            with suppress(EventDamaged):
                event = self._whole(held)
                found[event.id, event.source] = event
        return [found[head.id, head.source] for head in heads if (head.id, head.source) in found]

    def related(self, head: EventHead, *, limit: int = 200) -> Sequence[Row]:
        """See `AuditStore`."""
        same: list[dict[str, Any]] = []
        if head.commit is not None:
            same.append({"term": {FIELDS["commit"]: head.commit}})
        elif head.document is not None and head.revision is not None:
            of_revision = [{"term": {FIELDS[name]: getattr(head, name)}} for name in ("document", "revision")]
            same.append({"bool": {"filter": of_revision, "must_not": [{"exists": {"field": FIELDS["commit"]}}]}})
        if head.plan is not None:
            same.append({"term": {FIELDS["plan"]: head.plan}})
        if not same:
            return []
        environment = {"exists": {"field": FIELDS["environment"]}}
        all_of = [
            {"term": {FIELDS["type"]: head.type}},
            {"term": {FIELDS["initial"]: False}},
            {"bool": {"should": same}},
        ]
        if head.environment is not None:
            all_of.append({"term": {FIELDS["environment"]: head.environment}})
        query = {"bool": {"filter": all_of, "must_not": [] if head.environment is not None else [environment]}}
        asked = {"query": query, "sort": [{name: "asc"} for name in ORDER], "_source": _WITHOUT_DATA}
        found: list[Row] = []
        for held in self._events(asked, None, limit + 1):
            of, rows = self._read(held)
            found += [row_of(of, row) for row in (rows or (None,))]
            if len(found) >= limit:
                break
        return found[:limit]

    def sightings(self, head: EventHead) -> Sequence[Sighting]:
        """See `AuditStore`."""
        event = key("event", head.id, head.source)
        asked = {"query": {"term": {"sighted": event}}, "size": _MOST_SIGHTINGS}
        self._refresh_state()
        first = {head.instance or "": head.time}
        for hit in self._hits(asked, self._names.state):
            first.setdefault(hit["_source"]["instance"], datetime.fromisoformat(hit["_source"]["time"]))
        found = [Sighting(instance, time) for instance, time in first.items()]
        return sorted(found, key=lambda sighting: (sighting.time, sighting.instance))

    def count(self) -> int:
        """See `AuditStore`."""
        self._refresh()
        _, told = self._client.call("POST", f"/{self._names.events}/_count", {"query": _THERE})
        self._check_it_exists(told)
        return int(told["count"])

    def _events(self, asked: dict[str, Any], start: list[Any] | None, likely: int) -> Iterator[Mapping[str, Any]]:
        """Documents in the order asked for, of which `likely` so many are looked at."""
        size = min(likely, _FIRST_EVENTS)
        while True:
            more = {"search_after": start} if start else {}
            hits = self._hits({**asked, **more, "size": size})
            documents = [hit["_source"] for hit in hits]
            yield from documents
            if len(hits) < size:
                return
            start, size = hits[-1]["sort"], next_size(size, _MOST_EVENTS, documents)

    def _hits(self, asked: dict[str, Any], index: str | None = None) -> Sequence[Mapping[str, Any]]:
        self._refresh()
        path = f"/{index or self._names.events}/_search?ignore_unavailable=true"
        if index is None:
            asked = {**asked, "query": {"bool": {"filter": [asked["query"], _THERE]}}}
        _, told = self._client.call("POST", path, {**asked, "track_total_hits": False})
        if index is None:
            self._check_it_exists(told)
        found: Sequence[Mapping[str, Any]] = told["hits"]["hits"]
        return found

    def _read(self, held: Mapping[str, Any]) -> tuple[EventHead, Sequence[Sequence[Any]]]:
        """An event and its rows."""
        return shown_head(held), shown_rows(held)

    def _whole(self, held: Mapping[str, Any]) -> Event:
        try:
            return _event(held)
        except _DAMAGED as error:
            raise self._damaged(held) from error

    def _damaged(self, held: Mapping[str, Any]) -> EventDamaged:
        name = f"{held.get(FIELDS['id'])!r:.80}"
        return EventDamaged(f"{self.target}: somebody changed the event {name}; run sentinelctl audit verify")

    def _refresh_state(self) -> None:
        """Sightings of others, too; a story asks for those of many events in a row."""
        if time.monotonic() - self._refreshed_s > _FRESH_S:
            self._client.call("POST", f"/{self._names.state}/_refresh", allowed=(404,))
            self._refreshed_s = time.monotonic()

    def _refresh(self) -> None:
        """What this store wrote is found by what it asks."""
        if (wrote := self._wrote) is not self._shown:
            self._client.call("POST", f"/{self._names.prefix}-*/_refresh", allowed=(404,))
            self._shown = wrote

    def _check_it_exists(self, told: Mapping[str, Any]) -> None:
        shards = told["_shards"]
        if self._read_only and shards["total"] == 0:
            raise StoreMissing(f"{self.target}: there is no audit store yet; it is made when the first event arrives")
        if shards.get("failed"):
            raise StoreUnavailable(f"{self.target}: part of the index cannot be read now: {encode(shards)[:300]}")

    # -- chains --------------------------------------------------------------------------------------------------------

    def heads(self) -> Sequence[Head]:
        """See `ChainedStore`; as far as they are settled. Without any record the events say how far they have come."""
        heads = self._recorded()
        if not heads and self.count():
            return sorted(heads_of(without_record(self._client, self._names, ())), key=attrgetter("source"))
        return heads

    def _recorded(self) -> list[Head]:
        self.count()
        return heads_of(records(self._client, self._names))

    def pages(self, wanted: Wanted) -> tuple[Sequence[Head], Iterator[ChainPage]]:  # noqa: ARG002  all are given
        """See `ChainedStore`; chain by chain in the order of numbers, as there is no other order of arrival."""
        heads = self._recorded()
        return heads, walk(self._client, self._names, heads)

    def inspect(self) -> StoreCondition:
        """See `InspectableStore`."""
        return inspect(self._client, self._names)

    def links(self, heads: Sequence[Named], *, most_bytes: int) -> Sequence[Linked]:
        """See `LinkedStore`."""
        return links(self._documents, heads, most_bytes)

    def hashes_at(self, numbers: Mapping[str, int]) -> Mapping[str, Sequence[bytes]]:
        """See `LinkedStore`."""
        return hashes_at(self._documents, numbers)

    def stretches(self, spans: Mapping[str, Sequence[Linked]]) -> Mapping[str, Stretch]:
        """See `LinkedStore`. What a chain knows of is found, whoever wrote it."""
        self._client.call("POST", f"/{self._names.events}/_refresh?ignore_unavailable=true", allowed=(404,))
        return stretches(self._documents, spans)

    def _documents(self, asked: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        return [hit["_source"] for hit in self._hits(asked)]

    # -- purging -------------------------------------------------------------------------------------------------------

    def last_purge(self) -> Event | None:
        """See `PurgingStore`: as it stands in its chain, and until it does as it was decided."""
        decided = read_last(self._client, self._names).event
        if decided is None:
            return None
        own = [{"term": {FIELDS[name]: getattr(decided, name)}} for name in ("id", "source")]
        hits = self._hits({"query": {"bool": {"filter": own}}, "size": 1})
        if not hits:
            return decided
        try:
            return _event(hits[0]["_source"])
        except _DAMAGED:
            return replace(decided, data=b"")  # it is there, and says nothing

    def record_purge(self, event: Event, *, after: Event | None) -> None:
        """See `PurgingStore`."""
        decide(self._client, self._names, event, after)
        self._record(event)

    def expired(self, before: datetime, *, future: datetime | None = None) -> Expired:
        """See `PurgingStore`."""
        self._wrote = object()  # what others wrote counts, too
        return expired(self._client, self._names, self.heads(), before, future)

    def linked(self, ends: Ends) -> Iterator[Linked]:
        """See `PurgingStore`."""
        return linked(self._client, self._names, ends)

    def remove(self, ends: Ends) -> Iterator[int]:
        """See `PurgingStore`. First the record goes into its chain, where a purge was cut off before it did."""
        decided = read_last(self._client, self._names).event
        if decided is not None:
            self._record(decided)
        yield from remove(self._client, self._names, ends)

    def _record(self, event: Event) -> None:
        for refused in self.ingest([event]).refused:
            raise EventRefused(event.id, refused.reason)

    def close(self) -> None:
        """Idempotent; a later call opens again."""
        self._client.close()


def _taken(events: Sequence[Event], batch: dict[int, Read], refused: list[Refused]) -> Iterator[Read]:
    """Events as they are stored, read when they are asked for: into `batch` by their place, or refused."""
    for place, event in enumerate(events):
        try:
            read = Read(*read_columns(event))
            check(*read)
        except EventRefused as refusal:
            refused.append(Refused(place, refusal.reason))
        else:
            batch[place] = read
            yield read


def _event(held: Mapping[str, Any]) -> Event:
    """Raises one of _DAMAGED."""
    head = head_of(held)
    return restore_event(head.id, head.source, head.type, head.subject, head.time, unpacked(held[DATA]))

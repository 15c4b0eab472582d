"""Events of OpenSearch with their links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sentinel_core.audit.chain import Linked, Named, Place, Stretch
from sentinel_core.audit.instants import milliseconds
from sentinel_core.audit.store._os_layout import DATA, FIELDS, HASH, NUMBER, linked_of, shown_head

Search = Callable[[dict[str, Any]], Sequence[Mapping[str, Any]]]
"""Documents that meet a query, with its size."""
_FIRST, _MOST = 8, 64
"""Events at once: one may have megabytes, and most have a kilobyte."""


def links(search: Search, heads: Sequence[Named], most_bytes: int) -> list[Linked]:
    """See `LinkedStore`."""
    found: list[Linked] = []
    start, size = 0, _FIRST
    while some := heads[start : start + size]:
        ids = {"terms": {FIELDS["id"]: sorted({head.id for head in some})}}
        sources = {"terms": {FIELDS["source"]: sorted({head.source for head in some})}}
        documents = search({"query": {"bool": {"filter": [ids, sources]}}, "size": 2 * len(some)})
        held = {(each.get(FIELDS["id"]), each.get(FIELDS["source"])): each for each in documents}
        for document in filter(None, (held.get((head.id, head.source)) for head in some)):
            most_bytes -= len(str(document.get(DATA)))
            if found and most_bytes < 0:
                return found
            found.append(linked_of(document))
        start, size = start + size, min(2 * size, _MOST)
    return found


_LOOKED_AT = 200
_SOUGHT = 10
"""Chains that are looked at beside those of an answer."""


def hashes_at(search: Search, numbers: Mapping[str, int]) -> dict[str, list[bytes]]:
    """See `LinkedStore`."""
    places = [
        {"bool": {"filter": [{"term": {FIELDS["source"]: source}}, {"term": {NUMBER: number}}]}}
        for source, number in numbers.items()
    ]
    query = {"bool": {"should": places, "minimum_should_match": 1}}
    told: dict[str, list[bytes]] = {source: [] for source in numbers}
    asked = {"query": query, "size": 2 * len(places), "_source": [HASH, FIELDS["source"]]}
    for each in search(asked) if places else ():
        told.setdefault(str(each.get(FIELDS["source"])), []).append(_hash(each.get(HASH)))
    return told


def _hash(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError):
        return b""


def stretches(search: Search, spans: Mapping[str, Sequence[Linked]]) -> dict[str, Stretch]:
    """See `LinkedStore`."""
    told: dict[str, Stretch] = {}
    for source, events in [(source, events) for source, events in spans.items() if events][:_SOUGHT]:
        first, last = events[0].number, events[-1].number
        if (room := _LOOKED_AT - (last - first)) < 0:
            continue
        low, high = max(1, first - room // 2), last + room // 2
        within = {"range": {NUMBER: {"gte": low, "lte": high}}}
        places = _places(search, source, [within], "asc")
        numbers = {place.number for place in places}
        told[source] = Stretch(places, low == 1 or low not in numbers, high not in numbers)
    for source in [source for source, events in spans.items() if not events][:_SOUGHT]:
        places = _places(search, source, [], "desc")[:_LOOKED_AT]
        told[source] = Stretch(places[::-1], len(places) < _LOOKED_AT, to_end=True)
    return told


_PLACE = [FIELDS["id"], NUMBER, "@timestamp"]


def _places(search: Search, source: str, within: Sequence[Mapping[str, Any]], order: str) -> list[Place]:
    query = {"bool": {"filter": [{"term": {FIELDS["source"]: source}}, *within]}}
    asked = {"query": query, "size": 2 * _LOOKED_AT, "sort": [{NUMBER: order}], "_source": _PLACE}
    return [
        Place(each.get(FIELDS["id"]), source, each.get(NUMBER), milliseconds(shown_head(each).time))
        for each in search(asked)
    ]

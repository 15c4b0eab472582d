"""Events of OpenSearch with their links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sentinel_core.audit.chain import Between, Linked
from sentinel_core.audit.store._os_layout import DATA, FIELDS, HASH, NUMBER, linked_of, shown_head
from sentinel_core.audit.store.contract import EventHead

Search = Callable[[dict[str, Any]], Sequence[Mapping[str, Any]]]
"""Documents that meet a query, with its size."""
_FIRST, _MOST = 8, 64
"""Events at once: one may have megabytes, and most have a kilobyte."""


def links(search: Search, heads: Sequence[EventHead], most_bytes: int) -> list[Linked]:
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


_MOST_BETWEEN = 200


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


def between(search: Search, first: Linked, last: Linked, most: int) -> Between | None:
    """See `LinkedStore`."""
    if last.number - first.number > _MOST_BETWEEN:
        return None
    within = {"range": {NUMBER: {"gt": first.number, "lt": last.number}}}
    place = [{"term": {FIELDS["source"]: first.source}}, within]
    found = search({"query": {"bool": {"filter": place}}, "size": 2 * _MOST_BETWEEN, "sort": [{NUMBER: "asc"}]})
    numbers = [number if isinstance(number := each.get(NUMBER), int) else 0 for each in found]
    return Between(numbers, [shown_head(each) for each in found[max(0, len(found) - most) :]])

"""Every event of OpenSearch with the hash that it must have, chain by chain in the order of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sentinel_core.audit.chain import About, Entry, Head, Page
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.store._os_client import Client
from sentinel_core.audit.store._os_layout import (
    FIELDS,
    GONE,
    HASH,
    NUMBER,
    PREVIOUS,
    Names,
    computed,
    next_size,
    row_of,
    shown_head,
    shown_rows,
)
from sentinel_core.audit.store._os_records import Record, read_records, record_of

_FIRST_PAGE, _MOST = 200, 2000
_SOURCE = FIELDS["source"]
CHAINS = {"exists": {"field": "chain"}}
Hits = Sequence[Mapping[str, Any]]


def records(client: Client, names: Names) -> list[Record]:
    """Of all chains, by source, as far as they are settled."""
    client.call("POST", f"/{names.state}/_refresh", allowed=(404,))
    found: list[Record] = []
    asked: dict[str, Any] = {"size": 1000, "sort": [{"chain": "asc"}], "query": CHAINS, "seq_no_primary_term": True}
    while True:
        status, told = client.call("POST", f"/{names.state}/_search", asked, allowed=(404,))
        hits = told["hits"]["hits"] if status == 200 else []
        found += [record_of(client, str(hit["_source"].get("chain")), hit) for hit in hits]
        if len(hits) < asked["size"]:
            return found
        asked["search_after"] = hits[-1]["sort"]


def heads_of(found: Iterable[Record]) -> list[Head]:
    return [Head(record.source, record.number, record.hash) for record in found if record.number]


def walk(client: Client, names: Names, heads: Sequence[Head]) -> Iterator[Page]:
    """Up to `heads`, then what else is there: nothing, or what arrived meanwhile, or what somebody put there."""
    client.call("POST", f"/{names.events}/_refresh?ignore_unavailable=true", allowed=(404,))
    met = dict.fromkeys((head.source for head in heads), 0)
    pager = Pager(client, names)
    for query in queries(client, names, {head.source: head.number for head in heads}):
        for hits in pager.pages(query):
            for hit in hits:
                source = hit["_source"].get(_SOURCE)
                if isinstance(source, str):
                    met[source] = met.get(source, 0) + 1
            yield _page(hits)
    numbers = {head.source: head.number for head in heads}
    for source, count, _ in _sources(client, names):
        if count == met.get(source, 0):
            continue
        rest: dict[str, Any] = {"filter": [{"term": {_SOURCE: source}}]}
        if source in numbers:
            rest["must_not"] = [{"range": {NUMBER: {"gte": 1, "lte": numbers[source]}}}]
        yield from _strangers(client, names, source, pager.pages({"bool": rest}))
    for hits in pager.pages({"bool": {"must_not": [{"exists": {"field": _SOURCE}}, {"term": GONE}]}}):
        yield _page(hits)


def _strangers(client: Client, names: Names, source: str, pages: Iterable[Hits]) -> Iterator[Page]:
    for hits in pages:
        record = read_records(client, names, [source])[source]
        last = record.pending.get("number", 0) if isinstance(record.pending, dict) else record.number
        kept = [hit for hit in hits if not _is_between(hit["_source"].get(NUMBER), record, last)]
        if kept:
            yield _page(kept)


def _is_between(number: Any, record: Record, last: Any) -> bool:
    """Whether a number was given since the walk began."""
    return isinstance(number, int) and isinstance(last, int) and 0 < number <= max(last, record.number)


def queries(client: Client, names: Names, ends: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """For the events up to these numbers, source by source; each finds some 2000, several small chains together."""
    firsts = {source: max(1, first) for source, _, first in _sources(client, names) if first is not None}
    span: list[dict[str, Any]] = []
    size = 0
    for source, end in sorted(ends.items()):
        for first in range(firsts.get(source, end + 1), end + 1, _MOST):
            last = min(end, first + _MOST - 1)
            if span and (size + last - first + 1 > _MOST or len(span) == 500):
                yield {"bool": {"should": span, "minimum_should_match": 1}}
                span, size = [], 0
            own = [{"term": {_SOURCE: source}}, {"range": {NUMBER: {"gte": first, "lte": last}}}]
            span.append({"bool": {"filter": own}})
            size += last - first + 1
    if span:
        yield {"bool": {"should": span, "minimum_should_match": 1}}


class Pager:
    """As many documents at a time as their size lets, by source and number."""

    def __init__(self, client: Client, names: Names, *, places: bool = False, only: Sequence[str] = ()) -> None:
        """`places`: with `_index` and `_id`; `only` these members of a document, where any are named."""
        fields = ["_source", "sort", *(("_index", "_id") if places else ())]
        self._path = f"/{names.events}/_search?filter_path={','.join(f'hits.hits.{name}' for name in fields)}"
        self._only = {"_source": list(only)} if only else {}
        self._client = client
        self._size = _FIRST_PAGE

    def pages(self, query: dict[str, Any]) -> Iterator[Hits]:
        asked: dict[str, Any] = {
            **self._only,
            "query": query,
            "sort": [{_SOURCE: {"order": "asc", "missing": "_last"}}, {NUMBER: "asc"}, {HASH: "asc"}],
        }
        while True:
            asked["size"] = size = self._size
            _, told = self._client.call("POST", self._path, asked)
            hits = told.get("hits", {}).get("hits", [])
            if hits:
                yield hits
            if len(hits) < size:
                return
            asked["search_after"] = hits[-1]["sort"]
            self._size = next_size(size, _MOST, (hit["_source"] for hit in hits))


def _sources(client: Client, names: Names) -> Iterator[tuple[str, int, int | None]]:
    """How many documents each source has, and the first of their numbers."""
    for bucket in by_source(client, names, {"first": {"min": {"field": NUMBER}}}):
        first = bucket["first"]["value"]
        yield bucket["key"]["source"], bucket["doc_count"], None if first is None else int(first)


def by_source(client: Client, names: Names, told: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What aggregations tell of the documents of each source."""
    sources: dict[str, Any] = {"size": 1000, "sources": [{"source": {"terms": {"field": _SOURCE}}}]}
    while True:
        asked = {"size": 0, "aggs": {"each": {"composite": sources, "aggs": told}}}
        _, answer = client.call("POST", f"/{names.events}/_search", asked)
        found = answer.get("aggregations", {}).get("each", {})
        yield from found.get("buckets", ())
        if "after_key" not in found:
            return
        sources["after"] = found["after_key"]


def _page(hits: Hits) -> Page:
    return Page(len(hits), None, partial(_entries, hits))


def _entries(hits: Hits) -> Iterator[Entry]:
    for hit in hits:
        held = hit["_source"]
        made, wanted = _hash(held.get(HASH)), computed(held)
        told = None if made == wanted else _about(held)
        yield Entry(held.get(_SOURCE), held.get(NUMBER), _hash(held.get(PREVIOUS)), made, wanted, told)


def _about(held: Mapping[str, Any]) -> About:
    head = shown_head(held)
    resource = next((row_of(head, row).resource for row in shown_rows(held)), None)
    return About(head.id, None if "time" in head.damaged else rfc3339(head.time), resource)


def _hash(text: Any) -> Any:
    """What is no hash stays what it is."""
    try:
        made = bytes.fromhex(text)
        return made if made.hex() == text else text
    except (ValueError, TypeError):
        return text if isinstance(text, str) else repr(text)

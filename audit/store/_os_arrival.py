"""What has arrived in OpenSearch since a position: chains have no gaps, so a position is the last number of each."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.store._os_layout import FIELDS, NUMBER, next_size, row_of
from sentinel_core.audit.store._os_query import Matches, met_rows, question
from sentinel_core.audit.store.contract import END, EventHead, Page, Query, Row

Position = Mapping[str, int]
"""The number of the last event of each source."""
Search = Callable[[dict[str, Any]], Sequence[Mapping[str, Any]]]
"""Documents that meet a query, with sort and size."""
Read = Callable[[Mapping[str, Any]], tuple[EventHead, Sequence[Sequence[Any]]]]
_FIRST, _MOST_EVENTS = 50, 500
_LONGEST = 10**6


def arrived(query: Query, there: Position, tests: Sequence[Matches], search: Search, read: Read) -> Page:
    """See `ArrivalStore`: source by source, in the order of numbers. `there`: how far the chains have come; all of it
    can be found."""
    if query.after == END:
        return Page((), written(there))
    before = {} if query.after is None else position(query.after)
    clause = question(replace(query, after=None))
    reached = {source: _first(before.get(source, 0), last) for source, last in sorted(there.items())}
    rows: list[Row] = []
    size = _FIRST
    for source, last in sorted(there.items()):
        while reached[source] < last and len(rows) < query.limit:
            size = min(size, query.limit - len(rows))
            found = search(_asked(source, reached[source], last, clause, size))
            for held in found:
                head, changes = read(held)
                rows += [row_of(head, row) for _, row in reversed(list(met_rows(changes, head, tests)))]
                reached[source] = max(reached[source] + 1, held[NUMBER] if type(held.get(NUMBER)) is int else 0)
                if len(rows) >= query.limit:
                    break
            else:
                if len(found) < size:
                    reached[source] = last
            size = next_size(size, _MOST_EVENTS, found)
    return Page(tuple(rows), written(reached))


def _first(before: int, last: int) -> int:
    """A position beyond the last is one of another store: all of this one is new."""
    return before if before <= last else 0


def _asked(source: str, number: int, last: int, clause: dict[str, Any], size: int) -> dict[str, Any]:
    own = [{"term": {FIELDS["source"]: source}}, {"range": {NUMBER: {"gt": number, "lte": last}}}]
    return {"query": {"bool": {"filter": [*own, clause]}}, "sort": [{NUMBER: "asc"}], "size": size}


def written(numbers: Position) -> str:
    """A position as `Page.next` carries it."""
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(dict(numbers)).encode())).decode()


def position(text: str) -> dict[str, int]:
    """What `written` wrote. Raises QueryInvalid."""
    try:
        unpacker = zlib.decompressobj()
        told = json.loads(unpacker.decompress(base64.urlsafe_b64decode(text), _LONGEST))
        return {str(source): int(number) for source, number in told.items()}
    except (ValueError, TypeError, AttributeError, binascii.Error, zlib.error, RecursionError) as error:
        raise QueryInvalid(f"{text[:40]!r} is not a place in a listing; use the one the page before gave") from error

"""Everything that meets a query, page by page in the order of arrival: memory is bounded, whatever there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from sentinel_core.audit.event import Event
from sentinel_core.audit.store.contract import HEAD, ArrivalStore, EventHead, Query, Row

PAGE = 2000
AT_ONCE = 32
"""Whole events in memory: one with 10,000 rules has several megabytes."""
_OF_CHANGE = ("action", "kind", "resource", "rule", "field", "old", "new")
_OF_EVENT = tuple(name for name in HEAD if name != "time")
COLUMNS = ("time", *_OF_CHANGE, *_OF_EVENT)
"""Of a row: when, what changed, and the event it belongs to, named as `audit query -o json` names them."""
FLAGS = ("initial", "late", "observed")


@dataclass(slots=True)
class Tally:
    """What an export came to, counted while it is written."""

    written: int = 0
    """Events of NDJSON; of other forms rows, which are changes."""
    unread: list[str] = field(default_factory=list)
    """Ids of events that cannot be read."""


def pages(store: ArrivalStore, query: Query) -> Iterator[Sequence[Row]]:
    """Rows that were there when the last page was read. Raises what the store raises."""
    query = replace(query, limit=PAGE)
    while True:
        page = store.arrived(query)
        yield page.rows
        if len(page.rows) < query.limit:
            return
        query = replace(query, after=page.next)


def events(store: ArrivalStore, query: Query, unread: list[str]) -> Iterator[Event]:
    """Each event that has a row which meets the query, once. Ids of those that cannot be read go into `unread`."""
    before: EventHead | None = None
    for rows in pages(store, query):
        heads = [head for head, _ in groupby(row.event for row in rows) if head != before]
        before = heads[-1] if heads else before
        for start in range(0, len(heads), AT_ONCE):
            asked = heads[start : start + AT_ONCE]
            found = store.events(asked)
            yield from found
            if len(found) < len(asked):
                known = {(event.id, event.source) for event in found}
                unread += [head.id for head in asked if (head.id, head.source) not in known]


def values(row: Row) -> list[Any]:
    """Of COLUMNS; `old` and `new` are JSON texts."""
    old = None if row.old is None else _json(row.old)
    new = None if row.new is None else _json(row.new)
    what = (row.action, row.kind, row.resource, row.rule, row.field, old, new)
    return [row.event.time, *what, *_of_event(row.event)]


def _json(value: Any) -> str:
    """Half a surrogate pair stays an escape, as no file could hold it."""
    text = _JSON(value)
    return text if text.isascii() else _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_HALF = re.compile("[\ud800-\udfff]")
_JSON = json.JSONEncoder(ensure_ascii=False).encode
_of_event = attrgetter(*_OF_EVENT)

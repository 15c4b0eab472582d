"""The end of the evidence, and what arrives behind it: each row once, late ones too, whatever their time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sentinel_core.audit.store.contract import END, ArrivalStore, Query, Row

PAGE = 1000


class Tail:
    """A position in a store. Not thread-safe; raises what the store raises, and may be asked again then."""

    def __init__(self, store: ArrivalStore, query: Query) -> None:
        """At the beginning of what meets `query`, its conditions and its window."""
        self._store = store
        self._query = replace(query, limit=PAGE, after=None)
        self._told: frozenset[tuple[str, str]] = frozenset()
        """Events that `last` told, and that may have arrived after the position it took before."""

    def last(self, count: int) -> Sequence[Row]:
        """The newest rows by time, at most 10,000, oldest first; goes on behind what is there now."""
        end = self._store.arrived(replace(self._query, after=END)).next
        rows: Sequence[Row] = ()
        if count:
            page = self._store.query(replace(self._query, limit=count, after=None))
            rows = page.rows[::-1]
        self._query = replace(self._query, after=end)
        self._told = frozenset((row.event.id, row.event.source) for row in rows)
        return rows

    def new(self) -> Iterator[Sequence[Row]]:
        """What has arrived since, page by page."""
        while True:
            page = self._store.arrived(self._query)
            fresh = [row for row in page.rows if (row.event.id, row.event.source) not in self._told]
            self._query = replace(self._query, after=page.next)
            if len(page.rows) < PAGE:
                self._told = frozenset()
            if fresh:
                yield fresh
            if len(page.rows) < PAGE:
                return

"""Events on their way into the SQLite store: known ones are told apart, new ones get their place in the chain."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

from sentinel_core.audit.chain import COLUMNS, START, link_new
from sentinel_core.audit.errors import EventRefused
from sentinel_core.audit.event import Event, RuleApplied
from sentinel_core.audit.indexing import Columns, Indexed, read_columns, row_texts
from sentinel_core.audit.same import difference
from sentinel_core.audit.store._orphans import free_behind
from sentinel_core.audit.store._packing import pack
from sentinel_core.audit.store._purge import PURGED
from sentinel_core.audit.store._reading import chain_ends, fetched, last_place

FOLD_MS = 60_000
"""Within this time, what several hosts observed without a store's own revision is one event."""

_log = logging.getLogger(__name__)
_NAMES = ", ".join(f'"{name}"' for name in COLUMNS)
_ADD_EVENT = (
    f"INSERT INTO events (seq, number, previous, hash, {_NAMES}) "  # noqa: S608  own names
    f"VALUES ({', '.join('?' * (4 + len(COLUMNS)))})"
)
_KNOWN = """
    SELECT e.id, e.source, e.seq FROM json_each(?1) asked CROSS JOIN events e
        ON e.id = asked.value ->> 0 AND e.source = asked.value ->> 1
    UNION ALL SELECT f.id, f.source, f.event FROM json_each(?1) asked CROSS JOIN folded f
        ON f.id = asked.value ->> 0 AND f.source = asked.value ->> 1
"""
_STORED = f"SELECT {_NAMES} FROM events WHERE seq = ?"  # noqa: S608  own names
_STORED_ROWS = "SELECT action, kind, resource, rule, field, old, new FROM changes WHERE event = ? ORDER BY place"
_HEADS = """
    SELECT c.source, c.number, c.hash FROM json_each(?) asked CROSS JOIN chains c ON c.source = asked.value
"""
_MOVE_HEAD = """
    INSERT INTO chains (source, number, hash, adopted) VALUES (?, ?, ?, 0)
    ON CONFLICT (source) DO UPDATE SET number = excluded.number, hash = excluded.hash
"""
_SAME_OBSERVATION = """
    SELECT seq FROM events
    WHERE observed = 1 AND source = ?1 AND new_digest IS ?2 AND time BETWEEN ?3 - ?4 AND ?3 + ?4
        AND type = ?5 AND old_digest IS ?6
        AND NOT EXISTS (SELECT 1 FROM sightings WHERE event = seq AND sightings.instance = ?7)
    ORDER BY abs(time - ?3) LIMIT 1
"""


def may_fold(told: Columns) -> bool:
    """Whether another host may tell of the same: of what stands in a store, not of what an instance itself runs."""
    return bool(told.observed) and told.type != RuleApplied.TYPE


_AT_ONCE = 100
"""Events whose rows are handed over together: fewer than leave the cache of the processor."""


class Writer:
    """One batch in one write transaction: what it reads of the file stays true until the commit."""

    def __init__(self, connection: sqlite3.Connection, batch: Sequence[Event]) -> None:
        self._connection = connection
        names = json.dumps([(event.id, event.source) for event in batch])
        self._known = {(name, source): seq for name, source, seq in connection.execute(_KNOWN, (names,))}
        sources = json.dumps(sorted({event.source for event in batch}))
        self._heads = chain_ends(fetched(connection, _HEADS, (sources,)))
        last = last_place(connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])
        self._last = free_behind(connection, last, len(batch))
        if self._last != last:
            _log.warning("somebody put rows of no event into the audit store; sentinelctl audit verify tells which")
        self._events: list[tuple[Any, ...]] = []
        self._bodies: list[tuple[int, bytes]] = []
        self._changes: list[tuple[Any, ...]] = []
        self._sightings: list[tuple[int, str, int]] = []
        self._moved: set[str] = set()
        self.new = 0

    def add(self, event: Event) -> None:
        """A new event with its link; of one that is known only the sighting. Raises EventRefused."""
        columns, indexed, data = read_columns(event)
        seq: int | None = self._known.get((columns.id, columns.source))
        if seq is not None and not may_fold(columns):
            self._compare(seq, columns, indexed)
        elif seq is None and may_fold(columns):
            seq = self._fold(columns)
        if seq is None:
            seq = self._append(columns, indexed, data)
        if seq != PURGED:
            self._sightings.append((seq, columns.instance or "", columns.time))
        if len(self._sightings) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Hands over what was added so far, and the new heads of the chains."""
        write = self._connection.executemany
        write(_ADD_EVENT, self._events)
        write("INSERT INTO bodies VALUES (?, ?)", self._bodies)
        write("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._changes)
        write("INSERT OR IGNORE INTO sightings VALUES (?, ?, ?)", self._sightings)
        write(_MOVE_HEAD, [(source, *self._heads[source]) for source in self._moved])
        for written in (self._events, self._bodies, self._changes, self._sightings, self._moved):
            written.clear()

    def _append(self, columns: Columns, indexed: Sequence[Indexed], data: bytes) -> int:
        self._last += 1
        self.new += 1
        time, source = columns.time, columns.source
        rows = [(place, time, *row) for place, row in enumerate(row_texts(indexed))]
        number, previous = self._heads.get(source, (0, START))
        made = link_new(previous, number + 1, data, tuple(columns), rows)
        self._heads[source] = (number + 1, made)
        self._moved.add(source)
        self._known[columns.id, source] = self._last
        self._events.append((self._last, number + 1, previous, made, *columns))
        self._bodies.append((self._last, pack(data)))
        self._changes += [(self._last, *row) for row in rows]
        return self._last

    def _compare(self, seq: int, told: Columns, indexed: Sequence[Indexed]) -> None:
        """Raises EventRefused where the event that is stored under this id and source is another."""
        if self._events and seq >= self._events[0][0]:
            self.flush()
        found = self._connection.execute(_STORED, (seq,)).fetchone()
        if found is None:
            return  # it has left the store
        stored = Columns._make(found)
        rows = self._connection.execute(_STORED_ROWS, (seq,)).fetchall()
        if reason := difference(stored, rows, told, row_texts(indexed)):
            raise EventRefused(told.id, reason)

    def _fold(self, seen: Columns) -> int | None:
        """The stored event that is another host's observation of the same change. Its id is noted, so that a repeat of
        this one is known; an event that this instance already told of is never the same: it came back to it."""
        self.flush()
        values = (seen.source, seen.new_digest, seen.time, FOLD_MS, seen.type, seen.old_digest, seen.instance or "")
        found: tuple[int] | None = self._connection.execute(_SAME_OBSERVATION, values).fetchone()
        if found is None:
            return None
        (seq,) = found
        self._connection.execute("INSERT INTO folded VALUES (?, ?, ?)", (seen.id, seen.source, seq))
        self._known[seen.id, seen.source] = seq
        return seq

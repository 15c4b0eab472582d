"""The embedded audit store: one SQLite file. Heads, bodies and changes in tables of their own, so that a question about
a resource reads a few index pages and never a list of 10,000 rules."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from sentinel_core.audit.database import Database
from sentinel_core.audit.errors import QueryInvalid, StoreUnavailable
from sentinel_core.audit.events import Event, restore_event, storable
from sentinel_core.audit.indexing import Indexed, read_event
from sentinel_core.audit.instants import from_milliseconds, milliseconds
from sentinel_core.audit.store._where import cursor, narrowed, select
from sentinel_core.audit.store.contract import EventHead, Ingested, Page, Query, Row, Sighting

APPLICATION_ID = 0x53_41_53_31
FOLD_MS = 60_000
"""Within this time, what several hosts observed without a store's own revision is one event."""
SHORTEST_ID = 8
_PACK_FROM = 4096

_MIGRATIONS = (
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL, source TEXT NOT NULL, type TEXT NOT NULL, subject TEXT NOT NULL, time INTEGER NOT NULL,
        environment TEXT, app TEXT, instance TEXT, channel TEXT, author TEXT, "commit" TEXT, reason TEXT, message TEXT,
        plan TEXT, document TEXT, revision TEXT, old_digest TEXT, new_digest TEXT, rollback_of TEXT,
        initial INTEGER NOT NULL, late INTEGER NOT NULL, observed INTEGER NOT NULL,
        UNIQUE (id, source)
    );
    CREATE INDEX events_time ON events (time);
    CREATE INDEX events_revision ON events (document, revision) WHERE "commit" IS NULL;
    CREATE INDEX events_commit ON events ("commit") WHERE "commit" IS NOT NULL;
    CREATE INDEX events_plan ON events (plan) WHERE plan IS NOT NULL;
    CREATE INDEX events_observed ON events (source, new_digest, time) WHERE observed = 1;
    CREATE TABLE bodies (event INTEGER PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE changes (
        event INTEGER NOT NULL, place INTEGER NOT NULL, time INTEGER NOT NULL,
        action TEXT NOT NULL, kind TEXT, resource TEXT, rule TEXT, field TEXT, old TEXT, new TEXT,
        PRIMARY KEY (event, place)
    ) WITHOUT ROWID;
    CREATE INDEX changes_resource ON changes (resource, time, event, place, field);
    CREATE TABLE folded (id TEXT NOT NULL, source TEXT NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (id, source));
    CREATE TABLE sightings (event INTEGER NOT NULL, instance TEXT NOT NULL, time INTEGER NOT NULL,
        PRIMARY KEY (event, instance)) WITHOUT ROWID
    """,
)

_FLAGS = ("initial", "late", "observed")
_TEXTS = tuple(field.name for field in fields(EventHead) if field.name not in {"time", *_FLAGS})
_HEAD = (*_TEXTS, "time", *_FLAGS)
_texts = attrgetter(*_TEXTS)
_flags = attrgetter(*_FLAGS)
_JSON = json.JSONEncoder(separators=(",", ":"))
_HEAD_SQL = ", ".join(f'e."{name}"' for name in _HEAD)
_ROW_SQL = f"{_HEAD_SQL}, c.action, c.kind, c.resource, c.rule, c.field, c.old, c.new"
_NAMES = ", ".join(f'"{name}"' for name in _HEAD)
_ADD_EVENT = f"INSERT INTO events ({_NAMES}) VALUES ({', '.join('?' * len(_HEAD))})"  # noqa: S608  own names
_KNOWN = """
    SELECT seq FROM events WHERE id = ?1 AND source = ?2
    UNION ALL SELECT event FROM folded WHERE id = ?1 AND source = ?2
"""
_SAME_OBSERVATION = """
    SELECT seq FROM events
    WHERE observed = 1 AND source = ?1 AND new_digest IS ?2 AND time BETWEEN ?3 - ?4 AND ?3 + ?4
        AND type = ?5 AND old_digest IS ?6
        AND NOT EXISTS (SELECT 1 FROM sightings WHERE event = seq AND sightings.instance = ?7)
    ORDER BY abs(time - ?3) LIMIT 1
"""
_RELATED = f"""
    SELECT {_ROW_SQL} FROM events e LEFT JOIN changes c ON c.event = e.seq
    WHERE e.type = ?1 AND e.initial = 0 AND e.environment IS ?2
        AND (e."commit" = ?5 OR e.plan = ?6
            OR (e."commit" IS NULL AND ?5 IS NULL AND e.document = ?3 AND e.revision = ?4))
    ORDER BY e.time, e.seq, c.place LIMIT ?7
"""  # noqa: S608  own names
_SIGHTINGS = """
    SELECT s.instance, s.time FROM sightings s JOIN events e ON e.seq = s.event
    WHERE e.id = ? AND e.source = ? ORDER BY s.time, s.instance
"""


def from_uri(rest: str, *, read_only: bool) -> SqliteStore:
    """What follows `sqlite://`: `/relative.db` or `//absolute.db`."""
    if not rest.startswith("/") or rest == "/":
        raise StoreUnavailable(
            f"sqlite://{rest} names no file; write sqlite:///audit.db or sqlite:////var/lib/audit.db"
        )
    return SqliteStore(Path(rest[1:]), read_only=read_only)


class SqliteStore:
    """An `AuditStore` in one file, for one machine; several processes may read while one writes."""

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._database = Database(
            self.path,
            migrations=_MIGRATIONS,
            application_id=APPLICATION_ID,
            failure=StoreUnavailable,
            read_only=read_only,
        )

    def ingest(self, events: Sequence[Event]) -> Ingested:
        """One transaction; see `AuditStore`."""
        read = [(event, *read_event(event)) for event in events]
        bodies: list[tuple[int, bytes]] = []
        changes: list[tuple[Any, ...]] = []
        with self._database.write() as connection:
            for event, head, rows in read:
                if number := _add(connection, head):
                    bodies.append((number, _pack(event.data)))
                    changes += _change_values(number, milliseconds(head.time), rows)
            connection.executemany("INSERT INTO bodies VALUES (?, ?)", bodies)
            connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", changes)
        return Ingested(len(bodies), len(read) - len(bodies))

    def query(self, query: Query) -> Page:
        """See `AuditStore`."""
        statement, values = select(narrowed(query, self._all), _ROW_SQL)
        found = self._all(statement, values)
        rows = tuple(_row(row) for row in found[: query.limit])
        is_more = len(found) > query.limit
        return Page(rows, cursor(*found[query.limit - 1][-3:]) if is_more else None)

    def get(self, event_id: str) -> Event | None:
        """See `AuditStore`. Raises QueryInvalid for a beginning that is too short or not unique."""
        if len(event_id) < SHORTEST_ID:
            raise QueryInvalid(f"{event_id!r} is too short; give at least {SHORTEST_ID} characters of the event's id")
        found = self._all(
            "SELECT e.id, e.source, e.type, e.subject, e.time, b.data FROM events e JOIN bodies b ON b.event = e.seq "
            "WHERE e.id >= ? AND e.id < ? LIMIT 2",
            [storable(event_id), f"{storable(event_id)}\U0010ffff"],
        )
        if len(found) > 1:
            raise QueryInvalid(f"several events begin with {event_id!r}; give more of the id")
        if not found:
            return None
        identity, source, kind_of_event, subject, time, data = found[0]
        return restore_event(identity, source, kind_of_event, subject, from_milliseconds(time), _unpack(data))

    def related(self, head: EventHead, *, limit: int = 200) -> Sequence[Row]:
        """See `AuditStore`."""
        values = [head.type, head.environment, head.document, head.revision, head.commit, head.plan, limit]
        return [_row(row) for row in self._all(_RELATED, values)]

    def sightings(self, head: EventHead) -> Sequence[Sighting]:
        """See `AuditStore`."""
        found = self._all(_SIGHTINGS, [head.id, head.source])
        return [Sighting(instance, from_milliseconds(time)) for instance, time in found]

    def count(self) -> int:
        """See `AuditStore`. Numbers are given without gaps."""
        ((count,),) = self._all(
            "SELECT coalesce((SELECT max(seq) FROM events) - (SELECT min(seq) FROM events) + 1, 0)", []
        )
        return int(count)

    def close(self) -> None:
        """Idempotent; a later call opens again."""
        self._database.close()

    def _all(self, statement: str, values: list[Any]) -> list[Any]:
        if self._read_only and not self.path.exists():
            raise StoreUnavailable(f"{self.path}: there is no audit store yet; it is made when the first event arrives")
        with self._database.read() as connection:
            return connection.execute(statement, values).fetchall()


def _add(connection: sqlite3.Connection, head: EventHead) -> int | None:
    """The number of a new event; None for one that is known, of which only the sighting is new."""
    time = milliseconds(head.time)
    known = connection.execute(_KNOWN, (head.id, head.source)).fetchone()
    if known is None and head.observed:
        known = _fold(connection, head, time)
    number = known[0] if known else connection.execute(_ADD_EVENT, (*_texts(head), time, *_flags(head))).lastrowid
    connection.execute("INSERT OR IGNORE INTO sightings VALUES (?, ?, ?)", (number, head.instance or "", time))
    return None if known else number


def _change_values(number: int, time: int, rows: Sequence[Indexed]) -> Iterator[tuple[Any, ...]]:
    for place, row in enumerate(rows):
        old, new = (None if value is None else _JSON.encode(value) for value in (row.old, row.new))
        yield number, place, time, row.action, row.kind, row.resource, row.rule, row.field, old, new


def _fold(connection: sqlite3.Connection, head: EventHead, time: int) -> tuple[int] | None:
    """The stored event that is another host's observation of the same change. Its id is noted, so that a repeat of
    this one is known; an event that this instance already told of is never the same: it came back to it."""
    values = (head.source, head.new_digest, time, FOLD_MS, head.type, head.old_digest, head.instance or "")
    found: tuple[int] | None = connection.execute(_SAME_OBSERVATION, values).fetchone()
    if found is not None:
        connection.execute("INSERT INTO folded VALUES (?, ?, ?)", (head.id, head.source, found[0]))
    return found


def _row(row: Sequence[Any]) -> Row:
    texts, (time, *flags) = row[: len(_TEXTS)], row[len(_TEXTS) : len(_HEAD)]
    values = dict(zip(_TEXTS, texts, strict=True)) | dict(zip(_FLAGS, map(bool, flags), strict=True))
    action, kind, resource, rule, field, old, new = row[len(_HEAD) : len(_HEAD) + 7]
    return Row(
        EventHead(time=from_milliseconds(time), **values),
        action or "",
        kind,
        resource,
        rule,
        field,
        old and json.loads(old),
        new and json.loads(new),
    )


def _pack(data: bytes) -> bytes:
    # 10,000 rules twice are 6 MB of very similar text; a packed body cannot be mistaken, as JSON begins with `{`.
    return zlib.compress(data, 1) if len(data) >= _PACK_FROM else data


def _unpack(data: bytes) -> bytes:
    return data if data.startswith(b"{") else zlib.decompress(data)

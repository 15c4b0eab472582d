"""The embedded audit store: one SQLite file. Heads, bodies and changes in tables of their own, so that a question about
a resource reads a few index pages and never a list of 10,000 rules."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import starmap
from pathlib import Path
from typing import Any

from sentinel_core.audit.chain import Fault, Head, Linked, Named, Stretch, Wanted
from sentinel_core.audit.chain import Page as ChainPage
from sentinel_core.audit.database import Database
from sentinel_core.audit.errors import (
    EventDamaged,
    EventRefused,
    PurgeFailed,
    QueryInvalid,
    StoreDamaged,
    StoreMisconfigured,
    StoreMissing,
    StoreUnavailable,
)
from sentinel_core.audit.event import Event, storable
from sentinel_core.audit.instants import milliseconds
from sentinel_core.audit.retention.contract import OVERTAKEN, Ends, Expired
from sentinel_core.audit.store._case import lower
from sentinel_core.audit.store._faults import faults, quick_faults, refuse_altered
from sentinel_core.audit.store._header import misfit
from sentinel_core.audit.store._layout import APPLICATION_ID, HEAD_SQL, MIGRATIONS, READABLE_FROM
from sentinel_core.audit.store._linked import hashes_at, links, stretches
from sentinel_core.audit.store._purge import LAST_PURGE, RECORD, expired, linked, remove
from sentinel_core.audit.store._reading import (
    chain_head,
    event_of,
    fetched,
    head_of,
    moment,
    place_in,
    row_of,
    sighting_of,
)
from sentinel_core.audit.store._walk import HEADS, walk
from sentinel_core.audit.store._where import BEHIND_ALL, LOWER, behind, cursor, mark_of, narrowed, place_of, select
from sentinel_core.audit.store._write import Writer
from sentinel_core.audit.store.contract import (
    END,
    HEAD,
    EventHead,
    Ingested,
    Page,
    Query,
    Refused,
    Row,
    Sighting,
    StoreCondition,
)

SHORTEST_ID = 8
MOST_ROWS = 10**9
"""More than any file holds."""
_MARK_BYTES = 7

_TIME = HEAD.index("time")
_ROW_SQL = f"{HEAD_SQL}, c.action, c.kind, c.resource, c.rule, c.field, c.old, c.new"
_EVENT_SQL = "e.id, e.source, e.type, e.subject, e.time, b.data"
_GET = f"SELECT {_EVENT_SQL} FROM events e JOIN bodies b ON b.event = e.seq"  # noqa: S608  own names
_EVENTS = f"""
    SELECT {_EVENT_SQL} FROM json_each(?) asked CROSS JOIN events e
        ON e.id = asked.value ->> 0 AND e.source = asked.value ->> 1
    CROSS JOIN bodies b ON b.event = e.seq ORDER BY asked.key
"""  # noqa: S608  own names
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


def check_id(event_id: str, source: str | None) -> None:
    """Raises QueryInvalid for a beginning of an id that is too short."""
    if source is None and len(event_id) < SHORTEST_ID:
        raise QueryInvalid(f"{event_id!r} is too short; give at least {SHORTEST_ID} characters of the event's id")


def is_one(event_id: str, found: Sequence[tuple[str, str]]) -> bool:
    """Whether there is an event, of ids and sources that were found. Raises QueryInvalid where there are several."""
    if len(found) > 1 and found[0][0] == found[1][0] == storable(event_id):
        sources = " and ".join(repr(source) for _, source in found)
        raise QueryInvalid(f"events of several sources have the id {event_id!r}; give the source too ({sources} do)")
    if len(found) > 1:
        raise QueryInvalid(f"several events begin with {event_id!r}; give more of the id")
    return bool(found)


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
        self._looked_at: int | None = None
        """The version of the schema that was found as it must be."""
        self._database = _opened(self.path, read_only=read_only)

    def ingest(self, events: Sequence[Event]) -> Ingested:
        """One transaction; see `AuditStore`."""
        refused: list[Refused] = []
        with self._writing() as connection:
            writer = Writer(connection, events)
            for place, event in enumerate(events):
                try:
                    writer.add(event)
                except EventRefused as refusal:
                    refused.append(Refused(place, refusal.reason))
            writer.flush()
        return Ingested(writer.new, len(events) - writer.new - len(refused), tuple(refused))

    def heads(self) -> Sequence[Head]:
        """See `ChainedStore`."""
        return _heads(self._all(HEADS, []))

    def pages(self, wanted: Wanted) -> tuple[Sequence[Head], Iterator[ChainPage]]:
        """See `ChainedStore`."""
        self._check_it_exists()
        with self._database.read() as connection:
            heads = _heads(fetched(connection, HEADS, ()))
            (last,) = connection.execute("SELECT max(seq) FROM events").fetchone()
        return heads, walk(self._database, last, wanted)

    def links(self, heads: Sequence[Named], *, most_bytes: int) -> Sequence[Linked]:
        """See `LinkedStore`."""
        self._check_it_exists()
        with self._database.read() as connection:
            return links(connection, heads, most_bytes)

    def hashes_at(self, numbers: Mapping[str, int]) -> Mapping[str, Sequence[bytes]]:
        """See `LinkedStore`."""
        self._check_it_exists()
        with self._database.read() as connection:
            return hashes_at(connection, numbers)

    def stretches(self, spans: Mapping[str, Sequence[Linked]]) -> Mapping[str, Stretch]:
        """See `LinkedStore`."""
        self._check_it_exists()
        with self._database.read() as connection:
            return stretches(connection, spans)

    def faults(self) -> Sequence[Fault]:
        """See `FaultyStore`. Through a connection of its own: others go on meanwhile."""
        self._check_it_exists()
        alone = _opened(self.path, read_only=True)
        try:
            with alone.read() as connection:
                return faults(connection)
        finally:
            alone.close()

    def last_purge(self) -> Event | None:
        """See `PurgingStore`."""
        found = self._all(LAST_PURGE, [])
        try:
            return event_of(*found[0]) if found else None
        except EventDamaged:
            return event_of(*[*found[0][:-1], b"{}"])  # it is there, and says nothing

    def record_purge(self, event: Event, *, after: Event | None) -> None:
        """See `PurgingStore`."""
        with self._writing() as connection:
            found = next(iter(fetched(connection, LAST_PURGE, ())), None)
            if (found and found[0]) != (after and after.id):
                raise PurgeFailed(OVERTAKEN, next_step="run it again")
            writer = Writer(connection, [event])
            writer.add(event)
            writer.flush()
            connection.execute(RECORD, (event.id, event.source))

    def expired(self, before: datetime, *, future: datetime | None = None) -> Expired:
        """See `PurgingStore`."""
        self._check_it_exists()
        return expired(self._database, milliseconds(before), math.inf if future is None else milliseconds(future))

    def linked(self, ends: Ends) -> Iterator[Linked]:
        """See `PurgingStore`."""
        return linked(self._database, ends)

    def remove(self, ends: Ends) -> Iterator[int]:
        """See `PurgingStore`."""
        return remove(self._database, ends)

    def query(self, query: Query) -> Page:
        """See `AuditStore`."""
        statement, values = select(narrowed(query, self._all), _ROW_SQL)
        found = self._all(statement, values)
        rows = tuple(_row(row) for row in found[: query.limit])
        is_more = len(found) > query.limit
        return Page(rows, cursor(*map(place_in, found[query.limit - 1][-3:])) if is_more else None)

    def arrived(self, query: Query) -> Page:
        """See `ArrivalStore`. A position beyond the last, or at an event that is another here, is one of another file:
        all of this one is new."""
        asked = narrowed(query, self._all)
        self._check_it_exists()
        with self._database.read() as connection:
            (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
            if query.after == END:
                return Page((), behind(last, _mark(connection, last)))
            if query.after is not None and not _is_here(connection, query.after, last):
                asked = replace(asked, after=None)
            found = fetched(connection, *select(asked, _ROW_SQL, by_arrival=True))
            is_more = len(found) > query.limit
            event, place = map(place_in, found[query.limit - 1][-2:]) if is_more else (last, BEHIND_ALL)
            mark = _mark(connection, event)
        return Page(tuple(_row(row) for row in found[: query.limit]), cursor(mark, event, place))

    def get(self, event_id: str, source: str | None = None) -> Event | None:
        """See `AuditStore`. Raises QueryInvalid for a beginning that is too short or not unique."""
        check_id(event_id, source)
        begun = storable(event_id)
        found = self._all(f"{_GET} WHERE e.id = ?1 AND (?2 IS NULL OR e.source = ?2) LIMIT 2", [begun, source])
        if not found and source is None:
            found = self._all(f"{_GET} WHERE e.id >= ? AND e.id < ? LIMIT 2", [begun, f"{begun}\U0010ffff"])
        return event_of(*found[0]) if is_one(event_id, [each[:2] for each in found]) else None

    def events(self, heads: Sequence[EventHead]) -> Sequence[Event]:
        """See `ArrivalStore`."""
        asked = json.dumps([(head.id, head.source) for head in heads])
        return [event for found in self._all(_EVENTS, [asked]) if (event := _event_or_none(found)) is not None]

    def related(self, head: EventHead, *, limit: int = 200) -> Sequence[Row]:
        """See `AuditStore`."""
        values = [head.type, head.environment, head.document, head.revision, head.commit, head.plan, limit]
        return [_row(row) for row in self._all(_RELATED, values)]

    def sightings(self, head: EventHead) -> Sequence[Sighting]:
        """See `AuditStore`."""
        found = self._all(_SIGHTINGS, [head.id, head.source])
        return [sighting for sighting in starmap(sighting_of, found) if sighting is not None]

    def count(self) -> int:
        """See `AuditStore`. Numbers are given without gaps; where one is far off, somebody put it there."""
        ((first, last),) = self._all("SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)", [])
        if first is None:
            return 0
        if last - first < MOST_ROWS:
            return int(last - first + 1)
        return int(self._all("SELECT count(*) FROM events", [])[0][0])

    def inspect(self) -> StoreCondition:
        """See `InspectableStore`. The clock is that of this machine; beside the file its log is written."""
        self._check_it_exists()
        places = (self.path, self.path.parent)
        may_write = all(os.access(each, os.W_OK) for each in places)
        with self._database.read() as connection:
            altered = [fault.text for fault in quick_faults(connection)]
        return StoreCondition(f"SQLite {sqlite3.sqlite_version}", may_write=may_write, altered=tuple(altered))

    def close(self) -> None:
        """Idempotent; a later call opens again."""
        self._database.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A write transaction. What does not fit to what is there is no fault of what is written: a store that nobody
        altered takes every event."""
        try:
            with self._database.write() as connection:
                self._look_at_layout(connection)
                yield connection
        except sqlite3.IntegrityError as error:
            raise StoreMisconfigured(
                f"{self.path}: what somebody put into the audit store is in the way of events ({error}); they wait. "
                "sentinelctl audit verify tells more; keep a copy of the file as evidence, then take that away"
            ) from error

    def _look_at_layout(self, connection: sqlite3.Connection) -> None:
        """Raises StoreMisconfigured where somebody altered it since the last look."""
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        if version != self._looked_at:
            refuse_altered(connection)
            self._looked_at = version

    def _all(self, statement: str, values: list[Any]) -> list[Any]:
        self._check_it_exists()
        with self._database.read() as connection:
            return fetched(connection, statement, values)

    def _check_it_exists(self) -> None:
        if self._read_only and not self.path.exists():
            raise StoreMissing(f"{self.path}: there is no audit store yet; it is made when the first event arrives")
        if self._read_only and self.path.is_file() and self.path.stat().st_size == 0:
            raise StoreMissing(f"{self.path}: empty; nothing was ever written to it. The first event makes it whole")


def _mark(connection: sqlite3.Connection, event: int) -> int:
    """What tells an event from the one that another file has in its place; 0 where there is none."""
    found = connection.execute("SELECT hash FROM events WHERE seq = ?", [event]).fetchone()
    return int.from_bytes(found[0][:_MARK_BYTES]) if found and isinstance(found[0], bytes) else 0


def _is_here(connection: sqlite3.Connection, after: str, last: int) -> bool:
    """Whether a position is one of this file; an event that has left the store tells nothing."""
    mark, event = mark_of(after), place_of(after)
    return event <= last and _mark(connection, event) in (mark, 0)


def _lower(text: object) -> str | None:
    return None if text is None else lower(str(text))


def _opened(path: Path, *, read_only: bool) -> Database:
    return Database(
        path,
        migrations=MIGRATIONS,
        application_id=APPLICATION_ID,
        failure=StoreUnavailable,
        damaged=StoreDamaged,
        misfit=misfit,
        read_only=read_only,
        readable_from=READABLE_FROM,
        functions={LOWER: _lower},
    )


def _heads(found: Sequence[Sequence[Any]]) -> list[Head]:
    """Of the records that are some; `faults` tells of others."""
    return [head for head in starmap(chain_head, found) if head is not None]


def _event_or_none(found: Sequence[Any]) -> Event | None:
    try:
        return event_of(*found)
    except EventDamaged:
        return None


def _row(row: Sequence[Any]) -> Row:
    return row_of(head_of(row[: len(HEAD)], moment(row[_TIME])), row[len(HEAD) : len(HEAD) + 7])

"""The local spool: an event is on disk here before the swap it tells of is acknowledged, and until it is delivered."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sentinel_core.audit.database import Database
from sentinel_core.audit.errors import SinkUnavailable
from sentinel_core.audit.event import Event, restore_event, storable
from sentinel_core.audit.instants import from_milliseconds, milliseconds

APPLICATION_ID = 0x53_4F_42_31
BATCH_BYTES = 8 * 1024 * 1024
BUSY_S = 1.0
"""Rules that are to become active wait so long for the file, not longer: protection goes before evidence."""

_MIGRATIONS = (
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL, source TEXT NOT NULL, type TEXT NOT NULL, subject TEXT NOT NULL, time INTEGER NOT NULL,
        state INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0 /* waiting */, 1 /* sent */, 2 /* parked */)),
        reason TEXT, data BLOB NOT NULL,
        UNIQUE (id, source)
    );
    CREATE INDEX waiting ON events (seq) WHERE state = 0;
    CREATE INDEX sent ON events (seq) WHERE state = 1;
    CREATE INDEX parked ON events (seq) WHERE state = 2
    """,
    """
    ALTER TABLE events RENAME TO once;
    DROP INDEX waiting;
    DROP INDEX sent;
    DROP INDEX parked;
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL, source TEXT NOT NULL, type TEXT NOT NULL, subject TEXT NOT NULL, time INTEGER NOT NULL,
        state INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0 /* waiting */, 1 /* sent */, 2 /* parked */)),
        reason TEXT, data BLOB NOT NULL, instance TEXT NOT NULL DEFAULT '',
        UNIQUE (id, source, instance)
    );
    INSERT INTO events (seq, id, source, type, subject, time, state, reason, data)
        SELECT seq, id, source, type, subject, time, state, reason, data FROM once ORDER BY seq;
    DROP TABLE once;
    CREATE INDEX waiting ON events (seq) WHERE state = 0;
    CREATE INDEX sent ON events (seq) WHERE state = 1;
    CREATE INDEX parked ON events (seq) WHERE state = 2
    """,
)
_INSTANCE = re.compile(rb'"instance":"((?:[^"\\]|\\.)*+)"')
_HEAD_BYTES = 4096
"""The head of an event stands in front of its rules, which are long."""


@dataclass(frozen=True, slots=True)
class Parked:
    """An event that the receiver will never take, and why. It stays until somebody decides."""

    event: Event
    reason: str


class Outbox:
    """An `EventSink` in one SQLite file; several threads and processes may share it. Nothing is opened before use.

    Delivered events are kept for a while, the newest `keep_sent` of them within `keep_bytes`, so that the disk is
    bounded and a repeated append of a delivered event is still known. Undelivered ones are never dropped.
    Every method raises SinkUnavailable when the file cannot be used.
    """

    def __init__(
        self, path: str | Path, *, keep_sent: int = 1000, keep_bytes: int = 64 * 1024 * 1024, busy_s: float = BUSY_S
    ) -> None:
        self.path = Path(path)
        self.appended = threading.Event()
        """Set at each append of this process, so that a forwarder need not poll for it."""
        self._keep_sent = keep_sent
        self._keep_bytes = keep_bytes
        self._database = Database(
            self.path,
            migrations=_MIGRATIONS,
            application_id=APPLICATION_ID,
            failure=SinkUnavailable,
            busy_s=busy_s,
        )

    def append(self, events: Sequence[Event]) -> None:
        """Returns when all are on disk, in one transaction; see `EventSink`. Of several instances that tell one
        event, each has its own, as the store counts them."""
        rows = [
            (event.id, event.source, event.type, event.subject, milliseconds(event.time), event.data, _teller(event))
            for event in events
        ]
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO events (id, source, type, subject, time, data, instance) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
        self.appended.set()

    def pending(self, limit: int = 100) -> list[Event]:
        """The oldest undelivered events in the order of their append: at most `limit`, at most BATCH_BYTES or one."""
        events: list[Event] = []
        size = 0
        with self._database.read() as connection:
            for row in connection.execute(_SELECT_WAITING, (limit,)):
                event = _event(row)
                size += len(event.data)
                if events and size > BATCH_BYTES:
                    break
                events.append(event)
        return events

    def mark_sent(self, events: Iterable[Event]) -> None:
        """The receiver acknowledged these. Unknown ones are ignored."""
        with self._database.write() as connection:
            connection.executemany(
                "UPDATE events SET state = 1 WHERE id = ? AND source = ? AND state = 0",
                [(event.id, event.source) for event in events],
            )
            connection.execute(_FORGET, (self._keep_sent, self._keep_bytes))

    def park(self, event: Event, reason: str) -> None:
        """Takes an event that is refused for ever out of the line and keeps it with the reason."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE events SET state = 2, reason = ? WHERE id = ? AND source = ? AND state = 0",
                (storable(reason), event.id, event.source),
            )

    def parked(self, limit: int = 100) -> list[Parked]:
        """The dead letters, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_PARKED, (limit,)).fetchall()
        return [Parked(_event(row), row[6] or "") for row in rows]

    def unpark(self, event: Event) -> None:
        """Puts a dead letter back into the line, at its old place."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE events SET state = 0, reason = NULL WHERE id = ? AND source = ? AND state = 2",
                (event.id, event.source),
            )
        self.appended.set()

    def depth(self) -> int:
        """How many events wait for delivery."""
        return int(self._one("SELECT count(*) FROM events WHERE state = 0"))

    def parked_count(self) -> int:
        """How many dead letters there are."""
        return int(self._one("SELECT count(*) FROM events WHERE state = 2"))

    def oldest(self) -> datetime | None:
        """Time of the event that waits longest; None when nothing waits."""
        time = self._one("SELECT (SELECT time FROM events WHERE state = 0 ORDER BY seq LIMIT 1)")
        return None if time is None else from_milliseconds(time)

    def last_sent(self) -> Event | None:
        """The newest event that was delivered, as long as it is kept."""
        with self._database.read() as connection:
            row = connection.execute(_SELECT_SENT).fetchone()
        return row and _event(row)

    def close(self) -> None:
        """Idempotent; a later call opens again."""
        self._database.close()

    def _one(self, statement: str) -> Any:
        with self._database.read() as connection:
            return connection.execute(statement).fetchone()[0]


_COLUMNS = "SELECT id, source, type, subject, time, data, reason FROM events "
_SELECT_WAITING = _COLUMNS + "WHERE state = 0 ORDER BY seq LIMIT ?"
_SELECT_SENT = _COLUMNS + "WHERE state = 1 ORDER BY seq DESC LIMIT 1"
_SELECT_PARKED = _COLUMNS + "WHERE state = 2 ORDER BY seq LIMIT ?"

_FORGET = """
    DELETE FROM events WHERE state = 1 AND seq NOT IN (
        SELECT seq FROM (
            SELECT seq, row_number() OVER newest AS place, sum(length(data)) OVER newest AS size
            FROM events WHERE state = 1 WINDOW newest AS (ORDER BY seq DESC)
        ) WHERE place <= ? AND size <= ?
    )
"""


def _teller(event: Event) -> str:
    """The instance that tells of it; empty where none does."""
    found = _INSTANCE.search(event.data, 0, _HEAD_BYTES)
    return "" if found is None else found[1].decode(errors="replace")


def _event(row: tuple[str, str, str, str, int, bytes, str | None]) -> Event:
    identity, source, kind_of_event, subject, time, data, _ = row
    return restore_event(identity, source, kind_of_event, subject, from_milliseconds(time), data)

"""The tables of the SQLite store, version by version."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sentinel_core.audit.chain import COLUMNS, ROW, START, link
from sentinel_core.audit.store._packing import unpack
from sentinel_core.audit.store.contract import HEAD

APPLICATION_ID = 0x53_41_53_31
COLUMNS_SQL = ", ".join(f'e."{name}"' for name in COLUMNS)
HEAD_SQL = ", ".join(f'e."{name}"' for name in HEAD)
ROW_SQL = ", ".join(f'c."{name}"' for name in ROW)
ENTRIES = f"SELECT e.seq, b.data, {COLUMNS_SQL} FROM events e LEFT JOIN bodies b ON b.event = e.seq "  # noqa: S608
ROWS = f"SELECT c.event, {ROW_SQL} FROM changes c "  # noqa: S608  own names
_CHUNK = 500


def _chain_what_is_there(connection: sqlite3.Connection) -> None:
    """Events of the time before the chain, in the order of their arrival. What happened to them earlier, nobody can
    tell: `adopted` says how many of each source they are."""
    heads: dict[str, tuple[int, bytes]] = {}
    before = -(2**63)
    while found := connection.execute(f"{ENTRIES} WHERE e.seq > ? ORDER BY e.seq LIMIT {_CHUNK}", (before,)).fetchall():
        span = (found[0][0], found[-1][0])
        before = span[1]
        rows = grouped(connection.execute(f"{ROWS} WHERE c.event BETWEEN ? AND ? ORDER BY 1, 2", span))
        links: list[tuple[int, bytes, bytes, int]] = []
        for seq, body, *columns in found:
            number, previous = heads.get(columns[1], (0, START))
            made = _made(previous, number + 1, body, columns, rows.get(seq, ()))
            heads[columns[1]] = (number + 1, made)
            links.append((number + 1, previous, made, seq))
        connection.executemany("UPDATE events SET number = ?, previous = ?, hash = ? WHERE seq = ?", links)
    connection.executemany(
        "INSERT INTO chains (source, number, hash, adopted) VALUES (?, ?, ?, ?)",
        [(source, number, made, number) for source, (number, made) in heads.items()],
    )


def _made(previous: bytes, number: int, body: bytes, columns: Sequence[Any], rows: Sequence[Any]) -> bytes:
    try:
        return link(previous, number, unpack(body), columns, rows)
    except (ValueError, TypeError, AttributeError, zlib.error):
        # Damaged before there was a chain: the store goes on, and `verify` tells of it.
        return link(previous, number, b"", (), ())


def grouped(rows: Iterable[tuple[object, ...]]) -> dict[object, list[tuple[object, ...]]]:
    """Rows of ROWS by the event they belong to."""
    groups: dict[object, list[tuple[object, ...]]] = {}
    for event, *row in rows:
        groups.setdefault(event, []).append(tuple(row))
    return groups


MIGRATIONS: tuple[str | Callable[[sqlite3.Connection], None], ...] = (
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
    """
    ALTER TABLE events ADD COLUMN number INTEGER;
    ALTER TABLE events ADD COLUMN previous BLOB;
    ALTER TABLE events ADD COLUMN hash BLOB;
    CREATE TABLE chains (source TEXT PRIMARY KEY, number INTEGER NOT NULL, hash BLOB NOT NULL,
        adopted INTEGER NOT NULL) WITHOUT ROWID
    """,
    _chain_what_is_there,
    "CREATE TABLE purges (event INTEGER PRIMARY KEY)",
    "CREATE INDEX events_source ON events (source, type, time)",
)
READABLE_FROM = 4
"""Layouts from this on lack an index at most."""

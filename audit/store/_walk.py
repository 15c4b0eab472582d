"""Every event of the SQLite store, with the hash that it must have."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from sentinel_core.audit.chain import Entry, link, link_written
from sentinel_core.audit.database import Database
from sentinel_core.audit.errors import AuditError
from sentinel_core.audit.store._layout import COLUMNS_SQL, ROW_SQL, ROWS, grouped
from sentinel_core.audit.store._packing import unpack

HEADS = "SELECT source, number, hash, adopted FROM chains ORDER BY source"
_PAGE = 1000
_SPAN = "FROM events e LEFT JOIN bodies b ON b.event = e.seq WHERE e.seq BETWEEN ? AND ? ORDER BY e.seq"
_ENTRIES = f"SELECT e.seq, e.number, e.previous, e.hash, b.data, {COLUMNS_SQL} {_SPAN}"
_ROWS = f"{ROWS} WHERE c.event BETWEEN ? AND ? ORDER BY c.event, c.place"
_WRITTEN = (
    f"SELECT e.source, e.number, e.previous, e.hash, e.id, b.data, json_array({COLUMNS_SQL}), "  # noqa: S608  own names
    f"(SELECT json_group_array(json_array({ROW_SQL})) FROM changes c WHERE c.event = e.seq) {_SPAN}"
)


def walk(database: Database, first: int, last: int) -> Iterator[Entry]:
    """Events `first` to `last` in the order of their arrival. Each page is a transaction of its own, so that a long
    walk keeps nobody from writing."""
    for start in range(first, last + 1, _PAGE):
        span = (start, min(start + _PAGE - 1, last))
        page = _quickly(database, span)
        yield from page if page is not None else _thoroughly(database, span)


def _quickly(database: Database, span: tuple[int, int]) -> list[Entry] | None:
    """A page whose JSON SQLite writes, three times as fast. What comes out right is right, as it has the hash; where
    anything does not, None: it may be that another version of SQLite writes JSON in another way."""
    try:
        with database.read() as connection:
            found = connection.execute(_WRITTEN, span).fetchall()
    except AuditError:
        return None
    entries: list[Entry] = []
    for source, number, previous, made, name, body, columns, rows in found:
        try:
            computed = link_written(previous, number, unpack(body), columns, rows)
        except (ValueError, TypeError, AttributeError, zlib.error):
            return None
        if computed != made:
            return None
        entries.append(Entry(source, number, previous, made, computed, name))
    return entries


def _thoroughly(database: Database, span: tuple[int, int]) -> Iterator[Entry]:
    with database.read() as connection:
        entries, rows = _fetched(connection, _ENTRIES, span), grouped(_fetched(connection, _ROWS, span))
    for seq, number, previous, made, body, *columns in entries:
        computed = _computed(previous, number, body, columns, rows.get(seq, ()))
        yield Entry(columns[1], number, previous, made, computed, columns[0])


def _fetched(connection: sqlite3.Connection, statement: str, span: tuple[int, int]) -> Sequence[Any]:
    try:
        return connection.execute(statement, span).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    # Somebody wrote bytes that are no text.
    connection.text_factory = _lenient
    try:
        return connection.execute(statement, span).fetchall()
    finally:
        connection.text_factory = str


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", errors="surrogateescape")


def _computed(previous: Any, number: Any, body: Any, columns: Sequence[Any], rows: Sequence[Any]) -> bytes | None:
    try:
        return link(previous, number, unpack(body), columns, rows)
    except (ValueError, TypeError, AttributeError, zlib.error):
        return None

"""Old events on their way out of the SQLite store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sentinel_core.audit.database import Database
from sentinel_core.audit.retention.contract import Ends
from sentinel_core.audit.retention.record import PURGED
from sentinel_core.audit.retention.segment import Linked
from sentinel_core.audit.store._layout import COLUMNS_SQL, ROWS, grouped
from sentinel_core.audit.store._packing import unpack

LAST_PURGE = f"""
    SELECT e.id, e.source, e.type, e.subject, e.time, b.data FROM events e JOIN bodies b ON b.event = e.seq
    WHERE e.type = '{PURGED}' ORDER BY e.seq DESC LIMIT 1
"""  # noqa: S608  own names
_PAGE = 2000
_BETWEEN = "SELECT source, number, time FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq"
_MEANT = "SELECT seq, source, number FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq"
_EVENTS = f"""
    SELECT e.seq, e.number, e.previous, e.hash, b.data, {COLUMNS_SQL} FROM json_each(?) asked
    CROSS JOIN events e ON e.seq = asked.value LEFT JOIN bodies b ON b.event = e.seq ORDER BY e.seq
"""  # noqa: S608  own names
_ROWS = f"{ROWS} WHERE c.event BETWEEN ? AND ? ORDER BY c.event, c.place"
_SIGHTINGS = "SELECT event, instance, time FROM sightings WHERE event BETWEEN ? AND ? ORDER BY event, time, instance"
_REMOVE = (
    "INSERT OR IGNORE INTO folded SELECT id, source, 0 FROM events WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM bodies WHERE event IN (SELECT value FROM json_each(?))",
    "DELETE FROM changes WHERE event IN (SELECT value FROM json_each(?))",
    "DELETE FROM sightings WHERE event IN (SELECT value FROM json_each(?))",
    "DELETE FROM events WHERE seq IN (SELECT value FROM json_each(?))",
)


def expired(database: Database, before_ms: int) -> dict[str, int]:
    """See `PurgingStore`. Reads no more than what arrived up to the last event of before that time."""
    ends: dict[str, int] = {}
    held: set[str] = set()
    for span in _spans(database, "WHERE time < ?", before_ms):
        with database.read() as connection:
            found = connection.execute(_BETWEEN, span).fetchall()
        for source, number, time in found:
            if time >= before_ms:
                held.add(source)
            elif source not in held:
                ends[source] = number
    return ends


def linked(database: Database, ends: Ends) -> Iterator[Linked]:
    """See `PurgingStore`."""
    open_ends = dict(ends)
    for span in _spans(database):
        with database.read() as connection:
            meant = _meant(connection, span, ends, open_ends)
            edges = (meant[0], meant[-1]) if meant else (0, -1)
            events = connection.execute(_EVENTS, (json.dumps(meant),)).fetchall()
            rows = grouped(connection.execute(_ROWS, edges))
            sightings = grouped(connection.execute(_SIGHTINGS, edges))
        for seq, number, previous, made, body, *columns in events:
            seen: Any = sightings.get(seq, ())
            yield Linked(
                number, previous, made, tuple(columns), tuple(rows.get(seq, ())), unpack(body or b""), tuple(seen)
            )
        if not open_ends:
            return


def remove(database: Database, ends: Ends) -> Iterator[int]:
    """See `PurgingStore`."""
    open_ends = dict(ends)
    for span in _spans(database):
        with database.write() as connection:
            meant = _meant(connection, span, ends, open_ends)
            for statement in _REMOVE if meant else ():
                connection.execute(statement, (json.dumps(meant),))
        if meant:
            yield len(meant)
        if not open_ends:
            return


def _spans(database: Database, where: str = "", *values: int) -> Iterator[tuple[int, int]]:
    with database.read() as connection:
        first, last = connection.execute(f"SELECT min(seq), max(seq) FROM events {where}", values).fetchone()  # noqa: S608  own words
    if first is not None:
        yield from ((start, min(start + _PAGE - 1, last)) for start in range(first, last + 1, _PAGE))


def _meant(connection: Any, span: tuple[int, int], ends: Ends, open_ends: dict[str, int]) -> list[int]:
    """Rows of the span that are meant; `open_ends` loses the sources of which nothing can follow."""
    meant: list[int] = []
    for seq, source, number in connection.execute(_MEANT, span):
        end = ends.get(source, 0)
        if number <= end:
            meant.append(seq)
        if number >= end:
            open_ends.pop(source, None)
    return meant

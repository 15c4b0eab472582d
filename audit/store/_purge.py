"""Old events on their way out of the SQLite store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from sentinel_core.audit.chain import Linked
from sentinel_core.audit.database import Database
from sentinel_core.audit.instants import from_milliseconds
from sentinel_core.audit.retention.contract import Ends, Expired, Holder
from sentinel_core.audit.store._linked import read_linked
from sentinel_core.audit.store._reading import fetched, moment
from sentinel_core.audit.store._spans import spans

LAST_PURGE = """
    SELECT e.id, e.source, e.type, e.subject, e.time, b.data FROM purges p
    JOIN events e ON e.seq = p.event JOIN bodies b ON b.event = e.seq ORDER BY p.event DESC LIMIT 1
"""
"""An event of that type that came from elsewhere, with an export or through Kafka, is none of this store."""
RECORD = "INSERT OR IGNORE INTO purges SELECT seq FROM events WHERE id = ? AND source = ?"
PURGED = 0
"""What `folded` notes of an id whose event has left the store, as _REMOVE does."""
_PAGE = 2000
_BETWEEN = "SELECT source, number, time FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq"
_MEANT = "SELECT seq, source, number FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq"
_REMOVE = (
    "INSERT OR IGNORE INTO folded SELECT id, source, 0 FROM events WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM bodies WHERE event IN (SELECT value FROM json_each(?))",
    "DELETE FROM changes WHERE event IN (SELECT value FROM json_each(?))",
    "DELETE FROM sightings WHERE event IN (SELECT value FROM json_each(?))",
    "DELETE FROM purges WHERE event IN (SELECT value FROM json_each(?))",
    "DELETE FROM events WHERE seq IN (SELECT value FROM json_each(?))",
)


def expired(database: Database, before_ms: int, future_ms: float) -> Expired:
    """See `PurgingStore`. Reads no more than what arrived up to the last event of before that time."""
    ends: dict[str, int] = {}
    held: dict[str, tuple[int, int]] = {}
    waiting: Counter[str] = Counter()
    for span in _spans(database, "WHERE time < ?", before_ms):
        with database.read() as connection:
            found = fetched(connection, _BETWEEN, span)
        for source, number, told in found:
            if not isinstance(source, str):
                continue  # it is missing in its chain, which is not purged then
            time = told if moment(told) is not None else before_ms  # what is no time holds its chain back
            if before_ms <= time < future_ms:
                held.setdefault(source, (number, time))
            elif time < before_ms and source in held:
                waiting[source] += 1
            elif time < before_ms:
                ends[source] = number
    holders = [
        Holder(source, held[source][0], from_milliseconds(held[source][1]), count)
        for source, count in sorted(waiting.items())
    ]
    return Expired(ends, holders)


def linked(database: Database, ends: Ends) -> Iterator[Linked]:
    """See `PurgingStore`."""
    open_ends = dict(ends)
    for span in _spans(database):
        with database.read() as connection:
            events = read_linked(connection, _meant(connection, span, ends, open_ends), sightings=True)
        yield from events
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
        (last,) = connection.execute(f"SELECT max(seq) FROM events {where}", values).fetchone()  # noqa: S608  own words
    if last is not None:
        yield from spans(database, last, _PAGE)


def _meant(connection: Any, span: tuple[int, int], ends: Ends, open_ends: dict[str, int]) -> list[int]:
    """Rows of the span that are meant; `open_ends` loses the sources of which nothing can follow."""
    meant: list[int] = []
    for seq, source, number in fetched(connection, _MEANT, span):
        end = ends.get(source, 0)
        if type(number) is not int:  # the hash tells
            continue
        if number <= end:
            meant.append(seq)
        if number >= end:
            open_ends.pop(source, None)
    return meant

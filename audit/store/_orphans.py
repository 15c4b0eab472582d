"""Rows of the SQLite store that belong to no event: nothing of ours leaves one, and no hash covers it."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

from sentinel_core.audit.chain import Fault
from sentinel_core.audit.store._reading import fetched, text_of

_TABLES = ("bodies", "changes", "sightings", "purges")
"""By their column `event`."""
_ALL = "SELECT count(*), min(t.event) FROM {} t WHERE"
_IN_GAPS = """
    WITH gaps (low, high) AS MATERIALIZED (
        SELECT e.seq, (SELECT min(n.seq) FROM events n WHERE n.seq > e.seq) FROM events e
        WHERE NOT EXISTS (SELECT 1 FROM events n WHERE n.seq = e.seq + 1)
    )
    SELECT count(*), min(t.event) FROM gaps CROSS JOIN {} t WHERE t.event > low AND t.event < high
"""
_TAKEN = " UNION ALL ".join(  # only the last of each is looked up
    f"SELECT max(event) AS event FROM {table} WHERE event > ?1 AND event <= ?2"  # noqa: S608  own names
    for table in _TABLES
)


def orphans(connection: sqlite3.Connection) -> list[Fault]:
    """Those that questions and counts never meet. Events are numbered without gaps, but for what was purged: so it is
    looked before, behind and between them, and no table is read."""
    count, first, last = connection.execute("SELECT count(*), min(seq), max(seq) FROM events").fetchone()
    gaps = [(_IN_GAPS, ())] if count and last - first >= count else []
    return _told(connection, [*_outside(first, last), *gaps])


def orphans_outside(connection: sqlite3.Connection) -> list[Fault]:
    """Those before the first event and behind the last, which are found at once."""
    ends = connection.execute("SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)").fetchone()
    return _told(connection, _outside(*ends))


_Look = tuple[str, tuple[int, ...]]


def _outside(first: int | None, last: int | None) -> list[_Look]:
    if first is None or last is None:
        return [(f"{_ALL} 1", ())]
    return [(f"{_ALL} t.event < ?", (first,)), (f"{_ALL} t.event > ?", (last,))]


def _told(connection: sqlite3.Connection, looks: Sequence[_Look]) -> list[Fault]:
    (purge,) = connection.execute("SELECT coalesce(max(event), -1) FROM purges").fetchone()
    found = []
    for table in _TABLES:
        # Whoever tells of an event that was purged meanwhile leaves a sighting.
        but = f" AND NOT t.event BETWEEN 0 AND {purge:d}" if table == "sightings" else ""
        told = [row for each, at in looks for row in fetched(connection, each.format(table) + but, at) if row[0]]
        if told:
            rows = sum(row[0] for row in told)
            are = "row is" if rows == 1 else "rows are"
            where = f"one at number {text_of(told[0][1])}"
            found.append(Fault("altered record", "", 0, f"in the table {table} {rows} {are} of no event, {where}"))
    return found


def free_behind(connection: sqlite3.Connection, last: int, count: int) -> int:
    """The number behind which `count` rows are free in all tables; `last`, where nobody put anything there."""
    while True:
        rows = connection.execute(_TAKEN, (last, last + count))
        taken = [event for (event,) in rows if event is not None]
        if not taken:
            return last
        last = math.ceil(max(taken))
        count *= 2  # a long row of them is passed in few steps

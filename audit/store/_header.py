"""Whether the header of a SQLite file tells the truth about what lies behind it."""

from __future__ import annotations

import sqlite3
from functools import lru_cache

from sentinel_core.audit.database import migrate
from sentinel_core.audit.store._layout import APPLICATION_ID, MIGRATIONS

MADE = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_LATEST = len(MIGRATIONS)


def misfit(connection: sqlite3.Connection, layout: int, owner: int) -> str | None:
    """What is wrong with a header that is not the one of today, where the tables are ours; None where it may be true:
    another program's file, or one of an older or newer version."""
    there = {_object(row) for row in connection.execute(MADE)}
    latest = _objects(_LATEST)
    ours = {each for each in latest if each[0] == "table" and each in there}
    if not ours:
        return None
    if owner != APPLICATION_ID:
        return f"its header was changed: application_id is {owner}, and the tables are those of an audit store"
    if layout > _LATEST:
        text = f"it says layout {layout}, and its tables are those of layout {_LATEST}"
        return None if there - latest else f"its header was changed, or a newer version wrote it: {text}"
    newer = sorted(f"{kind} {name}" for kind, name, _ in there & (latest - _objects(layout)))
    return f"its header was changed: it says layout {layout}, which has no such {newer[0]}" if newer else None


@lru_cache
def as_made(layout: int) -> dict[tuple[str | None, str | None], tuple[str, str, str, str | None]]:
    """What this program makes, by type and name: rows of MADE."""
    connection = sqlite3.connect(":memory:")
    try:
        for migration in MIGRATIONS[:layout]:
            migrate(connection, migration)
        return {(row[0], row[1]): row for row in connection.execute(MADE)}
    finally:
        connection.close()


def words(statement: object) -> str:
    """Of SQL, for comparison."""
    return "".join(str(statement).split())


def _objects(layout: int) -> set[tuple[str, str, str]]:
    return {_object(row) for row in as_made(layout).values()}


def _object(row: tuple[str, str, str, str | None]) -> tuple[str, str, str]:
    return row[0], row[1], words(row[3])

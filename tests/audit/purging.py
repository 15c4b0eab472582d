"""What the tests of purges share: a purge, and what `audit verify` finds after it.

The fixtures `filled` (SQLite) and `stocked` (each back end) have ten events of SOURCE (1 to 10), a second apart, and
two of OTHER (1 and 2); `cut` lies before the sixth.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sentinel_core.audit.retention.contract import PurgingStore
from sentinel_core.audit.retention.past import walked
from sentinel_core.audit.retention.purge import Purged, Statement, purge
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import Promise

OTHER = "/staging/file/rules/flow"
SOURCE = "/prod/git/file:///srv/rules.git@main/rules/flow"
RECORDS = "/prod/audit"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
Found = list[tuple[str, str, int, int]]


def purged(store: PurgingStore, before: datetime, folder: Path, key: SigningKey | None = None) -> Purged:
    return purge(store, before, folder, Statement("prod", AT, "ada", "retention", key))


def tamper(store: SqliteStore, *statements: str) -> None:
    connection = sqlite3.connect(store.path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def gone(where: str) -> tuple[str, ...]:
    """Statements that take events away with all that belongs to them."""
    rows = f"(SELECT seq FROM events WHERE {where})"  # noqa: S608  own words
    tables = [f"DELETE FROM {table} WHERE event IN {rows}" for table in ("bodies", "changes", "sightings")]  # noqa: S608
    return (*tables, f"DELETE FROM events WHERE {where}")  # noqa: S608


def found(
    store: PurgingStore, key: SigningKey | None = None, folder: Path | None = None, promises: Sequence[Promise] = ()
) -> Found:
    """As `audit verify` finds it: kind, source, first and last number."""
    past, verdict = walked(store, promises, [key.public] if key else [], folder)
    return [(each.kind, each.source, each.number, each.last) for each in (*past.findings, *verdict.findings)]


def numbers(store: PurgingStore, source: str) -> list[int]:
    ends = {head.source: head.number for head in store.heads() if head.source == source}
    return [event.number for event in store.linked(ends)]

"""What somebody may do to an audit store beside its events, and what `verify`, writers and `doctor` say."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sentinel_core.audit.errors import StoreMisconfigured
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

SWALLOWS = "CREATE TRIGGER t BEFORE INSERT ON events WHEN new.author = 'mallory' BEGIN SELECT RAISE(IGNORE); END"
ALTERED = {
    "a trigger": ([SWALLOWS], "altered layout  the trigger t is none that this program makes"),
    "a view": (["CREATE VIEW v AS SELECT 1"], "altered layout  the view v is none that this program makes"),
    "a table": (["CREATE TABLE other (a)"], "altered layout  the table other is none that this program makes"),
    "an index is gone": (["DROP INDEX events_time"], "altered layout  the index events_time is missing"),
    "another index": (
        ["DROP INDEX events_time", "CREATE INDEX events_time ON events (id)"],
        "altered layout  the index events_time is not as it was made",
    ),
    "an id that is to come": (
        ["INSERT INTO folded VALUES ('to-come', '/prod/x', 1)"],
        "altered record 0 of /prod/x  the id to-come is noted as known",
    ),
    "an id that was never purged": (
        ["INSERT INTO folded VALUES ('to-come', '/prod/x', 0)"],
        "altered record 0 of /prod/x  the id to-come is noted as known",
    ),
    "adopted below nothing": (["UPDATE chains SET adopted = -1"], "altered record 0 of /prod/x  the record of its end"),
    "adopted more than there are": (["UPDATE chains SET adopted = 7"], "altered record 0 of /prod/x"),
    "adopted in part": (["UPDATE chains SET adopted = 1.5"], "altered record 0 of /prod/x"),
    "adopted where nothing was": (["UPDATE chains SET adopted = 3"], "altered record 0 of /prod/x  how many are from"),
    "adopted as a text": (["UPDATE chains SET adopted = 'x'"], "altered record 0 of /prod/x"),
    "a source that is no text": (["UPDATE chains SET source = x'ff'"], "altered record"),
}


def execute(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "audit.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def signed(months: Path, sentinelctl: Run) -> Path:
    sentinelctl("audit", "checkpoint")
    assert sentinelctl("audit", "verify").code == 0
    return months


@pytest.mark.parametrize("how", ALTERED)
def test_what_was_altered_beside_the_events_is_named(signed: Path, sentinelctl: Run, how: str) -> None:
    statements, expected = ALTERED[how]
    execute(signed, *statements)
    ended = sentinelctl("audit", "verify")
    assert ended.code == 2
    assert f"! {expected}" in ended.out
    assert "unexpected" not in ended.err


def test_statistics_that_sqlite_makes_for_itself_are_no_finding(signed: Path, sentinelctl: Run) -> None:
    execute(signed, "ANALYZE", "VACUUM")
    assert sentinelctl("audit", "verify").code == 0


def test_a_row_that_its_index_does_not_lead_to_is_a_finding(signed: Path, sentinelctl: Run) -> None:
    with closing(sqlite3.connect(signed / "audit.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        made = "SELECT * FROM sqlite_master WHERE name = 'changes_resource'"
        index = connection.execute(made).fetchone()
        rows = connection.execute("SELECT * FROM changes WHERE event = 3").fetchall()
        connection.execute("DELETE FROM changes WHERE event = 3")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'changes_resource'")
    with closing(sqlite3.connect(signed / "audit.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.executemany(f"INSERT INTO changes VALUES ({', '.join('?' * 10)})", rows)  # noqa: S608  own names
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", index)
    ended = sentinelctl("audit", "verify")
    assert ended.code == 2
    assert "! damaged file  " in ended.out
    assert "changes_resource" in ended.out
    answered = sentinelctl("audit", "who", "pay")
    assert answered.code == 2
    assert "TAMPERED WITH: 00000002 in the chain, and no index leads to it" in answered.err


@pytest.mark.parametrize("how", ["a trigger", "a view", "a table"])
def test_a_writer_refuses_a_store_that_may_swallow_what_is_written(signed: Path, sentinelctl: Run, how: str) -> None:
    store = SqliteStore(signed / "audit.db")
    (row,) = store.query(Query(limit=1)).rows
    events = store.events([row.event])
    store.ingest(events)
    execute(signed, *ALTERED[how][0])
    with pytest.raises(StoreMisconfigured, match="somebody altered the audit store"):
        store.ingest(events)
    ended = sentinelctl("doctor")
    assert ended.code != 0
    assert "somebody altered it" in ended.out + ended.err


def test_a_store_that_lacks_an_index_still_takes_events(signed: Path) -> None:
    execute(signed, "DROP INDEX events_time")
    store = SqliteStore(signed / "audit.db")
    (row,) = store.query(Query(limit=1)).rows
    assert store.ingest(store.events([row.event])).duplicate == 1

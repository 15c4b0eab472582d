"""Any value in any column: nothing ends in a traceback, `verify` finds it, and the other events are told as before."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.chain import COLUMNS, ROW
from sentinel_core.audit.events import Event
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

AT = datetime(2026, 11, 25, 6, 30, tzinfo=UTC)
VALUES: dict[str, Any] = {"text": "x", "blob": b"\xff\x00", "big": 2**62, "float": 1.5, "negative": -7, "none": None}
COVERED = [
    *(("events", column) for column in (*COLUMNS, "seq", "number", "previous", "hash")),
    *(("changes", column) for column in (*ROW, "event")),
    *(("bodies", column) for column in ("data", "event")),
    *(("chains", column) for column in ("number", "hash", "source")),
]
ASKED: tuple[tuple[str, ...], ...] = (
    ("audit", "who", "pay"),
    ("audit", "who", "pay", "-o", "json"),
    ("audit", "query"),
    ("audit", "query", "-o", "json"),
    ("audit", "tail"),
    ("audit", "show", "event-0003"),
    ("audit", "export"),
    ("audit", "export", "--format", "csv"),
    ("audit", "purge", "--before", "now", "--to", "segments", "--dry-run"),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four events; the third is tampered with."""
    path = tmp_path_factory.mktemp("sound") / "audit.db"
    store = SqliteStore(path)
    for number in range(1, 5):
        change = {"action": "change", "resource": "pay", "rule": "flow/pay", "field": "count", "old": 0, "new": number}
        data = {
            "environment": "prod",
            "author": "chen",
            "kind": "flow",
            "changes": [change],
            "revision": "r",
            "app": "a",
        }
        data |= dict.fromkeys(
            ("instance", "channel", "commitHash", "reason", "message", "planId", "revisionSource", "oldDigest",
             "newDigest", "rollbackOf"), "known")  # fmt: skip
        store.ingest(
            [
                Event(
                    f"event-{number:04}", "/prod/x", "sentinel.rules.changed.v1", "flow",
                    AT + timedelta(minutes=number), json.dumps(data).encode(),
                )
            ]
        )  # fmt: skip
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def store(here: Path, sound: Path) -> Path:
    (here / "sentinel.yaml").write_text("environment: prod\naudit: {store: 'sqlite:///audit.db'}\n")
    return here / "audit.db"


def damaged(store: Path, sound: Path, table: str, column: str) -> Iterator[str]:
    """The store with each value in turn."""
    keys = {"events": "seq = 3", "changes": "event = 3", "bodies": "event = 3", "sightings": "event = 3"}
    for name, value in VALUES.items():
        for each in store.parent.glob("audit.db*"):
            each.unlink()
        shutil.copy(sound, store)
        with closing(sqlite3.connect(store, isolation_level=None)) as connection:
            (before,) = connection.execute(f'SELECT "{column}" FROM {table} WHERE {keys.get(table, "1")}').fetchone()  # noqa: S608  own names
            try:
                connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE {keys.get(table, "1")}', (value,))  # noqa: S608  own names
            except sqlite3.IntegrityError:  # the file itself takes no such value
                continue
        if before != value:
            yield name


def quiet(sentinelctl: Run, *arguments: str) -> Any:
    ended = sentinelctl(*arguments)
    assert "unexpected" not in ended.err, (arguments, ended.err)
    assert "Traceback" not in ended.err, (arguments, ended.err)
    return ended


@pytest.mark.parametrize(("table", "column"), COVERED)
def test_any_value_in_any_column_that_is_hashed(
    store: Path, sound: Path, sentinelctl: Run, table: str, column: str
) -> None:
    for value in damaged(store, sound, table, column):
        assert quiet(sentinelctl, "audit", "verify").code == 2, value
        for asked in ASKED:
            quiet(sentinelctl, *asked)
        assert "event-00" in quiet(sentinelctl, "audit", "query", "-o", "name").out, value
        assert quiet(sentinelctl, "audit", "query", "-o", "name").out.count("event-000") >= 3, value
        exported = quiet(sentinelctl, "audit", "export")
        assert exported.out.count("\n") >= 3, value
        assert ("event cannot be read any more" in exported.err) == (exported.out.count("\n") < 4), value


@pytest.mark.parametrize("column", ["event", "instance", "time"])
def test_any_value_in_a_sighting(store: Path, sound: Path, sentinelctl: Run, column: str) -> None:
    for _ in damaged(store, sound, "sightings", column):
        assert quiet(sentinelctl, *ASKED[0]).code == 0
        quiet(sentinelctl, *ASKED[1])


@pytest.mark.parametrize("time", ["noon", 2**62, 9 * 10**17, -(2**62), b"\xff"])
def test_doctor_reads_a_store_whose_newest_event_has_no_time(
    store: Path, sound: Path, sentinelctl: Run, time: Any
) -> None:
    shutil.copy(sound, store)
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE events SET time = ? WHERE seq = 3", (time,))
    quiet(sentinelctl, "doctor")


@pytest.mark.parametrize("seq", [10**10, 2**63 - 1, -(2**63)])
def test_a_row_that_is_far_off_is_met_at_once(store: Path, sound: Path, sentinelctl: Run, seq: int) -> None:
    shutil.copy(sound, store)
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE events SET seq = ? WHERE seq = 3", (seq,))
        for table in ("changes", "bodies"):
            connection.execute(f"UPDATE {table} SET event = ? WHERE event = 3", (seq,))  # noqa: S608  own names
    assert quiet(sentinelctl, "audit", "verify").code == 2
    told = quiet(sentinelctl, "doctor").out
    assert "4 events" in told or f"somebody put an event at row {seq}" in told


def test_a_store_with_a_row_too_far_off_takes_nothing_and_says_why(store: Path, sound: Path, sentinelctl: Run) -> None:
    shutil.copy(sound, store)
    line = sentinelctl("audit", "export").out.splitlines()[0].replace("event-0001", "event-0009")
    (store.parent / "more.ndjson").write_text(line + "\n")
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE events SET seq = ? WHERE seq = 3", (2**63 - 1,))
    ended = quiet(sentinelctl, "audit", "ingest", "--file", "more.ndjson")
    assert ended.code == 78
    assert "! altered record  somebody put an event at row 9223372036854775807" in sentinelctl("audit", "verify").out
    assert "somebody put an event at row 9223372036854775807" in ended.err

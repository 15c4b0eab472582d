"""`audit hash`: whether a value is the one, told by its keyed hash alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core.audit.events import Event
from sentinel_core.audit.redaction import Redaction
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

KEY = "0123456789abcdef" * 2
VALUE = "13800000001"


@pytest.fixture
def place(here: Path) -> Path:
    """Settings with a key, and a store with one event that holds the value, hashed."""
    (here / "redact.key").write_text(KEY + "\n")
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db', redactKeyFile: redact.key}\n")
    data = json.dumps({"environment": "prod", "value": Redaction((), KEY).keyed(VALUE)}).encode()
    store = SqliteStore(here / "audit.db")
    store.ingest([Event("event-0001", "/prod/x", "some.type", "flow", datetime(2026, 11, 25, tzinfo=UTC), data)])
    store.close()
    return here


def test_it_prints_what_stands_in_events(place: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "hash", VALUE)
    assert (ended.code, ended.out) == (0, f"{Redaction((), KEY).keyed(VALUE)}\n")


def test_the_exit_code_tells_whether_an_event_holds_the_value(place: Path, sentinelctl: Run) -> None:
    there = sentinelctl("audit", "hash", VALUE, "--event", "event-00")
    assert (there.code, there.out.splitlines()[1]) == (0, "stands in event event-00")
    other = sentinelctl("audit", "hash", "13900000002", "--event", "event-00", "-o", "json")
    assert other.code == 1
    assert json.loads(other.out)["found"] is False


def test_another_key_is_told(place: Path, sentinelctl: Run) -> None:
    (place / "redact.key").write_text(KEY[::-1])
    ended = sentinelctl("audit", "hash", VALUE, "--event", "event-00")
    assert ended.code == 1
    assert "another key" in ended.err


def test_a_value_may_come_from_standard_input(place: Path, process: Run) -> None:
    ended = process("audit", "hash", "-", stdin=f"{VALUE}\n")
    assert ended.out == f"{Redaction((), KEY).keyed(VALUE)}\n"


def test_what_is_missing_is_named(place: Path, sentinelctl: Run) -> None:
    assert sentinelctl("audit", "hash", VALUE, "--event", "00000000").code == 2
    (place / "redact.key").write_text("short-secret")
    ended = sentinelctl("audit", "hash", VALUE)
    assert ended.code == 78
    assert "short-secret" not in ended.err
    (place / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")
    assert "redactKeyFile" in sentinelctl("audit", "hash", VALUE).err

"""What `audit who` says where an event that belongs to its answer is gone, hidden or given another time."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel_core.audit import standing
from sentinel_core.audit.store import _linked
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

WHO = ("audit", "who", "pay", "--zone", "UTC")
ASKED: dict[str, tuple[str, ...]] = {
    "all": (),
    "what was in force then": ("--at", "2026-11-26"),
    "a window that the change lies in": ("--between", "2026-08-15", "2026-10-01"),
    "a window behind it": ("--since", "2026-10-01"),
}


def execute(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "audit.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def gone(event: int) -> list[str]:
    return [f"DELETE FROM {table} WHERE event = {event}" for table in ("bodies", "changes", "sightings")] + [  # noqa: S608
        f"DELETE FROM events WHERE seq = {event}"  # noqa: S608  own names
    ]


def hidden(event: int) -> list[str]:
    return [f"UPDATE changes SET resource = 'other' WHERE event = {event}"]  # noqa: S608  own names


def dated(event: int, ms: int = 1) -> list[str]:
    return [
        f"UPDATE events SET time = {ms} WHERE seq = {event}",  # noqa: S608  own names
        f"UPDATE changes SET time = {ms} WHERE event = {event}",  # noqa: S608  own names
    ]


HOW = {"gone": gone, "hidden": hidden, "dated": dated}


@pytest.fixture
def signed(months: Path, sentinelctl: Run) -> Path:
    sentinelctl("audit", "checkpoint")
    return months


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("asked", ASKED)
def test_the_newest_event_is_missed(signed: Path, sentinelctl: Run, how: str, asked: str) -> None:
    assert sentinelctl(*WHO, *ASKED[asked]).code == 0
    execute(signed, *HOW[how](6))
    ended = sentinelctl(*WHO, *ASKED[asked])
    assert ended.code == 2
    assert "TAMPERED WITH: " in ended.err
    assert "covers" not in ended.err


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("more", [(), ("--between", "2026-04-01", "2026-05-01")])
def test_the_oldest_event_is_missed(signed: Path, sentinelctl: Run, how: str, more: tuple[str, ...]) -> None:
    assert sentinelctl(*WHO, *more).code == 0
    execute(signed, *HOW[how](1))
    ended = sentinelctl(*WHO, *more)
    assert (ended.code, "TAMPERED WITH: " in ended.err) == (2, True)


def test_a_time_that_lies_in_the_future_takes_an_event_out_of_no_window(signed: Path, sentinelctl: Run) -> None:
    execute(signed, *dated(6, 2**42))
    assert "TAMPERED WITH: 00000005 not as written" in sentinelctl(*WHO, "--at", "2026-11-26").err


def test_the_only_event_of_another_chain_is_missed(signed: Path, sentinelctl: Run) -> None:
    store = SqliteStore(signed / "audit.db")
    (row,) = store.query(Query(limit=1)).rows
    (event,) = store.events([row.event])
    store.ingest([replace(event, id="of-another-store", source="/prod/y")])
    store.close()
    sentinelctl("audit", "checkpoint")
    execute(signed, *hidden(7))
    assert "TAMPERED WITH: of-anoth not as written" in sentinelctl(*WHO).err
    execute(signed, *gone(7))
    assert "TAMPERED WITH: 1 event missing in the chain" in sentinelctl(*WHO).err


@pytest.mark.parametrize("asked", [WHO, ("audit", "query"), ("audit", "who", "nobody-knows-it")])
def test_checkpoints_of_events_that_are_all_gone_show_it(
    signed: Path, sentinelctl: Run, asked: tuple[str, ...]
) -> None:
    execute(signed, *(f"DELETE FROM {table}" for table in ("bodies", "changes", "events", "chains")))  # noqa: S608
    ended = sentinelctl(*asked)
    assert ended.code == 2
    assert " saw more events than there are; sentinelctl audit verify tells more." in ended.err


def test_a_chain_whose_record_was_set_back_with_it_contradicts_the_checkpoint(signed: Path, sentinelctl: Run) -> None:
    execute(signed, *gone(6), "UPDATE chains SET number = 5, hash = (SELECT hash FROM events WHERE seq = 5)")
    ended = sentinelctl(*WHO, "-o", "json")
    assert ended.code == 2
    assert json.loads(ended.out)["chain"]["lost"] is not None


def test_what_left_the_store_with_a_purge_is_not_missing(signed: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "purge", "--before", "2026-06-01", "--to", "segments", "--zone", "UTC", "--yes")
    assert sentinelctl(*WHO).code == 0
    execute(signed, *gone(3))
    assert "1 event missing in the chain" in sentinelctl(*WHO).err


@pytest.mark.parametrize(
    ("module", "name"), [(_linked, "_LOOKED_AT"), (standing, "MOST_EVENTS")], ids=["rows", "hashes"]
)
def test_what_is_too_much_to_look_at_is_left_to_verify(
    signed: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    store = SqliteStore(signed / "audit.db")
    (row,) = store.query(Query(limit=1)).rows
    (event,) = store.events([row.event])
    data = event.data.replace(b'"pay"', b'"other"')
    store.ingest([replace(event, id=f"other-{number}", data=data) for number in range(5)])
    store.close()
    asked = (*WHO, "--since", "2026-08-30")
    assert sentinelctl(*asked).err.endswith(" Its hash holds, and " + sentinelctl(*asked).err.rpartition("and ")[2])
    assert "audit verify" not in sentinelctl(*asked).err
    monkeypatch.setattr(module, name, 2)
    ended = sentinelctl(*asked)
    assert ended.code == 0
    assert ended.err.endswith(" it. Whether others are missing beside it, sentinelctl audit verify tells.\n")

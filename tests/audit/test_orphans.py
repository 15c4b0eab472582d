"""Rows that belong to no event: `verify` and `doctor` tell of them, and they keep no genuine event out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.each import ingest_each
from sentinel_core.audit.errors import StoreMisconfigured
from sentinel_core.audit.event import Event
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import verify
from tests.audit.purging import found, purged, tamper

ROWS = {
    "bodies": "INSERT INTO bodies VALUES ({}, x'7b7d')",
    "changes": "INSERT INTO changes VALUES ({}, 9, 0, 'change', 'flow', 'pay', 'flow/pay', 'count', '1', '2')",
    "sightings": "INSERT INTO sightings VALUES ({}, 'i-9', 0)",
    "purges": "INSERT INTO purges VALUES ({})",
}
EVERY = pytest.mark.parametrize("table", ROWS)
LAST = 12
"""The last row of `filled`."""


def told(store: SqliteStore) -> list[str]:
    return [fault.text for fault in store.faults() if fault.kind == "altered record"]


@EVERY
@pytest.mark.parametrize("row", [-5, 0, LAST + 1, LAST + 2, LAST + 10**6])
def test_a_row_of_no_event_is_a_finding_and_doctor_sees_it(filled: SqliteStore, table: str, row: int) -> None:
    tamper(filled, ROWS[table].format(row))
    assert told(filled) == [f"in the table {table} 1 row is of no event, one at number {row}"]
    assert list(filled.inspect().altered) == told(filled)


@pytest.mark.parametrize("value", ["'x'", "x'ff'", "12.5", "9e99"])
def test_a_row_that_no_event_can_have_is_a_finding(filled: SqliteStore, value: str) -> None:
    tamper(filled, ROWS["changes"].format(value))
    (text,) = told(filled)
    assert text.startswith("in the table changes 1 row is of no event")


@EVERY
def test_in_a_store_without_events_every_row_is_a_finding(sqlite: SqliteStore, table: str) -> None:
    sqlite.ingest([])
    tamper(sqlite, ROWS[table].format(3), ROWS[table].format(4))
    assert told(sqlite) == [f"in the table {table} 2 rows are of no event, one at number 3"]


@pytest.mark.parametrize("table", ["bodies", "changes", "purges"])
def test_between_events_that_are_left_after_a_purge_a_row_is_a_finding(
    filled: SqliteStore, folder: Path, cut: datetime, table: str
) -> None:
    tamper(
        filled,
        "UPDATE events SET seq = seq + 100 WHERE seq > 10",
        "UPDATE bodies SET event = event + 100 WHERE event > 10",
    )
    tamper(filled, "UPDATE changes SET event = event + 100 WHERE event > 10")
    tamper(filled, "UPDATE sightings SET event = event + 100 WHERE event > 10")
    purged(filled, cut, folder)
    assert told(filled) == []
    tamper(filled, ROWS[table].format(2), ROWS[table].format(50))
    assert told(filled) == [f"in the table {table} 2 rows are of no event, one at number 2"]


@EVERY
@pytest.mark.parametrize("ahead", [(1,), (3,), (1, 2, 3, 4, 5, 6, 7, 8, 9), (2, 5, 6)])
def test_genuine_events_go_on_behind_such_rows_and_stay_as_they_were_written(
    filled: SqliteStore, events: list[Event], table: str, ahead: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    tamper(filled, *(ROWS[table].format(LAST + each) for each in ahead))
    new = [replace(event, source="/new") for event in events[:7]]
    assert ingest_each(filled, new).new == 7
    assert "rows of no event" in caplog.text
    assert verify(filled).findings == []
    assert all(filled.get(event.id, "/new") for event in new)
    (text,) = told(filled)
    assert text.startswith(f"in the table {table} {len(ahead)} row")


def test_the_outbox_goes_on_too(filled: SqliteStore, outbox: Outbox, events: list[Event]) -> None:
    tamper(filled, ROWS["bodies"].format(LAST + 1))
    forwarder = Forwarder(outbox, StorePublisher(filled))
    outbox.append([replace(events[0], source="/new")])
    assert forwarder.drain(5)
    assert outbox.parked() == []
    forwarder.close()


def test_what_stands_in_the_way_of_an_event_stops_the_line_and_makes_no_dead_letter(
    filled: SqliteStore, events: list[Event]
) -> None:
    tamper(filled, "CREATE UNIQUE INDEX planted ON events (source, author, old_digest)")
    new = [replace(events[1], source=source) for source in ("/1", "/2", "/3")]
    assert ingest_each(filled, new).new == 3
    again = [replace(event, id=f"{event.id}-again") for event in new]
    with pytest.raises(StoreMisconfigured, match=r"UNIQUE constraint failed.*sentinelctl audit verify"):
        ingest_each(filled, [replace(events[1], source="/4"), *again])
    assert filled.count() == LAST + 3


def test_folded_observations_whose_event_was_purged_are_no_finding(
    sqlite: SqliteStore, history: Any, flow: Callable[..., Any], told_by: Any, folder: Path
) -> None:
    history.observed = True
    first = history.commit("flow", [flow(count=1)])
    other = replace(told_by(first, "i-2", first.time - first.time), id="another-hosts-id")
    later = history.commit("flow", [flow(count=2)])
    sqlite.ingest([first, other, later])
    assert sqlite.count() == 2
    purged(sqlite, later.time, folder)
    assert (found(sqlite, folder=folder), told(sqlite)) == ([], [])
    assert sqlite.ingest([first, other]).duplicate == 2
    assert (found(sqlite, folder=folder), told(sqlite)) == ([], [])


def test_an_id_that_is_noted_as_purged_and_never_was_is_a_finding(
    filled: SqliteStore, folder: Path, cut: datetime
) -> None:
    purged(filled, cut, folder)
    assert told(filled) == []
    tamper(filled, "INSERT INTO folded VALUES ('to-come', '/prod/x', 0)")
    assert told(filled) == ["8 ids are noted as purged, and 7 events were"]

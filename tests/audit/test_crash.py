"""Kill -9 between any two statements of the way from append to the store: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentinel_core.audit.events import Event
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore

_connect = sqlite3.connect


def kill_at_statement(number: int) -> None:
    """From now on this process dies by SIGKILL when SQLite begins its `number`-th statement, in whatever file."""
    left = number

    def count(_statement: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = _connect(*args, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]  # one of its overloads


def forward(outbox: Outbox, store: SqliteStore) -> None:
    assert Forwarder(outbox, StorePublisher(store)).drain(5)


def stored_ids(store: SqliteStore) -> list[str]:
    """Ids in the order of time, one for every row of the events table."""
    rows = store.query(Query(limit=1000)).rows
    return [row.event.id for row in reversed(rows)]


def test_a_change_survives_a_kill_at_every_statement_of_its_way(
    tmp_path: Path, events: list[Event], child: Callable[..., int]
) -> None:
    events = events[1:4]

    def live(number: int, folder: Path) -> None:
        kill_at_statement(number)
        outbox = Outbox(folder / "outbox.db")
        outbox.append(events[:1])
        outbox.append(events[1:])
        forward(outbox, SqliteStore(folder / "audit.db"))

    number, ended = 0, -signal.SIGKILL
    while ended == -signal.SIGKILL:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = child(live, number, folder)
        # The restart: what was not acknowledged is told again, then everything is forwarded.
        outbox, store = Outbox(folder / "outbox.db"), SqliteStore(folder / "audit.db")
        outbox.append(events)
        forward(outbox, store)
        assert stored_ids(store) == [event.id for event in events], f"killed at statement {number}"
        assert outbox.depth() == outbox.parked_count() == 0
        outbox.close()
        store.close()
    assert ended == 0
    assert number > 30


def test_an_acknowledged_append_is_there_after_a_kill(
    tmp_path: Path, events: list[Event], child: Callable[..., int]
) -> None:
    def append_and_die() -> None:
        Outbox(tmp_path / "outbox.db").append(events)
        os.kill(os.getpid(), signal.SIGKILL)

    assert child(append_and_die) == -signal.SIGKILL
    assert Outbox(tmp_path / "outbox.db").pending() == events


def test_a_half_ingested_batch_is_not_there_at_all(
    tmp_path: Path, events: list[Event], child: Callable[..., int]
) -> None:
    store = SqliteStore(tmp_path / "audit.db")
    store.ingest(events[:1])
    store.close()

    def ingest(number: int) -> None:
        kill_at_statement(number)
        SqliteStore(store.path).ingest(events[1:])

    seen = set()
    for number in range(8, 80):
        if child(ingest, number) == 0:
            break
        seen.add(len(stored_ids(store)))
        store.close()
    # Killed inside of the transaction; only the last statements find it committed.
    assert seen <= {1, len(events)}
    assert 1 in seen

"""The spool: durable, in order, each event once, shared, and honest when it cannot write."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.database import Database
from sentinel_core.audit.errors import SinkUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.instants import milliseconds
from sentinel_core.audit.outbox import _MIGRATIONS, APPLICATION_ID, Outbox
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore


def ids(events: list[Event]) -> list[str]:
    return [event.id for event in events]


def test_events_come_back_whole_and_in_order(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events[:4])
    outbox.append(events[4:])
    assert outbox.pending() == events
    assert outbox.depth() == 10
    assert outbox.oldest() == events[0].time


def test_a_repeated_event_is_kept_once(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events)
    outbox.append([event.as_late() for event in reversed(events)])
    assert outbox.pending() == events


def test_a_delivered_event_is_not_spooled_again_by_a_replay(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events)
    outbox.mark_sent(events)
    outbox.append(events)
    assert outbox.depth() == 0
    assert outbox.oldest() is None


def test_what_was_appended_is_there_after_a_restart(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events)
    outbox.close()
    assert Outbox(outbox.path).pending() == events


def test_sent_events_are_bounded_in_number_and_size(tmp_path: Path, events: list[Event]) -> None:
    outbox = Outbox(tmp_path / "o.db", keep_sent=3)
    outbox.append(events)
    outbox.mark_sent(events[:8])
    assert _count(outbox) == 3 + 2
    small = Outbox(outbox.path, keep_sent=100, keep_bytes=len(events[9].data))
    small.mark_sent(events[8:])
    assert _count(small) == 1


def test_what_waits_is_never_forgotten(tmp_path: Path, events: list[Event]) -> None:
    outbox = Outbox(tmp_path / "o.db", keep_sent=0)
    outbox.append(events)
    outbox.mark_sent(events[5:6])
    assert outbox.depth() == 9


def test_a_parked_event_leaves_the_line_and_can_come_back(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events[:3])
    outbox.park(events[1], "schema")
    assert ids(outbox.pending()) == [events[0].id, events[2].id]
    (parked,) = outbox.parked()
    assert (parked.event, parked.reason) == (events[1], "schema")
    outbox.unpark(events[1])
    assert outbox.pending() == events[:3]
    assert outbox.parked_count() == 0


def test_a_batch_is_bounded_in_bytes_but_never_empty(outbox: Outbox, events: list[Event], monkeypatch: Any) -> None:
    monkeypatch.setattr("sentinel_core.audit.outbox.BATCH_BYTES", len(events[0].data) + len(events[1].data))
    outbox.append(events)
    assert len(outbox.pending()) == 2
    monkeypatch.setattr("sentinel_core.audit.outbox.BATCH_BYTES", 1)
    assert len(outbox.pending()) == 1


def test_only_its_owner_reads_the_file(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events)
    assert stat.S_IMODE(outbox.path.stat().st_mode) == 0o600


def test_a_full_disk_is_told_and_nothing_is_half_written(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events[:1])
    with outbox._database.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")
    many = [*events[1:], _large(events[1])]
    with pytest.raises(SinkUnavailable, match="disk is full"):
        outbox.append(many)
    assert outbox.pending() == events[:1]
    with outbox._database.read() as connection:
        connection.execute("PRAGMA max_page_count=1000000")
    outbox.append(many)
    assert outbox.depth() == 11


@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_locked_by_another_is_told_in_bounded_time(tmp_path: Path, events: list[Event], is_open: bool) -> None:
    outbox = Outbox(tmp_path / "outbox.db", busy_s=0.1)
    outbox.append(events[:1])
    if not is_open:
        outbox.close()
    holder = sqlite3.connect(outbox.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with pytest.raises(SinkUnavailable, match="locked by another process"):
        outbox.append(events)
    assert time.monotonic() - began < 1
    holder.execute("ROLLBACK")
    holder.close()
    outbox.append(events)
    assert outbox.depth() == 10
    outbox.close()


def test_a_damaged_file_is_refused_and_left_as_evidence(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "outbox.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(SinkUnavailable, match="Move it aside"):
        Outbox(path).append(events)
    assert path.read_bytes() == b"not a database at all" * 100


def test_a_page_damaged_later_is_refused_too(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events)
    outbox.close()
    content = bytearray(outbox.path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    outbox.path.write_bytes(content)
    with pytest.raises(SinkUnavailable, match="damaged"):
        Outbox(outbox.path).pending()


def test_a_store_given_as_outbox_is_refused(tmp_path: Path, events: list[Event]) -> None:
    SqliteStore(tmp_path / "audit.db").ingest(events)
    with pytest.raises(SinkUnavailable, match="holds something else"):
        Outbox(tmp_path / "audit.db").append(events)


def test_instances_that_share_an_outbox_are_seen_each(
    outbox: Outbox, sqlite: SqliteStore, events: list[Event], told_by: Callable[[Event, str, timedelta], Event]
) -> None:
    """As workers of one service do, which have one file of settings."""
    outbox.append(events[:1])
    for _ in range(2):
        Outbox(outbox.path).append([told_by(events[0], "i-2", timedelta(seconds=1))])
    assert outbox.depth() == 2
    forwarder = Forwarder(outbox, StorePublisher(sqlite))
    assert forwarder.drain(10)
    assert outbox.depth() == 0
    (row,) = sqlite.query(Query(limit=1)).rows
    assert len(sqlite.sightings(row.event)) == 2


def test_an_outbox_of_the_first_layout_keeps_all_that_it_has(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "outbox.db"
    first = Database(path, migrations=_MIGRATIONS[:1], application_id=APPLICATION_ID, failure=SinkUnavailable, busy_s=1)
    with first.write() as connection:
        connection.executemany(
            "INSERT INTO events (id, source, type, subject, time, data) VALUES (?, ?, ?, ?, ?, ?)",
            [(e.id, e.source, e.type, e.subject, milliseconds(e.time), e.data) for e in events[:5]],
        )
    first.close()
    outbox = Outbox(path)
    outbox.append(events[5:])
    assert outbox.pending() == events


def test_a_newer_layout_is_refused(outbox: Outbox, events: list[Event]) -> None:
    outbox.append(events)
    with outbox._database.write() as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(SinkUnavailable, match="newer version"):
        Outbox(outbox.path).append(events)


def test_a_folder_that_cannot_be_made_is_told_without_a_traceback(tmp_path: Path, events: list[Event]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkUnavailable, match="may write"):
        Outbox(tmp_path / "file" / "outbox.db").append(events)


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    Outbox(tmp_path / "outbox.db")
    assert list(tmp_path.iterdir()) == []


def test_an_outbox_that_was_moved_away_is_made_anew(outbox: Outbox, events: list[Event], tmp_path: Path) -> None:
    outbox.append(events[:5])
    outbox.path.rename(tmp_path / "aside.db")
    outbox.append(events[5:])
    assert ids(outbox.pending()) == ids(events[5:])


def test_threads_share_an_outbox(outbox: Outbox, events: list[Event]) -> None:
    threads = [threading.Thread(target=outbox.append, args=([event],)) for event in events * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids(outbox.pending())) == sorted(ids(events))


def test_two_processes_append_to_one_file(tmp_path: Path, events: list[Event], child: Callable[..., int]) -> None:
    path = tmp_path / "o.db"

    def append_one_by_one(part: list[Event]) -> None:
        outbox = Outbox(path)
        for event in part:
            outbox.append([event])

    workers = [child(append_one_by_one, part, wait=False) for part in (events[:7], events[4:])]
    assert [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers] == [0, 0]
    kept = ids(Outbox(path).pending())
    assert sorted(kept) == sorted(ids(events))
    assert [identity for identity in kept if identity in ids(events[:4])] == ids(events[:4])


def test_a_fork_opens_its_own_connection(outbox: Outbox, events: list[Event], child: Callable[..., int]) -> None:
    outbox.append(events[:1])
    assert child(outbox.append, events[1:2]) == 0
    outbox.append(events[2:3])
    assert outbox.pending() == events[:3]


def _large(event: Event) -> Event:
    data = event.data[:-1] + b',"pad":"' + b"x" * 200_000 + b'"}'
    return Event(
        "11111111-0000-0000-0000-000000000000", event.source, event.type, "flow", event.time + timedelta(1), data
    )


def _count(outbox: Outbox) -> int:
    return int(outbox._one("SELECT count(*) FROM events"))


def test_events_of_one_id_and_two_sources_are_told_apart(outbox: Outbox, events: list[Event]) -> None:
    mine, theirs = events[0], replace(events[0], source="/other")
    outbox.append([mine, theirs])
    outbox.mark_sent([mine])
    assert (outbox.pending(), outbox.last_sent()) == ([theirs], mine)
    outbox.park(theirs, "odd")
    outbox.unpark(mine)
    assert outbox.pending() == []
    outbox.unpark(theirs)
    assert outbox.pending() == [theirs]

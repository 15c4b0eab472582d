"""A01, A02: in order, until acknowledged, bounded at exit, and one bad event never holds up the others."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from sentinel_core.audit.errors import EventRefused, PublisherUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.forwarder import FIRST_PAUSE_S, LONGEST_PAUSE_S, UNEXPECTED_BEFORE_PARKING, Forwarder
from sentinel_core.audit.lease import Lease
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.memory import MemoryPublisher
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.store.sqlite import SqliteStore


def many(event: Event, count: int) -> list[Event]:
    return [replace(event, id=f"{number:08x}", time=event.time + timedelta(seconds=number)) for number in range(count)]


def pump(forwarder: Forwarder) -> bool:
    """One turn, as the thread takes it, without its pauses."""
    with forwarder._turn:
        return forwarder._pump_locked()


def test_a01_everything_that_waited_arrives_in_order_when_the_receiver_is_back(
    outbox: Outbox, events: list[Event]
) -> None:
    publisher, hundred = MemoryPublisher(), many(events[0], 100)
    forwarder = Forwarder(outbox, publisher)
    publisher.down = True
    for event in hundred:
        outbox.append([event])
        pump(forwarder)
    assert publisher.events == []
    assert forwarder.status().waiting == 100
    assert forwarder.status().last_error == "the receiver is down"
    publisher.down = False
    assert forwarder.drain(5)
    assert publisher.events == hundred
    assert forwarder.status().last_error is None


def test_a02_without_a_receiver_an_append_is_quick_and_the_exit_is_bounded(outbox: Outbox, events: list[Event]) -> None:
    publisher = MemoryPublisher()
    publisher.down = True
    forwarder = Forwarder(outbox, publisher)
    forwarder.start()
    began = time.monotonic()
    outbox.append(events)
    assert time.monotonic() - began < 0.5
    assert forwarder.close(timeout_s=0.3) == 10
    assert time.monotonic() - began < 1.5
    assert outbox.pending() == events


def test_a02_a_publisher_that_hangs_does_not_hold_up_the_exit(outbox: Outbox, events: list[Event]) -> None:
    let_go = threading.Event()

    class Hanging(MemoryPublisher):
        def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
            let_go.wait(20)
            return super().publish(batch)

    forwarder = Forwarder(outbox, Hanging())
    outbox.append(events)
    forwarder.start()
    began = time.monotonic()
    assert forwarder.close(timeout_s=0.2) == 10
    assert time.monotonic() - began < 2
    let_go.set()
    assert forwarder._thread is not None
    forwarder._thread.join(5)


def test_a_publisher_that_begins_late_and_hangs_does_not_hold_up_a_close_that_delivers_itself(
    outbox: Outbox, events: list[Event]
) -> None:
    let_go = threading.Event()

    class Hanging(MemoryPublisher):
        def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
            let_go.wait(20)
            return super().publish(batch)

        def close(self) -> None:
            let_go.wait(20)

    forwarder = Forwarder(outbox, Hanging())
    outbox.append(events)
    began = time.monotonic()
    assert forwarder.close(timeout_s=0.5) == 10
    assert time.monotonic() - began < 0.9
    let_go.set()


def test_the_thread_delivers_without_being_asked(outbox: Outbox, events: list[Event]) -> None:
    publisher = MemoryPublisher()
    forwarder = Forwarder(outbox, publisher)
    forwarder.start()
    for event in events:
        outbox.append([event])
    assert _until(lambda: outbox.depth() == 0)
    assert publisher.events == events
    assert forwarder.close() == 0


def test_only_what_was_acknowledged_is_marked_sent(outbox: Outbox, events: list[Event]) -> None:
    class HalfHearted(MemoryPublisher):
        def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
            return super().publish(batch[:3])

    forwarder = Forwarder(outbox, HalfHearted())
    outbox.append(events)
    pump(forwarder)
    assert outbox.pending() == events[3:]


def test_a_publisher_that_acknowledges_nothing_is_not_asked_in_a_spin(outbox: Outbox, events: list[Event]) -> None:
    class Silent(MemoryPublisher):
        def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
            return []

    forwarder = Forwarder(outbox, Silent())
    outbox.append(events)
    assert not pump(forwarder)
    assert forwarder.status().last_error == "nothing was acknowledged"
    assert forwarder._failures == 1


def test_a_refused_event_is_parked_with_its_reason_and_the_line_goes_on(outbox: Outbox, events: list[Event]) -> None:
    publisher = MemoryPublisher()
    publisher.refused = {events[3].id}
    outbox.append(events)
    assert Forwarder(outbox, publisher).drain(5)
    assert publisher.events == events[:3] + events[4:]
    (parked,) = outbox.parked()
    assert (parked.event, parked.reason) == (events[3], "told to refuse it")


def test_an_event_that_breaks_the_publisher_is_found_and_parked(outbox: Outbox, events: list[Event]) -> None:
    class Fragile(MemoryPublisher):
        def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
            if events[2] in batch:
                raise ZeroDivisionError("bug")
            return super().publish(batch)

    publisher = Fragile()
    forwarder = Forwarder(outbox, publisher)
    outbox.append(events)
    for _ in range(40):
        pump(forwarder)
    assert publisher.events == events[:2] + events[3:]
    (parked,) = outbox.parked()
    assert parked.event == events[2]
    assert f"failed {UNEXPECTED_BEFORE_PARKING} times" in parked.reason


def test_an_outage_never_parks_anything(outbox: Outbox, events: list[Event]) -> None:
    publisher = MemoryPublisher()
    publisher.down = True
    forwarder = Forwarder(outbox, publisher)
    outbox.append(events)
    for _ in range(50):
        pump(forwarder)
    assert outbox.parked_count() == 0
    assert outbox.depth() == 10


def test_a_refusal_of_an_event_that_was_not_sent_parks_nothing(outbox: Outbox, events: list[Event]) -> None:
    class Confused(MemoryPublisher):
        def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
            raise EventRefused("some-other-id", "?")

    forwarder = Forwarder(outbox, Confused())
    outbox.append(events)
    assert not pump(forwarder)
    assert outbox.depth() == 10


def test_pauses_double_up_to_a_limit_and_are_spread(outbox: Outbox) -> None:
    forwarder = Forwarder(outbox, MemoryPublisher())
    for failures, longest in (
        (1, FIRST_PAUSE_S),
        (2, 2 * FIRST_PAUSE_S),
        (4, 8 * FIRST_PAUSE_S),
        (99, LONGEST_PAUSE_S),
    ):
        forwarder._failures = failures
        pauses = [forwarder._pause() for _ in range(50)]
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(set(pauses)) > 10


def test_of_two_processes_one_forwards_and_the_other_takes_over(
    tmp_path: Path, outbox: Outbox, events: list[Event], child: Callable[..., int]
) -> None:
    forwarder = Forwarder(outbox, MemoryPublisher())
    outbox.append(events[:1])
    pump(forwarder)

    def tries_to_take_over() -> None:
        other = Forwarder(Outbox(outbox.path), MemoryPublisher())
        Outbox(outbox.path).append(events[1:2])
        assert not pump(other)

    assert child(tries_to_take_over) == 0
    assert outbox.depth() == 1
    forwarder.close()

    def takes_over() -> None:
        Outbox(outbox.path).append(events[2:3])
        assert pump(Forwarder(Outbox(outbox.path), MemoryPublisher()))

    assert child(takes_over) == 0
    assert outbox.depth() == 0


def test_a_lease_of_a_killed_process_is_free(tmp_path: Path, child: Callable[..., int]) -> None:
    assert child(lambda: Lease(tmp_path / "lease").acquire()) == 0
    lease = Lease(tmp_path / "lease")
    assert lease.acquire()
    assert lease.acquire()
    lease.release()
    lease.release()


def test_a_first_start_in_a_folder_that_is_not_made_yet_is_no_outage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(tmp_path / "state" / "sentinel" / "outbox.db")
    forwarder = Forwarder(outbox, MemoryPublisher())
    assert not pump(forwarder)
    assert forwarder.status().last_error is None
    assert caplog.text == ""
    assert forwarder.close() == 0
    outbox.close()


def test_a_store_that_cannot_be_written_keeps_events_waiting(
    tmp_path: Path, outbox: Outbox, events: list[Event]
) -> None:
    (tmp_path / "file").write_text("")
    publisher = StorePublisher(SqliteStore(tmp_path / "file" / "audit.db"))
    with pytest.raises(PublisherUnavailable):
        publisher.publish(events)
    outbox.append(events)
    assert not Forwarder(outbox, publisher).drain(0.05)
    assert outbox.depth() == 10


def test_an_event_the_store_can_never_take_is_parked(tmp_path: Path, outbox: Outbox, events: list[Event]) -> None:
    store = SqliteStore(tmp_path / "audit.db")
    broken = replace(events[1], data=b"[1, 2")
    outbox.append([events[0], broken, events[2]])
    assert Forwarder(outbox, StorePublisher(store)).drain(5)
    assert [parked.event for parked in outbox.parked()] == [broken]
    assert (found := store.get(events[2].id)) is not None
    assert found.payload == events[2].payload


def test_an_event_too_large_for_the_store_does_not_stop_the_line(
    tmp_path: Path, outbox: Outbox, events: list[Event]
) -> None:
    store = SqliteStore(tmp_path / "audit.db")
    store.ingest(events[:1])
    with store._database.read() as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 3000)
    large = replace(
        events[1], data=events[1].data[:-1] + b',"pad":"' + random.Random(1).randbytes(4000).hex().encode() + b'"}'
    )
    outbox.append([large, events[2]])
    forwarder = Forwarder(outbox, StorePublisher(store))
    for _ in range(20):
        pump(forwarder)
    assert [parked.event.id for parked in outbox.parked()] == [large.id]
    assert (found := store.get(events[2].id)) is not None
    assert found.payload == events[2].payload


def _until(condition: Callable[[], bool], timeout_s: float = 5) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True

"""What every datasource does under the one loop. A store that passes this behaves like all others."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sentinel_core.datasources import Absent, Applied, Item, Outcome, Readable, SourceConflict, State, Subscription
from sentinel_core.datasources.contract import HasNotes, Writable
from sentinel_core.rules import Provenance, Revision

A = b'[{"resource": "a", "count": 1}]'
NAMES = ("sentinel-worker-", "sentinel-watcher-")
B = b'[{"resource": "b", "count": 2}]'
C = b'[{"resource": "c", "count": 3}]'


def item_of(source: Readable) -> Item:
    (item,) = source.items(["flow"])
    return item


def test_it_is_readable(world: Any) -> None:
    assert isinstance(world.source, Readable)


def test_the_first_content_is_active_when_ready(world: Any, recorder: Any, subscribe: Any) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    assert subscription.wait_ready(5)
    assert recorder.seen == [(A, False)]


def test_p24_absent_at_start_waits_and_takes_what_is_created_later(
    world: Any, recorder: Any, subscribe: Any, wait_reason: Any
) -> None:
    subscription = subscribe(world.source, recorder)
    wait_reason(subscription, "waiting")
    assert subscription.state is State.INIT
    world.put(A)
    recorder.wait_active(A)
    assert subscription.wait_ready(5)


def test_an_update_is_activated(world: Any, recorder: Any, subscribe: Any) -> None:
    world.put(A)
    subscribe(world.source, recorder).wait_ready(5)
    world.put(B)
    recorder.wait_active(B)
    assert recorder.contents == [A, B]


def test_p25_a_deletion_keeps_the_last_good_rules(world: Any, recorder: Any, subscribe: Any, wait_reason: Any) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    world.delete()
    wait_reason(subscription, "nothing stands there")
    assert subscription.state is State.STALE
    assert recorder.contents == [A]
    world.put(B)
    recorder.wait_active(B)
    assert subscription.wait_ready(5)


def test_re_creation_of_the_same_content_is_ready_without_an_apply(
    world: Any, recorder: Any, subscribe: Any, wait_reason: Any
) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    world.delete()
    wait_reason(subscription, "nothing stands there")
    world.put(A)
    assert subscription.wait_ready(5)
    assert recorder.contents == [A]


@pytest.mark.parametrize("blank", [b"", b"\xef\xbb\xbf \n"])
def test_p24_blank_content_keeps_the_last_good_rules(
    world: Any, recorder: Any, subscribe: Any, wait_reason: Any, blank: bytes
) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    world.put(blank)
    wait_reason(subscription, "is blank")
    assert subscription.state is State.STALE
    assert recorder.contents == [A]


def test_p25_null_says_nothing_and_keeps_the_last_good_rules(
    world: Any, recorder: Any, subscribe: Any, wait_reason: Any
) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    world.put(b"null")
    wait_reason(subscription, "says nothing; the last good rules stay")
    assert subscription.refresh(5)
    assert (recorder.contents, recorder.refused) == ([A], [b"null"]), "parsed once"
    assert (subscription.state, subscription.status()[0].counters.rejected) == (State.STALE, 0)


def test_p25_an_explicit_empty_list_goes_through(world: Any, recorder: Any, subscribe: Any) -> None:
    world.put(A)
    subscribe(world.source, recorder).wait_ready(5)
    world.put(b"[]")
    recorder.wait_active(b"[]")


def test_a_refused_content_is_applied_once_and_a_good_one_follows(
    world: Any, recorder: Any, subscribe: Any, wait_reason: Any
) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    world.put(b"invalid")
    wait_reason(subscription, "is refused")
    for _ in range(3):
        assert subscription.refresh(5)
    assert (subscription.state, recorder.refused) == (State.STALE, [b"invalid"])
    world.put(B)
    recorder.wait_active(B)
    assert subscription.wait_ready(5)


def test_chinese_and_huge_contents_arrive_byte_for_byte(world: Any, recorder: Any, subscribe: Any) -> None:
    chinese = '[{"resource": "下单", "limitApp": "支付中心"}]'.encode()
    huge = b'[{"resource": "' + b"x" * 3_000_000 + b'"}]'
    world.put(chinese)
    subscribe(world.source, recorder).wait_ready(5)
    world.put(huge)
    recorder.wait_active(huge)
    assert recorder.contents == [chinese, huge]


def test_d09_a_b_a_ends_at_a(world: Any, recorder: Any, subscribe: Any) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    world.put(B)
    world.put(A)
    assert subscription.refresh(5)
    assert subscription.wait_ready(5)
    assert recorder.active == A


def test_fifty_quick_writes_end_at_the_last(world: Any, recorder: Any, subscribe: Any) -> None:
    world.put(A)
    subscribe(world.source, recorder).wait_ready(5)
    for number in range(50):
        world.put(f'[{{"resource": "r{number}"}}]'.encode())
    recorder.wait_active(b'[{"resource": "r49"}]')
    assert not any(count > 1 for count in Counter(recorder.contents).values())


def test_d10_the_same_content_again_is_counted_and_not_applied(world: Any, recorder: Any, subscribe: Any) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    before = subscription.status()[0].counters.suppressed
    for _ in range(5):
        world.put(A)
        assert subscription.refresh(5)
    assert recorder.contents == [A]
    assert subscription.status()[0].counters.suppressed >= before + 5


def test_a_failed_apply_is_tried_again_with_the_same_bytes(world: Any, recorder: Any, subscribe: Any) -> None:
    recorder.failures = [RuntimeError("disk full"), RuntimeError("disk full")]
    world.put(A)
    subscription = subscribe(world.source, recorder)
    assert subscription.wait_ready(5)
    assert recorder.contents == [A]
    assert subscription.status()[0].counters.errors == 2


def test_d06_a_raising_listener_is_counted_and_disturbs_nobody(world: Any, recorder: Any, subscribe: Any) -> None:
    told = threading.Event()

    def raising(_: object) -> None:
        raise RuntimeError("listener")

    world.put(A)
    subscription = Subscription(world.source, ["flow"], recorder)
    subscription.on_state(raising)
    subscription.on_state(lambda status: told.set() if status.state is State.READY else None)
    subscription.start()
    try:
        assert told.wait(5)
        assert subscription.status()[0].counters.listener_errors >= 1
        assert recorder.contents == [A]
    finally:
        subscription.close()


def test_d05_a_listener_may_subscribe_refresh_add_and_remove(
    world: Any, recorder: Any, other_recorder: Any, subscribe: Any
) -> None:
    inner_apply = other_recorder
    done = threading.Event()

    def busy(status: Any) -> None:
        if status.state is State.READY and not done.is_set():
            remove()
            outer.on_state(lambda _: None)
            outer.refresh()
            subscribe(world.source, inner_apply)
            done.set()

    world.put(A)
    outer = Subscription(world.source, ["flow"], recorder)
    remove = outer.on_state(busy)
    outer.start()
    try:
        assert done.wait(5)
        inner_apply.wait_active(A)
    finally:
        outer.close()


def test_two_subscribers_both_follow(world: Any, recorder: Any, other_recorder: Any, subscribe: Any) -> None:
    other = other_recorder
    world.put(A)
    subscriptions = [subscribe(world.source, recorder), subscribe(world.source, other)]
    assert all(subscription.wait_ready(5) for subscription in subscriptions)
    world.put(B)
    recorder.wait_active(B)
    other.wait_active(B)


def test_a_slow_consumer_gets_the_last_content_and_not_every_one(world: Any, recorder: Any, subscribe: Any) -> None:
    busy, go_on = threading.Event(), threading.Event()

    def slow(revision: Revision, restored: bool) -> Applied:
        busy.set()
        assert go_on.wait(30)
        taken: Applied = recorder(revision, restored)
        return taken

    world.put(A)
    subscription = subscribe(world.source, slow)
    assert busy.wait(5)
    for number in range(20):
        world.put(f'[{{"resource": "r{number}"}}]'.encode())
    go_on.set()
    recorder.wait_active(b'[{"resource": "r19"}]')
    assert subscription.refresh(10)
    assert len(recorder.contents) <= 5, "what came and went meanwhile is not caught up with"


def test_a_slow_subscriber_holds_up_nobody_else(world: Any, recorder: Any, subscribe: Any) -> None:
    busy, go_on = threading.Event(), threading.Event()

    def slow(revision: Revision, restored: bool) -> Applied:
        busy.set()
        assert go_on.wait(30)
        return Applied(Outcome.ACTIVATED, frozenset({"flow"}))

    world.put(A)
    subscribe(world.source, slow)
    assert busy.wait(5)
    subscribe(world.source, recorder)
    recorder.wait_active(A)
    world.put(B)
    recorder.wait_active(B)
    go_on.set()


def test_a_slow_listener_delays_changes_and_loses_none(world: Any, recorder: Any, subscribe: Any) -> None:
    busy, go_on = threading.Event(), threading.Event()

    def slow(_: object) -> None:
        busy.set()
        assert go_on.wait(30)

    world.put(A)
    subscription = Subscription(world.source, ["flow"], recorder)
    subscription.on_state(slow)
    subscription.start()
    try:
        assert busy.wait(5)
        world.put(B)
        go_on.set()
        recorder.wait_active(B)
    finally:
        subscription.close()


def test_a_listener_that_wants_the_process_to_end_is_counted_and_the_loop_goes_on(
    world: Any, recorder: Any, subscribe: Any
) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    subscription.on_state(lambda _: sys.exit("now"))
    world.put(B)
    recorder.wait_active(B)
    world.put(A)
    recorder.wait_active(A)
    assert subscription.refresh(5)
    assert subscription.status()[0].counters.listener_errors >= 1


def test_a_listener_may_close_its_own_subscription(world: Any, recorder: Any, subscribe: Any) -> None:
    closed: list[bool] = []
    done = threading.Event()

    def close(status: Any) -> None:
        if status.state is State.READY and not done.is_set():
            closed.append(subscription.close(timeout_s=5))
            done.set()

    world.put(A)
    subscription = Subscription(world.source, ["flow"], recorder)
    subscription.on_state(close)
    subscription.start()
    assert done.wait(10)
    assert subscription.close(timeout_s=5) is True
    world.put(B)
    assert not recorder.wait(lambda me: me.active == B, timeout_s=0.1)
    assert closed == [True], "the watcher ended; the worker does not wait for itself"


def test_closing_while_changes_pour_in_is_bounded_and_leaves_no_thread(
    world: Any, recorder: Any, subscribe: Any
) -> None:
    world.put(A)
    before = set(threading.enumerate())
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    ours = [each for each in set(threading.enumerate()) - before if each.name.startswith(NAMES)]
    assert len(ours) == 2
    stop = threading.Event()

    def pour() -> None:
        number = 0
        while not stop.wait(0.1):  # a file that is written without a pause is never whole
            number += 1
            world.put(f'[{{"resource": "r{number}"}}]'.encode())

    pouring = threading.Thread(target=pour)
    pouring.start()
    assert recorder.wait(lambda me: me.active not in {None, A}), "changes arrive"
    assert subscription.close(timeout_s=10) is True
    applied = len(recorder.contents)
    assert not any(each.is_alive() for each in ours)
    stop.set()
    pouring.join()
    assert len(recorder.contents) == applied


def test_closing_while_apply_is_busy_is_bounded(world: Any, subscribe: Any) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(revision: Revision, restored: bool) -> Applied:
        began.set()
        go_on.wait(5)
        return Applied(Outcome.ACTIVATED, frozenset({"flow"}))

    world.put(A)
    subscription = subscribe(world.source, slow)
    assert began.wait(5)
    assert subscription.close(timeout_s=0.05) is False
    go_on.set()
    assert subscription.close(timeout_s=5) is True


def test_nothing_is_applied_after_close(world: Any, recorder: Any, subscribe: Any) -> None:
    world.put(A)
    subscription = subscribe(world.source, recorder)
    subscription.wait_ready(5)
    assert subscription.close() is True
    world.put(B)
    assert not recorder.wait(lambda me: me.active == B, timeout_s=0.1)


def test_versions_differ_when_contents_do(world: Any) -> None:
    item, versions = item_of(world.source), []
    for content in (A, B, A):
        world.put(content)
        reading = world.source.read(item)
        assert isinstance(reading, Revision)
        versions.append(reading.version)
    assert len(set(versions)) == 3


def test_the_source_of_items_and_revisions_is_one(world: Any) -> None:
    item = item_of(world.source)
    assert isinstance(world.source.read(item), Absent)
    world.put(A)
    reading = world.source.read(item)
    assert isinstance(reading, Revision)
    assert reading.source == item.source
    assert item.source.startswith("/default/")


def test_a_note_is_kept_beside_an_item_and_is_replaced_by_compare_and_set(
    world: Any, recorder: Any, subscribe: Any
) -> None:
    world.put(A)
    source, item = world.source, item_of(world.source)
    assert isinstance(world.source, HasNotes)
    subscribe(source, recorder).wait_ready(5)
    before = source.read(item)
    assert source.note(item, "quarantine") is None
    source.write_note(item, "quarantine", b'{"a": 1}', expected=None, why="first")
    assert source.note(item, "quarantine") == b'{"a": 1}'
    for wrong in (None, b"other"):
        with pytest.raises(SourceConflict, match="quarantine"):
            source.write_note(item, "quarantine", b'{"b": 1}', expected=wrong, why="raced")
    source.write_note(item, "quarantine", '{"促销": 2}'.encode(), expected=b'{"a": 1}', why="second")
    assert source.note(item, "quarantine") == '{"促销": 2}'.encode()
    assert source.note(item, "lock") is None
    assert source.read(item) == before, "no rules are read from it, and their version stays"
    world.put(B)
    recorder.wait_active(B)
    assert recorder.contents == [A, B]


def test_why_something_was_written_is_told_with_it_and_not_with_what_somebody_else_writes(
    world: Any, recorder: Any, subscribe: Any
) -> None:
    source, item = world.source, item_of(world.source)
    assert isinstance(world.source, Writable)
    world.put(A)
    subscribe(source, recorder).wait_ready(5)
    written = Provenance(channel="cli", environment="prod", reason="促销 (overruled: jump)", rollback_of="1")
    stands = source.read(item)
    source.write(item, [replace(stands.texts[0], content=B)], expected=stands.version, provenance=written)
    recorder.wait_active(B)
    world.put(C)
    recorder.wait_active(C)
    ours, theirs = (each.provenance for each in recorder.revisions[-2:])
    assert (ours.environment, ours.reason, ours.rollback_of) == ("prod", written.reason, "1")
    assert (theirs.environment, theirs.reason == written.reason, theirs.rollback_of) == (None, False, None)

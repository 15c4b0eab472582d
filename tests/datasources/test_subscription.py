"""The loop on its threads: channels that are lost, listeners, closing."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.datasources import (
    DatasourceError,
    FileSource,
    ItemStatus,
    MemorySource,
    SourceUnavailable,
    State,
    Subscription,
    SubscriptionOptions,
)

A, B = b'[{"resource": "a"}]', b'[{"resource": "b"}]'


@pytest.fixture
def source() -> MemorySource:
    return MemorySource()


def test_d01_a_watch_that_ends_is_set_up_again_and_misses_nothing(
    source: MemorySource, recorder: Any, subscribe: Any
) -> None:
    source.set("flow", A)
    subscription = subscribe(source, recorder)
    subscription.wait_ready(5)
    states: list[State] = []
    subscription.on_state(lambda status: states.append(status.state))
    for number in range(3):
        source.drop_watches()
        source.set("flow", content := f'[{{"resource": "r{number}"}}]'.encode())
        recorder.wait_active(content)
        assert subscription.wait_ready(5)
    assert State.STALE in states
    assert subscription.status()[0].counters.channel_losses == 3


def test_kinds_that_a_store_never_had_spoil_no_state(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    source.set("flow", A)
    subscription = subscribe(source, recorder, kinds=("flow", "degrade", "system"))
    assert subscription.wait_ready(5)
    assert [status.state for status in subscription.status()] == [State.READY, State.INIT, State.INIT]
    source.fail(SourceUnavailable("cut"))
    wait_for(subscription, lambda status: status.state is State.STALE)
    assert subscription.state is State.STALE, "an outage, and nothing for a person to do"
    source.recover()
    assert subscription.wait_ready(5)


def test_a_store_that_never_had_anything_is_waited_for(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    subscription = subscribe(source, recorder, kinds=("flow", "degrade"))
    assert not subscription.wait_ready(0.1)
    assert subscription.state is State.INIT
    source.set("degrade", b"[]")
    assert subscription.wait_ready(5)


@pytest.mark.parametrize("compare_s", [math.inf, 1e300])
def test_who_never_compares_is_told_by_the_watch_all_the_same(
    source: MemorySource, recorder: Any, subscribe: Any, compare_s: float
) -> None:
    subscribe(source, recorder, options=SubscriptionOptions(compare_s=compare_s))
    source.set("flow", A)
    recorder.wait_active(A)
    source.set("flow", B)
    recorder.wait_active(B)


def test_d02_after_an_outage_it_reads_before_it_watches(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    source.set("flow", A)
    subscription = subscribe(source, recorder)
    subscription.wait_ready(5)
    source.fail(SourceUnavailable("cut"))
    wait_for(subscription, lambda status: status.state is State.STALE)
    source.set("flow", B)
    source.recover()
    assert subscription.wait_ready(5)
    assert recorder.contents == [A, B]


def test_d01_a_deaf_watch_is_repaired_by_the_periodic_compare(recorder: Any, subscribe: Any) -> None:
    class Deaf(MemorySource):
        def watch(self, item: Any, seen: Any, wake: Any, stop: threading.Event) -> None:
            stop.wait()

    source = Deaf()
    source.set("flow", A)
    subscribe(source, recorder, options=SubscriptionOptions(compare_s=0.02)).wait_ready(5)
    source.set("flow", B)
    recorder.wait_active(B)


def test_a_watch_that_returns_at_once_does_not_spin(recorder: Any, subscribe: Any) -> None:
    class Hasty(MemorySource):
        watches = 0

        def watch(self, item: Any, seen: Any, wake: Any, stop: threading.Event) -> None:
            self.watches += 1

    source = Hasty()
    source.set("flow", A)
    subscription = subscribe(source, recorder, options=SubscriptionOptions(backoff_base_s=0.05, backoff_cap_s=0.1))
    recorder.wait_active(A)
    threading.Event().wait(0.2)
    assert source.watches <= 8
    assert "ended by itself" in str(subscription.status()[0].reason)


def test_d01_not_even_an_exit_in_apply_ends_the_loop(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    recorder.failures = [SystemExit(1)]
    source.set("flow", A)
    assert subscribe(source, recorder).wait_ready(5)
    assert recorder.contents == [A]


def test_a_misconfigured_source_is_watched_so_that_its_mending_is_seen(
    tmp_path: Path, recorder: Any, subscribe: Any
) -> None:
    (tmp_path / "flow.yaml").write_bytes(A)
    (tmp_path / "other.json").write_bytes(b"{}")
    subscription = subscribe(FileSource(tmp_path), recorder)
    wait_for(subscription, lambda status: status.state is State.ERROR)
    (tmp_path / "other.json").unlink()
    assert subscription.wait_ready(5)
    assert recorder.contents == [A]


def test_each_kind_of_a_keyed_store_is_followed_by_itself(source: MemorySource, recorder: Any) -> None:
    source.set("flow", A)
    subscription = Subscription(source, ["flow", "degrade"], recorder).start()
    try:
        recorder.wait_active(A)
        source.set("degrade", b"invalid")
        wait_for(subscription, lambda status: "refused" in str(status.reason), position=1)
        source.set("flow", B)
        recorder.wait_active(B)
        flow, degrade = subscription.status()
        assert (flow.key, flow.state) == ("sentinel-flow-rules", State.READY)
        assert (degrade.key, degrade.state) == ("sentinel-degrade-rules", State.ERROR)
        assert subscription.state is State.ERROR
    finally:
        subscription.close()


def test_refresh_goes_before_the_back_off(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    slow = SubscriptionOptions(backoff_base_s=60, backoff_cap_s=60, compare_s=60)
    source.fail(SourceUnavailable("down"))
    subscription = subscribe(source, recorder, options=slow)
    wait_for(subscription, lambda status: status.state is State.ERROR)
    source.set("flow", A)
    source.recover()
    assert subscription.refresh(5)
    assert recorder.contents == [A]


def test_refresh_on_the_worker_does_not_wait_for_itself(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    answers: list[bool] = []
    told = threading.Event()

    def listener(status: ItemStatus) -> None:
        answers.append(subscription.refresh(5))
        told.set()

    subscription = Subscription(source, ["flow"], recorder)
    subscription.on_state(listener)
    subscription.start()
    assert told.wait(2)
    subscription.close()
    assert answers[0] is False


def test_a_listener_may_close_its_own_subscription(source: MemorySource, recorder: Any) -> None:
    closed = threading.Event()
    subscription = Subscription(source, ["flow"], recorder)

    def close(_: ItemStatus) -> None:
        subscription.close()
        closed.set()

    subscription.on_state(close)
    subscription.start()
    assert closed.wait(5)
    assert subscription.close() is True


def test_a_removed_listener_is_not_called(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    called: list[ItemStatus] = []
    subscription = subscribe(source, recorder)
    subscription.on_state(called.append)()
    source.set("flow", A)
    assert subscription.wait_ready(5)
    assert called == []


def test_listeners_are_told_of_every_new_version(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    versions: list[str | None] = []
    subscription = subscribe(source, recorder)
    subscription.on_state(lambda status: versions.append(status.version))
    for content in (A, B):
        source.set("flow", content)
        assert subscription.refresh(5)
    assert versions[-2:] == ["1", "2"]


def test_closing_is_quick_and_can_be_repeated(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    source.set("flow", A)
    subscription = subscribe(source, recorder)
    subscription.wait_ready(5)
    assert subscription.close(timeout_s=1) is True
    assert subscription.close(timeout_s=0) is True


def test_closing_before_the_start_starts_nothing(source: MemorySource, recorder: Any) -> None:
    source.set("flow", A)
    subscription = Subscription(source, ["flow"], recorder)
    assert subscription.close() is True
    subscription.start()
    assert recorder.contents == []


def test_waiting_for_a_source_that_is_down_ends_in_time(source: MemorySource, recorder: Any, subscribe: Any) -> None:
    source.fail(DatasourceError("down"))
    assert subscribe(source, recorder).wait_ready(0.05) is False


def wait_for(subscription: Subscription, condition: Any, *, position: int = 0) -> None:
    changed = threading.Event()
    remove = subscription.on_state(lambda _: changed.set())
    while not condition(subscription.status()[position]):
        assert changed.wait(5), subscription.status()
        changed.clear()
    remove()

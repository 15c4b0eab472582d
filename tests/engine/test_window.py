"""The sliding window against a model that keeps every request."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import Engine, Statistics
from sentinel_core.clock import MS, SECOND
from sentinel_core.node import Node
from sentinel_core.section import is_compiled
from sentinel_core.testing import FakeClock
from sentinel_core.window import Window

steps = st.lists(
    st.tuples(st.integers(0, 2_500), st.integers(1, 3), st.sampled_from(["pass", "block", "leave", "fail"])),
    max_size=60,
)
shapes = st.sampled_from([(500, 2), (1000, 1), (100, 10), (500, 4), (250, 4)])


@dataclass
class Call:
    at: int
    count: int
    what: str


def kept(calls: list[Call], now: int, length: int, size: int) -> list[Call]:
    """What a window of aligned buckets still holds at `now`."""
    first = now - now % length - (size - 1) * length
    return [call for call in calls if call.at >= first]


def total(calls: list[Call], *what: str) -> int:
    return sum(call.count for call in calls if call.what in what)


@given(steps, shapes)
def test_a_node_counts_what_the_model_counts(taken: list[tuple[int, int, str]], shape: tuple[int, int]) -> None:
    length, size = shape[0] * MS, shape[1]
    node = Node(length, size, minute=True)
    calls: list[Call] = []
    now = 0
    for wait, count, what in taken:
        now += wait * MS
        calls.append(Call(now, count, what))
        if what == "pass":
            node.enter(now, count)
        elif what == "block":
            node.block(now, count)
        else:
            node.leave(now, count, wait * MS, failed=what == "fail")
        node.roll(now)
        held = kept(calls, now, length, size)
        assert node.pass_sum() == total(held, "pass")
        assert node.base_blocked + node.blocked == total(held, "block")
        assert node.base_success + node.success == total(held, "leave", "fail")
        assert node.base_errors + node.errors == total(held, "fail")
        minute = node.last_minute(now)
        recent = [call for call in calls if call.at >= now - now % SECOND - 59 * SECOND]
        assert (minute.passed, minute.blocked) == (total(recent, "pass"), total(recent, "block"))
        before = node.previous_second(now)
        last = [call for call in calls if call.at // SECOND == now // SECOND - 1]
        assert (before.passed if before else 0) == total(last, "pass")


@given(st.lists(st.tuples(st.integers(0, 700), st.booleans()), max_size=40))
def test_shortest_and_mean_response_time(taken: list[tuple[int, bool]]) -> None:
    node = Node(500 * MS, 2, minute=False)
    calls: list[tuple[int, int]] = []
    now = 0
    for wait, long in taken:
        now += wait * MS
        rt = (wait + 1) * MS * (20 if long else 1)
        node.leave(now, 1, rt, failed=False)
        calls.append((now, rt))
        held = [rt for at, rt in calls if at >= now - now % (500 * MS) - 500 * MS]
        assert node.shortest_rt(5 * SECOND) == min([*held, 5 * SECOND])
        assert node.average_rt() == sum(held) // len(held)


@given(st.lists(st.integers(0, 1999), min_size=1, max_size=200), st.integers(1, 20))
def test_twice_the_limit_at_most_in_any_second(instants: list[int], limit: int) -> None:
    """E01: the documented bound of two buckets, which greedy callers reach and never pass."""
    window = Window()
    passed = []
    for instant in sorted(instants):
        now = instant * MS
        window.roll(now)
        if window.pass_sum() + 1 <= limit:
            window.passed += 1
            passed.append(instant)
    assert all(sum(start <= instant < start + 1000 for instant in passed) <= 2 * limit for start in passed)


@given(st.lists(st.integers(-50, 600), max_size=30))
def test_a_clock_that_repeats_or_shrinks_keeps_every_count(moves: list[int]) -> None:
    """E14: nothing crashes, nothing vanishes within the bucket, nothing becomes negative."""
    node = Node(500 * MS, 2, minute=False)
    now = SECOND
    for move in moves:
        now = max(now + move * MS, 0)
        before = node.end
        node.enter(now, 1)
        assert node.end >= before
        assert node.passed >= 1
        assert node.pass_sum() >= node.passed


@given(st.integers(0, 499), st.integers(1, 5))
def test_borrowed_requests_are_paid_once(offset: int, count: int) -> None:
    node = Node(500 * MS, 2, minute=True)
    now = 10 * SECOND + offset * MS
    node.roll(now)
    node.borrow(now, 500 * MS - offset * MS, count)
    assert node.borrowed_ahead(now) == count
    later = 10 * SECOND + 500 * MS
    node.roll(later)
    assert (node.pass_sum(), node.borrowed_ahead(later)) == (count, 0)
    node.roll(later + 2 * SECOND)
    assert node.pass_sum() == 0
    assert node.last_minute(later + 2 * SECOND).passed == count


@given(st.lists(st.integers(0, 2999), min_size=1, max_size=200), st.integers(1, 20), st.sampled_from([2, 10]))
def test_precise_statistics_admit_no_more_than_the_limit_in_any_second(
    instants: list[int], limit: int, buckets: int
) -> None:
    """E01: with `Statistics(precise=True)`."""
    clock = FakeClock()
    engine = Engine(clock=clock, statistics=Statistics(precise=True, sample_count=buckets))
    engine.load_rules("flow", [{"resource": "r", "grade": 1, "count": limit}])
    passed = []
    for instant in sorted(instants):
        clock.now_ns = instant * MS
        if engine.try_entry("r"):
            passed.append(instant)
    assert all(sum(start <= instant < start + 1000 for instant in passed) <= limit for start in passed)


@pytest.mark.skipif(is_compiled(), reason="compiled, nothing comes in between")
@pytest.mark.parametrize("later", [0, 1, 2, 7], ids=lambda later: f"{later}-buckets-later")
@pytest.mark.parametrize("shape", [(500, 2), (1000, 1), (100, 10)], ids=str)
def test_whoever_interrupts_a_roll_and_counts_is_counted_once(shape: tuple[int, int], later: int) -> None:
    length, size = shape[0] * MS, shape[1]
    for point in itertools.count():
        node = Node(length, size, minute=True)
        node.enter(0, 3)
        node.borrow(0, length, 1)
        now = length + 1
        met = interrupt(lambda: node.enter(now + later * length, 5), point, lambda: node.enter(now, 7))  # noqa: B023
        counted = 3 + 1 + 7 + (5 if met else 0)
        assert node.lifetime().passed == counted, f"at point {point}"
        assert node.last_minute(now + later * length).passed == counted, f"at point {point}"
        if later == 0 and size > 1:
            assert node.pass_sum() == counted, f"at point {point}"
        if not met:
            assert point > 4
            return


def interrupt(handler: Callable[[], None], point: int, call: Callable[[], None]) -> bool:
    """Calls, and lets the handler run where the call begins its `point`-th function: there CPython lets signal handlers
    in. Whether there were so many."""
    left = [point]

    def trace(_frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            left[0] -= 1
            if left[0] == -1:
                sys.settrace(None)
                handler()
                sys.settrace(trace)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return left[0] < 0

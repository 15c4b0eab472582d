"""Whether the wall clock was set is told against the clock that nobody sets."""

from __future__ import annotations

import pytest

from sentinel_core.clock import SECOND, Clock
from sentinel_core.clock_watch import MOST_STEPS, ClockWatch
from sentinel_core.testing import FakeClock


def test_time_that_passes_is_no_step(clock: FakeClock) -> None:
    watch = ClockWatch(clock)
    clock.advance(ms=7_200_000)
    assert watch.look() == {"count": 0, "steps": [], "offsetSeconds": 0.0}


@pytest.mark.parametrize(("seconds", "count"), [(0.4, 0), (0.6, 1), (-0.6, 1), (-3600, 1)])
def test_a_step_is_told_with_its_size_and_a_slew_is_not(clock: FakeClock, seconds: float, count: int) -> None:
    watch = ClockWatch(clock)
    clock.advance(ms=2000)
    clock.step_wall(seconds)
    told = watch.look()
    assert (told["count"], told["offsetSeconds"]) == (count, seconds)
    assert [each["seconds"] for each in told["steps"]] == [seconds] * count
    assert [each["at"] for each in told["steps"]] == [clock.wall().isoformat(timespec="milliseconds")] * count
    assert watch.look()["count"] == count


def test_all_steps_are_counted_and_the_last_ones_told(clock: FakeClock) -> None:
    watch = ClockWatch(clock)
    for number in range(1, MOST_STEPS + 3):
        clock.step_wall(number)
        told = watch.look()
    assert (told["count"], len(told["steps"]), told["steps"][-1]["seconds"]) == (MOST_STEPS + 2, MOST_STEPS, 12)


def test_a_look_that_took_too_long_says_nothing() -> None:
    """A thread that was not run between its two readings sees a step where there is none."""
    readings = iter([0, 0, 0, 5 * SECOND, 5 * SECOND, 5 * SECOND])
    quiet = FakeClock()
    watch = ClockWatch(Clock(lambda: next(readings), quiet.wall))
    quiet.advance(ms=0)
    assert watch.look()["count"] == 0
    quiet.advance(ms=5000)
    assert watch.look()["count"] == 0

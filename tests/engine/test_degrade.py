"""Circuit breakers: when they open, who may try, whose result counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sentinel_core import Blocked, DegradeException, Engine, Entry
from sentinel_core.entry import Waiting
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]


def rule(**fields: object) -> list[dict[str, object]]:
    return [{"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 10, "minRequestAmount": 2, **fields}]


def state(engine: Engine, place: int = 0) -> str:
    return str(engine.breakers("r")[place]["state"])


def test_an_error_ratio_of_one_opens_after_five_failures(engine: Engine, fails: Calls) -> None:
    """P19"""
    engine.load_rules("degrade", rule(count=1.0, minRequestAmount=5))
    assert fails(9, "r") == 5
    assert state(engine) == "OPEN"


@pytest.mark.parametrize(
    ("fields", "bad_of_ten", "opens"),
    [
        ({"grade": 1, "count": 0.5}, 5, False),
        ({"grade": 1, "count": 0.5}, 6, True),
        ({"grade": 2, "count": 5}, 5, False),
        ({"grade": 2, "count": 5}, 6, True),
        ({"grade": 0, "count": 20, "slowRatioThreshold": 0.5}, 5, False),
        ({"grade": 0, "count": 20, "slowRatioThreshold": 0.5}, 6, True),
        ({"grade": 0, "count": 20, "slowRatioThreshold": 1.0}, 10, True),
    ],
)
def test_greater_opens_and_equal_does_not(
    engine: Engine, clock: FakeClock, fields: dict[str, object], bad_of_ten: int, opens: bool
) -> None:
    """P19: for every grade; a ratio of 1.0, which cannot be exceeded, opens when it is reached."""
    engine.load_rules("degrade", rule(**fields, minRequestAmount=10))
    entries = [engine.entry("r") for _ in range(10)]
    for entry in entries[bad_of_ten:]:
        entry.exit()
    clock.advance(ms=21)
    for entry in entries[:bad_of_ten]:
        entry.trace(ValueError("bad"))
        entry.exit()
    assert (state(engine) == "OPEN") is opens


def test_one_probe_passes_and_closes(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    engine.load_rules("degrade", rule())
    fails(2, "r")
    with pytest.raises(DegradeException) as caught:
        engine.entry("r")
    assert caught.value.retry_after == 10_000
    clock.advance(ms=10_000)
    probe = engine.entry("r")
    assert not engine.try_entry("r"), "one probe at a time"
    probe.exit()
    assert state(engine) == "CLOSED"
    assert engine.try_entry("r")


def test_a_failing_probe_opens_again(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    engine.load_rules("degrade", rule())
    fails(2, "r")
    clock.advance(ms=10_000)
    assert fails(5, "r") == 1
    assert state(engine) == "OPEN"
    clock.advance(ms=9_999)
    assert not engine.try_entry("r")


@pytest.mark.parametrize("failing", [True, False])
def test_a_result_of_an_older_era_decides_nothing(
    engine: Engine, clock: FakeClock, fails: Calls, failing: bool
) -> None:
    """E07: a call from before the opening ends while another one probes."""
    engine.load_rules("degrade", rule())
    old = engine.entry("r")
    fails(2, "r")
    clock.advance(ms=10_000)
    probe = engine.entry("r")
    if failing:
        old.trace(TimeoutError())
    old.exit()
    assert state(engine) == "HALF_OPEN"
    probe.exit()
    assert state(engine) == "CLOSED"


def test_a_probe_blocked_by_another_breaker_comes_back(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    """E04: the first breaker asks again after another whole turn, and does not stay half open."""
    engine.load_rules("degrade", [*rule(), *rule(timeWindow=20)])
    fails(2, "r")
    clock.advance(ms=11_000)
    assert not engine.try_entry("r")
    assert [state(engine, 0), state(engine, 1)] == ["OPEN", "OPEN"]
    clock.advance(ms=10_000)
    probe = engine.entry("r")
    probe.exit()
    assert [state(engine, 0), state(engine, 1)] == ["CLOSED", "CLOSED"]


def test_a_probe_blocked_by_a_parameter_rule_comes_back(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    engine.load_rules("degrade", rule())
    fails(2, "r")
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 0}])
    clock.advance(ms=10_000)
    assert not engine.try_entry("r", args=("hot",))
    assert state(engine) == "OPEN"


def test_equal_breakers_are_one(engine: Engine) -> None:
    """E04"""
    engine.load_rules("degrade", rule() * 2)
    assert len(engine.breakers("r")) == 1


def test_a_cancelled_probe_says_nothing(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    engine.load_rules("degrade", rule())
    fails(2, "r")
    clock.advance(ms=10_000)
    with pytest.raises(KeyboardInterrupt), engine.entry("r"):
        raise KeyboardInterrupt
    assert state(engine) == "OPEN"
    assert engine.try_entry("r"), "the next call may try at once"


def test_a_lost_probe_is_replaced(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    """A probe that never ends does not hold the breaker half open for ever."""
    engine.load_rules("degrade", rule())
    fails(2, "r")
    clock.advance(ms=10_000)
    lost = engine.entry("r")
    clock.advance(ms=9_999)
    assert not engine.try_entry("r")
    clock.advance(ms=1)
    assert engine.try_entry("r")
    lost.exit()
    assert state(engine) == "CLOSED", "whichever probe returns first decides"


def test_blocks_are_no_failures(engine: Engine, passes: Calls) -> None:
    engine.load_rules("degrade", rule())
    engine.load_rules("flow", [{"resource": "inner", "grade": 1, "count": 0}])
    for _ in range(5):
        blocked = engine.try_entry("inner")
        assert isinstance(blocked, Blocked)
        entry = engine.entry("r")
        entry.trace(blocked.exception())
        entry.exit()
    assert state(engine) == "CLOSED"


def test_moves_are_told_outside_the_lock(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    """D05, E21: a listener may call the engine; one that raises changes nothing."""
    told: list[tuple[str, str, float | None]] = []

    def listen(transition: object) -> None:
        told.append((transition.before, transition.after, transition.value))  # type: ignore[attr-defined]  # a Transition
        engine.try_entry("other")
        raise RuntimeError("listener")

    engine.load_rules("degrade", rule())
    remove = engine.on_breaker(listen)
    fails(2, "r")
    clock.advance(ms=10_000)
    fails(1, "r")
    assert told == [("CLOSED", "OPEN", 1.0), ("OPEN", "HALF_OPEN", None), ("HALF_OPEN", "OPEN", 1.0)]
    assert engine.status()["internalErrors"]["count"] == 3
    remove()
    clock.advance(ms=10_000)
    fails(1, "r")
    assert len(told) == 3


def test_compat_restores_java(clock: FakeClock) -> None:
    """P19, E07: the original never opens at a ratio of 1.0 and lets any completion decide."""
    engine = Engine(clock=clock, compat="sentinel-1.8.9")
    engine.load_rules("degrade", rule(count=1.0))
    for _ in range(9):
        entry = engine.try_entry("r")
        assert isinstance(entry, Entry)
        entry.trace(ValueError())
        entry.exit()
    assert state(engine) == "CLOSED"


CALL = ("r", "", "", ("x",), 1, False, False)


def queued(engine: Engine, calls: int) -> list[Waiting]:
    """Calls that wait behind the breaker, in the queue of a parameter rule."""
    queue = {"resource": "r", "paramIdx": 0, "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 60_000}
    engine.load_rules("param_flow", [queue])
    outcomes = [engine.core.begin(*CALL) for _ in range(calls + 1)]
    first, *waiting = outcomes
    assert isinstance(first, Entry)
    first.trace(TimeoutError())
    first.exit()
    return [each for each in waiting if isinstance(each, Waiting)]


def test_a_call_that_queued_while_the_breaker_opened_is_refused(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("degrade", rule(grade=2, count=0, minRequestAmount=1))
    waiting = queued(engine, 3)
    assert state(engine) == "OPEN"
    clock.advance(3000)
    outcomes = [engine.core.resume(each) for each in waiting]
    assert [outcome.kind for outcome in outcomes if isinstance(outcome, Blocked)] == ["degrade"] * 3


def test_a_call_that_queued_until_the_open_time_is_over_is_the_probe(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("degrade", rule(grade=2, count=0, minRequestAmount=1, timeWindow=2))
    first, second = queued(engine, 2)
    clock.advance(2000)
    probe = engine.core.resume(first)
    assert isinstance(probe, Entry)
    assert probe.probing
    assert isinstance(engine.core.resume(second), Blocked)
    probe.exit()
    assert state(engine) == "CLOSED"


def test_a_probe_that_queues_is_not_asked_for_its_own_permit(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("degrade", rule(grade=2, count=0, minRequestAmount=1, timeWindow=1))
    (_, last) = queued(engine, 2)
    clock.advance(1000)
    probe = engine.core.begin(*CALL)
    assert isinstance(probe, Waiting)
    assert state(engine) == "HALF_OPEN"
    assert isinstance(engine.core.resume(last), Blocked)
    entry = engine.core.resume(probe)
    assert isinstance(entry, Entry)
    assert entry.probing

"""Progressive recovery of breakers: one probe, then two cycles of several, all of them good."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sentinel_core import Engine, Entry, guard
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]
RULE = {"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 10, "minRequestAmount": 2, "recovery": "progressive"}


def flow(count: float, **fields: object) -> list[dict[str, object]]:
    return [{"resource": "r", "grade": 1, "count": count, **fields}]


def state(engine: Engine) -> str:
    return str(engine.breakers("r")[0]["state"])


def let_in(engine: Engine, calls: int) -> list[Entry]:
    """The entries of those of `calls` simultaneous calls that were let in."""
    return [entry for entry in (engine.try_entry("r") for _ in range(calls)) if isinstance(entry, Entry)]


def end(entries: list[Entry]) -> None:
    for entry in entries:
        entry.exit()


@pytest.fixture
def opened(engine: Engine, clock: FakeClock, fails: Calls) -> Engine:
    """An engine whose breaker has just reached the end of its open time."""
    engine.load_rules("degrade", [RULE])
    assert fails(2, "r") == 2
    assert state(engine) == "OPEN"
    clock.advance(ms=10_000)
    return engine


@pytest.mark.parametrize(
    ("rules", "permits"),
    [
        ([], 5),
        (flow(30), 3),
        (flow(39), 3),
        (flow(1000), 5),
        (flow(2), 1),
        (flow(30) + flow(20), 2),
        (flow(20, limitApp="web") + flow(40), 4),
        (flow(20, strategy=1, refResource="db"), 5),
        (flow(20, grade=0), 5),
        (flow(20, mode="shadow") + flow(30), 3),
    ],
)
def test_a_tenth_of_the_flow_threshold_passes_in_the_second_cycle(
    opened: Engine, rules: list[dict[str, object]], permits: int
) -> None:
    opened.load_rules("flow", rules)
    end(let_in(opened, 1))
    assert len(let_in(opened, 20)) == permits


def test_three_good_cycles_close(opened: Engine) -> None:
    for size in (1, 5, 5):
        assert state(opened) != "CLOSED"
        entries = let_in(opened, 20)
        assert len(entries) == size
        end(entries)
    assert state(opened) == "CLOSED"
    assert len(let_in(opened, 20)) == 20


def test_a_cycle_needs_every_call_of_it(opened: Engine) -> None:
    """E06: one success of several is not enough."""
    end(let_in(opened, 1))
    first, *rest = let_in(opened, 20)
    first.exit()
    assert let_in(opened, 20) == []
    end(rest)
    assert len(let_in(opened, 20)) == 5


@pytest.mark.parametrize("good_cycles", [0, 1, 2])
def test_one_bad_call_in_any_cycle_opens_for_another_turn(opened: Engine, clock: FakeClock, good_cycles: int) -> None:
    for _ in range(good_cycles):
        end(let_in(opened, 20))
    *good, bad = let_in(opened, 20)
    end(good)
    bad.trace(TimeoutError())
    bad.exit()
    assert state(opened) == "OPEN"
    clock.advance(ms=9_999)
    assert let_in(opened, 20) == []
    clock.advance(ms=1)
    assert len(let_in(opened, 20)) == 1, "and recovery begins anew"


def test_slow_is_bad_too(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("degrade", [{**RULE, "grade": 0, "count": 100, "slowRatioThreshold": 0.5}])
    entries = let_in(engine, 2)
    clock.advance(ms=200)
    end(entries)
    clock.advance(ms=10_000)
    end(let_in(engine, 1))
    assert engine.breakers("r")[0]["cycle"] == 2
    entries = let_in(engine, 5)
    clock.advance(ms=101)
    end(entries[:1])
    assert state(engine) == "OPEN"


def test_slow_traffic_is_not_refused_while_it_recovers(opened: Engine, clock: FakeClock) -> None:
    """A cycle has no length in time: who comes alone passes."""
    for _ in range(1 + 5 + 5):
        end(let_in(opened, 1))
        clock.advance(ms=60_000)
    assert state(opened) == "CLOSED"


def test_simultaneous_calls_never_exceed_the_permits(opened: Engine) -> None:
    """E06: a hundred threads at the deadline, in every cycle."""
    for size in (1, 5, 5):
        let: list[Entry] = []
        barrier = threading.Barrier(100)

        def call(let: list[Entry] = let, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            outcome = opened.try_entry("r")
            if isinstance(outcome, Entry):
                let.append(outcome)

        threads = [threading.Thread(target=call) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(let) == size
        end(let)
    assert state(opened) == "CLOSED"


def test_a_permit_of_a_call_that_a_later_rule_refuses_comes_back(opened: Engine) -> None:
    opened.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 0}])
    end(let_in(opened, 1))
    assert not any(opened.try_entry("r", args=("hot",)) for _ in range(50))
    assert len(let_in(opened, 20)) == 5


def test_the_first_probe_that_a_later_rule_refuses_waits_another_turn(opened: Engine, clock: FakeClock) -> None:
    """E04: as with a single probe."""
    opened.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 0}])
    assert not opened.try_entry("r", args=("hot",))
    assert state(opened) == "OPEN"
    assert let_in(opened, 20) == []
    clock.advance(ms=10_000)
    assert len(let_in(opened, 20)) == 1


def test_a_permit_of_a_cancelled_call_comes_back(opened: Engine) -> None:
    end(let_in(opened, 1))
    for _ in range(50):
        with pytest.raises(KeyboardInterrupt), opened.entry("r"):
            raise KeyboardInterrupt
    assert len(let_in(opened, 20)) == 5


def test_a_permit_of_an_ignored_exception_comes_back(opened: Engine) -> None:
    @guard("r", engine=opened, ignore=(LookupError,))
    def find() -> None:
        raise LookupError

    for _ in range(50):
        with pytest.raises(LookupError):
            find()
    assert state(opened) == "OPEN", "the first probe decided nothing, so the next call may try"
    end(let_in(opened, 1))
    for _ in range(50):
        with pytest.raises(LookupError):
            find()
    assert len(let_in(opened, 20)) == 5


def test_lost_permits_are_given_out_again(opened: Engine, clock: FakeClock) -> None:
    end(let_in(opened, 1))
    good, *lost = let_in(opened, 5)
    good.exit()
    clock.advance(ms=9_999)
    assert let_in(opened, 20) == []
    clock.advance(ms=1)
    again = let_in(opened, 20)
    assert len(again) == 4, "the one that came back is not asked again"
    end(again)
    assert opened.breakers("r")[0]["cycle"] == 3
    end(lost)
    assert opened.breakers("r")[0]["good"] == 0, "calls of an earlier cycle say nothing about this one"


def test_a_lost_first_probe_is_replaced(opened: Engine, clock: FakeClock) -> None:
    assert len(let_in(opened, 20)) == 1
    clock.advance(ms=10_000)
    assert len(let_in(opened, 20)) == 1


def test_a_call_from_before_the_opening_decides_nothing(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    """E07"""
    engine.load_rules("degrade", [RULE])
    old = engine.entry("r")
    fails(2, "r")
    clock.advance(ms=10_000)
    (probe,) = let_in(engine, 20)
    old.exit()
    assert engine.breakers("r")[0]["cycle"] == 1
    probe.exit()
    assert engine.breakers("r")[0]["cycle"] == 2


def test_cycles_go_on_across_a_change_of_other_rules(opened: Engine) -> None:
    """A new flow threshold counts from the next cycle on."""
    end(let_in(opened, 1))
    entries = let_in(opened, 20)
    opened.load_rules("flow", flow(20))
    end(entries)
    assert len(let_in(opened, 20)) == 2


def test_it_works_under_compat_too(clock: FakeClock) -> None:
    """Java does not know the field; whoever writes it means it."""
    engine = Engine(clock=clock, compat="sentinel-1.8.9")
    engine.load_rules("degrade", [RULE])
    for entry in let_in(engine, 2):
        entry.trace(ValueError())
        entry.exit()
    clock.advance(ms=10_000)
    for size in (1, 5, 5):
        entries = let_in(engine, 20)
        assert len(entries) == size
        end(entries)
    assert state(engine) == "CLOSED"

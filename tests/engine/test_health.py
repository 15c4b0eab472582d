"""Relate rules that first ask whether the related resource is really unwell."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from sentinel_core import Engine
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]


def relate(**fields: object) -> list[dict[str, object]]:
    return [{"resource": "order", "grade": 1, "count": 3, "strategy": 1, "refResource": "payment", **fields}]


def slow(engine: Engine, clock: FakeClock, ms: int, calls: int = 5) -> None:
    """Calls of the related resource that take `ms` together."""
    entries = [engine.entry("payment") for _ in range(calls)]
    clock.advance(ms=ms)
    for entry in entries:
        entry.exit()


def answer(engine: Engine, well: bool) -> None:
    engine.health.register("payment", lambda: well, thread=False)
    engine.health.refresh()


def test_without_a_check_the_traffic_alone_decides(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", relate())
    assert passes(5, "payment") == 5
    assert passes(5, "order") == 0


@pytest.mark.parametrize(("well", "passing"), [(True, 5), (False, 0)])
def test_a_check_has_the_say(engine: Engine, passes: Calls, well: bool, passing: int) -> None:
    engine.load_rules("flow", relate())
    passes(5, "payment")
    answer(engine, well)
    assert passes(5, "order") == passing


def test_an_unwell_resource_without_traffic_limits_nothing(engine: Engine, passes: Calls) -> None:
    """The count still has to be passed."""
    engine.load_rules("flow", relate())
    passes(1, "payment")
    answer(engine, well=False)
    assert passes(5, "order") == 5


@pytest.mark.parametrize("grade", [0, 1])
def test_a_slow_related_resource_is_unwell(engine: Engine, clock: FakeClock, passes: Calls, grade: int) -> None:
    engine.load_rules("flow", relate(refUnhealthyRtMs=100, grade=grade, count=0))
    slow(engine, clock, 100)
    assert passes(2, "order") == 2
    slow(engine, clock, 150)
    assert passes(2, "order") == 0


def test_a_related_resource_that_answers_nobody_is_not_known_to_be_well(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", relate(refUnhealthyRtMs=100))
    for _ in range(5):
        engine.entry("payment")
    assert passes(2, "order") == 0


@pytest.mark.parametrize(("well", "ms", "passing"), [(True, 50, 2), (True, 150, 0), (False, 50, 0)])
def test_one_sign_of_trouble_is_enough(
    engine: Engine, clock: FakeClock, passes: Calls, well: bool, ms: int, passing: int
) -> None:
    engine.load_rules("flow", relate(refUnhealthyRtMs=100))
    answer(engine, well)
    slow(engine, clock, ms)
    assert passes(2, "order") == passing


def test_a_check_that_raises_has_no_say_and_is_told_once(
    engine: Engine, passes: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    def check() -> bool:
        raise OSError("no route")

    engine.load_rules("flow", relate())
    passes(5, "payment")
    answer(engine, well=True)
    engine.health.register("payment", check, thread=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            engine.health.refresh()
    assert engine.collectors.failures == 5
    assert [record.getMessage() for record in caplog.records] == ["collector of health failed: OSError: no route"]
    assert passes(5, "order") == 0


def test_an_old_answer_has_no_say(engine: Engine, clock: FakeClock, passes: Calls) -> None:
    engine.load_rules("flow", relate())
    answer(engine, well=True)
    clock.advance(ms=2_999)
    passes(5, "payment")
    assert passes(1, "order") == 1
    clock.advance(ms=1)
    assert passes(1, "order") == 0


def test_a_check_that_is_removed_has_no_say(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", relate())
    passes(5, "payment")
    answer(engine, well=True)
    engine.health.remove("payment")
    assert passes(1, "order") == 0


def test_checks_run_on_their_own_thread() -> None:
    with Engine() as engine:
        engine.health.register("payment", lambda: False, every_s=0.01)
        engine.load_rules("flow", relate())
        for _ in range(5):
            engine.entry("payment").exit()
        for _ in range(500):
            if "payment" in engine.health.verdicts:
                break
            engine.clock.sleep(2_000_000)
        assert not engine.health.verdicts["payment"].well

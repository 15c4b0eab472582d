"""What an engine tells of its traffic, from what is counted anyway; telling changes nothing."""

from __future__ import annotations

import os
from typing import Any

import pytest

from sentinel_core import Engine, context
from sentinel_core.testing import FakeClock
from sentinel_core.traffic import MOST_OTHERS, MOST_PARTS, MOST_RULED, Traffic

FLOW = {"resource": "a", "grade": 1, "count": 2}


@pytest.fixture
def engine(clock: FakeClock) -> Engine:
    return Engine(clock=clock)


def call(engine: Engine, resource: str, number: int = 1, **said: Any) -> None:
    for _ in range(number):
        if entry := engine.try_entry(resource, **said):
            entry.exit()  # type: ignore[union-attr]  # a Blocked is falsy


def resources(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["resource"]: each for each in told["resources"]}


def test_calls_are_told_with_who_refused_them_and_since_when_there_are_none(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("flow", [FLOW])
    traffic = Traffic(engine)
    call(engine, "a", 5)
    call(engine, "b")
    told = resources(traffic.tell())
    assert (told["a"]["passed"], told["a"]["blocked"], told["a"]["blockedBy"]) == (2, 3, {"flow": 3})
    assert (told["b"]["passed"], told["b"]["silentSeconds"], "rules" in told["b"]) == (1, 0, False)
    assert [each["rule"] for each in told["a"]["rules"]] == ["flow/a/default"]
    clock.advance(ms=30_000)
    call(engine, "b")
    told = resources(traffic.tell())
    assert (told["a"]["silentSeconds"], told["b"]["silentSeconds"]) == (30, 0)


def test_lately_is_the_last_one_to_two_minutes(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("flow", [FLOW])
    traffic = Traffic(engine)
    seen: list[tuple[float, int]] = []
    for _ in range(100):  # a call every two seconds, and two of them refused at first
        call(engine, "a", 4 if not seen else 1)
        told = traffic.tell()
        seen.append((told["lately"], resources(told)["a"]["lately"]["passed"]))
        clock.advance(ms=2000)
    assert all(0 <= span <= 122 for span, _ in seen)
    assert all(abs(passed - span / 2) <= 2 for span, passed in seen)
    assert resources(told)["a"]["lately"]["blockedBy"] == {}
    assert resources(told)["a"]["blockedBy"] == {"flow": 2}


def test_callers_and_contexts_are_told_where_a_rule_asks(engine: Engine) -> None:
    traffic = Traffic(engine)
    call(engine, "a", 4)
    assert "origins" not in resources(traffic.tell())["a"]
    engine.load_rules("flow", [{**FLOW, "limitApp": "web", "strategy": 2, "refResource": "api"}])
    call(engine, "a", 3)
    call(engine, "a", 2, origin="app")
    with context("api"):
        call(engine, "a")
    told = resources(traffic.tell())["a"]
    counted = [{"name": "app", "calls": 2}, {"name": "web", "calls": 0}]
    assert told["origins"] == {"calls": counted, "beyond": 0, "without": 4}
    assert told["contexts"]["calls"] == [{"name": "sentinel_default_context", "calls": 5}, {"name": "api", "calls": 1}]


def test_the_busiest_are_told_and_the_rest_counted(engine: Engine) -> None:
    engine.load_rules("flow", [{**FLOW, "resource": f"r{number}"} for number in range(MOST_RULED + 5)])
    for number in range(MOST_RULED + 5):
        call(engine, f"r{number}", 1 if number < 5 else 2)
    for number in range(MOST_OTHERS + 7):
        call(engine, f"s{number}")
    told = Traffic(engine).tell()
    assert (len(told["resources"]), told["beyond"]) == (MOST_RULED + MOST_OTHERS, 12)
    assert not {f"r{number}" for number in range(5)} & resources(told).keys()


def test_the_callers_that_are_told_are_bounded(engine: Engine) -> None:
    engine.load_rules("flow", [{**FLOW, "limitApp": "other"}])
    for number in range(MOST_PARTS + 9):
        call(engine, "a", origin=f"app-{number}")
    told = resources(Traffic(engine).tell())["a"]["origins"]
    assert (len(told["calls"]), told["beyond"]) == (MOST_PARTS, 9)


@pytest.mark.parametrize(
    "rule",
    [
        {**FLOW, "count": 10, "controlBehavior": 1, "warmUpPeriodSec": 10},
        {**FLOW, "count": 10, "controlBehavior": 3, "warmUpPeriodSec": 10, "maxQueueingTimeMs": 300},
        {**FLOW, "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 300},
    ],
)
def test_telling_changes_no_decision(rule: dict[str, Any]) -> None:
    """A warm-up is looked at by moving it on and back again."""

    def decisions(*, told: bool) -> list[bool]:
        clock = FakeClock(start_ms=5_000)
        engine = Engine(clock=clock)
        engine.load_rules("flow", [rule])
        traffic = Traffic(engine)
        found = []
        for step in range(600):
            if told:
                traffic.tell()
            entry = engine.try_entry("a")
            found.append(bool(entry))
            if entry:
                entry.exit()  # type: ignore[union-attr]  # a Blocked is falsy
            clock.advance(ms=4000 if step == 300 else 37)
        return found

    assert decisions(told=True) == decisions(told=False)


def test_how_long_a_warm_up_takes_is_told_and_true(clock: FakeClock) -> None:
    """With as much traffic as may pass, the limit is whole after the time that was told; once a second it moves."""
    engine = Engine(clock=clock)
    engine.load_rules("flow", [{**FLOW, "count": 100, "controlBehavior": 1, "warmUpPeriodSec": 20}])

    def live() -> dict[str, Any]:
        told: dict[str, Any] = engine.explain("a")[2]["rules"][0]["live"]
        return told

    assert (live()["warmUp"], round(live()["allowed"]), live()["fullInMs"]) == ("cold", 33, 20_000)
    began = clock.now_ns
    while live()["warmUp"] != "warm":
        call(engine, "a", 12)
        clock.advance(ms=100)
        assert clock.now_ns - began < 30e9
    assert (clock.now_ns - began) / 1e9 == pytest.approx(20, abs=2.5)
    assert live()["fullInMs"] == 0


def test_a_forked_child_tells_of_its_own_calls(engine: Engine, tmp_path: Any) -> None:
    from sentinel_core.status_file import StatusFile, read

    call(engine, "a", 7)
    status = StatusFile(engine, tmp_path, every_s=0)
    status.flush()
    child = os.fork()
    if child == 0:
        try:
            engine.status()
            call(engine, "a")
            status.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    (told,) = [each.document["traffic"] for each in read(tmp_path) if each.document["pid"] == child]
    assert [(each["resource"], each["passed"], each["lately"]["passed"]) for each in told["resources"]] == [("a", 1, 1)]

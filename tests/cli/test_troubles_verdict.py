"""What a call would meet now, told from what rules stand at in a real engine, and true of the call that comes then."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel_core import Engine
from sentinel_core.cli.troubles.verdict import next_call
from sentinel_core.entry import Entry
from sentinel_core.testing import FakeClock
from sentinel_core.traffic import Traffic

FLOW = {"resource": "a", "grade": 1, "count": 2}


def told(engine: Engine) -> list[dict[str, Any]]:
    found = {each["resource"]: each for each in Traffic(engine).tell()["resources"]}
    rules: list[dict[str, Any]] = found["a"]["rules"]
    return rules


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("flow", FLOW),
        ("flow", {**FLOW, "grade": 0}),
        ("flow", {**FLOW, "count": 9, "controlBehavior": 1, "warmUpPeriodSec": 10}),
        ("flow", {**FLOW, "controlBehavior": 2, "maxQueueingTimeMs": 900}),
        ("flow", {**FLOW, "count": 9, "controlBehavior": 3, "warmUpPeriodSec": 10, "maxQueueingTimeMs": 900}),
        ("degrade", {"resource": "a", "grade": 2, "count": 1, "timeWindow": 5, "minRequestAmount": 1}),
        ("flow", {**FLOW, "mode": "shadow"}),
    ],
)
def test_it_says_what_the_next_call_meets(kind: str, rule: dict[str, Any]) -> None:
    clock = FakeClock(start_ms=10_000)
    engine = Engine(clock=clock)
    engine.load_rules(kind, [rule])
    engine.entry("a").exit()
    met: list[str] = []
    for _ in range(6):
        expected = next_call(told(engine))
        before, waits = clock.now_ns, len(clock.waits)
        entry = engine.try_entry("a")
        waited = sum(clock.waits[waits:])
        clock.now_ns = before  # calls at the same moment
        met.append("refuse" if not entry else "wait" if waited else "pass")
        assert (expected.verdict, round(expected.wait_ms) * (met[-1] == "wait")) == (met[-1], round(waited))
        if isinstance(entry, Entry) and kind == "degrade":
            entry.trace(ValueError())
            entry.exit()
    assert met[0] != "refuse"
    assert ("refuse" in met) == ("mode" not in rule)


def test_a_breaker_that_is_held_open_refuses_and_one_held_closed_does_not() -> None:
    engine = Engine()
    engine.load_rules("degrade", [{"resource": "a", "grade": 2, "count": 1, "timeWindow": 5}])
    engine.entry("a").exit()
    engine.control("a", "open")
    assert str(next_call(told(engine))).startswith("is refused by errors > 1")
    engine.control("a", "closed")
    assert next_call(told(engine)).verdict == "pass"

"""Queues against the threads that serve and the patience of callers, computed from the rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sentinel_core import Engine
from sentinel_core.rules import Problem, Revision, SourceText, parse_revision, parse_rules
from sentinel_core.rules.queueing import Serving, longest_queue_ms, most_waiting
from sentinel_core.testing import FakeClock

QUEUE = {"resource": "r", "grade": 1, "count": 100, "controlBehavior": 2, "maxQueueingTimeMs": 500}


def warnings(rule: dict[str, Any], serving: Serving | None, kind: str = "flow") -> list[Problem]:
    text = SourceText("rules.json", json.dumps([rule], indent=1).encode(), "json")
    return list(parse_revision(Revision((text,), "test", "1"), (kind,), serving=serving)[kind].warnings)


def codes(rule: dict[str, Any], serving: Serving | None, kind: str = "flow") -> list[str]:
    return [each.code for each in warnings(rule, serving, kind)]


@pytest.mark.parametrize(("count", "queue_ms"), [(100, 500), (7, 900), (3, 100), (0.5, 3000), (1000, 33)])
def test_no_more_wait_than_the_formula_says_and_as_many_can(count: float, queue_ms: int) -> None:
    clock = FakeClock()
    engine = Engine(clock=clock)
    engine.load_rules("flow", [{**QUEUE, "count": count, "maxQueueingTimeMs": queue_ms}])
    for _ in range(most_waiting(count, queue_ms) + 20):
        engine.try_entry("r")
        clock.now_ns = 0
    assert engine.explain("r")[2]["rules"][0]["live"]["waiting"] == most_waiting(count, queue_ms)
    assert most_waiting(count, longest_queue_ms(count, 20)) in (19, 20)


@pytest.mark.parametrize(
    ("changes", "serving", "said"),
    [
        ({}, None, []),
        ({"maxQueueingTimeMs": 1999}, None, []),
        ({"maxQueueingTimeMs": 2000}, None, ["SR223"]),
        ({"controlBehavior": 3, "maxQueueingTimeMs": 2000}, None, ["SR223"]),
        ({"controlBehavior": 0, "maxQueueingTimeMs": 9000}, Serving(1, 1), []),
        ({"grade": 0, "controlBehavior": 0, "maxQueueingTimeMs": 9000}, Serving(1, 1), []),
        ({"maxQueueingTimeMs": 2000}, Serving(workers=500), []),
        ({}, Serving(workers=50), ["SR223"]),
        ({}, Serving(workers=51), []),
        ({}, Serving(request_timeout_ms=500), ["SR224"]),
        ({}, Serving(request_timeout_ms=501), []),
        ({"maxQueueingTimeMs": 2000}, Serving(request_timeout_ms=1000), ["SR223", "SR224"]),
    ],
)
def test_when_it_is_said(changes: dict[str, Any], serving: Serving | None, said: list[str]) -> None:
    assert codes({**QUEUE, **changes}, serving) == said


def test_it_says_where_and_what_to_write() -> None:
    (problem,) = warnings(QUEUE, Serving(workers=40))
    assert (problem.line, problem.field, problem.severity) == (7, "maxQueueingTimeMs", "warning")
    assert problem.message == (
        "up to 50 calls wait at once (100 a second × 500 ms), each on a thread: all 40 workers; "
        "write 200 or less, which holds half of them, or reject"
    )
    assert codes({**QUEUE, "maxQueueingTimeMs": 200}, Serving(workers=40)) == []


def test_queues_of_a_parameter_are_held_against_the_patience_of_callers() -> None:
    rule = {"resource": "r", "grade": 1, "count": 1, "paramIdx": 0, "controlBehavior": 2, "maxQueueingTimeMs": 900}
    assert codes(rule, Serving(request_timeout_ms=900), "param_flow") == ["SR224"]
    assert codes({**rule, "controlBehavior": 0}, Serving(request_timeout_ms=900), "param_flow") == []


def test_a_list_that_is_loaded_has_the_same_remark() -> None:
    assert [each.code for each in parse_rules("flow", [{**QUEUE, "maxQueueingTimeMs": 5000}]).warnings] == ["SR223"]

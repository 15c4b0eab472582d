"""Shadow rules, breakers held by hand, and who decides on a mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sentinel_core import DegradeException, Engine, Entry
from sentinel_core.modes import Shadow
from sentinel_core.plan import Call, Checker
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]
FLOW = {"resource": "r", "grade": 1, "count": 3}
BREAKER = {"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 10, "minRequestAmount": 2}
RULES: dict[str, dict[str, Any]] = {
    "flow": {**FLOW, "count": 0},
    "degrade": {**BREAKER, "grade": 2, "count": 0, "minRequestAmount": 1},
    "biz_metric": {"resource": "r", "bizMetricType": "STOCK", "threshold": 5, "minRequestAmount": 0},
    "system": {"qps": 0},
    "authority": {"resource": "r", "limitApp": "web"},
    "param_flow": {"resource": "r", "paramIdx": 0, "count": 0},
}


def live(engine: Engine, kind: str, resource: str = "r") -> dict[str, Any]:
    """What a slot shows of its one rule, or of all its rules together."""
    (slot,) = [slot for slot in engine.explain(resource) if slot["slot"] == kind]
    return {**slot["live"], **slot["rules"][0]["live"], "mode": slot["rules"][0]["mode"]}


def call(engine: Engine) -> bool:
    """One call that would meet every rule of RULES, and fails."""
    outcome = engine.try_entry("r", origin="app", args=("hot",), inbound=True)
    if isinstance(outcome, Entry):
        outcome.trace(ValueError())
        outcome.exit()
    return bool(outcome)


# -- shadow ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("by", ["field", "path", "resource", "engine"])
def test_a_shadow_rule_counts_and_lets_pass(engine: Engine, kind: str, by: str) -> None:
    rule = {**RULES[kind], **({"mode": "shadow"} if by == "field" else {})}
    path = engine.load_rules(kind, [rule]).rules[0].path
    engine.gauge("STOCK", 7)
    if by == "path":
        assert engine.control(path, "shadow") == 1
    elif by == "resource":
        assert engine.control("*" if kind == "system" else "r", "shadow") == 1
    elif by == "engine":
        engine.shadow()
    assert sum(call(engine) for _ in range(5)) == 5
    assert engine.stats("r").blocked == 0
    (told,) = engine.shadows()
    first_call_opens = kind == "degrade"
    assert told["wouldBlock"] == 5 - first_call_opens
    assert (told["kind"], told["resource"]) == (kind, "r")
    assert told["rule"] == (None if kind == "system" else path)
    assert engine.status()["control"]["wouldBlock"] == told["wouldBlock"]
    assert live(engine, kind)["mode"] == "shadow"


@pytest.mark.parametrize("kind", RULES)
def test_without_shadow_the_same_calls_are_blocked(engine: Engine, kind: str) -> None:
    engine.load_rules(kind, [RULES[kind]])
    engine.gauge("STOCK", 7)
    assert sum(call(engine) for _ in range(5)) == (kind == "degrade")
    assert engine.shadows() == ()


def test_shadow_and_enforced_rules_stand_side_by_side(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", [{**FLOW, "count": 2, "mode": "shadow"}, FLOW])
    assert passes(10, "r") == 3
    assert engine.shadows()[0]["wouldBlock"] == 8, "what the enforced rule refused had met the shadow before"


def test_a_shadow_rule_does_not_borrow_from_the_next_window(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("flow", [{**FLOW, "mode": "shadow"}])
    clock.advance(ms=300)
    assert all(engine.try_entry("r", priority=True) for _ in range(9))
    assert clock.waits == []
    assert engine.stats("r").passed == 9
    clock.advance(ms=1000)
    assert engine.stats("r").passed == 0, "nothing was passed ahead of its time"


def test_a_shadow_queue_lets_nobody_wait(engine: Engine, clock: FakeClock, passes: Calls) -> None:
    engine.load_rules("flow", [{**FLOW, "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 150, "mode": "shadow"}])
    assert passes(5, "r") == 5
    assert clock.waits == []
    assert (engine.shadows()[0]["wouldDelay"], engine.shadows()[0]["wouldBlock"]) == (1, 3)


def test_a_caller_whose_own_rule_is_a_shadow_is_one_of_the_others(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", [{**FLOW, "limitApp": "other"}, {**FLOW, "limitApp": "web", "mode": "shadow"}])
    assert passes(10, "r", origin="web") == 3


def test_shadow_system_limits_show_beside_the_enforced_ones(engine: Engine, passes: Calls) -> None:
    engine.load_rules("system", [{"qps": 5}, {"maxThread": 0, "mode": "shadow"}])
    assert passes(10, "r", inbound=True) == 5
    (slot,) = [slot for slot in engine.explain("r") if slot["slot"] == "system"]
    assert slot["live"]["limits"]["qps"] == 5
    assert slot["live"]["shadow"]["wouldBlock"] == 5


def test_a_shadow_breaker_moves_and_says_that_it_is_one(engine: Engine, clock: FakeClock, fails: Calls) -> None:
    told: list[tuple[str, bool]] = []
    engine.on_breaker(lambda transition: told.append((transition.after, transition.shadow)))
    engine.load_rules("degrade", [{**BREAKER, "mode": "shadow"}, {**BREAKER, "timeWindow": 20}])
    assert fails(5, "r") == 2
    clock.advance(ms=10_000)
    assert fails(1, "r") == 0, "the enforced one is still open"
    assert told[:2] == [("OPEN", True), ("OPEN", False)]
    assert all(shadow for _, shadow in told[2:])


class Broken(Checker):
    """A checker with a fault."""

    def check(self, now: int, count: int, call: Call) -> int:
        raise RuntimeError("broken")


def test_a_shadow_rule_that_fails_changes_nothing(engine: Engine, passes: Calls) -> None:
    rule = engine.load_rules("flow", [{**FLOW, "mode": "shadow"}, FLOW]).rules[0]
    assert passes(1, "r") == 1
    shadow = engine.snapshot.plans["r"].checkers[0]
    assert isinstance(shadow, Shadow)
    shadow.inner = Broken("flow", rule)
    assert passes(10, "r") == 2
    assert engine.status()["internalErrors"]["count"] == 10


def test_counts_of_a_shadow_outlive_other_changes(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", [{**FLOW, "mode": "shadow"}])
    passes(5, "r")
    engine.load_rules("degrade", [BREAKER])
    engine.control("degrade/r/default", "open")
    assert engine.shadows()[0]["wouldBlock"] == 2


def test_shadow_parameters_take_no_tokens_of_others(engine: Engine, passes: Calls) -> None:
    rule = {"resource": "r", "paramIdx": 0, "count": 5}
    engine.load_rules("param_flow", [{**rule, "count": 2, "mode": "shadow"}, rule])
    assert passes(10, "r", args=("hot",)) == 5


def test_shadow_thread_counts_come_back_to_zero(engine: Engine) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0, "mode": "shadow"}])
    entries = [engine.entry("r", args=("hot",)) for _ in range(3)]
    engine.control("r", "enforce")
    for entry in entries:
        entry.exit()
    assert live(engine, "param_flow")["threads"] == 0


# -- breakers held by hand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["field", "path", "resource", "everything"])
def test_a_breaker_held_open_blocks_and_let_go_is_what_it_was(engine: Engine, passes: Calls, by: str) -> None:
    engine.load_rules("flow", [{**FLOW, "count": 100}])
    engine.load_rules("degrade", [{**BREAKER, **({"mode": "open"} if by == "field" else {})}])
    target = {"path": "degrade/r/default", "resource": "r", "everything": "*"}.get(by)
    if target:
        assert passes(3, "r") == 3
        assert engine.control(target, "open") == 1, "of the two rules, the breaker"
        assert live(engine, "flow")["mode"] == "enforce"
    with pytest.raises(DegradeException, match="held open") as caught:
        engine.entry("r")
    assert caught.value.retry_after is None
    (breaker,) = engine.breakers("r")
    assert (breaker["state"], breaker["mode"]) == ("OPEN", "open")
    if target:
        engine.control(target, None)
    else:
        engine.load_rules("degrade", [BREAKER])
    assert engine.breakers("r")[0]["state"] == "CLOSED"
    assert passes(3, "r") == 3


def test_a_breaker_held_closed_passes_and_goes_on_where_it_stood(
    engine: Engine, clock: FakeClock, fails: Calls
) -> None:
    engine.load_rules("degrade", [BREAKER])
    assert fails(5, "r") == 2
    engine.control("r", "closed")
    assert fails(5, "r") == 5
    engine.control("r", None)
    assert engine.breakers("r")[0]["retryAfterMs"] == 10_000
    clock.advance(ms=10_000)
    assert engine.try_entry("r")


def test_a_business_breaker_can_be_held_too(engine: Engine, passes: Calls) -> None:
    engine.load_rules("biz_metric", [{**RULES["biz_metric"], "mode": "closed"}])
    engine.gauge("STOCK", 7)
    assert passes(5, "r") == 5
    engine.control("biz_metric/r/STOCK", "enforce")
    assert passes(5, "r") == 0, "by hand beats the field"


def test_the_most_exact_control_holds(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", [FLOW])
    engine.shadow()
    assert passes(9, "r") == 9
    engine.control("r", "enforce")
    assert passes(9, "r") == 0
    engine.control("flow/r/default", "shadow")
    assert passes(9, "r") == 9
    assert engine.status()["control"]["held"] == {"*": "shadow", "r": "enforce", "flow/r/default": "shadow"}
    for target in ("*", "r", "flow/r/default"):
        engine.control(target, None)
    assert engine.status()["control"] == {"held": {}, "shadows": 0, "wouldBlock": 0}
    assert passes(9, "r") == 0


def test_a_resource_is_controlled_under_its_patterns(engine: Engine, passes: Calls) -> None:
    engine.load_rules("flow", [{**FLOW, "resource": "r.*", "regex": True}])
    assert engine.control("r1", "shadow") == 1
    assert (passes(9, "r1"), passes(9, "r2")) == (9, 3)


def test_control_waits_for_rules_to_come(engine: Engine, passes: Calls) -> None:
    assert engine.control("r", "shadow") == 0
    engine.load_rules("flow", [FLOW])
    assert passes(9, "r") == 9


@pytest.mark.parametrize(("target", "mode"), [("r", "off"), ("r", "open"), ("flow/r/default", "closed")])
def test_what_cannot_be_is_refused(engine: Engine, target: str, mode: str) -> None:
    engine.load_rules("flow", [FLOW])
    with pytest.raises(ValueError, match=r"mode|breaker"):
        engine.control(target, mode)
    assert engine.status()["control"]["held"] == {}


def test_control_keeps_counters_queues_and_breakers(engine: Engine, fails: Calls, passes: Calls) -> None:
    engine.load_rules("flow", [FLOW])
    engine.load_rules("degrade", [{**BREAKER, "resource": "s"}])
    fails(2, "s")
    passes(2, "r")
    engine.control("x", "shadow")
    assert passes(9, "r") == 1
    assert engine.breakers("s")[0]["state"] == "OPEN"


def test_modes_hold_under_compat(clock: FakeClock) -> None:
    """A word that Java does not know has to be written to have an effect."""
    engine = Engine(clock=clock, compat="sentinel-1.8.9")
    engine.load_rules("flow", [{**FLOW, "count": 0, "mode": "shadow"}])
    engine.load_rules(
        "authority", [{**RULES["authority"], "mode": "shadow"}, {**RULES["authority"], "limitApp": "app"}]
    )
    assert call(engine)
    entry = engine.entry("r", origin="app")
    engine.control("flow/r/default", "enforce")
    entry.exit()
    assert engine.stats("r").threads == 0
    assert not call(engine)

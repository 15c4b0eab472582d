"""Changes of rules under traffic: one swap, and everything that did not change keeps what it has counted."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from sentinel_core import Blocked, Engine, Entry
from sentinel_core.rules import KINDS, ParamFlowItem, Rule, RuleSet
from sentinel_core.rules.patterns import LONGEST_NAME
from sentinel_core.rules.registry import MODELS
from sentinel_core.rules.strategies import drawn_from_fields
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]

LEAST: dict[str, dict[str, Any]] = {
    "flow": {"resource": "r", "count": 5, "limitApp": "app", "clusterConfig": {"flowId": 1}},
    "degrade": {"resource": "r", "count": 0.5, "timeWindow": 5},
    "biz_metric": {"resource": "r", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5},
    "system": {"qps": 5},
    "authority": {"resource": "r", "limitApp": "app"},
    "param_flow": {"resource": "r", "paramIdx": 1, "count": 5, "clusterConfig": {"flowId": 1}},
}
for added in set(KINDS) - set(LEAST):  # such a kind says by its fields what it needs
    LEAST[added] = {**find(drawn_from_fields(MODELS[added]), lambda item: "resource" in item), "resource": "r"}
FIELDS = [(kind, name) for kind in KINDS for name in MODELS[kind].model_fields if name not in ("id", "resource")]


def ruleset(kind: str, *rules: Rule) -> RuleSet:
    text = json.dumps([rule.to_json() for rule in rules]).encode()
    return RuleSet(kind, rules, text, hashlib.sha256(text).hexdigest())


def another(value: Any, annotation: Any) -> Any:
    """A value of the same field that is not this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        choices = [choice for choice in get_args(annotation) if isinstance(choice, str)]
        return next((choice for choice in choices if choice != value), value + "x")
    if isinstance(value, tuple):
        return (ParamFlowItem(object="a", count=1),)
    if value is None:
        return 7 if "int" in str(annotation) else "seven"
    return value.model_copy(update={"flow_id": 2})


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_a_change_of_any_field_alone_takes_effect_and_its_neighbour_keeps_its_state(kind: str, name: str) -> None:
    """E09: equality is the model's own, so no field can be forgotten."""
    model = MODELS[kind]
    before = model.model_validate(LEAST[kind])
    changed = before.model_copy(update={name: another(getattr(before, name), model.model_fields[name].annotation)})
    neighbour = model.model_validate({**LEAST[kind], **({"qps": 9} if kind == "system" else {"resource": "n"})})
    engine = Engine(clock=FakeClock())
    engine.load_rules(kind, ruleset(kind, before, neighbour))
    engine.try_entry("r"), engine.try_entry("n")
    old = engine.snapshot
    engine.load_rules(kind, ruleset(kind, changed, neighbour))
    new = engine.snapshot
    assert new.number == old.number + 1
    assert new.plans["r"] is not old.plans["r"]
    assert engine._compiler.rules_of(new, kind, "r")[0] == changed
    if kind != "system":
        assert new.plans["n"] is old.plans["n"]


def test_equal_rules_in_other_words_change_nothing(engine: Engine) -> None:
    """P09, D10, C01: spelling, order and line ends are no change; nothing is reset, nothing is counted but that."""
    engine.load_rules(
        "flow", '[{"resource": "a", "count": 1.0, "grade": 1}, {"resource": "b", "count": 2, "grade": 1}]'
    )
    before = engine.snapshot
    engine.load_rules(
        "flow", b'\r\n[{"grade":1,"count":2,"resource":"b","limitApp":"default"},{"resource":"a","count":1,"grade":1}]'
    )
    assert engine.snapshot is before
    assert engine.status()["activations"]["unchanged"] == 1


def test_a_rule_that_stays_keeps_its_counters_breaker_and_queue(
    engine: Engine, clock: FakeClock, passes: Calls, fails: Calls
) -> None:
    flow = [
        {"resource": "window", "grade": 1, "count": 5},
        {"resource": "queue", "grade": 1, "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 500},
    ]
    breaker = [{"resource": "window", "grade": 2, "count": 1, "timeWindow": 100, "minRequestAmount": 1}]
    engine.load_rules("flow", flow)
    engine.load_rules("degrade", breaker)
    engine.entry("queue").exit()
    assert passes(3, "window") == 3
    assert fails(2, "window") == 2
    engine.load_rules("flow", [*flow, {"resource": "queue", "grade": 0, "count": 9}])
    engine.load_rules("degrade", [*breaker, {**breaker[0], "timeWindow": 50}])
    assert [breaker["state"] for breaker in engine.breakers("window")] == ["OPEN", "CLOSED"]
    assert not engine.try_entry("queue"), "the place in the queue is taken"
    engine.load_rules("degrade", [])
    assert passes(3, "window") == 0, "five have passed in this second, whatever was loaded"


def test_a_removed_rule_begins_anew_when_it_comes_back(engine: Engine, fails: Calls) -> None:
    """E10"""
    breaker = [{"resource": "r", "grade": 2, "count": 1, "timeWindow": 100, "minRequestAmount": 1}]
    engine.load_rules("degrade", breaker)
    fails(2, "r")
    engine.load_rules("degrade", [])
    engine.load_rules("degrade", breaker)
    assert engine.breakers("r")[0]["state"] == "CLOSED"


def test_entries_end_on_the_snapshot_they_began_with(engine: Engine, clock: FakeClock) -> None:
    """E11: the resource's rules go away while 50 calls are inside."""
    engine.load_rules("flow", [{"resource": "r", "grade": 0, "count": 50}])
    engine.load_rules("degrade", [{"resource": "r", "grade": 1, "count": 0.1, "timeWindow": 5}])
    entries = [engine.entry("r") for _ in range(50)]
    engine.load_rules("flow", [])
    engine.load_rules("degrade", [])
    for entry in entries:
        entry.trace(ValueError("late"))
        entry.exit()
    stats = engine.stats("r")
    assert (stats.threads, stats.exception) == (0, 50)
    assert engine.try_entry("r")
    engine.load_rules("flow", [{"resource": "r", "grade": 0, "count": 1}])
    assert not engine.try_entry("r"), "the new rule sees the call that is inside"


@given(st.lists(st.sets(st.sampled_from("abcde"), max_size=5), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_after_any_changes_exactly_the_loaded_rules_decide(changes: list[set[str]]) -> None:
    engine = Engine(clock=FakeClock())
    for blocked in changes:
        engine.load_rules("flow", [{"resource": name, "count": 0, "grade": 1} for name in sorted(blocked)])
        assert {name for name in "abcde" if not engine.try_entry(name)} == blocked


@pytest.mark.slow
def test_readers_never_see_an_empty_or_mixed_set_over_ten_thousand_swaps() -> None:
    """Every revision blocks `wall` and, by one of two rules, `either`; unchanged rules keep counters and breaker."""
    engine = Engine()
    wall = {"resource": "wall", "grade": 1, "count": 0}
    counted = {"resource": "counted", "grade": 1, "count": 1_000_000_000}
    revisions = [
        [
            wall,
            counted,
            {"resource": "either", "grade": kind, "count": 0},
            {"resource": "noise", "grade": 1, "count": n + 1},
        ]
        for n, kind in enumerate((0, 1))
    ]
    loaded = [engine.load_rules("flow", rules) for rules in revisions]
    engine.load_rules(
        "degrade", [{"resource": "broken", "grade": 2, "count": 0, "timeWindow": 3600, "minRequestAmount": 1}]
    )
    failing = engine.entry("broken")
    failing.trace(ValueError())
    failing.exit()
    done = threading.Event()
    leaks: list[str] = []
    reads = [0, 0, 0]

    def read(place: int) -> None:
        while not done.is_set():
            leaks.extend(name for name in ("wall", "either", "broken") if engine.try_entry(name))
            either = engine.try_entry("either")
            if isinstance(either, Blocked) and either.rule not in either.snapshot.rulesets["flow"].rules:
                leaks.append("mixed")
            entry = engine.try_entry("counted")
            assert isinstance(entry, Entry)
            entry.exit()
            reads[place] += 1

    before = engine.snapshot.number
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        readers = [threading.Thread(target=read, args=(place,)) for place in range(3)]
        for reader in readers:
            reader.start()
        for number in range(10_000):
            engine.load_rules("flow", loaded[number % 2])
        done.set()
        for reader in readers:
            reader.join()
    finally:
        sys.setswitchinterval(interval)
    assert not leaks
    assert engine.snapshot.number - before == 10_000
    assert min(reads) > 0
    assert engine.breakers("broken")[0]["state"] == "OPEN"
    counted_node = engine.node("counted")
    assert counted_node is not None
    assert counted_node.threads == 0


def test_no_pattern_is_tried_on_an_endless_name(clock: FakeClock) -> None:
    """A name may come from outside: what is matched is bounded, so the time that it takes is."""
    engine = Engine(clock=clock)
    engine.load_rules("flow", [{"resource": "a.*", "regex": True, "count": 0}])
    assert not engine.try_entry("a" * LONGEST_NAME)
    assert engine.try_entry("a" * (LONGEST_NAME + 1))

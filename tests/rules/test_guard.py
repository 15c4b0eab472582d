"""Guards: what a publish may not do unless somebody says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from sentinel_core.rules import RuleSet, parse_rules
from sentinel_core.rules.guard import Objection, objections
from sentinel_core.settings import Guards


@dataclass(frozen=True)
class Limits:
    max_removed_percent: float = 30
    max_jump: float = 10
    forbid_zero: bool = True
    max_rules: int = 5


def sets(**lists: list[dict[str, Any]]) -> dict[str, RuleSet]:
    return {kind: parse_rules(kind, json.dumps(rules).encode()) for kind, rules in lists.items()}


def flow(*names: str, count: float = 10) -> list[dict[str, Any]]:
    return [{"resource": name, "grade": 1, "count": count} for name in names]


def against(old: dict[str, RuleSet], new: dict[str, RuleSet], limits: Limits | Guards | None = None) -> list[Objection]:
    return objections(old, new, limits or Limits())


def told(
    old: dict[str, RuleSet], new: dict[str, RuleSet], limits: Limits | None = None
) -> list[tuple[str, str | None]]:
    return [(each.guard, each.kind) for each in against(old, new, limits)]


def test_the_settings_are_a_policy() -> None:
    assert against(sets(flow=flow("a")), sets(flow=flow("a", "b")), Guards()) == []


def test_a_kind_that_is_emptied_is_told_and_resources_that_lose_their_last_rule_with_it() -> None:
    found, last = against(sets(flow=flow("a", "b", "c")), sets(flow=[]))
    assert (found.guard, found.text) == ("empty", "all 3 flow rules would disappear")
    assert (last.guard, last.text) == ("last", "3 of the resources with flow rules would have no rule left")
    assert found.resources == last.resources == ("a", "b", "c")


def test_a_kind_that_was_empty_may_stay_so_and_one_that_is_not_carried_stays_as_it_is() -> None:
    assert told(sets(flow=[]), sets(flow=[])) == []
    assert told(sets(flow=flow("a"), degrade=[]), sets(degrade=[])) == []


@pytest.mark.parametrize(
    ("left", "guards"),
    [
        ("abcde", []),
        ("abcd", ["last"]),
        ("abc", ["shrink", "last"]),
        ("a", ["shrink", "last"]),
    ],
)
def test_a_share_of_the_rules_may_go_and_a_single_one_whatever_its_share(left: str, guards: list[str]) -> None:
    assert [name for name, _ in told(sets(flow=flow(*"abcde")), sets(flow=flow(*left)))] == guards


def test_how_much_would_go_is_told_with_the_limit() -> None:
    found = against(sets(flow=flow(*"abcde")), sets(flow=flow(*"ab")))
    assert found[0].text == "60 % of the flow rules would disappear (3 of 5); the limit is 30 %"
    assert found[0].resources == ("c", "d", "e")


def test_a_resource_with_a_rule_of_another_kind_has_not_lost_its_last() -> None:
    breaker = [{"resource": "b", "grade": 1, "count": 0.5, "timeWindow": 10}]
    assert told(sets(flow=flow("a", "b"), degrade=breaker), sets(flow=flow("a"), degrade=breaker)) == []
    assert told(sets(flow=flow("a", "b"), degrade=breaker), sets(flow=flow("a"))) == [], "it stays in the other kind"
    assert told(sets(flow=flow("a", "b")), sets(flow=flow("a"), degrade=breaker)) == [], "it moves to the other kind"
    assert told(sets(flow=flow("a", "b")), sets(flow=flow("a"))) == [("last", "flow")]


@pytest.mark.parametrize(
    ("old", "new", "guards"),
    [
        (10, 100, []),
        (10, 101, ["jump"]),
        (100, 10, []),
        (101, 10, ["jump"]),
        (10, 0, ["zero"]),
        (0, 10, ["jump"]),
        (0, 0, []),
    ],
)
def test_a_threshold_may_change_by_so_much(old: float, new: float, guards: list[str]) -> None:
    assert [name for name, _ in told(sets(flow=flow("a", count=old)), sets(flow=flow("a", count=new)))] == guards


def test_a_jump_is_told_with_both_values_and_the_factor() -> None:
    (found,) = against(sets(flow=flow("a")), sets(flow=flow("a", count=500)))
    assert found.text == "flow/a/default count 10 → 500 (50×); the limit is 10×"


def test_a_new_rule_that_blocks_everything_is_told_unless_that_is_allowed() -> None:
    new = sets(flow=flow("a", count=0))
    assert told(sets(flow=[]), new) == [("zero", "flow")]
    assert told(sets(flow=[]), new, Limits(forbid_zero=False)) == []
    assert told(sets(flow=flow("a")), new, Limits(forbid_zero=False)) == []


def test_thresholds_of_every_kind_are_watched() -> None:
    breaker = {"resource": "b", "grade": 0, "count": 100, "timeWindow": 10}
    business = {"resource": "b", "bizMetricType": "PAY_FAIL_RATE", "stateWindowMs": 1000, "windowIntervalMs": 1000}
    old = sets(
        degrade=[{**breaker, "slowRatioThreshold": 0.01}],
        biz_metric=[{**business, "threshold": 2}],
        system=[{"qps": 9}],
    )
    new = sets(
        degrade=[{**breaker, "slowRatioThreshold": 0.5}],
        biz_metric=[{**business, "threshold": 60}],
        system=[{"qps": 99}],
    )
    assert told(old, new) == [("jump", "degrade"), ("jump", "biz_metric"), ("jump", "system")]


def test_too_many_rules_are_told() -> None:
    (found,) = against({}, sets(flow=flow(*"abcdef")))
    assert (found.guard, found.text) == ("size", "6 flow rules; the limit is 5")


# -- rules that take another's place -----------------------------------------------------------------------------------


def rule(resource: str, count: float, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "grade": 1, "count": count, **more}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([rule("a", 10, id=7), rule("b", 1e6, id=8)], [rule("b", 10, id=7), rule("a", 1e6, id=8)]),
        (
            [rule("a", 10, id=7), rule("a", 1e6, id=8, limitApp="vip")],
            [rule("a", 1e6, id=8), rule("a", 10, id=7, limitApp="vip")],
        ),
        (
            [rule("a", 10, id=7), rule("a", 1e6, id=8, grade=0)],
            [rule("a", 10, id=7, grade=0), rule("a", 1e6, id=8)],
        ),
    ],
    ids=["resources", "callers", "grades"],
)
def test_an_id_does_not_carry_a_threshold_to_another_place(
    old: list[dict[str, Any]], new: list[dict[str, Any]]
) -> None:
    assert told(sets(flow=old), sets(flow=new)) == [("jump", "flow")] * 2


def test_an_id_does_not_hide_that_rules_of_a_resource_go() -> None:
    old = sets(flow=[rule(name, 10, id=number) for number, name in enumerate("abcd")])
    new = sets(flow=[rule(name, 10, id=number) for number, name in enumerate("abxy")])
    assert told(old, new) == [("shrink", "flow"), ("last", "flow")]


def test_another_id_alone_is_no_change_of_a_rule() -> None:
    old = sets(flow=[rule("a", 10, id=1), rule("b", 1e6, id=2)])
    assert told(old, sets(flow=[rule("a", 10, id=2), rule("b", 1e6, id=1)])) == []


@pytest.mark.parametrize(
    ("old", "new", "guards"),
    [
        ([rule("a", 20)], [rule("a", 2e6, limitApp="other")], ["jump", "last"]),
        ([rule("a", 20)], [rule("a", 200, limitApp="other")], ["last"]),
        ([rule("a", 20)], [rule("a", 20, limitApp="web"), rule("a", 2e6, limitApp="other")], ["jump", "last"]),
        (
            [rule("a", 20), rule("a", 2e6, limitApp="vip")],
            [rule("a", 2e6, limitApp="other")],
            ["shrink", "jump", "last"],
        ),
        ([rule("a", 2e6, limitApp="vip")], [rule("a", 20)], ["jump"]),
        ([rule("a", 20)], [rule("a", 0, limitApp="other")], ["zero", "last"]),
        ([rule("a", 20), rule("b", 2e6)], [rule("a", 20), rule("b", 2e6), rule("a", 2e6, limitApp="vip")], []),
    ],
)
def test_a_rule_that_gives_way_to_one_for_other_callers_is_held_against_it(
    old: list[dict[str, Any]], new: list[dict[str, Any]], guards: list[str]
) -> None:
    assert [name for name, _ in told(sets(flow=old), sets(flow=new))] == guards


def test_such_a_jump_is_told_with_both_rules() -> None:
    found, last = against(sets(flow=[rule("a", 20)]), sets(flow=[rule("a", 2000, limitApp="other")]))
    assert last.text == "1 of the resources with flow rules would have none left that holds for every caller"
    assert found.text == "flow/a/default → flow/a/other count 20 → 2000 (100×); the limit is 10×"


# -- rules that are turned off -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["shadow", "closed"])
def test_a_rule_that_blocks_nothing_any_more_is_lost(mode: str) -> None:
    breaker = {"resource": "a", "grade": 1, "count": 0.5, "timeWindow": 10}
    old, new = sets(degrade=[breaker]), sets(degrade=[{**breaker, "mode": mode}])
    found, last = against(old, new)
    assert (found.guard, found.text) == ("empty", "all 1 degrade rules would block nothing")
    assert (last.guard, last.resources) == ("last", ("a",))
    assert told(new, new) == told(new, old) == told({}, new) == [], "what is off already, is turned on or is tried out"


def test_a_share_of_rules_that_are_turned_off_is_a_share_that_is_lost() -> None:
    off = [rule(name, 5, mode="shadow") for name in "ab"]
    assert told(sets(flow=[rule(name, 5) for name in "abc"]), sets(flow=[*off, rule("c", 5)])) == [
        ("shrink", "flow"),
        ("last", "flow"),
    ]


def test_a_rule_that_counts_something_else_is_a_jump_whatever_its_number() -> None:
    (found,) = against(sets(flow=[rule("a", 8, grade=0)]), sets(flow=[rule("a", 8)]))
    assert found.text == "flow/a/default grade 0 → 1: it counts something else, so its limit cannot be compared"

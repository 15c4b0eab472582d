"""Field diffs: told by identity, complete, and empty for equal content."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from sentinel_core.rules import Change, RuleSet, diff_rules, pair_rules, parse_rules
from sentinel_core.rules.diff import field_changes
from sentinel_core.rules.strategies import flow_lists

Items = list[dict[str, Any]]


def flow(*items: dict[str, Any]) -> RuleSet:
    return parse_rules("flow", [{"count": 1, **item} for item in items])


def summary(changes: tuple[Change, ...]) -> list[tuple[str, str, str | None, Any, Any]]:
    return [(change.action, change.rule, change.field, change.old, change.new) for change in changes]


def test_one_changed_field_is_one_change() -> None:
    old, new = flow({"resource": "payment_invoke", "count": 20}), flow({"resource": "payment_invoke", "count": 25})
    assert [change.to_json() for change in diff_rules(old, new)] == [
        {
            "action": "change",
            "resource": "payment_invoke",
            "rule": "flow/payment_invoke/default",
            "field": "count",
            "old": 20,
            "new": 25,
        }
    ]


def test_added_and_removed_rules_come_whole() -> None:
    (added,) = diff_rules(RuleSet.empty("flow"), flow({"resource": "a"}))
    assert (added.action, added.field, added.old, added.new["count"]) == ("add", None, None, 1)
    (removed,) = diff_rules(flow({"resource": "a"}), RuleSet.empty("flow"))
    assert (removed.action, removed.field, removed.old["count"], removed.new) == ("remove", None, 1, None)


def test_nested_fields_have_dotted_names() -> None:
    old = flow({"resource": "a", "clusterMode": True, "clusterConfig": {"flowId": 1}})
    new = flow({"resource": "a", "clusterMode": True, "clusterConfig": {"flowId": 2}})
    assert summary(diff_rules(old, new)) == [("change", "flow/a/default", "clusterConfig.flowId", 1, 2)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            [{"resource": "a", "id": 1, "count": 5}, {"resource": "a", "id": 2, "count": 7}],
            [{"resource": "a", "id": 2, "count": 5}, {"resource": "a", "id": 1, "count": 8}],
            [("change", "flow/a/default", "count", 5, 8), ("change", "flow/a/default", "count", 7, 5)],
            id="an id on both sides decides",
        ),
        pytest.param(
            [{"resource": "a", "count": 5}, {"resource": "a", "count": 7}],
            [{"resource": "a", "count": 9}, {"resource": "a", "count": 5}],
            [("change", "flow/a/default", "count", 7, 9)],
            id="equal content is paired first",
        ),
        pytest.param(
            [{"resource": "a", "grade": 0, "count": 5}, {"resource": "a", "grade": 1, "count": 7}],
            [{"resource": "a", "grade": 1, "count": 8}, {"resource": "a", "grade": 0, "count": 6}],
            [("change", "flow/a/default", "count", 7, 8), ("change", "flow/a/default", "count", 5, 6)],
            id="then the same subject",
        ),
        pytest.param(
            [{"resource": "a", "grade": 0}],
            [{"resource": "a", "grade": 1}],
            [("change", "flow/a/default", "grade", 0, 1)],
            id="then the same place",
        ),
        pytest.param(
            [{"resource": "a", "limitApp": "x"}],
            [{"resource": "a", "limitApp": "y"}],
            [("remove", "flow/a/x", None), ("add", "flow/a/y", None)],
            id="another origin is another rule",
        ),
    ],
)
def test_the_identity_ladder(old: Items, new: Items, expected: list[tuple[Any, ...]]) -> None:
    found = [item[: len(expected[0])] for item in summary(diff_rules(flow(*old), flow(*new)))]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_rules_of_two_kinds_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        diff_rules(RuleSet.empty("flow"), RuleSet.empty("degrade"))


@given(flow_lists())
def test_a_set_does_not_differ_from_itself(items: Items) -> None:
    rules = parse_rules("flow", items)
    assert diff_rules(rules, rules) == ()
    assert diff_rules(rules, parse_rules("flow", items[::-1])) == ()


@given(flow_lists(), flow_lists())
def test_pairs_use_every_rule_once(old: Items, new: Items) -> None:
    left, right = parse_rules("flow", old).rules, parse_rules("flow", new).rules
    pairs = pair_rules(left, right)
    both = pairs.same + pairs.changed
    assert Counter([*pairs.removed, *(before for before, _ in both)]) == Counter(left)
    assert Counter([*pairs.added, *(after for _, after in both)]) == Counter(right)


@given(flow_lists(), flow_lists())
def test_applying_the_changes_gives_the_other_set(old: Items, new: Items) -> None:
    one, two = parse_rules("flow", old), parse_rules("flow", new)
    pairs = pair_rules(one.rules, two.rules)
    result = [rule.to_json() for rule, _ in pairs.same] + [rule.to_json() for rule in pairs.added]
    for before, after in pairs.changed:
        result.append(applied(before.to_json(), field_changes(before, after)))
    assert parse_rules("flow", result).digest == two.digest
    edits = [change for before, after in pairs.changed for change in field_changes(before, after)]
    assert len(diff_rules(one, two)) == len(edits) + len(pairs.added) + len(pairs.removed)


def applied(rule: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """The rule with the changes made, by their dotted names."""
    for change in changes:
        target = rule
        *outer, name = (change.field or "").split(".")
        for step in outer:
            target = target.setdefault(step, {})
        target[name] = change.new
    return {key: value for key, value in rule.items() if not isinstance(value, dict) or any(value.values())}


@given(flow_lists(), flow_lists())
def test_a_diff_read_backwards_is_its_mirror(old: Items, new: Items) -> None:
    one, two = parse_rules("flow", old), parse_rules("flow", new)
    forth, back = diff_rules(one, two), diff_rules(two, one)
    mirror = {"add": "remove", "remove": "add", "change": "change"}
    assert Counter(change.action for change in forth)["add"] == Counter(change.action for change in back)["remove"]
    assert {mirror[change.action] for change in forth} == {change.action for change in back}

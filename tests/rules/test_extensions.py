"""Fields that Java Sentinel does not know: absent they leave no trace, and they may be published to Java services."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sentinel_core.rules import RuleRejected, describe_rule, parse_rules

PLAIN: dict[str, tuple[dict[str, Any], str]] = {
    "flow": ({"resource": "a", "count": 9, "controlBehavior": 1}, "cf9af0873b5c"),
    "degrade": ({"resource": "a", "count": 100, "timeWindow": 5}, "4a0bd2b0b395"),
    "biz_metric": ({"resource": "a", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5}, "91fab357b919"),
    "system": ({"qps": 9}, "724452aa6cf0"),
    "authority": ({"resource": "a", "limitApp": "web"}, "40c1d3687f97"),
    "param_flow": ({"resource": "a", "paramIdx": 0, "count": 9}, "99c53fdb86fc"),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_the_digest_of_a_plain_rule_is_what_it_was_before_the_fields_came(kind: str) -> None:
    rule, digest = PLAIN[kind]
    assert parse_rules(kind, [rule]).digest[:12] == digest


@pytest.mark.parametrize("kind", PLAIN)
def test_the_usual_mode_is_the_same_as_none(kind: str) -> None:
    rule, _ = PLAIN[kind]
    assert parse_rules(kind, [{**rule, "mode": "enforce"}]) == parse_rules(kind, [rule])


@pytest.mark.parametrize("kind", PLAIN)
def test_a_rule_that_java_would_enforce_is_warned_of(kind: str) -> None:
    ruleset = parse_rules(kind, [{**PLAIN[kind][0], "mode": "shadow"}])
    assert [problem.code for problem in ruleset.warnings] == ["SR218"]
    assert json.loads(ruleset.canonical)[0]["mode"] == "shadow"
    assert describe_rule(ruleset.rules[0]).endswith("(shadow)")


def test_only_breakers_are_forced_open_or_closed() -> None:
    assert parse_rules("degrade", [{**PLAIN["degrade"][0], "mode": "open"}]).rules[0].mode == "open"
    with pytest.raises(RuleRejected, match="write 'enforce' or 'shadow'"):
        parse_rules("flow", [{**PLAIN["flow"][0], "mode": "open"}])


def test_single_recovery_is_the_same_as_none() -> None:
    rule, _ = PLAIN["degrade"]
    assert parse_rules("degrade", [{**rule, "recovery": "single"}]) == parse_rules("degrade", [rule])
    changed = parse_rules("degrade", [{**rule, "recovery": "progressive"}])
    assert "step by step" in describe_rule(changed.rules[0])


@pytest.mark.parametrize(("timeout", "codes"), [(200, ["SR219"]), (201, [])])
def test_a_client_that_gives_up_before_twice_the_slow_threshold_is_warned_of(timeout: int, codes: list[str]) -> None:
    """Article 001, 4.1: otherwise its time-outs and slow calls cannot be told apart."""
    ruleset = parse_rules("degrade", [{"resource": "a", "count": 100, "timeWindow": 5, "clientTimeoutMs": timeout}])
    assert [problem.code for problem in ruleset.warnings] == codes


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("flow", "refUnhealthyRtMs", 100),
        ("flow", "warmUpStart", "2026-11-30T08:00:00Z"),
        ("degrade", "clientTimeoutMs", 900),
    ],
)
def test_a_field_without_effect_is_warned_of(kind: str, field: str, value: object) -> None:
    rule = {"resource": "a", "count": 1, "timeWindow": 5, "grade": 1}
    rule = {key: rule[key] for key in rule if kind == "degrade" or key != "timeWindow"}
    ruleset = parse_rules(kind, [{**rule, field: value}])
    assert [(problem.code, problem.field) for problem in ruleset.warnings] == [("SR208", field)]


def test_an_instant_has_one_spelling() -> None:
    rule, _ = PLAIN["flow"]
    east = parse_rules("flow", [{**rule, "warmUpStart": "2026-11-30T16:00:00+08:00"}])
    assert east == parse_rules("flow", [{**rule, "warmUpStart": "2026-11-30T08:00:00Z"}])


@pytest.mark.parametrize("text", ["at eight", "2026-11-30T08:00:00", "2026-11-30", "Z", ""])
def test_an_instant_without_an_offset_is_refused(text: str) -> None:
    with pytest.raises(RuleRejected, match="SR116"):
        parse_rules("flow", [{**PLAIN["flow"][0], "warmUpStart": text}])

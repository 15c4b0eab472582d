"""Cases from the field about values that are possible and wrong. The id of the case stands in the name of each test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sentinel_core.rules import Problem, parse_rules

Problems = Callable[..., list[Problem]]


def flow(**fields: Any) -> list[dict[str, Any]]:
    return [{"resource": "r", "count": 1, **fields}]


def degrade(**fields: Any) -> list[dict[str, Any]]:
    return [{"resource": "r", "timeWindow": 10, **fields}]


def param(**fields: Any) -> list[dict[str, Any]]:
    return [{"resource": "r", "paramIdx": 0, "count": 1, **fields}]


def warnings(kind: str, rules: list[dict[str, Any]]) -> list[str]:
    return [warning.code for warning in parse_rules(kind, rules).warnings]


def test_p17_a_negative_count_is_refused(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", flow(count=-1))
    assert (problem.code, problem.message) == ("SR103", "count is -1; write 0 or more")


def test_p17_zero_blocks_everything_and_is_said_aloud() -> None:
    assert warnings("flow", flow(count=0)) == ["SR205"]


def test_p17_a_negative_parameter_index_counts_from_the_end() -> None:
    assert parse_rules("param_flow", param(paramIdx=-1)).rules[0].param_idx == -1


def test_p17_a_system_rule_with_every_dimension_off_is_warned_of() -> None:
    off = {"highestSystemLoad": -1, "highestCpuUsage": -1, "qps": -1, "avgRt": -1, "maxThread": -1}
    assert warnings("system", [off]) == ["SR207"]
    assert parse_rules("system", [off]).rules[0].describe() == "off"


def test_p17_a_breaker_needs_a_time(json_problems: Problems) -> None:
    (problem,) = json_problems("degrade", degrade(timeWindow=0, count=1))
    assert (problem.field, problem.message) == ("timeWindow", "timeWindow is 0; write 1 or more")


def test_p18_less_than_one_call_a_second_works_with_a_queue() -> None:
    assert parse_rules("flow", flow(count=0.2, controlBehavior=2, maxQueueingTimeMs=10000)).warnings == ()


@pytest.mark.parametrize("fields", [{"controlBehavior": 0}, {"controlBehavior": 1}, {"grade": 0}])
def test_p18_less_than_one_call_without_a_queue_is_refused(json_problems: Problems, fields: dict[str, int]) -> None:
    (problem,) = json_problems("flow", flow(count=0.5, **fields))
    assert problem.code == "SR113"
    assert "no call would ever pass" in problem.message


def test_p18_compat_takes_it_as_java_does() -> None:
    rules = parse_rules("flow", flow(count=0.5), compat=True)
    assert [warning.code for warning in rules.warnings] == ["SR113"]
    assert rules.rules[0].count == 0.5


def test_p19_ratio_1_is_a_valid_threshold() -> None:
    assert parse_rules("degrade", degrade(grade=1, count=1.0)).warnings == ()


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"grade": 1, "count": 50}, "count", "did you mean 0.5?"),
        ({"grade": 1, "count": 10}, "count", "did you mean 0.1?"),
        ({"grade": 0, "count": 0.5, "slowRatioThreshold": 100}, "slowRatioThreshold", "did you mean 1?"),
        ({"grade": 0, "count": 50, "slowRatioThreshold": -1}, "slowRatioThreshold", "a ratio from 0 to 1"),
    ],
)
def test_p20_a_percentage_is_no_ratio(json_problems: Problems, fields: dict[str, Any], field: str, words: str) -> None:
    problem = next(p for p in json_problems("degrade", degrade(**fields)) if p.severity == "error")
    assert (problem.code, problem.field) == ("SR107", field)
    assert words in problem.message


def test_p20_a_fraction_of_an_error_is_warned_of() -> None:
    assert warnings("degrade", degrade(grade=2, count=0.2)) == ["SR206"]


def test_p20_80_percent_cpu_is_written_as_a_ratio(json_problems: Problems) -> None:
    (problem,) = json_problems("system", [{"highestCpuUsage": 80}])
    assert "did you mean 0.8?" in problem.message


@pytest.mark.parametrize(
    ("kind", "rules", "field"),
    [
        ("flow", flow(grade=2), "grade"),
        ("flow", flow(grade=-1), "grade"),
        ("flow", flow(strategy=-1), "strategy"),
        ("flow", flow(strategy=1), "refResource"),
        ("flow", flow(strategy=1, refResource=" "), "refResource"),
        ("flow", flow(strategy=2), "refResource"),
        ("flow", flow(controlBehavior=1, warmUpPeriodSec=0), "warmUpPeriodSec"),
        ("flow", flow(controlBehavior=2, maxQueueingTimeMs=0), "maxQueueingTimeMs"),
        ("flow", flow(controlBehavior=3, warmUpPeriodSec=0), "warmUpPeriodSec"),
        ("flow", flow(controlBehavior=3, maxQueueingTimeMs=-5), "maxQueueingTimeMs"),
        ("flow", flow(clusterMode=True), "clusterConfig"),
        ("flow", flow(clusterMode=True, clusterConfig={"flowId": 0}), "clusterConfig.flowId"),
        ("flow", flow(clusterMode=True, clusterConfig={"flowId": 1, "sampleCount": 3}), "clusterConfig.sampleCount"),
        ("flow", flow(clusterMode=True, clusterConfig={"flowId": 1, "strategy": 1}), "clusterConfig.strategy"),
        (
            "flow",
            flow(grade=0, clusterMode=True, clusterConfig={"flowId": 1, "resourceTimeout": 0}),
            "clusterConfig.resourceTimeout",
        ),
        ("flow", flow(resource="re[", regex=True), "resource"),
        ("flow", flow(resource="re.*", regex=True, controlBehavior=1), "controlBehavior"),
        ("flow", flow(resource="re.*", regex=True, clusterMode=True, clusterConfig={"flowId": 1}), "clusterMode"),
        ("degrade", degrade(grade=3, count=1), "grade"),
        ("degrade", degrade(count=1, minRequestAmount=0), "minRequestAmount"),
        ("degrade", degrade(count=1, statIntervalMs=0), "statIntervalMs"),
        ("authority", [{"resource": "r"}], "limitApp"),
        ("authority", [{"resource": "r", "limitApp": " "}], "limitApp"),
        ("param_flow", param(durationInSec=0), "durationInSec"),
        ("param_flow", param(burstCount=-1), "burstCount"),
        ("param_flow", param(paramFlowItemList=[{"object": "a", "count": None}]), "paramFlowItemList[0].count"),
        ("param_flow", param(paramFlowItemList=[{"object": "a", "count": -1}]), "paramFlowItemList[0].count"),
        ("param_flow", param(paramFlowItemList={}), "paramFlowItemList"),
        ("biz_metric", [{"resource": "r", "threshold": 1}], "bizMetricType"),
        ("biz_metric", [{"resource": "r", "bizMetricType": "X"}], "threshold"),
        ("biz_metric", [{"resource": "r", "bizMetricType": "X", "threshold": 1, "direction": "up"}], "direction"),
        (
            "biz_metric",
            [{"resource": "r", "bizMetricType": "X", "threshold": 1, "halfOpenPercent": 0}],
            "halfOpenPercent",
        ),
    ],
)
def test_what_java_would_drop_without_a_word_is_refused_by_field(
    json_problems: Problems, kind: str, rules: list[dict[str, Any]], field: str
) -> None:
    errors = [problem.field for problem in json_problems(kind, rules) if problem.severity == "error"]
    assert errors == [field]


@pytest.mark.parametrize(
    ("kind", "rules", "code"),
    [
        ("flow", flow(strategy=7), "SR213"),
        ("flow", flow(controlBehavior=9), "SR213"),
        ("flow", flow(grade=0, controlBehavior=2), "SR208"),
        ("flow", flow(limitApp="a,b"), "SR209"),
        ("flow", flow(resource=" r"), "SR210"),
        ("degrade", degrade(grade=1, count=0.5, slowRatioThreshold=0.5), "SR208"),
        ("degrade", degrade(count=0.5), "SR206"),
        ("authority", [{"resource": "r", "limitApp": "a, b"}], "SR211"),
        ("authority", [{"resource": "r", "limitApp": "a"}, {"resource": "r", "limitApp": "b"}], "SR212"),
        ("system", [{"qps": 1}, {"qps": -1}], "SR217"),
        ("param_flow", param(paramFlowItemList=[{"object": "a", "count": 1, "classType": "date"}]), "SR216"),
        ("biz_metric", [{"resource": "r", "bizMetricType": "PAY_FAIL_RATE", "threshold": 500}], "SR214"),
        ("biz_metric", [{"resource": "r", "bizMetricType": "X", "threshold": 5, "enabled": False}], "SR215"),
    ],
)
def test_what_is_valid_and_odd_is_warned_of(kind: str, rules: list[dict[str, Any]], code: str) -> None:
    assert code in warnings(kind, rules)


@pytest.mark.parametrize("kind", ["flow", "degrade", "param_flow"])
def test_an_absent_count_is_read_as_0_from_a_store_and_loudly(kind: str) -> None:
    rule = {
        "resource": "r",
        **({"timeWindow": 1} if kind == "degrade" else {"paramIdx": 0} if kind == "param_flow" else {}),
    }
    rules = parse_rules(kind, [rule])
    assert rules.rules[0].count == 0
    assert [warning.code for warning in rules.warnings] == ["SR202"]
    assert "BLOCKS EVERY CALL" in rules.warnings[0].message


def test_an_absent_count_is_refused_in_yaml(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n  - resource: r\n")
    assert (problem.code, problem.field, problem.line) == ("SR101", "count", 2)


def test_the_same_rule_twice_in_json_counts_once(json_problems: Problems) -> None:
    """E04: duplicates are collapsed at load."""
    rules = parse_rules("flow", '[{"resource":"r","count":1},{"resource":"r","count":1.0,"grade":1}]')
    assert len(rules) == 1
    assert [(warning.code, warning.index) for warning in rules.warnings] == [("SR204", 1)]
    assert rules.digest == parse_rules("flow", flow()).digest
    assert len(parse_rules("flow", [*flow(), *flow()], compat=True)) == 2


def test_codes_may_be_named_where_people_write_and_not_in_a_store(json_problems: Problems) -> None:
    (rule,) = parse_rules("flow", flow(grade="thread", controlBehavior="rate_limiter")).rules
    assert (rule.grade, rule.control_behavior) == (0, 2)
    (problem,) = json_problems("flow", '[{"resource":"r","count":1,"grade":"qps"}]')
    assert problem.message == 'grade is "qps"; in JSON write its number, 1'


def test_a_misspelled_code_gets_the_choices(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n  - {resource: r, count: 1, controlBehavior: warmup}\n")
    assert problem.code == "SR104"
    assert "did you mean warm_up?" in problem.message
    assert "reject (0)" in problem.message


def test_a_misspelled_number_gets_a_guess(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n  - resource: payment_invoke\n    count: 2O\n")
    assert str(problem) == (
        'rules.yaml:3:12: error SR102 payment_invoke: count is "2O"; a number is needed (did you mean 20?)'
    )

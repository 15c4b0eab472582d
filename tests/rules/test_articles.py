"""The samples of the articles load, mean what the articles say, and pass the published schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from sentinel_core.rules import (
    BizMetricRule,
    DegradeRule,
    FlowRule,
    Revision,
    RuleSet,
    SourceText,
    json_schema,
    parse_revision,
    parse_rules,
)


def test_the_business_metric_list_keeps_its_numbers_and_gets_our_defaults(data: Path) -> None:
    rules = parse_rules("biz_metric", (data / "biz-metric.json").read_bytes()).rules
    pay, stock = rules
    assert isinstance(pay, BizMetricRule)
    assert (pay.resource, pay.biz_metric_type, pay.threshold, pay.min_request_amount) == (
        "order:create",
        "PAY_FAIL_RATE",
        5,
        20,
    )
    assert (pay.window_interval_ms, pay.state_window_ms, pay.enabled) == (60000, 30000, True)
    assert (pay.half_open_ms, pay.half_open_percent, pay.on_stale, pay.dimension) == (2000, 5, "hold", None)
    assert pay.direction == "above"
    assert stock.direction == "below", "a low stock is the bad side"


def test_the_flow_list_is_200_calls_a_second(data: Path) -> None:
    (rule,) = parse_rules("flow", (data / "flow.json").read_bytes()).rules
    assert isinstance(rule, FlowRule)
    assert rule.describe() == "qps ≤ 200"
    assert rule.path == "flow/order:create/default"


def test_the_degrade_list_is_a_slow_ratio_rule_in_sentinel_s_own_numbers(data: Path) -> None:
    (rule,) = parse_rules("degrade", (data / "degrade.json").read_bytes()).rules
    assert isinstance(rule, DegradeRule)
    assert (rule.grade, rule.count, rule.time_window, rule.slow_ratio_threshold) == (0, 100, 30, 1.0)
    assert rule.describe().startswith("slow ratio ≥ 1 (above 100 ms)")


def test_the_yaml_document_reads_grade_2_as_threads_and_says_so(
    data: Path, load_yaml: Callable[..., dict[str, RuleSet]]
) -> None:
    flow = load_yaml((data / "sentinel-rules.yaml").read_bytes())["flow"]
    create, invoke = flow.rules
    assert (create.grade, create.count) == (1, 500)
    assert (invoke.grade, invoke.strategy, invoke.ref_resource) == (0, 1, "payment_gateway")
    assert b'"count":20,"grade":0' in flow.canonical
    said = (
        "10:12: warning SR203 payment_invoke: grade 2 is read as threads; "
        "Sentinel's code for threads is 0, which is what will be published"
    )
    assert [str(warning).partition(":")[2] for warning in flow.warnings if warning.code == "SR203"] == [said]


def test_a_document_manages_only_the_kinds_that_it_names(
    data: Path, load_yaml: Callable[..., dict[str, RuleSet]]
) -> None:
    assert list(load_yaml((data / "sentinel-rules.yaml").read_bytes())) == ["flow"]


def test_a_json_list_as_revision_is_of_the_one_kind_that_is_asked_for(data: Path) -> None:
    text = SourceText("nacos public/SENTINEL_GROUP/sentinel-flow-rules", (data / "flow.json").read_bytes(), "json")
    sets = parse_revision(Revision((text,), source="nacos", version="7"), ["flow"])
    assert [rule.count for rule in sets["flow"].rules] == [200]
    revision = sets["flow"].revision
    assert revision is not None
    assert (revision.version, revision.texts) == ("7", ()), "a rule set never holds its source text"


@pytest.mark.parametrize(("kind", "name"), [("biz_metric", "biz-metric"), ("flow", "flow"), ("degrade", "degrade")])
def test_the_lists_pass_their_schema(data: Path, kind: str, name: str) -> None:
    jsonschema.validate(json.loads((data / f"{name}.json").read_text()), json_schema(kind))


def test_the_document_passes_its_schema(data: Path) -> None:
    document = YAML(typ="safe", pure=True).load((data / "sentinel-rules.yaml").read_text())
    jsonschema.validate(document, json_schema(None))

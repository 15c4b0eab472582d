"""The package's face, its kinds, its codes and the words it uses for rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find
from pydantic.alias_generators import to_camel

import sentinel_core.rules
from sentinel_core.rules import KINDS, Problem, Rule, RuleRejected, SentinelRulesError, describe_rule, parse_rules
from sentinel_core.rules.codes import CODES
from sentinel_core.rules.registry import BY_DOCUMENT_KEY, MODELS
from sentinel_core.rules.strategies import drawn_from_fields

FOLDER = Path(sentinel_core.rules.__file__).parent
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py") if path.name != "codes.py")


def test_all_names_are_sorted_and_public() -> None:
    names = sentinel_core.rules.__all__
    assert sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name)) == names
    assert all(hasattr(sentinel_core.rules, name) for name in names)


def test_the_kinds_are_the_files_of_the_folder_in_the_order_of_their_ranks() -> None:
    assert set(KINDS) == {path.stem for path in (FOLDER / "kinds").glob("[a-z]*.py")}
    assert [MODELS[kind].rank for kind in KINDS] == sorted(model.rank for model in MODELS.values())
    assert list(BY_DOCUMENT_KEY) == [model.document_key for model in MODELS.values()]


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.kind)
def test_every_kind_has_the_same_shape(model: type[Rule]) -> None:
    assert model.document_key == f"{to_camel(model.kind)}Rules"
    assert set(model.names) <= model.fields_by_alias().keys()
    assert set(model.nested) <= model.fields_by_alias().keys()
    assert set(model.loud_defaults) <= model.model_fields.keys(), "of one word, so spelled alike in Python and JSON"
    assert model.__doc__
    assert "describe" in vars(model)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.kind)
def test_rules_of_a_kind_can_be_drawn_from_its_fields_alone(model: type[Rule]) -> None:
    item = find(drawn_from_fields(model), lambda item: isinstance(item, dict))
    assert parse_rules(model.kind, [item]).rules


def test_every_code_in_use_has_a_meaning_and_none_is_left_over() -> None:
    """Those of an engine, SR012, SR199 and SR299, stand elsewhere: tests/repo looks at all sources."""
    assert set(re.findall(r"\bSR\d{3}\b", SOURCES)) == set(CODES) - {"SR012", "SR199", "SR299"}
    assert all(meaning.endswith(".") for meaning in CODES.values())


@pytest.mark.parametrize(
    ("kind", "rule", "words"),
    [
        ("flow", {"resource": "a", "count": 50}, "qps ≤ 50"),
        ("flow", {"resource": "a", "count": 20, "grade": 0, "strategy": 1, "refResource": "b"}, "threads of b ≤ 20"),
        (
            "flow",
            {
                "resource": "a",
                "count": 2.5,
                "limitApp": "app",
                "controlBehavior": 3,
                "strategy": 2,
                "refResource": "web",
            },
            "qps ≤ 2.5, when entered through web, for caller app, warming up for 10 s, queueing up to 500 ms",
        ),
        (
            "degrade",
            {"resource": "a", "count": 0.5, "grade": 1, "timeWindow": 10},
            "error ratio > 0.5 within 1000 ms (5+ calls) opens for 10 s",
        ),
        (
            "degrade",
            {"resource": "a", "count": 1, "grade": 1, "timeWindow": 10},
            "error ratio ≥ 1 within 1000 ms (5+ calls) opens for 10 s",
        ),
        (
            "degrade",
            {"resource": "a", "count": 50, "slowRatioThreshold": 0.6, "timeWindow": 10},
            "slow ratio > 0.6 (above 50 ms) within 1000 ms (5+ calls) opens for 10 s",
        ),
        (
            "degrade",
            {"resource": "a", "count": 50, "timeWindow": 10},
            "slow ratio ≥ 1 (above 50 ms) within 1000 ms (5+ calls) opens for 10 s",
        ),
        (
            "biz_metric",
            {"resource": "a", "bizMetricType": "STOCK_DEPTH", "threshold": 10, "stateWindowMs": 15000},
            "STOCK_DEPTH < 10 opens for 15 s",
        ),
        ("system", {"qps": 100, "highestCpuUsage": 0.8}, "highestCpuUsage ≤ 0.8, qps ≤ 100"),
        ("authority", {"resource": "a", "limitApp": "x, y", "strategy": 1}, "not x, y"),
        ("param_flow", {"resource": "a", "paramIdx": 0, "count": 5}, "calls in 1 s for each value of argument 0 ≤ 5"),
    ],
)
def test_a_rule_is_described_in_one_line(kind: str, rule: dict[str, Any], words: str) -> None:
    assert describe_rule(parse_rules(kind, [rule]).rules[0]) == words


def test_paths_name_kind_resource_and_origin() -> None:
    assert parse_rules("flow", [{"resource": "/x", "count": 1, "limitApp": "app"}]).rules[0].path == "flow//x/app"
    assert parse_rules("system", [{"qps": 1, "resource": "ignored"}]).rules[0].path == "system/*/default"
    assert parse_rules("authority", [{"resource": "r", "limitApp": "a,b"}]).rules[0].path == "authority/r/a,b"


def test_a_problem_reads_as_a_compiler_s_line() -> None:
    problem = Problem("SR102", "error", "count is x", file="a.yaml", line=9, column=12, resource="pay")
    assert str(problem) == "a.yaml:9:12: error SR102 pay: count is x"
    assert str(Problem("SR102", "error", "m", file="a", path="$[0]")) == "a:$[0]: error SR102: m"
    assert str(Problem("SR102", "error", "m", path="$[0]")) == "$[0]: error SR102: m"


def test_a_rejection_is_one_of_ours_and_reads_as_its_problems() -> None:
    rejection = RuleRejected([Problem("SR001", "error", "blank", path="$")], total=0)
    assert isinstance(rejection, SentinelRulesError)
    assert str(rejection) == "$: error SR001: blank"

"""Without the compiled YAML parser everything is slower and nothing else is different."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sentinel_core.rules import Problem, RuleSet, SourceText, format_text, yaml_text

TEXT = "# 注释\nflowRules:\n  - {resource: 支付, count: 1, grade: thread}   # 中\n  - resource: b\n    count: 2\n"


@pytest.fixture(autouse=True)
def without_compiled_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "CParser", None)


def test_the_same_rules(load_yaml: Callable[..., dict[str, RuleSet]]) -> None:
    assert [(rule.resource, rule.grade) for rule in load_yaml(TEXT)["flow"].rules] == [("支付", 0), ("b", 1)]


def test_the_same_positions(yaml_problems: Callable[[str], list[Problem]]) -> None:
    (problem,) = yaml_problems(TEXT.replace("count: 2", "count: x"))
    assert (problem.line, problem.column, problem.resource) == (5, 12, "b")


def test_the_same_layout() -> None:
    assert format_text(SourceText("x", TEXT.encode())).decode() == TEXT


@pytest.mark.parametrize("text", ["a: [", "a:\n\tb: 1", "a: *b", "a: !!x y", "%", "'", "a: 1\n---\nb: 1"])
def test_the_same_refusals(yaml_problems: Callable[[str], list[Problem]], text: str) -> None:
    assert yaml_problems(text)[-1].severity == "error"

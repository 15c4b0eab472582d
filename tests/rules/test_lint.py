"""Names that no log shows, names that look like patterns, patterns without an end, rules that decide nothing."""

from __future__ import annotations

import random
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sentinel_core.rules import Problem, parse_rules
from sentinel_core.rules.patterns import LONGEST_NAME, is_plain, looks_like_pattern, runs_away
from sentinel_core.rules.registry import MODELS

Problems = Callable[..., list[Problem]]
NEEDED: dict[str, dict[str, Any]] = {
    "flow": {"count": 1},
    "degrade": {"count": 50, "timeWindow": 1},
    "biz_metric": {"bizMetricType": "X", "threshold": 1},
    "authority": {"limitApp": "a"},
    "param_flow": {"count": 1, "paramIdx": 0},
}
WITH_PATTERNS = [kind for kind in NEEDED if "regex" in MODELS[kind].fields_by_alias()]


def rule(kind: str, **fields: Any) -> dict[str, Any]:
    return {"resource": "r", **NEEDED[kind], **fields}


def codes(kind: str, *rules: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(warning.code, warning.index) for warning in parse_rules(kind, rules).warnings]


# Names


@pytest.mark.parametrize("kind", NEEDED)
@pytest.mark.parametrize("name", ["a\0", "a\nb", "\x1b[31m", "a\x7f", "a\x85"])
@pytest.mark.parametrize("field", ["resource", "limitApp"])
def test_a_name_holds_no_control_character(json_problems: Problems, kind: str, name: str, field: str) -> None:
    if field not in MODELS[kind].fields_by_alias():
        return
    (problem,) = json_problems(kind, [rule(kind, **{field: name})])
    assert (problem.code, problem.field) == ("SR118", field)
    assert name not in problem.message, "it would reach a terminal"


def test_blank_names_stay_blank_names(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", [rule("flow", resource="  ")])
    assert problem.code == "SR105"


@pytest.mark.parametrize("kind", WITH_PATTERNS)
@pytest.mark.parametrize("name", ["*", "order-*", "order.*", "/api/.+", "^order$", r"order\d", "(get|put):x", "v[0-9]"])
def test_a_name_that_looks_like_a_pattern_is_asked_about(kind: str, name: str) -> None:
    assert codes(kind, rule(kind, resource=name)) == [("SR220", 0)]
    assert "SR220" not in [code for code, _ in codes(kind, rule(kind, resource=name.replace("*", ".*", 1), regex=True))]


@pytest.mark.parametrize(
    "name", ["/a/{id}", "GET:/x?y=1", "com.foo.Bar:baz(int,long)", "支付.创建", "a+b", "a|b", "$x", "[x]"]
)
def test_other_signs_are_names(name: str) -> None:
    assert codes("flow", rule("flow", resource=name)) == []


def test_plain_names_never_look_like_patterns() -> None:
    assert all(not looks_like_pattern(name) for name in ("order:create", "/a/{b}", "a.b") if is_plain(name))
    assert not any(is_plain(name) for name in ("a*", " a", "a ", "^a", r"\d", "(a|b)", "[0-9]", "a.+"))


# Rules that decide nothing


def test_a_relation_to_itself_is_none() -> None:
    assert codes("flow", rule("flow", strategy=1, refResource="r")) == [("SR222", 0)]
    assert codes("flow", rule("flow", strategy=1, refResource="s")) == []


def test_a_resource_of_a_system_rule_is_ignored_and_said_so() -> None:
    assert codes("system", {"qps": 1, "resource": "order"}) == [("SR208", 0)]
    assert codes("system", {"qps": 1, "resource": "*"}) == []


def test_of_rules_that_differ_in_count_only_the_larger_is_named() -> None:
    assert codes("flow", rule("flow", count=9), rule("flow", count=5), rule("flow", count=7, resource="s")) == [
        ("SR221", 0)
    ]
    assert codes("flow", rule("flow", count=5, id=1), rule("flow", count=6, id=2), rule("flow", count=7)) == [
        ("SR221", 1),
        ("SR221", 2),
    ]


@pytest.mark.parametrize("field", [{"grade": 0}, {"limitApp": "web"}, {"strategy": 1, "refResource": "s"}])
def test_rules_that_differ_elsewhere_too_stand_side_by_side(field: dict[str, Any]) -> None:
    assert codes("flow", rule("flow", count=9), rule("flow", count=5, **field)) == []


# Patterns

ENDLESS = [
    "(a+)+", "(a+)+$", "(a*)*", "(a|a)*", "(a|aa)+", "([a-zA-Z]+)*", r"(\w+\s?)*", "(a+b?)*", "(a?b?)*", "(.+/)*",
    "a(b+c*)*d", "(a+b+a+)*", "(x+x+)+y", ".*.*.*.*", r"(?:\d+)+", "(?P<x>a+)*", "(a{1,20})*", "(a+(b*))+",
    "((a?)?[^a][ab])*", "(((a+){1,3}[^a])+)?", "a(.b*|[ab])*", "(a?){30}a{30}",
]  # fmt: skip
HONEST = [
    "order.*", "/api/.*", "/api(/[^/]+)*", "([a-z]+/)*x", "(get|post|put)+", ".*a.*b.*", "/a/{id}", "(?i)order_[0-9]+",
    r"\d{1,3}(\.\d{1,3}){3}", "(?!x)a.*", "([^/]+/)+create", r"(/v\d+)?/order/.*", r"[\w.]+:\w+\([\w.,]*\)",
    "order(_[a-z]+)*", r"(?:/[\w-]+){1,5}", "[a-z]+:[a-z]+:[a-z]+:[a-z]+:[a-z]+", "(a|b)*c",
]  # fmt: skip


@pytest.mark.parametrize("kind", WITH_PATTERNS)
def test_a_pattern_that_may_run_for_ever_is_refused(json_problems: Problems, kind: str) -> None:
    (problem,) = json_problems(kind, [rule(kind, resource="(a+)+$", regex=True)])
    assert (problem.code, problem.field) == ("SR117", "resource")


def test_compat_takes_it_as_java_does_and_says_so() -> None:
    kept = parse_rules("flow", [rule("flow", resource="(a+)+$", regex=True)], compat=True)
    assert [warning.code for warning in kept.warnings] == ["SR117"]


@pytest.mark.parametrize("pattern", ENDLESS)
def test_loops_in_loops_are_seen(pattern: str) -> None:
    assert runs_away(pattern)


@pytest.mark.parametrize("pattern", HONEST)
def test_honest_patterns_pass(pattern: str) -> None:
    assert not runs_away(pattern)


@pytest.fixture
def alarm() -> Iterator[None]:
    """Ends matches that take too long together; the matcher looks for signals."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 20)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def grown(rng: random.Random, depth: int) -> str:
    """A pattern of few characters and many loops."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(["a", "b", ".", "[ab]", r"\w", "[^a]", "a?", "b*", "a+", r"\."])
    if kind < 0.6:
        return grown(rng, depth - 1) + grown(rng, depth - 1)
    inner = grown(rng, depth - 1) if kind < 0.85 else f"{grown(rng, depth - 1)}|{grown(rng, depth - 1)}"
    return f"({inner}){rng.choice(['', '*', '+', '?', '{2,}'])}"


@pytest.mark.usefixtures("alarm")
def test_what_passes_ends_soon() -> None:
    rng = random.Random(5)
    names = [piece * (60 // len(piece)) + "!" for piece in ("a", "b", "ab", "aab", "abb", "a.b")]
    passed = 0
    for pattern in (grown(rng, 4) for _ in range(2000)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compiled = re.compile(pattern)
            except re.error:
                continue
        if not runs_away(pattern):
            passed += 1
            for name in names:
                compiled.fullmatch(name)
    assert passed > 500


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("pattern", [".*a.*a.*!", "([ab])*a.*b.*!", "(a|b)*.*c"])
def test_the_longest_name_that_is_matched_ends_soon(pattern: str) -> None:
    assert not runs_away(pattern)
    assert re.fullmatch(pattern, "ab" * (LONGEST_NAME // 2)) is None

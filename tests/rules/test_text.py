"""Positions, bounds and the traps of the two syntaxes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sentinel_core.rules import Limits, Problem, RuleSet, parse_rules
from sentinel_core.rules.json_text import read_json
from sentinel_core.rules.source import json_path
from sentinel_core.rules.yaml_text import read_yaml

Load = Callable[..., dict[str, RuleSet]]
Problems = Callable[..., list[Problem]]

JSON = '[\n  {"资源": 1, "a": {"b": [true, "x\\"}"]}},\n\t{"c": -1.5e3}\n]'
YAML = "资源: &x\n  - {k: v}\n  -   deep:\n        - 1\nagain: *x\n"


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ((), (1, 1), (1, 1)),
        ((0,), (2, 3), (2, 3)),
        ((0, "资源"), (2, 10), (2, 4)),
        ((0, "a", "b", 1), (2, 31), (2, 31)),
        ((1, "c"), (3, 8), (3, 3)),
        ((1, "absent", 7), (3, 2), (3, 2)),
        ((9,), (1, 1), (1, 1)),
    ],
)
def test_json_positions_are_lines_and_characters(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    source = read_json(JSON, "x")
    assert source.locate(path) == value
    assert source.locate(path, at_key=True) == key


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("资源",), (1, 5), (1, 1)),
        (("资源", 0, "k"), (2, 9), (2, 6)),
        (("资源", 1, "deep", 0), (4, 11), (4, 11)),
        (("again",), (5, 8), (5, 1)),
        (("again", 0, "k"), (2, 9), (2, 6)),
        (("absent",), (1, 1), (1, 1)),
    ],
)
def test_yaml_positions_are_lines_and_characters(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    source = read_yaml(YAML, "x")
    assert source.locate(path) == value
    assert source.locate(path, at_key=True) == key


def test_paths_are_written_as_json_paths() -> None:
    assert json_path(("flowRules", 2, "count")) == "$.flowRules[2].count"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ('[{"resource":"a",}]', 1, 18, "comma too many"),
        ('[{"a":1},]', 1, 10, "comma too many"),
        ("[{'a':1}]", 1, 3, "double quotes"),
        ('[\n{"a":1} // no\n]', 2, 9, "no comments"),
        ('[{"resource":"a"', 1, 2, "cut off"),
        ('[{"a":1}] x', 1, 11, "extra data"),
        ('[{"a":01}]', 1, 8, "not JSON"),
        ('["a\tb"]', 1, 4, "control character"),
        ("flowRules:\n", 1, 1, "not JSON"),
        ("NaN]", 1, 4, "closes nothing"),
        ('[{"a":NaN,"a":1}', 1, 1, "cut off"),
    ],
)
def test_json_syntax_errors_say_where_and_what(
    json_problems: Problems, text: str, line: int, column: int, words: str
) -> None:
    (problem,) = json_problems("flow", text)
    assert (problem.code, problem.line) == ("SR004", line)
    assert abs((problem.column or 0) - column) <= 1, "interpreters differ by a character in where a comma is too many"
    assert words in problem.message


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("flowRules:\n\t- resource: a\n", "SR004", 2, "a tab cannot indent, use spaces"),
        ("flowRules: [\n", "SR004", 1, "not YAML"),
        ("flowRules:\n - a\n  - b: c\n", "SR004", 3, "not YAML"),
        ("a: *nowhere\n", "SR009", 1, "refers to nothing"),
        ("a: &a [*a]\n", "SR009", 1, "refers to itself"),
        ("---\nflowRules: []\n---\nflowRules: []\n", "SR008", 3, "second document"),
        ("flowRules: !!python/object:os.system []\n", "SR009", 1, "tag"),
        ("flowRules: !!binary aGk=\n", "SR009", 1, "tag"),
        ("flowRules: []\n5: x\n", "SR009", 2, 'write "5"'),
        ("? [a]\n: b\n", "SR009", 1, "a key must be a plain text"),
        ("x-a: 1\nflowRules:\n  - <<: 5\n", "SR009", 3, "merges mappings only"),
        ("flowRules: \x07\n", "SR004", None, "not YAML"),
    ],
)
def test_yaml_faults_say_where_and_what(
    yaml_problems: Problems, text: str, code: str, line: int | None, words: str
) -> None:
    problem = yaml_problems(text)[-1]
    assert (problem.code, problem.line) == (code, line)
    assert words in problem.message


def test_all_scalar_faults_of_a_text_are_told_at_once(yaml_problems: Problems) -> None:
    problems = yaml_problems("flowRules:\n  - resource: no\n    count: 010\n    count: .nan\n")
    found = [(problem.code, problem.line) for problem in problems]
    assert found == [("SR006", 2), ("SR006", 3), ("SR005", 4), ("SR007", 4)]


@pytest.mark.parametrize(("written", "plain"), [("1e-09", "1.0e-09"), ("1e22", "1.0e+22"), ("1e3", "1000")])
def test_a_number_that_some_take_for_a_text_is_shown_as_all_take_it(
    yaml_problems: Problems, load_yaml: Callable[..., dict[str, RuleSet]], written: str, plain: str
) -> None:
    (problem,) = yaml_problems(f"flowRules: [{{resource: a, count: {written}, controlBehavior: rate_limiter}}]")
    assert (problem.code, problem.message.rpartition("write ")[2]) == ("SR006", plain)
    assert load_yaml(f"flowRules: [{{resource: a, count: {plain}, controlBehavior: rate_limiter}}]")["flow"].rules


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 500 + "]" * 500, '{"a":' * 3000, "[" * 40 + "]" * 40])
def test_depth_is_bounded(json_problems: Problems, yaml_problems: Problems, text: str) -> None:
    assert json_problems("flow", text)[0].severity == "error"
    assert yaml_problems(text)[0].code in ("SR003", "SR004", "SR009")


def test_alias_bombs_are_bounded(yaml_problems: Problems) -> None:
    lines = ["x-0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    problem = yaml_problems("\n".join(lines) + "\nflowRules: *a11\n")[-1]
    assert problem.code == "SR003"
    assert "aliases" in problem.message


def test_size_and_number_are_bounded(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", b"[" + b" " * 100 + b"]", limits=Limits(max_bytes=50))
    assert (problem.code, problem.message) == ("SR003", "the text has 102 bytes; at most 50 are read")
    rules = [{"resource": f"r{n}", "count": 1} for n in range(3)]
    assert json_problems("flow", rules, limits=Limits(max_rules=2))[0].code == "SR003"
    assert len(parse_rules("flow", rules, limits=Limits(max_rules=3))) == 3


def test_numbers_of_thousands_of_digits_are_refused(json_problems: Problems, yaml_problems: Problems) -> None:
    number = "9" * 5000
    assert json_problems("flow", f'[{{"resource":"r","count":{number}}}]')[0].severity == "error"
    assert yaml_problems(f"flowRules:\n  - {{resource: r, count: {number}}}\n")[0].severity == "error"


def test_a_rejection_lists_so_many_problems_and_counts_the_rest(json_problems: Problems) -> None:
    problems = json_problems("flow", [{"resource": "r", "count": -1}] * 250)
    assert len(problems) == 101
    assert problems[-1].message == "and 150 more problems"


def test_long_values_are_cut(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", [{"resource": "r", "count": "x" * 10_000}])
    assert len(problem.message) < 120


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("20", 20),
        ("+20", 20),
        ("20.0", 20),
        ("20.", 20),
        ("2.5e1", 25),
        (".5e2", 50),
        ("!!str 20", None),
        ('"20"', None),
    ],
)
def test_yaml_numbers_are_those_of_yaml_1_2(load_yaml: Load, scalar: str, value: float | None) -> None:
    text = f"flowRules:\n  - {{resource: r, count: {scalar}}}\n"
    if value is None:
        with pytest.raises(Exception, match="a number is needed"):
            load_yaml(text)
    else:
        assert load_yaml(text)["flow"].rules[0].count == value


@pytest.mark.parametrize("merge", ["*a", "[*a, *b]", "{grade: 0}"])
def test_p13_every_form_of_merge(load_yaml: Load, merge: str) -> None:
    anchors = "x-a: &a {grade: 0}\nx-b: &b {grade: 1, count: 3}\n"
    text = f"{anchors}flowRules:\n  - <<: {merge}\n    resource: r\n    count: 2\n"
    (rule,) = load_yaml(text)["flow"].rules
    assert (rule.grade, rule.count) == (0, 2)

"""What is no YAML or no JSON: the line where the slip was made, and what to write instead."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.rules import Problem, Revision, RuleRejected, SourceText, parse_revision, parse_rules

Problems = Callable[..., list[Problem]]
RULE = "flowRules:\n  - resource: a\n"

YAML = [
    (f"{RULE}    count 2\n    grade: qps\n", "3:5", "count has no colon; write count: 2"),
    (f"{RULE}    # a remark\n    count 2\n", "4:5", "count has no colon; write count: 2"),
    (f"{RULE}    count = 2\n    grade: qps\n", "3:5", "count has no colon; write count: 2"),
    (f"{RULE}    count:2\n    grade: qps\n", "3:5", "a blank is missing after the colon; write count: 2"),
    ("flowRules:\n  - resource a\n    count: 2\n", "2:5", "resource has no colon; write resource: a"),
    ("flowRules:\n  - resource： a\n    count: 2\n", "2:5", "resource has no colon; write resource: a"),
    ("flowRules\n  - resource: a\n", "1:1", "flowRules has no colon; write flowRules:"),
    ("flowRules:\n  - {resource: a, count: 1\n  - {resource: b, count: 1}\n", "2:5", "the { of line 2 is not closed"),
    ("flowRules:\n  - {resource: a, count: 1\n", "2:5", "the { of line 2 is not closed; write } where it ends"),
    ("flowRules: [\n  {resource: a, count: 1}\ndegradeRules: []\n", "1:12", "the [ of line 1 is not closed; write ]"),
    ("flowRules:\n  - {resource: a, count: 1]\n", "2:27", "the { of line 2 ends with ]; write }"),
    ("flowRules:\n  - {resource: a, count: 1}}\n", "2:28", "this } closes nothing; remove it"),
    ("flowRules:\n  - {resource: a count: 1}\n", "2:18", "a comma is missing before count; write , here"),
    ('{"flowRules": [{"resource": "a" "count": 1}]}', "1:33", 'a comma is missing before "count"; write , here'),
    ("<<<<<<< HEAD\nflowRules: []\n=======\nflowRules: []\n>>>>>>> x\n", "1:1", "a merge conflict; keep one side"),
    (f"{RULE}<<<<<<< HEAD\n    count: 1\n=======\n    count: 2\n>>>>>>> x\n", "3:1", "a merge conflict"),
    ('flowRules:\n  - resource: "a\n    count: 1\n  - resource: b\n', "2:15", 'not closed; write resource: "a"'),
    ("flowRules:\n  - resource: 'a\n    count: 1\n  - resource: 'b'\n", "2:15", "the quote of line 2 is not closed"),
    ('flowRules:\n  - resource: "a" b\n    count: 1\n', "2:15", 'behind the closing quote; write resource: "a b"'),
    (f"{RULE}      count: 1\n", "3:7", "count is in column 7; write it in column 5, as resource of line 2"),
    (f"{RULE}   count: 1\n", "3:4", "count is in column 4; write it in column 5, as resource of line 2"),
    (f"{RULE}    count: 1\n  resource: b\n", "4:3", "a rule of a list begins with a dash; write - resource: b"),
    (f"{RULE}    count: 1\n  -resource: b\n", "4:3", "a blank is missing after the dash; write - resource: b"),
    ("flowRules:\n\t- resource: a\n", "2:1", "a tab cannot indent, use spaces"),
    ("flowRules:\n  - resource: order: pay\n", "2:15", 'needs quotes; write resource: "order: pay"'),
    ("flowRules:\n  - resource: @a\n", "2:15", 'a text cannot begin with @; write resource: "@a"'),
    ("flowRules:\n  - resource: *\n    count: 1\n", "2:15", 'a text cannot begin with *; write resource: "*"'),
    ('flowRules:\n  - resource: "a\\d"\n', "2:17", r'a backslash is written twice; write resource: "a\\d"'),
    ("%YAML 1.1\nflowRules: []\n", "1:1", "rules need no % line; remove it"),
]  # fmt: skip
JSON = [
    ('[\n  {\n    "resource": "a"\n    "count": 1\n  }\n]', "3:20", 'a comma is missing before "count"; write , here'),
    ('[\n  {"a": 1}\n  {"a": 1}\n]', "2:11", "a comma is missing before {; write , here"),
    ('[\n  {"resource": "a",},\n]', "2:19", "a comma too many; remove the , before }"),
    ('[\n  {"resource": "a"},\n]', "2:20", "a comma too many; remove the , before ]"),
    ('[{"a":1,,"b":2}]', "1:8", "a comma too many; remove the , before ,"),
    ("[{'resource': 'a'}]", "1:3", 'write texts in double quotes: "resource"'),
    ("[{\"resource\": 'a'}]", "1:15", 'write texts in double quotes: "a"'),
    ('[{resource: "a"}]', "1:3", 'write texts in double quotes: "resource"'),
    ('[{“resource”: "a"}]', "1:3", "JSON has straight quotes only"),
    ('[\n// no\n{"a": 1}]', "2:1", "JSON has no comments; remove it"),
    ('[\n{"a": 1 /* no */}]', "2:9", "JSON has no comments; remove it"),
    ('[\n{"a": 1} # no\n]', "2:10", "JSON has no comments; remove it"),
    ('[\n  {"resource": "a, "count": 1}\n]', "2:16", 'line 2 has no closing quote; write "a"'),
    ('[\n  {"resource": "a,\n   "count": 1}\n]', "2:16", 'line 2 has no closing quote; write "a"'),
    ('[{"resource":"a","co', "1:18", 'has no closing quote; write "co"'),
    ('[\n  {"a": 1}\n', "1:1", "the [ of line 1 is not closed; write ] where it ends (was the text cut off?)"),
    ('[\n  {"a": 1,\n  {"a": 2}]', "2:3", "the { of line 2 is not closed; write } where it ends"),
    ('[\n  {"a": 1\n]', "2:3", "the { of line 2 is not closed; write } where it ends"),
    ("[]\n]", "2:1", "this ] closes nothing; remove it"),
    ("[]\n[]", "2:1", "extra data after the end of the list; keep one list"),
    ('[{"resource" "a"}]', "1:13", 'a colon is missing after "resource"; write :'),
    ('[{"resource"= "a"}]', "1:13", "write : in the place of ="),
    ('[{"regex": True}]', "1:12", "True is not JSON; write true"),
    ('[{"a": None}]', "1:8", "None is not JSON; write null"),
    ('[{"a":01}]', "1:7", "01 is not how JSON writes a number; write 1"),
    ('[{"a":+1}]', "1:7", "+1 is not how JSON writes a number; write 1"),
    ('[{"a":.5}]', "1:7", ".5 is not how JSON writes a number; write 0.5"),
    ('[{"a":0x1F}]', "1:7", "0x1F is not how JSON writes a number; write 31"),
    ('["a\\d"]', "1:4", "a backslash that stands for itself is written twice"),
    ('["a\tb"]', "1:4", "a control character in a text; write \\t"),
    ('[\n<<<<<<< HEAD\n{"a":1}\n=======\n]', "2:1", "a merge conflict"),
    ("flowRules: []\n", "1:1", "a list of rules begins with ["),
]  # fmt: skip


def place(problem: Problem) -> str:
    return f"{problem.line}:{problem.column}"


@pytest.mark.parametrize(("text", "where", "words"), YAML)
def test_what_is_no_yaml(yaml_problems: Problems, text: str, where: str, words: str) -> None:
    problem = yaml_problems(text)[-1]
    assert (problem.code, place(problem)) == ("SR004", where)
    assert words in problem.message


@pytest.mark.parametrize(("text", "where", "words"), JSON)
def test_what_is_no_json(json_problems: Problems, text: str, where: str, words: str) -> None:
    (problem,) = json_problems("flow", text)
    assert problem.code == "SR004"
    line, column = where.split(":")
    assert problem.line == int(line)
    assert abs((problem.column or 0) - int(column)) <= 1, "interpreters differ by a character"
    assert words in problem.message


def test_the_rule_and_the_field_are_named_where_they_can_be_known(
    yaml_problems: Problems, json_problems: Problems
) -> None:
    (problem,) = yaml_problems(f"{RULE}    count 2\n")
    assert (problem.resource, problem.field) == ("a", "count")
    (problem,) = yaml_problems("flowRules:\n  - count 2\n    resource: a\n")
    assert (problem.resource, problem.field) == ("a", "count")
    (problem,) = json_problems("flow", '[{"resource": "a", "count": 01}]')
    assert (problem.resource, problem.field) == ("a", "count")


def test_brackets_and_quotes_of_a_block_text_or_a_comment_are_not_followed(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("x-note: |\n  see { and 'this\n# [\n" + RULE + "    count 2\n")
    assert (problem.line, problem.field) == (6, "count")


def test_a_list_without_dashes_gets_them(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n  resource: a\n  count: 1\n")
    assert problem.code == "SR010"
    assert "begin each rule with a dash" in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "flowRules: [" + "{resource: a, count: 1}, " * 20_000,
        "flowRules: '" + "a " * 200_000,
        "flowRules:\n" + "  - {resource: a, count: 1}\n" * 10_000 + "  -a: b\n",
        "a " * 300_000 + ": : b",
        " " * 300_000 + "[",
    ],
)
def test_long_texts_are_explained_soon(text: str) -> None:
    began = time.thread_time()
    for form in ("yaml", "json"):
        with pytest.raises(RuleRejected):
            parse_revision(Revision((SourceText("x", text.encode(), form),), "s", "1"), ["flow"])
    assert time.thread_time() - began < 5


PIECES = [
    "flowRules:",
    "resource: a",
    "count",
    "2",
    "- ",
    " ",
    "\n",
    "  ",
    "{",
    "}",
    "[",
    "]",
    "'",
    '"',
    ":",
    ",",
    "#",
    "*",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_slip_has_a_place_in_the_text(text: str) -> None:
    for form in ("yaml", "json"):
        try:
            parse_revision(Revision((SourceText("x", text.encode(), form),), "s", "1"), ["flow"])
        except RuleRejected as rejection:
            lines = text.split("\n")
            for problem in rejection.errors:
                assert problem.line is None or problem.line <= len(lines) + 1
                if problem.line and problem.line <= len(lines) and problem.column:
                    assert problem.column <= len(lines[problem.line - 1]) + 1


def test_a_good_list_is_still_read() -> None:
    assert len(parse_rules("flow", '[{"resource": "{[\\"\'", "count": 1}]')) == 1

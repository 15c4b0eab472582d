"""Cases from the field about rule text. The id of the case stands in the name of each test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sentinel_core.rules import (
    Problem,
    Revision,
    RuleRejected,
    RuleSet,
    SourceText,
    diff_rules,
    parse_revision,
    parse_rules,
)

Load = Callable[..., dict[str, RuleSet]]
Problems = Callable[..., list[Problem]]
FLOW = '{"resource":"/x","grade":1,"count":2'


def codes(problems: list[Problem]) -> list[str]:
    return [problem.code for problem in problems]


# P01 numbers as text


@pytest.mark.parametrize(
    ("kind", "text", "path", "words"),
    [
        ("system", '[{"highestSystemLoad":"sys","qps":1}]', "$[0].highestSystemLoad", 'is "sys"; a number is needed'),
        ("flow", '[{"resource":"r","count":"20"}]', "$[0].count", "write 20 without quotes"),
        ("flow", '[{"resource":"r","count":1,"grade":"1"}]', "$[0].grade", "write 1 without quotes"),
        ("flow", '[{"resource":"r","count":true}]', "$[0].count", "count is true; a number is needed"),
        ("flow", '[{"resource":"r","count":1,"grade":true}]', "$[0].grade", "grade is true"),
    ],
)
def test_p01_a_text_is_no_number_and_true_is_not_1(
    json_problems: Problems, kind: str, text: str, path: str, words: str
) -> None:
    (problem,) = json_problems(kind, text)
    assert problem.path == path
    assert words in problem.message


def test_p01_the_same_holds_in_yaml(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems('flowRules:\n  - resource: r\n    count: "20"\n')
    assert str(problem) == 'rules.yaml:3:12: error SR102 r: count is "20"; a number is needed: write 20 without quotes'


def test_p01_a_hot_value_must_fit_its_class(json_problems: Problems) -> None:
    text = (
        '[{"resource":"r","paramIdx":0,"count":1,"paramFlowItemList":[{"object":"abc","classType":"int","count":1}]}]'
    )
    (problem,) = json_problems("param_flow", text)
    assert (problem.code, problem.path) == ("SR114", "$[0].paramFlowItemList[0].object")
    assert '"abc" is not a value of classType int' in problem.message


# P02 dashboard extras


def test_p02_dashboard_keys_are_dropped_without_a_word() -> None:
    text = (
        '[{"id":1,"app":"a","ip":"10.0.0.1","port":8720,"gmtCreate":1,"gmtModified":null,"resource":"/x","grade":1,"count":2,'
        '"clusterMode":false,"clusterConfig":null}]'
    )
    rules = parse_rules("flow", text)
    assert len(rules) == 1
    assert rules.warnings == ()
    assert b"gmt" not in rules.canonical
    assert rules.digest == parse_rules("flow", f"[{FLOW}}}]").digest, "an id is no content"
    assert rules.rules[0].id == 1


def test_p02_other_unknown_keys_are_warned_of_once_each() -> None:
    rules = parse_rules("flow", f'[{FLOW},"cuont":1}},{FLOW.replace("/x", "/y")},"cuont":1,"zzz":0}}]')
    assert [(warning.code, warning.index) for warning in rules.warnings] == [("SR201", 0), ("SR201", 1)]
    assert "did you mean count?" in rules.warnings[0].message


# P04 null in a required field


@pytest.mark.parametrize(
    ("fields", "words"), [('"paramIdx":null,"count":1', "paramIdx is null"), ('"count":1', "paramIdx is missing")]
)
def test_p04_a_parameter_index_is_needed(json_problems: Problems, fields: str, words: str) -> None:
    (problem,) = json_problems("param_flow", f'[{{"resource":"r",{fields}}}]')
    assert problem.code == "SR101"
    assert words in problem.message


def test_p04_null_in_an_optional_field_is_its_default() -> None:
    with_nulls = '[{"resource":"r","paramIdx":0,"count":1,"limitApp":null,"paramFlowItemList":null}]'
    assert (
        parse_rules("param_flow", with_nulls).digest
        == parse_rules("param_flow", with_nulls.replace(',"limitApp":null,"paramFlowItemList":null', "")).digest
    )


@pytest.mark.parametrize("content", ["[null]", "[1]", '["flow"]', "[[]]", '{"flow":[]}', "5", "true", '"flow"'])
def test_p04_whatever_stands_there_is_refused_and_never_raises_anything_else(
    json_problems: Problems, content: str
) -> None:
    assert json_problems("flow", content)[0].severity == "error"


# P05 resource lost


@pytest.mark.parametrize(
    "resource", ['"test":1', '"resource":""', '"resource":"  "', '"resource":null', '"resource":7']
)
def test_p05_a_rule_without_resource_is_refused(json_problems: Problems, resource: str) -> None:
    problems = json_problems("flow", f'[{{{resource},"count":1,"grade":1}}]')
    assert any(problem.field == "resource" and problem.severity == "error" for problem in problems)


def test_p05_one_bad_rule_refuses_the_whole_list() -> None:
    with pytest.raises(RuleRejected) as caught:
        parse_rules("flow", f'[{FLOW}}},{{"resource":"","count":1}}]')
    assert caught.value.total == 2
    assert [problem.index for problem in caught.value.errors] == [1]


# P06 typo of a key

TYPO = '[{"resource":"/x","IimitApp":"caller-a","count":1,"grade":1}]'


def test_p06_a_typo_is_a_warning_in_json_with_the_right_name() -> None:
    (warning,) = parse_rules("flow", TYPO).warnings
    assert (warning.code, warning.line, warning.column) == ("SR201", 1, 19)
    assert warning.message == "unknown field IimitApp is ignored; did you mean limitApp?"


def test_p06_strict_refuses_a_typo(json_problems: Problems) -> None:
    assert codes(json_problems("flow", TYPO, strict=True)) == ["SR110"]


def test_p06_yaml_refuses_a_typo(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n  - resource: payment_invoke\n    count: 20\n    warmupPeriodSec: 120\n")
    assert str(problem) == (
        "rules.yaml:4:5: error SR110 payment_invoke: unknown field warmupPeriodSec; did you mean warmUpPeriodSec?"
    )


# P08 BOM


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf[]", "\ufeff[]"])
def test_p08_a_leading_mark_is_stripped(content: str | bytes) -> None:
    assert parse_rules("flow", content) == RuleSet.empty("flow")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]".encode("utf-16"), "the text is UTF-16"),
        ("[]".encode("utf-16-be"), "NUL"),
        ("\ufeff[]".encode("utf-32"), "UTF-32"),
        ("[]\ufeff", "byte order mark"),
        ("[\n\ufeff]", "byte order mark"),
        (b'[{"resource":"\xff"}]', "byte 0xff is not UTF-8"),
        ('["\ud800"]', "surrogate"),
        ('["\\ud800"]', "surrogate"),
        (b'[{"resource":"r","count":1,"\\uDc00":1}]', "surrogate"),
    ],
)
def test_p08_other_encodings_are_refused_by_name(json_problems: Problems, content: str | bytes, words: str) -> None:
    (problem,) = json_problems("flow", content)
    assert problem.code == "SR002"
    assert words in problem.message


def test_p08_objects_may_hold_what_no_file_can(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", [{"resource": "r", "count": 1, "limitApp": "\ud800"}])
    assert (problem.code, problem.index) == ("SR002", 0)


def test_p08_the_mark_inside_is_located(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", "[\n \ufeff]")
    assert (problem.line, problem.column) == (2, 2)


def test_p08_yaml_files_may_begin_with_a_mark(load_yaml: Load) -> None:
    assert load_yaml(b"\xef\xbb\xbfflowRules: []\n")["flow"] == RuleSet.empty("flow")


# P09, C05 line ends


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: text.rstrip("\n")])
def test_p09_c05_line_ends_are_no_change(load_yaml: Load, change: Callable[[str], str]) -> None:
    text = "flowRules:\n  - resource: 支付\n    count: 1\n"
    assert load_yaml(change(text))["flow"].digest == load_yaml(text)["flow"].digest


# P10 duplicate keys


def test_p10_json_names_both_lines(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", '[{"resource":"r",\n"count":5,\n"count":5000,"grade":1}]')
    assert str(problem) == "rules.json:3:1: error SR005 r: count is written twice (line 2 and line 3); keep one"
    assert problem.path == "$[0].count"


@pytest.mark.parametrize(
    "text", ['[{"resource":"r","count" : 5,"count":7}]', '[{"resource":"r","cou\\u006et":5,"count":7}]']
)
def test_p10_no_spelling_hides_a_duplicate(json_problems: Problems, text: str) -> None:
    assert codes(json_problems("flow", text)) == ["SR005"]


def test_p10_yaml_names_both_lines(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n  - resource: r\n    count: 5\n    count: 5000\n")
    assert str(problem) == "rules.yaml:4:5: error SR005 r: count is written twice (line 3 and line 4); keep one"


def test_p10_a_section_may_stand_once(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules: []\nflowRules: []\n")
    assert "flowRules is written twice (line 1 and line 2)" in problem.message


def test_p10_p13_merge_keys_work_and_written_keys_win(load_yaml: Load) -> None:
    text = "x-base: &base {grade: thread, count: 7}\nflowRules:\n  - <<: *base\n    resource: r\n    count: 9\n"
    (rule,) = load_yaml(text)["flow"].rules
    assert (rule.grade, rule.count) == (0, 9)


# P11, P12 ambiguous scalars


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("resource: no", '"no" in quotes'),
        ("regex: on", "write true"),
        ("limitApp: off", '"off" in quotes'),
        ("on: 1", '"on" in quotes'),
        ("count: 010", "write 10 or 8"),
        ("count: 08", "write 8"),
        ("count: 1e3", "write 1000"),
        ("timeWindow: 1:30", "write 90"),
        ("resource: 2026-11-30", '"2026-11-30" in quotes'),
        ("count: 1_000", "write 1000"),
        ("count: 0x1F", "write 31"),
    ],
)
def test_p11_p12_what_two_tools_read_differently_is_refused(yaml_problems: Problems, field: str, words: str) -> None:
    (problem,) = (each for each in yaml_problems(f"flowRules:\n  - {field}\n") if each.code == "SR006")
    assert (problem.line, problem.severity) == (2, "error")
    assert words in problem.message


@pytest.mark.parametrize(
    ("field", "advice"),
    [
        ("grade: y", "write qps (1) or thread (0)"),
        ("count: 010", "write 10 or 8"),
        ("count: no", "write a number"),
        ("resource: 010", 'write "010" in quotes'),
        ("refResource: off", 'write "off" in quotes'),
        ("regex: 1:30", "write true or false"),
        ("clusterConfig: {flowId: 1_000}", "write 1000"),
        ("unknown: on", 'write true, or "on" in quotes'),
    ],
)
def test_p11_p12_the_advice_fits_the_field(yaml_problems: Problems, field: str, advice: str) -> None:
    (problem,) = (each for each in yaml_problems(f"flowRules:\n  - {field}\n") if each.code == "SR006")
    assert problem.message.endswith(f"; {advice}")


def test_p12_a_name_that_is_a_number_wants_quotes(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n  - resource: 1.8\n    count: 1\n")
    assert problem.message == 'resource is 1.8; write "1.8" in quotes'


@pytest.mark.parametrize("name", ["支付:创建", "🚀", "/a/{b}", "GET:/x", '"no"', "'010'", "1.8.9", "10.0.0.1"])
def test_p12_names_in_any_language_and_quoted_ones_are_texts(load_yaml: Load, name: str) -> None:
    (rule,) = load_yaml(f"flowRules:\n  - resource: {name}\n    count: 1\n")["flow"].rules
    assert rule.resource == name.strip("\"'")


# P10, P12, P16: what hides nothing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "flowRules:\n  - {resource: a, grade: y, count: -1}\n  - {resource: b, count: x}\n",
            [("SR006", "a", "grade"), ("SR103", "a", "count"), ("SR102", "b", "count")],
        ),
        (
            "flowRules:\n  - {resource: a, count: 1, count: 2, grade: 7}\n  - {resource: b}\n",
            [("SR005", "a", "count"), ("SR104", "a", "grade"), ("SR101", "b", "count")],
        ),
        (
            "flowRules:\n  - {resource: a, count: .inf}\n  - {count: 1}\n",
            [("SR007", "a", "count"), ("SR101", None, "resource")],
        ),
        ("flowRules:\n  - {resource: a, count: !!int 1, on: 1}\n", [("SR009", "a", "count"), ("SR006", "a", "on")]),
        ("x-a: &a {grade: y}\nflowRules:\n  - {<<: *a, resource: a, count: 1}\n", [("SR006", None, "grade")]),
        (
            "flowRules: [{resource: a, count: 1}]\nflowRules: []\ndegradeRules: [{resource: d, count: 5}]\n",
            [("SR005", None, "flowRules"), ("SR101", "d", "timeWindow")],
        ),
    ],
)
def test_p10_p12_p16_a_lesser_fault_hides_no_other_and_makes_no_noise(
    yaml_problems: Problems, text: str, expected: list[tuple[str, str | None, str]]
) -> None:
    assert [(p.code, p.resource, p.field) for p in yaml_problems(text) if p.severity == "error"] == expected


def test_p10_p16_the_same_holds_in_json(json_problems: Problems) -> None:
    text = '[{"resource":"a","count":1,"count":2,"grade":7},{"resource":"b","count":NaN},{"count":1}]'
    assert [(p.code, p.index) for p in json_problems("flow", text)] == [
        ("SR005", None), ("SR104", 0), ("SR007", None), ("SR101", 2),
    ]  # fmt: skip


def test_p10_nothing_more_is_said_about_a_field_that_is_written_twice(json_problems: Problems) -> None:
    (problem,) = json_problems("flow", '[{"resource":"a","count":1,"count":-1}]')
    assert problem.code == "SR005"


def test_p10_the_rules_of_a_text_with_a_fault_are_counted() -> None:
    with pytest.raises(RuleRejected) as caught:
        parse_rules("flow", '[{"resource":"a","count":1,"count":2},{"resource":"b","count":1}]')
    assert caught.value.total == 2


def test_a_mapping_in_the_place_of_a_list_is_shown_as_it_was_written(yaml_problems: Problems) -> None:
    rule = "{resource: a, count: 1, paramIdx: 0, paramFlowItemList: {a: 1}}"
    (problem,) = yaml_problems(f"paramFlowRules: [{rule}]\n")
    assert problem.message == 'paramFlowItemList is {"a": 1}; a list is needed'


# P16 not finite


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity", "Infinity"])
def test_p16_json(json_problems: Problems, number: str) -> None:
    (problem,) = json_problems("flow", f'[{{"resource":"r","count":{number}}}]')
    assert (problem.code, problem.field, problem.column) == ("SR007", "count", 26)


@pytest.mark.parametrize("number", [".nan", ".inf", "-.INF", "1.0e999", "1e400", "-1E+400"])
def test_p16_yaml(yaml_problems: Problems, number: str) -> None:
    assert codes(yaml_problems(f"flowRules:\n  - resource: r\n    count: {number}\n")) == ["SR007"]


def test_p16_objects(json_problems: Problems) -> None:
    assert codes(json_problems("flow", [{"resource": "r", "count": float("nan")}])) == ["SR007"]


# P24, P25 nothing, and an explicit nothing


@pytest.mark.parametrize("content", ["", "  ", b"", "\n\t", "\ufeff", "null", "{}", b"\xef\xbb\xbf\n"])
def test_p24_p25_content_that_says_nothing_has_a_code_of_its_own(json_problems: Problems, content: str | bytes) -> None:
    assert codes(json_problems("flow", content)) == ["SR001"]


@pytest.mark.parametrize("content", [None, {}])
def test_p24_p25_the_same_holds_for_objects(json_problems: Problems, content: Any) -> None:
    (problem,) = json_problems("flow", content)
    assert (problem.code, problem.line) == ("SR001", None)


@pytest.mark.parametrize("content", ["", "# only a comment\n", "null\n", "{}\n", "---\n", "~"])
def test_p24_p25_the_same_holds_for_documents(yaml_problems: Problems, content: str) -> None:
    assert codes(yaml_problems(content)) == ["SR001"]


def test_p25_an_empty_list_is_an_explicit_clear(load_yaml: Load) -> None:
    assert parse_rules("flow", "[]") == parse_rules("flow", []) == RuleSet.empty("flow")
    assert load_yaml("flowRules: []\n") == {"flow": RuleSet.empty("flow")}


def test_p25_a_section_without_a_list_is_no_clear(yaml_problems: Problems) -> None:
    (problem,) = yaml_problems("flowRules:\n")
    assert (problem.code, problem.line) == ("SR010", 1)


# P27 wrong kind

GATEWAY = [{"resource": "r", "count": 1, "intervalSec": 1, "paramItem": {"parseStrategy": 0}}]
GOLANG = [{"resource": "r", "threshold": 100.0, "retryTimeoutMs": 3000, "statIntervalMs": 1000}]


@pytest.mark.parametrize(
    ("kind", "rules", "words"),
    [
        (
            "degrade",
            [{"resource": "a", "grade": 1, "count": 100, "strategy": 0, "controlBehavior": 0}],
            "looks like flow",
        ),
        ("system", [{"resource": "a", "limitApp": "b", "strategy": 0}], "looks like authority"),
        ("flow", [{"resource": "a", "grade": 0, "count": 100, "timeWindow": 10}], "looks like degrade"),
        ("flow", [{"resource": "a", "paramIdx": 0, "count": 1}], "looks like param_flow"),
        ("flow", [{"resource": "a", "bizMetricType": "X", "threshold": 1}], "looks like biz_metric"),
        ("flow", GATEWAY, "a gateway flow list"),
        ("degrade", GOLANG, "sentinel-golang"),
        ("authority", [{"id": 1, "app": "a", "rule": {"resource": "a"}}], "a dashboard entity"),
    ],
)
def test_p27_a_list_of_another_kind_is_refused_whole(
    json_problems: Problems, kind: str, rules: Any, words: str
) -> None:
    (problem,) = json_problems(kind, rules)
    assert problem.code == "SR109"
    assert words in problem.message


def test_p27_100_calls_never_become_100_ms(json_problems: Problems) -> None:
    problems = json_problems("degrade", [{"resource": "a", "grade": 1, "count": 100}])
    assert codes(problems) == ["SR101"]


# C01 noise


@pytest.mark.parametrize(
    "other",
    [
        '[{"resource":"b","count":1,"grade":1},{"resource":"a","count":5,"grade":1}]',
        '[{"count":5.0,"grade":1.0,"resource":"a"},{"resource":"b","count":1,"grade":1,"limitApp":"default"}]',
        '[{"resource":"a","count":5,"limitApp":""},{"resource":"b","count":1,"refResource":null,"strategy":0}]',
    ],
)
def test_c01_spellings_are_no_changes(other: str) -> None:
    one = parse_rules("flow", '[{"resource":"a","count":5,"grade":1},{"resource":"b","count":1,"grade":1}]')
    two = parse_rules("flow", other)
    assert (one.digest, one.canonical) == (two.digest, two.canonical)
    assert diff_rules(one, two) == ()


def test_c01_yaml_and_json_of_the_same_rules_are_one_version() -> None:
    yaml = b"flowRules:\n  - {resource: a, count: 5, grade: thread, controlBehavior: reject}\n"
    sets = parse_revision(Revision((SourceText("a.yaml", yaml),), source="s", version="1"), ["flow"])
    assert sets["flow"].digest == parse_rules("flow", '[{"grade":0,"count":5,"resource":"a"}]').digest

"""A revision as a document or as a folder of them: what is managed, what is merged, what is refused."""

from __future__ import annotations

import pytest

from sentinel_core.rules import KINDS, Problem, Revision, RuleRejected, RuleSet, SourceText, parse_revision

RULE = "flowRules:\n  - {{resource: {}, count: 1}}\n"


def revision(*texts: tuple[str, str]) -> Revision:
    formats = {"json": "json"}
    return Revision(
        tuple(SourceText(name, text.encode(), formats.get(name.rpartition(".")[2], "yaml")) for name, text in texts),
        source="test",
        version="1",
    )


def refused(*texts: tuple[str, str], kinds: tuple[str, ...] = KINDS) -> list[Problem]:
    with pytest.raises(RuleRejected) as caught:
        parse_revision(revision(*texts), kinds)
    return list(caught.value.problems)


def test_a_folder_is_merged_by_kind_in_the_order_of_its_files() -> None:
    sets = parse_revision(
        revision(("a.yaml", RULE.format("a")), ("b.yaml", RULE.format("b") + "degradeRules: []\n")), KINDS
    )
    assert [rule.resource for rule in sets["flow"].rules] == ["a", "b"]
    assert sets["degrade"] == RuleSet.empty("degrade")
    assert set(sets) == {"flow", "degrade"}


def test_one_resource_may_be_split_over_files() -> None:
    texts = (("a.yaml", RULE.format("a")), ("b.yaml", "flowRules:\n  - {resource: a, count: 1, grade: thread}\n"))
    assert len(parse_revision(revision(*texts), KINDS)["flow"]) == 2


def test_the_same_rule_twice_names_both_places() -> None:
    (problem,) = refused(("a.yaml", RULE.format("a")), ("b.yaml", "# b\n" + RULE.format("a")))
    assert str(problem) == "b.yaml:3:5: error SR111 a: the same rule stands at a.yaml:2:5; remove one"


def test_problems_of_all_files_and_kinds_come_together_in_order() -> None:
    broken = "degradeRules:\n  - {resource: d, count: 1}\nflowRules:\n  - {resource: f, count: x}\n"
    problems = refused(("a.yaml", broken), ("b.yaml", "flowRules: [\n"), ("c.yaml", "flow: []\n"))
    assert [(p.file, p.line, p.code) for p in problems] == [
        ("a.yaml", 2, "SR101"),
        ("a.yaml", 4, "SR102"),
        ("b.yaml", 1, "SR004"),
        ("c.yaml", 1, "SR011"),
    ]


def test_every_kind_must_be_right_even_those_not_asked_for() -> None:
    assert refused(("a.yaml", "degradeRules:\n  - {resource: d}\n"), kinds=("flow",))[0].kind == "degrade"


def test_only_what_is_asked_for_is_returned() -> None:
    assert list(parse_revision(revision(("a.yaml", "flowRules: []\ndegradeRules: []\n")), ["degrade"])) == ["degrade"]


def test_a_blank_file_of_a_folder_is_not_passed_over() -> None:
    """A torn file must not make its rules disappear."""
    (problem,) = refused(("a.yaml", RULE.format("a")), ("b.yaml", "# nothing yet\n"))
    assert (problem.code, problem.file) == ("SR001", "b.yaml")


@pytest.mark.parametrize(
    ("section", "hint"),
    [("flow", "flowRules"), ("flowRule", "flowRules"), ("flowrules", "flowRules"), ("biz_metric", "bizMetricRules")],
)
def test_an_unknown_section_gets_a_hint(section: str, hint: str) -> None:
    (problem,) = refused(("a.yaml", f"{section}: []\n"))
    assert problem.message == f"unknown section {section}; did you mean {hint}?"


def test_keys_that_begin_with_x_are_the_place_for_anchors() -> None:
    assert list(parse_revision(revision(("a.yaml", "x-notes: anything\nflowRules: []\n")), KINDS)) == ["flow"]


def test_a_bare_list_needs_one_kind() -> None:
    text = "- {resource: a, count: 1}\n"
    assert len(parse_revision(revision(("a.yaml", text)), ["flow"])["flow"]) == 1
    (problem,) = refused(("a.yaml", text))
    assert "does not say of which kind" in problem.message


def test_a_json_document_has_the_same_sections_with_codes_as_numbers() -> None:
    text = '{"flowRules": [{"resource": "a", "count": 1, "grade": 0}]}'
    assert parse_revision(revision(("a.json", text)), KINDS)["flow"].rules[0].grade == 0
    (problem,) = refused(("a.json", text.replace("0}", '"qps"}')))
    assert (problem.code, problem.path) == ("SR104", "$.flowRules[0].grade")


@pytest.mark.parametrize("text", ["just a text\n", "5\n", "- a\n- b\n"])
def test_other_shapes_are_refused(text: str) -> None:
    assert refused(("a.yaml", text))[0].code == "SR010"


def test_warnings_of_good_kinds_are_told_with_the_errors() -> None:
    problems = refused(
        ("a.yaml", "flowRules:\n  - {resource: a, count: 0}\ndegradeRules:\n  - {resource: d, count: 1}\n")
    )
    assert [problem.code for problem in problems] == ["SR205", "SR101"]


def test_a_revision_without_texts_is_blank() -> None:
    assert refused()[0].code == "SR001"


def test_the_same_bytes_again_are_the_same_rules_and_not_read_anew() -> None:
    def rules(content: bytes, *, strict: bool = False) -> tuple[object, ...]:
        revision = Revision((SourceText("again.json", content, "json"),), "test", "1")
        return parse_revision(revision, ["flow"], strict=strict)["flow"].rules

    small = b'[{"resource": "again", "count": 7}]'
    assert rules(small) is rules(bytes(bytearray(small)))
    assert rules(small) is not rules(small, strict=True), "another way to read"
    large = b'[{"resource": "again", "count": 7}%s]' % (b" " * 70_000)
    assert rules(large) is not rules(large), "nothing large is kept"

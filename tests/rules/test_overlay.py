"""An environment's file changes, removes and adds rules of the base, and errors stand where they were written."""

from __future__ import annotations

import pytest

from sentinel_core.rules import KINDS, Problem, Revision, RuleRejected, RuleSet, SourceText, parse_revision

BASE = """flowRules:
  - {resource: order, count: 500}
  - {resource: pay, count: 20, grade: thread, clusterConfig: {flowId: 1, sampleCount: 5}}
  - {resource: pay, count: 90}
"""


def read(overlay: str, base: str = BASE) -> dict[str, RuleSet]:
    texts = (SourceText("rules/environments/prod.yaml", overlay.encode()), SourceText("rules/base.yaml", base.encode()))
    return parse_revision(Revision(texts, source="s", version="1"), KINDS)


def counts(overlay: str) -> list[tuple[str, int, float]]:
    return [(rule.resource, rule.grade, rule.count) for rule in read(f"flowRules:\n  - {overlay}\n")["flow"].rules]


def problems(overlay: str, base: str = BASE) -> list[Problem]:
    with pytest.raises(RuleRejected) as caught:
        read(overlay, base)
    return list(caught.value.problems)


def test_a_rule_is_patched_field_by_field() -> None:
    assert counts("{resource: order, count: 300}") == [("order", 1, 300), ("pay", 0, 20), ("pay", 1, 90)]


def test_where_a_resource_has_several_rules_a_telling_field_is_written() -> None:
    assert counts("{resource: pay, grade: 0, count: 30}") == [("order", 1, 500), ("pay", 0, 30), ("pay", 1, 90)]
    (problem,) = problems("flowRules:\n  - {resource: pay, count: 30}\n")
    assert str(problem) == (
        "rules/environments/prod.yaml:2:5: error SR115 pay: the base has 2 such rules; "
        "write grade, strategy, refResource to tell which is meant"
    )


def test_a_rule_is_removed() -> None:
    assert counts("{resource: order, $delete: true}") == [("pay", 0, 20), ("pay", 1, 90)]


def test_what_the_base_has_not_is_added_and_cannot_be_removed() -> None:
    assert counts("{resource: new, count: 7}")[-1] == ("new", 1, 7)
    assert counts("{resource: order, limitApp: web, count: 7}")[-1] == ("order", 1, 7)
    assert "no such rule to delete" in problems("flowRules:\n  - {resource: gone, $delete: true}\n")[0].message


def test_nested_objects_are_merged_and_null_is_the_default() -> None:
    overlay = "flowRules:\n  - {resource: pay, grade: thread, clusterConfig: {flowId: 2}, count: null}\n"
    assert problems(overlay)[0].code == "SR101", "a threshold is never left to its default"
    rule = read(overlay.replace(", count: null", ""))["flow"].rules[1]
    assert (rule.cluster_config.flow_id, rule.cluster_config.sample_count) == (2, 5)


def test_a_kind_that_only_the_overlay_has_is_managed() -> None:
    assert set(read("degradeRules: []\n")) == {"flow", "degrade"}
    assert len(read("flowRules: []\n")["flow"]) == 3, "an empty overlay takes nothing away"


def test_errors_stand_in_the_file_in_which_they_were_written() -> None:
    found = problems(
        "flowRules:\n  - {resource: pay, grade: thread, $delete: true}\n  - {resource: order, count: x}\n",
        BASE.replace("count: 90", "cuont: 90, count: 1"),
    )
    assert [(problem.file, problem.line, problem.code, problem.resource) for problem in found] == [
        ("rules/environments/prod.yaml", 3, "SR102", "order"),
        ("rules/base.yaml", 4, "SR110", "pay"),
    ]


@pytest.mark.parametrize(
    "overlay", ["flowRules: {}\n", "flowRules: [5]\n", "flow: []\n", "flowRules: [{resource: order, $delete: no}]\n"]
)
def test_wrong_overlays_are_refused(overlay: str) -> None:
    assert problems(overlay)[0].file == "rules/environments/prod.yaml"


def test_delete_means_nothing_in_a_base() -> None:
    assert problems("flowRules: []\n", "flowRules:\n  - {resource: a, count: 1, $delete: true}\n")[0].code == "SR110"


def test_two_environments_are_not_mixed() -> None:
    names = ("base.yaml", "environments/prod.yaml", "environments/test.yaml")
    texts = tuple(SourceText(name, b"flowRules: []\n") for name in names)
    with pytest.raises(RuleRejected, match="different environments"):
        parse_revision(Revision(texts, source="s", version="1"), KINDS)


def test_a_folder_that_is_only_called_so_holds_a_base() -> None:
    text = SourceText("/srv/environments/rules.yaml", b"flowRules: [{resource: order, count: 1}]\n")
    assert len(parse_revision(Revision((text,), source="s", version="1"), KINDS)["flow"]) == 1


def test_an_overlay_of_comments_alone_changes_nothing() -> None:
    assert len(read("# nothing differs in prod\n")["flow"]) == 3
    assert problems("\n")[0].code == "SR001", "blank: perhaps it is being written"

"""Rule sets as texts: what is written is read back as the same rules."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.rules import KINDS, Revision, RuleSet, SourceText, format_text, parse_revision, parse_rules
from sentinel_core.rules.strategies import items_of
from sentinel_core.rules.write import document, json_list

LISTS = st.sets(st.sampled_from(KINDS), min_size=1).flatmap(
    lambda kinds: st.fixed_dictionaries({kind: st.lists(items_of(kind), max_size=4) for kind in kinds})
)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_list_of_a_kind_is_read_back(kind: str, data: st.DataObject) -> None:
    rules = parse_rules(kind, json.dumps(data.draw(st.lists(items_of(kind), max_size=4))).encode())
    again = parse_rules(kind, json_list(rules))
    assert (again.digest, again.rules) == (rules.digest, rules.rules)


@given(LISTS)
def test_a_document_of_any_kinds_is_read_back_and_is_formatted(lists: dict[str, list[dict[str, object]]]) -> None:
    sets = {kind: parse_rules(kind, json.dumps(rules).encode()) for kind, rules in lists.items()}
    text = document(sets, "rules.yaml")
    again = parse_revision(Revision((SourceText("rules.yaml", text),), "", ""), KINDS)
    assert {kind: rules.digest for kind, rules in again.items()} == {kind: each.digest for kind, each in sets.items()}
    assert format_text(SourceText("rules.yaml", text)) == text


def test_a_list_has_a_line_a_rule_and_an_empty_one_is_a_list() -> None:
    rules = parse_rules("flow", b'[{"resource": "a", "count": 1}, {"resource": "b", "count": 2}]')
    assert [line.strip(" ,")[:1] for line in json_list(rules).decode().splitlines()] == ["[", "{", "{", "]"]
    assert json_list(RuleSet.empty("flow")) == b"[]\n"


def test_a_document_names_codes_and_leaves_defaults_out() -> None:
    rules = parse_rules("flow", b'[{"resource": "a", "grade": 0, "count": 0}, {"resource": "yes", "count": 2.5}]')
    assert document({"flow": rules, "degrade": RuleSet.empty("degrade")}, "rules.yaml").decode() == (
        'flowRules:\n  - resource: a\n    count: 0\n    grade: thread\n  - resource: "yes"\n    count: 2.5\n'
        "degradeRules: []\n"
    )

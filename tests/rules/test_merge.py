"""One rule set of several stores': a resource has its rules from the first that names it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.rules import Revision, RuleSet, SourceText, merge_sets, parse_revision, parse_rules


def flow(source: str, *rules: tuple[str, float], kind: str = "flow") -> RuleSet:
    texts = ", ".join(f'{{"resource": "{resource}", "grade": 1, "count": {count}}}' for resource, count in rules)
    revision = Revision((SourceText("rules.json", f"[{texts}]".encode(), "json"),), source, "1")
    return parse_revision(revision, [kind])[kind]


def counts(ruleset: RuleSet) -> list[tuple[str, float]]:
    return [(rule.resource, rule.count) for rule in ruleset.rules]


def test_each_resource_has_its_rules_from_the_first_that_names_it() -> None:
    merged = merge_sets([flow("/upper", ("a", 1)), flow("/lower", ("a", 2), ("a", 3), ("b", 4))])
    assert counts(merged) == [("a", 1), ("b", 4)]


def test_all_rules_of_a_resource_come_from_there_and_none_is_added() -> None:
    merged = merge_sets([flow("/upper", ("a", 1), ("b", 9), ("a", 2)), flow("/lower", ("a", 3), ("c", 4))])
    assert counts(merged) == [("a", 1), ("b", 9), ("a", 2), ("c", 4)]


def test_it_equals_the_set_that_one_store_would_hold() -> None:
    merged = merge_sets([flow("/upper", ("b", 1)), flow("/lower", ("b", 7), ("a", 2))])
    assert merged == flow("/one", ("b", 1), ("a", 2))
    assert merged.digest == flow("/one", ("a", 2), ("b", 1)).digest


def test_every_rule_tells_the_set_that_it_is_from() -> None:
    upper, lower = flow("/upper", ("a", 1)), flow("/lower", ("a", 2), ("b", 4))
    merged = merge_sets([upper, lower])
    assert [merged.owner(rule) for rule in merged.rules] == [upper, lower]
    assert merged.owner(None) is merged


def test_where_all_rules_are_of_one_set_it_is_that_set_itself() -> None:
    upper, lower = flow("/upper", ("a", 1)), flow("/lower", ("a", 2))
    assert merge_sets([upper, lower]) is upper
    assert merge_sets([flow("/upper"), lower]) is lower
    assert upper.owner(upper.rules[0]) is upper


def test_of_empty_sets_the_first_stays() -> None:
    upper = flow("/upper")
    assert merge_sets([upper, flow("/lower")]) is upper


def test_system_rules_belong_together_whatever_resource_is_written() -> None:
    upper = parse_rules("system", [{"qps": 10}])
    lower = parse_rules("system", [{"resource": "written", "qps": 20}, {"avgRt": 5}])
    assert merge_sets([upper, lower]) is upper


RULES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 4).map(float)), unique=True, max_size=6)


@given(st.lists(RULES, min_size=1, max_size=4))
def test_no_resource_is_lost_and_none_is_mixed(layers: list[list[tuple[str, float]]]) -> None:
    sets = [flow(f"/{number}", *rules) for number, rules in enumerate(layers)]
    merged = merge_sets(sets)
    wanted: dict[str, list[tuple[str, float]]] = {}
    for each in sets:
        taken = set(wanted)
        for rule in counts(each):
            if rule[0] not in taken:
                wanted.setdefault(rule[0], []).append(rule)
    assert sorted(counts(merged)) == sorted(rule for rules in wanted.values() for rule in rules)

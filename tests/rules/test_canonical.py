"""The canonical form: one spelling a meaning, sorted, and blind to order."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.rules import KINDS, FlowRule, Revision, RuleSet, SourceText, UnknownKind, parse_rules
from sentinel_core.rules.strategies import flow_lists, items_of, lists_of


def test_the_canonical_form_is_written_out_here_once() -> None:
    text = '[{"resource":"b","count":0.5,"controlBehavior":2},{"resource":"a","count":1.0,"id":7,"refResource":null}]'
    assert parse_rules("flow", text).canonical == (
        b'[{"clusterMode":false,"controlBehavior":0,"count":1,"grade":1,"limitApp":"default","maxQueueingTimeMs":500,'
        b'"regex":false,"resource":"a","strategy":0,"warmUpPeriodSec":10},'
        b'{"clusterMode":false,"controlBehavior":2,"count":0.5,"grade":1,"limitApp":"default","maxQueueingTimeMs":500,'
        b'"regex":false,"resource":"b","strategy":0,"warmUpPeriodSec":10}]'
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_digest_is_sha_256_of_the_canonical_list(kind: str) -> None:
    empty = RuleSet.empty(kind)
    assert empty.canonical == b"[]"
    assert empty.digest == hashlib.sha256(b"[]").hexdigest()
    assert empty.short == empty.digest[:12]


@given(lists_of())
def test_what_is_published_is_read_back_as_the_same_set(case: tuple[str, list[dict[str, Any]]]) -> None:
    kind, items = case
    first = parse_rules(kind, items)
    again = parse_rules(kind, first.canonical)
    assert (again.digest, again.canonical) == (first.digest, first.canonical)
    assert parse_rules(kind, [rule.to_json() for rule in first.rules]).rules == first.rules


@given(flow_lists(), st.randoms(use_true_random=False))
def test_the_digest_is_blind_to_order_and_the_rules_keep_it(items: list[dict[str, Any]], rng: random.Random) -> None:
    shuffled = list(items)
    rng.shuffle(shuffled)
    one, two = parse_rules("flow", items), parse_rules("flow", shuffled)
    assert one.digest == two.digest
    assert {rule.resource for rule in one.rules} == {item["resource"] for item in items}
    first_seen = list(dict.fromkeys(item["resource"] for item in shuffled))
    assert list(dict.fromkeys(rule.resource for rule in two.rules)) == first_seen


@given(lists_of())
def test_keys_are_sorted_and_nothing_is_null(case: tuple[str, list[dict[str, Any]]]) -> None:
    kind, items = case
    canonical = parse_rules(kind, items).canonical

    def sorted_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert [key for key, _ in pairs] == sorted(key for key, _ in pairs)
        assert None not in dict(pairs).values()
        return dict(pairs)

    rules = json.loads(canonical, object_pairs_hook=sorted_keys)
    assert rules == sorted(rules, key=lambda rule: (rule.get("resource", ""), rule.get("limitApp", "")))


@given(items_of("flow"), st.data())
def test_e09_every_field_counts_for_equality_and_digest(item: dict[str, Any], data: st.DataObject) -> None:
    """E09: a field that equality forgot would keep an old breaker or window."""
    other = data.draw(items_of("flow").map(lambda changed: {**item, **changed}))
    one, two = parse_rules("flow", [item]), parse_rules("flow", [other])
    assert (one.rules == two.rules) == (one.digest == two.digest)
    if one.rules == two.rules:
        assert hash(one.rules[0]) == hash(two.rules[0])


def test_an_id_is_kept_and_counts_for_nothing() -> None:
    one, two = FlowRule(resource="r", count=1, id=1), FlowRule(resource="r", count=1, id=2)
    assert one == two
    assert hash(one) == hash(two)
    assert "id" not in one.to_json()
    assert one != FlowRule(resource="r", count=2, id=1)


def test_rules_and_sets_cannot_be_changed() -> None:
    rules = parse_rules("flow", [{"resource": "r", "count": 1}])
    with pytest.raises(ValueError, match="frozen"):
        rules.rules[0].count = 2
    with pytest.raises(AttributeError):
        rules.digest = "x"  # type: ignore[misc]  # that is what is tested


def test_a_set_takes_the_identity_of_its_revision_and_not_its_bytes() -> None:
    revision = Revision((SourceText("a", b"[]", "json"),), source="s", version="3")
    rules = RuleSet.empty("flow").with_revision(revision)
    assert rules.revision is not None
    assert (rules.revision.version, rules.revision.texts) == ("3", ())
    assert rules == RuleSet.empty("flow"), "where rules come from is no part of what they are"


def test_an_unknown_kind_names_the_near_one() -> None:
    with pytest.raises(UnknownKind, match="did you mean 'flow'"):
        parse_rules("flwo", "[]")
    with pytest.raises(UnknownKind, match="known kinds: flow, degrade"):
        RuleSet.empty("gateway")

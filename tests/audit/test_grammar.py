"""The words of `audit query`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.query.grammar import QUALIFIERS, Question, parse_query
from sentinel_core.audit.store.contract import AuditStore, Condition, Query

NOW = datetime(2026, 11, 30, 2, 20, tzinfo=UTC)


NOT_APPLIED = Condition("type", "is", ("sentinel.rules.applied.v1",), negated=True)
NO_MOVES = Condition("action", "is", ("moved",), negated=True)


def parse(text: str) -> Question:
    return parse_query(text, now=NOW, zone=UTC)


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("", []),
        ("payment_invoke", [Condition("resource", "is", ("payment_invoke",))]),
        ("resource:order-*", [Condition("resource", "like", ("order-*",))]),
        ("field:count", [Condition("field", "is", ("count",))]),
        ("author:chen", [Condition("author", "contains", ("chen",))]),
        ("commit:9f1c2ab", [Condition("commit", "starts", ("9f1c2ab",))]),
        ("kind:flow,degrade", [Condition("kind", "is", ("flow", "degrade"))]),
        ("type:rejected", [Condition("type", "is", ("sentinel.rules.rejected.v1",))]),
        ("type:breaker", [Condition("type", "like", ("sentinel.breaker.*",))]),
        ("type:sentinel.breaker.open.v1", [Condition("type", "is", ("sentinel.breaker.open.v1",))]),
        ("-env:staging", [Condition("environment", "is", ("staging",), negated=True)]),
        ("count>300", [Condition("count", ">", (300.0,))]),
        ("-count<=1.5", [Condition("count", "<=", (1.5,), negated=True)]),
        ("clusterConfig.flowId=7", [Condition("clusterConfig.flowId", "=", (7.0,))]),
        ('reason:"back to, normal"', [Condition("reason", "contains", ("back to, normal",))]),
        (r'message:"say \"no\""', [Condition("message", "contains", ('say "no"',))]),
        ("resource:order:create", [Condition("resource", "is", ("order:create",))]),
        ('"order:create"', [Condition("resource", "is", ("order:create",))]),
        ("kind:flow  channel:console", [Condition("kind", "is", ("flow",)), Condition("channel", "is", ("console",))]),
    ],
)
def test_terms_become_conditions(text: str, conditions: list[Condition]) -> None:
    assert parse(text).conditions == tuple(conditions)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("since:2h", NOW - timedelta(hours=2), NOW),
        (
            'in:"last wednesday afternoon"',
            datetime(2026, 11, 25, 12, tzinfo=UTC),
            datetime(2026, 11, 25, 18, tzinfo=UTC),
        ),
        ("since:2026-11-25 until:2026-11-26", datetime(2026, 11, 25, tzinfo=UTC), datetime(2026, 11, 27, tzinfo=UTC)),
        ("until:2026-11-26", datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 11, 27, tzinfo=UTC)),
        ("in:昨天", datetime(2026, 11, 29, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC)),
    ],
)
def test_times_become_a_window(text: str, start: datetime, end: datetime) -> None:
    query = parse(text).query(limit=7, after="1.2.3")
    assert query == Query((NOT_APPLIED, NO_MOVES), start, end, 7, "1.2.3")


@pytest.mark.parametrize(
    ("text", "more"), [("x", (NOT_APPLIED, NO_MOVES)), ("type:breaker", ()), ("-action:seen", (NOT_APPLIED,))]
)
def test_what_instances_tell_of_themselves_is_found_only_by_who_asks_for_types_or_actions(
    text: str, more: tuple[Condition, ...]
) -> None:
    question = parse(text)
    assert question.query().conditions == question.conditions + more


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("resurce:x", "resource:x"),
        ("autor:chen", "author:chen"),
        ("kind:flwo", "kind:flow"),
        ("type:change", "type:changed"),
        ("count:25", "count=25"),
        ("resource>3", "resource:3"),
        ("count>many", "count>300"),
        ("count>nan", "a number is needed"),
        ("count>1e999", "a number is needed"),
        ("zzzzzz:1x", "known: resource"),
        ("resource:", "qualifier:value"),
        ("kind:flow,,degrade", "has no value"),
        ('reason:"open', "close the quotes"),
        ("since:2h since:3h", "once"),
        ("-since:2h", "once"),
        ("in:today since:2h", "whole window"),
        ("in:wednesday", "last wednesday"),
        ("a " * 33, "at most 32"),
        ("kind:" + ",".join(["flow"] * 33), "at most 32"),
        ("x" * 1001, "at most 1000"),
    ],
)
def test_what_is_not_understood_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(QueryInvalid) as refusal:
        parse(text)
    assert hint in str(refusal.value)


def test_every_qualifier_is_answered_by_the_store(store: AuditStore, events: list[Any]) -> None:
    store.ingest(events)
    for name in QUALIFIERS:
        value = {"kind": "flow", "action": "change", "type": "changed"}.get(name, "x*")
        assert store.query(parse(f"{name}:{value} -{name}:{value}").query()).rows == ()


def test_a_password_in_a_question_finds_what_was_stored_without_it(store: AuditStore, history: Any, flow: Any) -> None:
    store.ingest([history.commit("flow", [flow("http://u:secret@host/x")])])
    assert len(store.query(parse('"http://u:secret@host/x"').query()).rows) == 1


PIECES = st.lists(st.sampled_from([*'ab:,*-"\\ <>=1.字?[', "kind", "count", "resource:"]), max_size=20).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80) | PIECES)
def test_any_text_is_a_question_that_the_store_answers_or_a_refusal(store: AuditStore, text: str) -> None:
    try:
        question = parse(text)
    except QueryInvalid:
        return
    store.query(question.query())


@pytest.mark.parametrize("field", ["a..b", "a.", "1a", "a'b", 'a"b'])
def test_what_is_no_name_of_a_field_is_refused_by_the_store(store: AuditStore, field: str) -> None:
    with pytest.raises(QueryInvalid):
        store.query(Query((Condition(field, ">", (1.0,)),)))


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20).filter(
        lambda t: "*" not in t
    )
)
def test_any_value_can_be_quoted(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    (condition,) = parse(f'app:"{quoted}"').conditions
    assert condition == Condition("app", "is", (value,))

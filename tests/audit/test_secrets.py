"""A04: whatever field, provenance or store a secret slips into, no event, problem, exception or repr holds it."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.audit.breaker import breaker_moved
from sentinel_core.audit.errors import EventInvalid, EventRefused
from sentinel_core.audit.event import parse_event
from sentinel_core.audit.events import Event, rule_applied, rule_changed, rule_rejected
from sentinel_core.masking import mask_text, mask_uri, may_hold_secret
from sentinel_core.rules import (
    Provenance,
    Revision,
    RuleRejected,
    RuleSet,
    SourceText,
    parse_revision,
    parse_rules,
)
from sentinel_core.rules.registry import MODELS
from tests.planted import SHAPES, Planted

AT = datetime(2026, 11, 30, tzinfo=UTC)
VALID: dict[str, dict[str, Any]] = {
    "flow": {"resource": "r", "grade": 1, "count": 1},
    "degrade": {"resource": "r", "grade": 0, "count": 1, "timeWindow": 1, "minRequestAmount": 5},
    "biz_metric": {"resource": "r", "bizMetricType": "M", "threshold": 5, "minRequestAmount": 20},
    "system": {"qps": 5},
    "authority": {"resource": "r", "limitApp": "a", "strategy": 0},
    "param_flow": {"resource": "r", "paramIdx": 0, "count": 1},
}
WHO: dict[str, Any] = {"environment": "prod", "app": "a", "at": AT, "instance": "i"}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_is_masked_however_it_is_written_and_once(shape: str) -> None:
    planted = Planted(1)
    text = planted.secret(shape, "text")
    masked = mask_text(f"before {text} behind")
    assert planted.found_in(masked) == set()
    assert masked.startswith("before ")
    assert "***" in masked
    assert mask_text(masked) == masked
    assert may_hold_secret(text)
    assert may_hold_secret(json.dumps(text))


@pytest.mark.parametrize("shape", SHAPES)
def test_secrets_that_stand_side_by_side_are_all_masked(shape: str) -> None:
    planted = Planted(6)
    for other in SHAPES:
        for between in ("/", " ", ", "):
            pair = planted.secret(shape, "first"), planted.secret(other, "second")
            assert planted.found_in(mask_text(between.join(pair))) == set(), (other, between)


@pytest.mark.parametrize(
    "text",
    [
        "Reset the password when done", "grade: qps", "http://h:8080/a@b", "keys of a map", "tokens 5", "密码学",
        "pass rate 3%", "pass: 3%", "pass=12 fail=3", "bypass=1", "compass: north", "author: Chen", "author=Chen",
        "authority: rules", "keys: 5", "auth: oauth2 enabled", "auth:login", "auth: {type: basic}",
        "auth:\n  type: basic", "credentials:\n  user: chen", "GET:/auth?user=5", "GET:/orders?key=abc",
        "docker run -u 1000:1000 shop", "redis://h/0?key=stock:tea:2026:11:30",
        "opensearch://a:x is not host:port; write opensearch://host:9200/?user=NAME",
        "mysql -h db -P 3306", "ssh -p 22 host", "密码是必填项", "tokens > 5\n  x",
        "see http://h:8848 and mail chen@example.com", "https://h/api/webhooks/list", "限额＝５，见说明",
    ],
)  # fmt: skip
def test_what_only_speaks_of_secrets_stays(text: str) -> None:
    assert mask_text(text) == text


def test_a_block_ends_where_its_lines_are_no_deeper() -> None:
    text = "- password: |\n    one\n\n    two\n  user: chen\n"
    assert mask_text(text) == "- password: ***\n  user: chen\n"


HOSTILE = (
    "-", "--token", "token -", "://a:", "://a:b ", "://a:b@", "password=", 'password="', 'password=\\"', "\\",
    "eyJaaaaaaaaa-", "a.", "SG.aaaaaaaaaaaaaaaaaaaa-", "password ", "pass: |\n ", "- password: |\n", "mysql -", "-u a:",
    "?key=a", "auth ", "bearer ", "密码是 ", "=", "%3d", "token%3d", "<password>", "secret_", "-----BEGIN ",
    "\u200b", "\uff50", "\\uff50", "#|\n",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("lead", ["", "token ", 'password="', "password: |\n"])
def test_masking_takes_a_time_that_grows_as_the_text_does(lead: str, piece: str) -> None:
    """Of 2 MiB a second on a slow machine; what looks at each piece anew would take minutes."""
    text = lead + piece * (40_000 // len(piece))
    began = process_time()
    mask_uri(mask_text(text))
    assert process_time() - began < 1.0


@given(st.text(alphabet="pas=:\"'\\ \n-|>{[@/u密码是＝\u200b*", max_size=40).map(lambda text: f"pass{text}token"))
def test_whatever_is_masked_stays_as_it_is(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once


def test_what_cannot_be_read_is_told_without_its_secrets() -> None:
    with pytest.raises(EventInvalid) as refusal:
        parse_event(
            '{"specversion":"1.0","id":"a","source":"b","type":"c","subject":"d","time":"token=hunter2","data":{}}'
        )
    assert "hunter2" not in str(refusal.value)
    refused = EventRefused("a1", "value password=hunter2 is too long")
    assert "hunter2" not in refused.reason + str(refused)


def revision(text: str = "", **more: Any) -> Revision:
    texts = (SourceText("rules.json", text.encode(), "json"),)
    return Revision(**{"texts": texts, "source": "/prod/git/rules", "version": "v1", **more})


def changed(kind: str, old: RuleSet, new: RuleSet, made: Revision) -> Iterator[Event]:
    """There, back, and seen for the first time."""
    for before, after, initial in ((old, new, False), (new, old, False), (old, new, True)):
        yield rule_changed(
            **WHO, old=before.with_revision(made), new=after.with_revision(made), revision=made, initial=initial
        )


def told_of(kind: str, rule: dict[str, Any]) -> Iterator[object]:
    """Everything that comes of a rule, whether it is taken or refused."""
    old = parse_rules(kind, [VALID[kind]])
    made = revision(json.dumps([rule]))
    try:
        new = parse_rules(kind, [rule])
    except RuleRejected as refused:
        yield from (refused, repr(refused), repr(refused.problems), "".join(traceback.format_exception(refused)))
        with pytest.raises(RuleRejected) as also:
            parse_revision(made, [kind])
        event: Event = rule_rejected(**WHO, kind_or_subject=kind, revision=made, rejection=also.value)
        yield from (also.value, event.to_json(), event)
    else:
        for each in changed(kind, old, new, made):
            yield from (each.to_json(), each)
    yield made


@pytest.mark.parametrize("kind", MODELS)
def test_no_field_of_a_rule_carries_a_secret_out(kind: str) -> None:
    planted = Planted(2)
    for field in (*MODELS[kind].fields_by_alias(), "unknown"):
        for shape in SHAPES:
            rule = {**VALID[kind], field: planted.secret(shape, field)}
            assert planted.found_in(*told_of(kind, rule)) == set()
    for shape in SHAPES:
        rule = {**VALID[kind], planted.secret(shape, "name of a field"): 1}
        assert planted.found_in(*told_of(kind, rule)) == set()


def test_hot_items_are_hidden_whatever_they_are() -> None:
    planted = Planted(3)
    items = [{"object": planted.phone("item"), "count": 1, "classType": "java.lang.String"} for _ in range(20)]
    items += [{"object": int(planted.phone("item")), "count": 1, "classType": "long"} for _ in range(20)]
    rule = {**VALID["param_flow"], "paramFlowItemList": items}
    assert planted.found_in(*(each for each in told_of("param_flow", rule) if isinstance(each, bytes | Event))) == set()
    for wrong in ({"count": "x"}, {"classType": "int"}, {"classType": 7}, {"count": -1}):
        for item in items[:3]:
            refused = {**VALID["param_flow"], "paramFlowItemList": [{**item, **wrong}]}
            found = [each for each in told_of("param_flow", refused) if isinstance(each, bytes | Event)]
            assert planted.found_in(*found) == set(), wrong


@pytest.mark.parametrize("shape", SHAPES)
def test_neither_provenance_nor_store_carries_a_secret_into_an_event(shape: str) -> None:
    planted = Planted(4)
    texts = [field.name for field in fields(Provenance) if field.type in {"str", "str | None"}]
    assert len(texts) > 8
    slipped: dict[str, Any] = {name: planted.secret(shape, name) for name in texts}
    made = revision(
        version=planted.secret(shape, "version"),
        source=f"/prod/{planted.secret(shape, 'source')}",
        provenance=Provenance(**slipped),
    )
    one, other = parse_rules("flow", [VALID["flow"]]), parse_rules("flow", [{**VALID["flow"], "count": 2}])
    refusal = RuleRejected([])
    events = [
        *changed("flow", one, other, made),
        rule_applied(**WHO, ruleset=one, revision=made, activation_ms=1),
        rule_rejected(**WHO, kind_or_subject=planted.secret(shape, "subject"), revision=made, rejection=refusal),
    ]
    assert planted.found_in(*events, *(event.to_json() for event in events)) == set()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_move_of_a_breaker_carries_no_secret(shape: str) -> None:
    planted = Planted(5)
    facts = {name: planted.secret(shape, name) for name in ("resource", "rule", "metric", "dimension", "commitHash")}
    event = breaker_moved(**WHO, number=1, kind="degrade", facts={**facts, "before": "CLOSED", "after": "OPEN"})
    assert planted.found_in(event, event.to_json()) == set()


@pytest.mark.parametrize("seed", range(8))
def test_a_line_of_many_rules_shows_none_of_their_secrets_around_the_fault(seed: int) -> None:
    """All on one line, as `json.dumps` writes it; what is shown begins and ends in the middle of something."""
    planted = Planted(10 + seed)
    rules = [
        {"resource": planted.secret(shape, "before"), "count": "2O", "limitApp": planted.secret(shape, "behind")}
        for shape in [*SHAPES] * 3
    ]
    made = revision(json.dumps(rules[seed:]))
    with pytest.raises(RuleRejected) as refused:
        parse_revision(made, ["flow"])
    event = rule_rejected(**WHO, kind_or_subject="flow", revision=made, rejection=refused.value)
    assert planted.found_in(event.to_json(), refused.value) == set()
    assert len(event.payload["problems"]) > 20

"""What an event says, and that the same fact is the same event everywhere."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.audit.canonical import read_canonical
from sentinel_core.audit.errors import EventInvalid
from sentinel_core.audit.events import (
    Event,
    RuleChanged,
    event_source,
    parse_event,
    rule_applied,
    rule_changed,
    rule_rejected,
)
from sentinel_core.audit.indexing import read_columns
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.schemas import event_schema
from sentinel_core.rules import Problem, Provenance, Revision, RuleRejected, RuleSet, SourceText, parse_rules

AT = datetime(2026, 11, 25, 6, 30, 0, 123456, tzinfo=UTC)
GIT = Revision(
    (SourceText("sentinel-rules.yaml", b""),),
    "/prod/git/file:///srv/rules.git@main/rules",
    "9f1c2ab",
    Provenance(commit_hash="9f1c2ab", author="chen <chen@example.com>", channel="git", message="more payments"),
)
NACOS = Revision(
    (SourceText("nacos", b"[]", "json"),),
    "/prod/nacos/public/SENTINEL_GROUP/sentinel-flow-rules",
    "1795588200",
    Provenance(),
)


def ruleset(count: float, revision: Revision | None = GIT) -> RuleSet:
    rules = [{"resource": "payment_invoke", "grade": 0, "count": count}]
    return parse_rules("flow", rules).with_revision(revision)


def changed(old: RuleSet | None = None, new: RuleSet | None = None, **more: Any) -> RuleChanged:
    values: dict[str, Any] = {
        "environment": "prod",
        "app": "order-service",
        "old": ruleset(20) if old is None else old,
        "new": ruleset(25) if new is None else new,
        "revision": GIT,
        "at": AT,
        "instance": "i-1",
    }
    return rule_changed(**{**values, **more})


def test_a_change_carries_the_members_that_consumers_rely_on() -> None:
    document = json.loads(changed().to_json())
    data = document["data"]
    assert list(document) == ["specversion", "type", "id", "source", "subject", "time", "datacontenttype", "data"]
    assert document["type"] == "sentinel.rules.changed.v1"
    assert document["subject"] == data["kind"] == "flow"
    assert document["time"] == "2026-11-25T06:30:00.123Z"
    assert data["timestamp"] == 1795588200123
    assert data["ruleId"] == document["id"]
    assert data["commitHash"] == "9f1c2ab"
    assert data["author"] == "chen <chen@example.com>"
    assert data["environment"] == "prod"
    assert data["oldRules"] == json.loads(ruleset(20).canonical)
    assert data["newRules"] == json.loads(ruleset(25).canonical)
    assert (data["oldDigest"], data["newDigest"]) == (ruleset(20).digest, ruleset(25).digest)
    assert data["changes"] == [
        {
            "action": "change",
            "resource": "payment_invoke",
            "rule": "flow/payment_invoke/default",
            "field": "count",
            "old": 20,
            "new": 25,
        }
    ]


def _applied() -> Event:
    return rule_applied(
        environment="prod", app="a", ruleset=ruleset(1), revision=GIT, at=AT, instance="i-1", activation_ms=1.5
    )


@pytest.mark.parametrize("make", [changed, lambda: changed(old=RuleSet.empty("flow")), _applied])
def test_every_event_meets_its_published_schema_and_reads_back_equal(make: Any) -> None:
    event = make()
    jsonschema.validate(json.loads(event.to_json()), event_schema(event.type))
    assert parse_event(event.to_json()) == replace(event, data=read_canonical(event.data)[1])


def test_a_rejection_meets_its_schema_and_points_at_the_line(history: Any) -> None:
    problem = Problem(
        "SR102", "error", 'count is "2O"; a number is needed', "sentinel-rules.yaml", 2, 10, "$.flowRules[3].count",
        "flow", 3, "payment_invoke", "count",
    )  # fmt: skip
    event = history.reject(problem, text="flowRules:\n  count: 2O\n")
    data = event.payload
    jsonschema.validate(json.loads(event.to_json()), event_schema(event.type))
    assert (data["index"], data["field"], data["reason"]) == (3, "count", problem.message)
    assert data["excerpt"] == "count: 2O"
    assert (data["ruleCount"], data["problemCount"]) == (7, 1)


def test_a_rejection_in_a_long_line_shows_the_place_and_stays_quick(history: Any) -> None:
    text = "[" + ",".join(f'{{"resource":"r{number}","count":{number}}}' for number in range(50_000)) + "]"
    column = text.index('"r40000"') + 1
    problem = Problem("SR102", "error", "bad", "sentinel-rules.yaml", 1, column, kind="flow")
    rejection = RuleRejected([problem] * 200)
    revision = replace(GIT, texts=(SourceText("sentinel-rules.yaml", text.encode()),))
    began = time.thread_time()
    event = rule_rejected(
        environment="prod", app="a", kind_or_subject="flow", revision=revision, rejection=rejection, at=AT, instance="i"
    )
    assert time.thread_time() - began < 1
    excerpts = {each["excerpt"] for each in event.payload["problems"]}
    assert len(excerpts) == 1
    assert '"resource":"r40000"' in excerpts.pop()
    assert (len(event.payload["problems"]), event.payload["problemCount"]) == (100, 200)


def test_the_same_change_is_one_event_for_all_instances_and_replays() -> None:
    later = AT + timedelta(minutes=3)
    assert changed().id == changed(instance="i-2", at=later, late=True).id


def test_a_to_b_today_is_another_event_than_a_to_b_tomorrow() -> None:
    assert changed().id != changed(revision=replace(GIT, version="77aa001")).id


@given(st.text(), st.text(), st.text(), st.text())
def test_ids_are_equal_only_for_equal_parts(source: str, version: str, other_source: str, other_version: str) -> None:
    first = changed(revision=replace(GIT, source=source, version=version))
    second = changed(revision=replace(GIT, source=other_source, version=other_version))
    assert (first.id == second.id) == ((source, version) == (other_source, other_version))


def test_a_document_has_one_source_per_kind_and_a_key_is_its_own() -> None:
    assert event_source(GIT, "flow") == "/prod/git/file:///srv/rules.git@main/rules/flow"
    assert event_source(GIT, "degrade") != event_source(GIT, "flow")
    assert event_source(NACOS, "flow") == "/prod/nacos/public/SENTINEL_GROUP/sentinel-flow-rules"


def test_a_first_look_accuses_nobody() -> None:
    data = changed(old=RuleSet.empty("flow")).payload
    assert data["initial"] is True
    assert data["oldDigest"] is None
    assert data["changes"] == []
    assert len(data["newRules"]) == 1


def test_a_kind_that_is_new_in_a_known_document_is_a_change() -> None:
    data = changed(old=RuleSet.empty("flow"), initial=False).payload
    assert data["initial"] is False
    assert [change["action"] for change in data["changes"]] == ["add"]


def test_rules_without_revision_are_no_first_look() -> None:
    assert changed(old=ruleset(20, revision=None)).payload["initial"] is False


def test_a_late_event_is_the_same_event_told_late() -> None:
    event = changed()
    assert event.payload["late"] is False
    assert event.as_late().payload == {**event.payload, "late": True}
    assert event.as_late().id == event.id


def test_time_is_written_in_utc_whatever_the_zone_it_came_in() -> None:
    shanghai = AT.astimezone(timezone(timedelta(hours=8)))
    assert changed(at=shanghai) == changed()


def test_undecodable_text_stays_json() -> None:
    revision = replace(GIT, provenance=Provenance(author="chen \udcff"))
    event = changed(revision=revision)
    assert parse_event(event.to_json()).payload["author"] == "chen \udcff"


def test_a_path_that_is_no_utf8_still_gives_a_source_that_can_be_stored(outbox: Outbox) -> None:
    event = changed(revision=replace(GIT, source="/prod/file/\udcff"))
    outbox.append([event])
    assert outbox.pending() == [event]


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"specversion": "0.3"}', b'{"specversion": "1.0", "id": 1}', b"[" * 100_000],
)
def test_bytes_that_are_no_event_are_refused(content: bytes) -> None:
    with pytest.raises(EventInvalid):
        parse_event(content)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_that_json_does_not_have_are_refused(number: str) -> None:
    with pytest.raises(EventInvalid):
        parse_event(changed().to_json().replace(b'"data":{', f'"data":{{"x":{number},'.encode()))


@pytest.mark.parametrize("more", ["", "é", "😀", "\\ud800", "x" * 100_000])
@pytest.mark.parametrize("number", ["1", "20.0", "0.1", "1e-9", "1e22", "12345678901234567890"])
def test_what_was_read_once_is_stored_as_if_it_were_read_again(number: str, more: str) -> None:
    told = changed().to_json().replace(b'"data":{', f'"data":{{"z":{number},"a":["{more}"],'.encode())
    event = parse_event(told)
    again = replace(event)
    original = replace(event, data=json.dumps(json.loads(told)["data"]).encode())
    assert repr(read_columns(event)) == repr(read_columns(again))
    assert read_columns(again)[:2] == read_columns(original)[:2]
    if "ud800" not in more and len(number) < 20:
        assert read_columns(again) == read_columns(original)


def test_what_was_read_is_held_until_it_is_asked_for_and_never_of_a_large_event() -> None:
    event = parse_event(changed().to_json())
    assert (event.taken() == event.payload, event.taken()) == (True, None)
    large = parse_event(changed().to_json().replace(b'"data":{', b'"data":{"x":"%s",' % (b"x" * 20_000)))
    assert large.taken() is None


@pytest.mark.parametrize("time_text", ["yesterday", "2026-11-25T06:30:00", "0001-01-01T00:00:00+14:00", "x" * 1000])
def test_a_time_without_an_instant_is_refused(time_text: str) -> None:
    document = json.loads(changed().to_json()) | {"time": time_text}
    with pytest.raises(EventInvalid, match="RFC 3339"):
        parse_event(json.dumps(document))


def test_a_naive_time_is_no_time_of_an_event() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        changed(at=AT.replace(tzinfo=None))


def test_an_unknown_type_is_kept_whole() -> None:
    document = json.loads(changed().to_json()) | {"type": "sentinel.rollout.started.v1"}
    assert type(parse_event(json.dumps(document))) is Event


def test_one_change_in_ten_thousand_rules_is_told_in_time() -> None:
    rules = [{"resource": f"r{number}", "grade": 1, "count": number} for number in range(10_000)]
    old = parse_rules("flow", rules).with_revision(GIT)
    rules[5000]["count"] = 7
    new = parse_rules("flow", rules).with_revision(GIT)
    began = time.thread_time()
    event = changed(old, new)
    event.to_json()
    # Measured at about 60 ms; the limit leaves room for a busy machine and none for a second parse of the rules.
    assert time.thread_time() - began < 0.5
    assert len(event.payload["changes"]) == 1

"""Who changed payment_invoke's threshold last Wednesday afternoon, from what to what, and what changed with it?"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sentinel_core.audit.query.interval import Interval, between, window
from sentinel_core.audit.query.near import Near
from sentinel_core.audit.query.who import MAX_CHANGES, Answer, who
from sentinel_core.audit.store.contract import AuditStore, Condition
from sentinel_core.rules import Problem

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 11, 30, 10, 20, tzinfo=SHANGHAI)


@pytest.fixture
def afternoon() -> Interval:
    return between("last wednesday 12:00", "last wednesday 18:00", now=NOW, zone=SHANGHAI)


@pytest.fixture
def told(store: AuditStore, history: Any, flow: Any, told_by: Any) -> AuditStore:
    """Monday: first sight. Wednesday 14:30:01: 20 → 25 on a console, refunds too. 15:10:01: back again, from Git."""
    history.at -= timedelta(days=2)
    base = [flow("payment_invoke", 20), flow("payment_refund", 10)]
    slow = {"resource": "payment_gateway", "grade": 0, "count": 50, "timeWindow": 10}
    store.ingest([history.commit("flow", base), history.see("degrade", [slow], f"{1:040x}")])
    raised = [flow("payment_invoke", 25), flow("payment_refund", 12)]
    bad = history.commit("flow", raised, after=timedelta(days=2), author="ops-li", channel="console", commit_hash=None)
    also = history.see("degrade", [{**slow, "count": 80}], f"{2:040x}", channel="console", commit_hash=None)
    seen = [told_by(bad, f"i-{number}", timedelta(milliseconds=100 * number)) for number in (2, 3)]
    store.ingest([bad, also, *seen])
    back = {"message": "back to the reviewed value", "rollback_of": f"{2:040x}"}
    store.ingest([history.commit("flow", base, after=timedelta(minutes=40), **back)])
    return store


def ask(store: AuditStore, interval: Interval, resource: str = "payment_invoke", **more: Any) -> Answer:
    return who(store, resource, interval=interval, **more)


def test_where_a_store_names_no_author_it_was_whoever_published(store: AuditStore, history: Any, flow: Any) -> None:
    before = history.commit("flow", [flow("payment_invoke", 20)])
    rules = [flow("payment_invoke", 25)]
    change = history.see("flow", rules, "v2", published_by="ada", channel="cli", commit_hash=None)
    store.ingest([before, change])
    around = Interval(history.at - timedelta(hours=1), history.at + timedelta(hours=1), SHANGHAI)
    told = ask(store, around).changes[-1]
    assert (told.event.author, told.event.channel) == ("ada", "cli")


def test_each_change_says_when_who_how_and_from_what_to_what(told: AuditStore, afternoon: Interval) -> None:
    raised, back = ask(told, afternoon, field="count").changes
    assert raised.time.astimezone(SHANGHAI).strftime("%H:%M:%S") == "14:30:01"
    assert (raised.event.author, raised.event.channel, raised.event.commit) == ("ops-li", "console", None)
    assert [(change.field, change.old, change.new) for change in raised.changes] == [("count", 20, 25)]
    assert back.event.author == "chen <chen@example.com>"
    assert back.event.commit == f"{3:040x}"
    assert back.event.message == "back to the reviewed value"
    assert [(change.old, change.new) for change in back.changes] == [(25, 20)]


def test_other_rules_of_the_same_revision_are_named_whatever_their_kind(told: AuditStore, afternoon: Interval) -> None:
    raised = ask(told, afternoon).changes[0]
    assert [(change.kind, change.resource, change.old, change.new) for change in raised.together] == [
        ("flow", "payment_refund", 10, 12),
        ("degrade", "payment_gateway", 50, 80),
    ]
    assert raised.together_total == 2


def test_what_a_commit_did_to_the_same_rules_at_another_time_is_not_with_it(
    store: AuditStore, history: Any, flow: Any, afternoon: Interval
) -> None:
    """As where it was published a second time, over an edit in a console."""
    commits = {"commit_hash": "9f1c2ab" + "0" * 33}
    first = history.commit("flow", [flow(count=20)])
    raised = history.commit("flow", [flow(count=25)], **commits)
    edited = history.commit("flow", [flow(count=200)])
    healed = history.commit("flow", [flow(count=25)], **commits)
    store.ingest([first, raised, edited, healed])
    assert [each.together for each in ask(store, afternoon).changes] == [(), (), ()]


def test_a_rollback_names_what_it_undoes(told: AuditStore, afternoon: Interval) -> None:
    raised, back = ask(told, afternoon).changes
    assert back.undoes == raised.time
    assert raised.undoes is None


def test_a_rollback_after_a_refused_revision_undoes_the_change_before_it(
    store: AuditStore, history: Any, flow: Any, afternoon: Interval
) -> None:
    problem = Problem("SR102", "error", "count is bad", kind="flow", resource="payment_invoke", field="count")
    first, bad = (history.commit("flow", [flow(count=count)]) for count in (20, 25))
    history.at += timedelta(seconds=1)
    refused = history.reject(problem, version="eb0f52c")
    store.ingest([first, bad, refused, history.commit("flow", [flow(count=20)], rollback_of="eb0f52c")])
    assert ask(store, afternoon).changes[-1].undoes == bad.time


def test_the_instances_that_saw_a_change_are_counted(told: AuditStore, afternoon: Interval) -> None:
    seen = ask(told, afternoon).changes[0].seen
    assert seen.instances == ("i-1", "i-2", "i-3")
    assert seen.spread == timedelta(milliseconds=300)


def test_a_first_look_accuses_nobody_and_is_told_apart(told: AuditStore) -> None:
    answer = ask(told, window("last monday", now=NOW, zone=SHANGHAI))
    assert answer.changes == ()
    (first,) = answer.baseline
    assert first.event.initial
    assert first.changes[0].new["count"] == 20
    assert first.together == ()


def test_where_nothing_changed_the_change_before_is_told(told: AuditStore) -> None:
    answer = ask(told, window("yesterday", now=NOW, zone=SHANGHAI))
    assert answer.changes == answer.baseline == ()
    assert answer.before is not None
    assert answer.before.changes[0].new == 20


def test_a_resource_nobody_knows_has_no_story(told: AuditStore, afternoon: Interval) -> None:
    answer = ask(told, afternoon, "unknown")
    assert (answer.changes, answer.baseline, answer.rejections, answer.before) == ((), (), (), None)


@pytest.mark.parametrize(
    ("asked", "field", "near"),
    [
        ("payment_invok", None, Near("resource", "payment_invok", ("payment_invoke",))),
        ("Payment-Invoke", None, Near("resource", "Payment-Invoke", ("payment_invoke",))),
        ("zzz", None, Near("resource", "zzz", ())),
        ("payment_invoke", "cuont", Near("field", "cuont", ("count",))),
        ("payment_invoke", "nosuch", Near("field", "nosuch", ())),
        ("payment_invok*", None, None),
        ("payment_invoke", "maxQueueingTimeMs", None),
    ],
)
def test_what_no_event_names_is_told_with_what_is_near_it(
    told: AuditStore, asked: str, field: str | None, near: Near | None
) -> None:
    answer = ask(told, Interval(datetime(2020, 1, 1, tzinfo=UTC), NOW, SHANGHAI), asked, field=field)
    assert (answer.unknown and replace(answer.unknown, known=answer.unknown.known[:1])) == near
    if near is not None:
        assert (answer.changes, answer.baseline, answer.before) == ((), (), None)


def test_a_name_that_was_last_seen_long_ago_is_known(told: AuditStore, afternoon: Interval) -> None:
    long_before = between("2020-01-01", "2020-01-02", now=NOW, zone=SHANGHAI)
    assert ask(told, long_before).unknown is None
    assert ask(told, afternoon).unknown is None


def test_a_field_narrows_but_a_removed_rule_counts(
    store: AuditStore, history: Any, flow: Any, afternoon: Interval
) -> None:
    store.ingest(
        [
            history.commit("flow", [flow("payment_invoke", 20)]),
            history.commit("flow", [flow("payment_invoke", 20, warmUpPeriodSec=30, controlBehavior=1)]),
            history.commit("flow", [flow("payment_invoke", 21, warmUpPeriodSec=30, controlBehavior=1)]),
            history.commit("flow", []),
        ]
    )
    changes = [blame.changes[0] for blame in ask(store, afternoon, field="count").changes]
    assert [(change.action, change.field) for change in changes] == [("change", "count"), ("remove", None)]


def test_refused_revisions_are_told_beside_the_changes(told: AuditStore, history: Any, afternoon: Interval) -> None:
    problem = Problem("SR102", "error", "count is bad", kind="flow", resource="payment_invoke", field="count")
    told.ingest([history.reject(problem)])
    answer = ask(told, afternoon)
    assert len(answer.changes) == 2
    (rejection,) = answer.rejections
    assert rejection.problem.new["message"] == "count is bad"


def test_a_pattern_asks_for_several_resources(told: AuditStore, afternoon: Interval) -> None:
    raised = ask(told, afternoon, "payment_*").changes[0]
    assert {change.resource for change in raised.changes} == {"payment_invoke", "payment_refund"}


def test_more_conditions_narrow_further(told: AuditStore, afternoon: Interval) -> None:
    assert ask(told, afternoon, conditions=(Condition("environment", "is", ("staging",)),)).changes == ()


def test_an_answer_is_bounded_and_says_so(store: AuditStore, history: Any, flow: Any) -> None:
    store.ingest([history.commit("flow", [flow(count=count)]) for count in range(MAX_CHANGES + 3)])
    answer = ask(store, Interval(datetime(2026, 1, 1, tzinfo=UTC), NOW, SHANGHAI))
    assert answer.truncated
    assert len(answer.changes) == MAX_CHANGES
    assert answer.changes[-1].changes[0].new == MAX_CHANGES + 2


def test_an_answer_is_json_with_its_window(told: AuditStore, afternoon: Interval) -> None:
    document = json.loads(json.dumps(ask(told, afternoon, field="count").to_json()))
    assert document["formatVersion"] == 1
    assert document["interval"] == {
        "start": "2026-11-25T04:00:00.000Z",
        "end": "2026-11-25T10:00:00.000Z",
        "zone": "Asia/Shanghai",
    }
    assert document["changes"][0]["event"]["time"] == "2026-11-25T06:30:01.123Z"
    assert document["changes"][0]["changes"][0]["old"] == 20

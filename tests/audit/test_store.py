"""The contract of every audit store, run on each back end that this machine has."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from sentinel_core.audit.errors import QueryInvalid, StoreUnavailable
from sentinel_core.audit.events import Event, rule_applied
from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import AuditStore, Condition, Ingested, Page, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.rules import Problem, Revision, parse_rules


def everything(store: AuditStore, *conditions: Condition, **more: Any) -> list[Any]:
    """(field or action, new value) of all rows, oldest first."""
    rows = store.query(Query(tuple(conditions), limit=1000, **more)).rows
    return [(row.field or row.action, row.new) for row in reversed(rows)]


def counts(store: AuditStore, *conditions: Condition) -> list[Any]:
    return [new for _, new in everything(store, *conditions)]


def test_a_batch_is_counted_and_repeats_are_harmless(store: AuditStore, events: list[Event]) -> None:
    assert store.ingest(events[:6]) == Ingested(6, 0)
    assert store.ingest(events) == Ingested(4, 6)
    assert store.ingest([events[0], events[0]]) == Ingested(0, 2)
    assert len(everything(store)) == 10


def test_events_are_counted_once_each(store: AuditStore, events: list[Event]) -> None:
    assert store.count() == 0
    store.ingest(events[:6])
    store.ingest(events)
    store.ingest([replace(events[0], id="new"), replace(events[0], id="broken", data=b"[1")])
    store.ingest([replace(events[0], id="newer")])
    assert store.count() == 12


def test_events_are_counted_by_one_step_down_a_tree(sqlite: SqliteStore, events: list[Event]) -> None:
    sqlite.ingest(events)
    with sqlite._database.read() as connection:
        plan = connection.execute("EXPLAIN QUERY PLAN SELECT max(seq) FROM events").fetchall()
    assert [row[3] for row in plan] == ["SEARCH events"]


def test_the_same_change_told_by_many_instances_is_one_event_with_many_sightings(
    store: AuditStore, history: Any, flow: Any, told_by: Any
) -> None:
    history.commit("flow", [flow(count=1)])
    event = history.commit("flow", [flow(count=2)])
    others = [told_by(event, f"i-{number}", timedelta(milliseconds=number)) for number in (2, 3, 4)]
    assert store.ingest([event, *others]) == Ingested(1, 3)
    (row,) = store.query(Query()).rows
    assert [sighting.instance for sighting in store.sightings(row.event)] == ["i-1", "i-2", "i-3", "i-4"]


def test_an_event_comes_back_whole_in_canonical_form(
    store: AuditStore, events: list[Event], history: Any, flow: Any
) -> None:
    large = history.commit("flow", [flow(f"r{number}") for number in range(500)])
    store.ingest([*events, large])
    for event, asked in ((events[3], events[3].id), (events[3], events[3].id[:13]), (large, large.id)):
        found = store.get(asked)
        assert found is not None
        assert found == replace(event, data=rfc8785.dumps(event.payload))
        assert found.payload == event.payload
    assert store.get("00000000-none") is None


def test_a_short_or_shared_beginning_of_an_id_is_asked_for_more(store: AuditStore, events: list[Event]) -> None:
    store.ingest([replace(events[0], id="abcdefgh-1"), replace(events[1], id="abcdefgh-2")])
    with pytest.raises(QueryInvalid, match="give more"):
        store.get("abcdefgh")
    with pytest.raises(QueryInvalid, match="at least 8"):
        store.get("abc")


def test_pages_hold_every_row_once_newest_first(store: AuditStore, history: Any, flow: Any) -> None:
    history.commit("flow", [flow(f"r{number}", 1) for number in range(4)])
    changes = [history.commit("flow", [flow(f"r{number}", step) for number in range(4)]) for step in range(2, 7)]
    store.ingest(changes)
    for conditions in ((), (Condition("resource", "like", ("r*",)),)):
        seen: list[Any] = []
        page = Page((), None)
        query = Query(conditions, limit=3)
        while not seen or page.next:
            page = store.query(replace(query, after=page.next))
            seen += [(row.event.time, row.resource, row.new) for row in page.rows]
        assert len(seen) == len(set(seen)) == 20
        assert [time for time, _, _ in seen] == sorted((time for time, _, _ in seen), reverse=True)


def test_changes_of_several_sources_come_in_one_order_of_time(store: AuditStore, history: Any, flow: Any) -> None:
    slow = {"resource": "r1", "grade": 0, "timeWindow": 10}
    changes = []
    for step in range(1, 5):
        changes.append(history.commit("flow", [flow(f"r{number}", step) for number in range(3)]))
        changes.append(history.commit("degrade", [{**slow, "count": step}]))
        history.reject(Problem("SR102", "error", "count is bad", kind="flow", resource="r1", field="count"))
    store.ingest(changes)
    sources = tuple(event.source for event in changes)
    assert len(set(sources)) == 2
    conditions = (condition("source", "is", *sources, "another"), condition("type", "is", changes[0].type))
    seen: list[Any] = []
    page = Page((), None)
    while not seen or page.next:
        page = store.query(Query(conditions, limit=3, after=page.next))
        seen += [(row.event.time, row.event.source, row.resource, row.new) for row in page.rows]
    assert len({str(row) for row in seen}) == len(seen) == 16
    assert [row[0] for row in seen] == sorted((row[0] for row in seen), reverse=True)
    assert len(everything(store, *conditions, condition("resource", "is", "r1"))) == 8
    assert everything(store, *conditions[1:], condition("source", "is", "another")) == []


def test_rows_that_arrive_between_pages_do_not_shift_them(store: AuditStore, events: list[Event]) -> None:
    store.ingest(events[:8])
    first = store.query(Query(limit=4))
    store.ingest(events[8:])
    second = store.query(Query(limit=4, after=first.next))
    assert [row.event.id for row in (*first.rows, *second.rows)] == [event.id for event in reversed(events[:8])]


def test_a_window_is_half_open(store: AuditStore, events: list[Event]) -> None:
    store.ingest(events)
    window = {"start": events[3].time, "end": events[6].time}
    assert [new for _, new in everything(store, **window)] == [4, 5, 6]


def condition(column: str, test: Any, *values: str | float, negated: bool = False) -> Condition:
    return Condition(column, test, values, negated)


@pytest.fixture
def varied(store: AuditStore, history: Any, flow: Any) -> AuditStore:
    """Five rows: two of flow rules, one of a degrade rule, one added rule, one rejection."""
    base = [flow("order-create", 100), flow("payment_invoke", 20)]
    slow = {"resource": "order-create", "grade": 0, "count": 50, "timeWindow": 10}
    first = [history.commit("flow", base), history.see("degrade", [slow], "1".zfill(40))]
    store.ingest(first)
    store.ingest(
        [
            history.commit(
                "flow", [flow("order-create", 400), flow("payment_invoke", 20)], author="Chen <c@example.com>"
            ),
            history.commit(
                "flow", [flow("order-create", 400), flow("payment_invoke", 25)], author="li", channel="console"
            ),
            history.commit("degrade", [{**slow, "count": 90}], author=None),
            history.commit("flow", [flow("order-create", 400), flow("payment_invoke", 25), flow("refund[1]", 350)]),
            history.reject(
                Problem("SR102", "error", "count is bad", kind="flow", resource="payment_invoke", field="count")
            ),
        ]
    )
    return store


CASES: list[tuple[list[Condition], int]] = [
    ([condition("resource", "is", "payment_invoke")], 3),
    ([condition("resource", "like", "order-*")], 4),
    ([condition("resource", "like", "*_invoke")], 3),
    ([condition("resource", "like", "refund[1]*")], 1),
    ([condition("resource", "is", "order-create", "payment_invoke")], 7),
    ([condition("field", "is", "count")], 4),
    ([condition("action", "is", "seen")], 3),
    ([condition("action", "is", "seen", negated=True)], 5),
    ([condition("kind", "is", "degrade")], 2),
    ([condition("author", "contains", "chen")], 4),
    ([condition("author", "contains", "chen", negated=True)], 4),
    ([condition("channel", "is", "console")], 1),
    ([condition("commit", "starts", "0000000000")], 7),
    ([condition("type", "is", "sentinel.rules.rejected.v1")], 1),
    ([condition("count", ">", 300)], 2),
    ([condition("count", "<=", 25)], 2),
    ([condition("count", "=", 90)], 1),
    ([condition("count", ">", 300), condition("resource", "is", "order-create")], 1),
    ([condition("count", ">", 0, negated=True), condition("action", "is", "seen", negated=True)], 1),
    ([condition("environment", "is", "staging", negated=True)], 8),
    ([condition("environment", "is", "staging")], 0),
]


@pytest.mark.parametrize(("conditions", "rows"), CASES)
def test_conditions_select_the_rows_they_mean(varied: AuditStore, conditions: list[Condition], rows: int) -> None:
    assert len(everything(varied, *conditions)) == rows


def test_an_event_without_changes_has_a_row_of_its_own(store: AuditStore, history: Any, events: list[Event]) -> None:
    rollout = Event("e-0000001", "/x", "sentinel.rollout.started.v1", "flow", events[0].time, b'{"environment":"prod"}')
    store.ingest([rollout])
    (row,) = store.query(Query((condition("type", "like", "sentinel.rollout.*"),))).rows
    assert (row.action, row.resource, row.event.environment) == ("", None, "prod")


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"changes": 7}', b'{"changes": [{}]}', b'{"environment": {"a": 1}, "changes": "x"}']
)
def test_data_that_cannot_be_read_is_refused_by_its_place_and_takes_nothing_with_it(
    store: AuditStore, events: list[Event], data: bytes
) -> None:
    poison = replace(events[1], source="/mallory", data=data)
    done = store.ingest([events[0], events[1], poison, events[2]])
    assert (done.new, done.duplicate, [each.place for each in done.refused]) == (3, 0, [2])
    assert store.count() == 3


def test_text_that_no_database_holds_does_not_stop_the_line(store: AuditStore, events: list[Event]) -> None:
    payload = {**events[1].payload, "author": "chen \udcff", "message": 7}
    store.ingest([replace(events[1], data=json.dumps(payload).encode())])
    (row,) = store.query(Query()).rows
    assert (row.event.author, row.event.message) == ("chen ?", "7")


class TestObservations:
    """Where the store has no revision of its own, hosts see one change under several ids."""

    def fleet(self, history: Any, count: int = 2) -> list[Any]:
        hosts = [type(history)(instance=f"host-{number}", observed=True) for number in range(count)]
        for host in hosts:
            host.at += timedelta(seconds=int(host.instance[-1]))
        return hosts

    def change(self, host: Any, flow: Any, *values: int) -> list[Event]:
        return [host.commit("flow", [flow(count=value)], version=f"{host.instance}:{host.commits}") for value in values]

    def test_observations_of_one_change_within_a_minute_are_one_event(
        self, store: AuditStore, history: Any, flow: Any
    ) -> None:
        one, two = (self.change(host, flow, 1, 2)[1:] for host in self.fleet(history))
        assert store.ingest(one + two) == Ingested(1, 1)
        (row,) = store.query(Query()).rows
        assert [sighting.instance for sighting in store.sightings(row.event)] == ["host-0", "host-1"]

    def test_what_each_instance_runs_is_an_event_of_its_own(self, store: AuditStore, history: Any, flow: Any) -> None:
        """Also where the revision is an observation, such as a file's time: a fleet is counted by these."""
        revision = Revision((), "/test/file/rules", "17", observed=True)
        rules = parse_rules("flow", [flow()])
        events = [
            rule_applied(
                environment="test",
                app="shop",
                ruleset=rules,
                revision=revision,
                at=history.at,
                instance=name,
                activation_ms=1.0,
            )
            for name in ("host-0", "host-1")
        ]
        assert store.ingest(events) == Ingested(2, 0)

    def test_going_there_and_back_again_is_three_changes(self, store: AuditStore, history: Any, flow: Any) -> None:
        one, two = (self.change(host, flow, 1, 2, 1, 2)[1:] for host in self.fleet(history))
        for events in ([*one, *two], [*two, *one]):
            store.ingest(events)
            assert counts(store) == [2, 1, 2]

    def test_a_folded_event_that_is_sent_again_stays_folded(self, store: AuditStore, history: Any, flow: Any) -> None:
        one, two = (self.change(host, flow, 1, 2)[1:] for host in self.fleet(history))
        store.ingest(one + two)
        assert store.ingest(two + one) == Ingested(0, 2)
        assert counts(store) == [2]

    def test_after_a_minute_it_is_another_change(self, store: AuditStore, history: Any, flow: Any) -> None:
        one, two = self.fleet(history)
        store.ingest(self.change(one, flow, 1, 2)[1:])
        two.at += timedelta(seconds=61)
        assert store.ingest(self.change(two, flow, 1, 2)[1:]) == Ingested(1, 0)

    def test_revisions_that_a_store_numbers_are_never_folded(self, store: AuditStore, history: Any, flow: Any) -> None:
        hosts = self.fleet(history)
        for host in hosts:
            host.observed = False
        one, two = (self.change(host, flow, 1, 2)[1:] for host in hosts)
        assert store.ingest(one + two) == Ingested(2, 0)


def test_related_are_changes_of_all_kinds_by_the_same_revision(varied: AuditStore, history: Any, flow: Any) -> None:
    flow_event = history.commit("flow", [flow("order-create", 1)])
    slow = {"resource": "order-create", "grade": 0, "count": 70, "timeWindow": 10}
    degrade_event = history.see("degrade", [slow], f"{history.commits:040x}")
    varied.ingest([flow_event, degrade_event])
    (row,) = varied.query(Query((condition("count", "=", 1),))).rows
    assert {(related.kind, related.action, related.resource) for related in varied.related(row.event)} == {
        ("flow", "change", "order-create"),
        ("flow", "remove", "payment_invoke"),
        ("flow", "remove", "refund[1]"),
        ("degrade", "change", "order-create"),
    }


def test_bytes_of_a_terminal_that_are_no_utf8_find_nothing(varied: AuditStore) -> None:
    for test in ("is", "like", "contains", "starts"):
        assert everything(varied, condition("resource", test, "x\udcff*")) == []
    assert varied.get("12345678\udcff") is None


def test_a_cursor_that_is_none_is_refused(store: AuditStore, events: list[Event]) -> None:
    store.ingest(events)
    for after in ("", "1.2", "a.b.c", "1;DROP TABLE events", f"{10**30}.1.1"):
        with pytest.raises(QueryInvalid):
            store.query(Query(after=after))
    with pytest.raises(QueryInvalid):
        store.query(Query(limit=0))


def test_a_reader_sees_what_a_writer_committed_and_cannot_write(sqlite: SqliteStore, events: list[Event]) -> None:
    sqlite.ingest(events[:5])
    reader = open_store(f"sqlite:///{sqlite.path}", read_only=True)
    assert len(reader.query(Query()).rows) == 5
    sqlite.ingest(events[5:])
    assert len(reader.query(Query()).rows) == 10
    with pytest.raises(StoreUnavailable):
        reader.ingest(events)


def test_a_store_that_does_not_exist_is_not_made_by_asking(tmp_path: Path) -> None:
    reader = open_store(tmp_path / "audit.db", read_only=True)
    with pytest.raises(StoreUnavailable, match="no audit store yet"):
        reader.query(Query())
    assert list(tmp_path.iterdir()) == []


def test_a_closed_store_opens_again(store: AuditStore, events: list[Event]) -> None:
    store.ingest(events)
    store.close()
    store.close()
    found = store.get(events[0].id)
    assert found is not None
    assert found.payload == events[0].payload


def test_a_locked_store_is_told_in_bounded_time(sqlite: SqliteStore, events: list[Event], monkeypatch: Any) -> None:
    monkeypatch.setattr("sentinel_core.audit.database.BUSY_TIMEOUT_S", 0.05)
    sqlite.ingest(events[:1])
    sqlite.close()
    holder = sqlite3.connect(sqlite.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        sqlite.ingest(events)
    holder.execute("ROLLBACK")
    holder.close()


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("sqlite:///audit.db", "audit.db"),
        ("sqlite:////var/audit.db", "/var/audit.db"),
        ("data/audit.db", "data/audit.db"),
        ("/a", "/a"),
    ],
)
def test_a_uri_or_a_path_opens_a_store(uri: str, path: str) -> None:
    store = open_store(uri)
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


@pytest.mark.parametrize(
    "uri", ["mongodb://127.0.0.1:9200", "contract:///x", "_where:///x", "sqlite://", "sqlite://x.db"]
)
def test_an_unknown_scheme_names_the_known_ones(uri: str) -> None:
    with pytest.raises(StoreUnavailable, match="sqlite://"):
        open_store(uri)


def test_two_processes_ingest_into_one_store(store: AuditStore, events: list[Event], child: Callable[..., int]) -> None:
    assert child(store.ingest, events[:6]) == 0
    assert store.ingest(events) == Ingested(4, 6)


def test_a_pattern_means_the_same_however_many_names_it_matches(store: AuditStore, history: Any, flow: Any) -> None:
    history.commit("flow", [flow(f"r{number:03}", 1) for number in range(100)])
    store.ingest([history.commit("flow", [flow(f"r{number:03}", 2) for number in range(100)])])
    for pattern, matches in (("r0*", 100), ("r00*", 10), ("*7", 10), ("r*5*", 19), ("x*", 0), ("r00*9", 1)):
        rows = everything(store, condition("resource", "like", pattern))
        assert len(rows) == matches


def test_a_resource_is_found_through_its_index(sqlite: SqliteStore, events: list[Event]) -> None:
    from sentinel_core.audit.store._where import select

    sqlite.ingest(events)
    statement, values = select(
        Query((condition("resource", "is", "payment_invoke"),), datetime.now(events[0].time.tzinfo)), "e.id"
    )
    with sqlite._database.read() as connection:
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values))
    assert "changes_resource (resource=? AND time>?)" in plan
    assert "TEMP B-TREE" not in plan


def test_the_changes_of_a_source_are_found_through_their_index(sqlite: SqliteStore, events: list[Event]) -> None:
    from sentinel_core.audit.store._where import select

    sqlite.ingest(events)
    asked = (condition("source", "is", events[0].source, "another"), condition("type", "is", events[0].type))
    statement, values = select(Query(asked, events[3].time, after="1.1.1"), "e.id")
    with sqlite._database.read() as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    found = [step for step in plan if "SEARCH e" in step]
    assert len(found) == 2
    assert all("events_source (source=? AND type=? AND time>? AND time<?)" in step for step in found)
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan

"""Events in the order in which they came to a store, whatever their times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.events import Event
from sentinel_core.audit.store import _os_layout
from sentinel_core.audit.store._where import select
from sentinel_core.audit.store.contract import END, ArrivalStore, Condition, Query
from sentinel_core.audit.store.sqlite import SqliteStore


def arrived(
    store: ArrivalStore, after: str | None = None, *conditions: Condition, limit: int = 3
) -> tuple[list[Any], str]:
    """New values of all rows behind a position, in the order of arrival, and the position at the end."""
    found: list[Any] = []
    while True:
        page = store.arrived(Query(tuple(conditions), limit=limit, after=after))
        found += [row.new for row in page.rows]
        after = page.next
        assert after is not None, "there is always a place to go on from"
        if len(page.rows) < limit:
            return found, after


def test_events_come_in_the_order_in_which_they_arrived(store: ArrivalStore, history: Any, flow: Any) -> None:
    events = [history.commit("flow", [flow(count=count), flow("other", count=count)]) for count in range(1, 6)]
    for number in (4, 2, 0, 3, 1):
        store.ingest([events[number]])
    assert arrived(store, None, Condition("action", "is", ("change",)))[0] == [5, 5, 3, 3, 4, 4, 2, 2]
    assert arrived(store, None, Condition("count", ">", (3,)))[0] == [5, 5, 4, 4]


def test_what_arrives_after_a_position_is_met_once_whatever_its_time(store: ArrivalStore, events: list[Event]) -> None:
    store.ingest(events[3:6])
    end = store.arrived(Query(after=END))
    assert (end.rows, arrived(store, end.next)[0]) == ((), [])
    store.ingest(events[:3])
    found, later = arrived(store, end.next, Condition("action", "is", ("change",)))
    assert found == [2, 3]
    store.ingest(events)
    assert arrived(store, later)[0] == [7, 8, 9, 10]
    assert arrived(store, end.next, Condition("resource", "is", ("payment_invoke",)), limit=1)[0][1:] == [
        2,
        3,
        7,
        8,
        9,
        10,
    ]


def test_pages_of_large_events_are_no_larger_than_they_must_be(
    store: ArrivalStore, history: Any, flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_os_layout, "PAGE_CHARACTERS", 2000)
    events = [history.commit("flow", [flow(f"r{each}", count) for each in range(10)]) for count in range(1, 8)]
    store.ingest([*events, *(replace(event, source="/other") for event in events)])
    query, told = Query((Condition("action", "is", ("change",)),), limit=15), list[Any]()
    while True:
        page = store.arrived(query)
        assert len(page.rows) < 15 + 10
        told += [(row.event.source, row.new, row.resource) for row in page.rows]
        if len(page.rows) < query.limit:
            break
        query = replace(query, after=page.next)
    assert len(told) == len(set(told)) == 2 * 6 * 10
    assert arrived(store, None, Condition("count", ">", (5,)), limit=1)[0].count(7) == 20


def test_a_position_of_a_store_that_was_made_anew_loses_nothing(
    sqlite: SqliteStore, events: list[Event], tmp_path: Path
) -> None:
    sqlite.ingest(events)
    _, end = arrived(sqlite)
    other = SqliteStore(tmp_path / "anew.db")
    other.ingest(events[4:6])
    assert arrived(other, end)[0] == [5, 6]


def test_pages_in_the_order_of_arrival_are_one_walk_through_the_events(
    sqlite: SqliteStore, events: list[Event]
) -> None:
    sqlite.ingest(events)
    query = Query((Condition("resource", "is", ("payment_invoke",)),), after="0.3.-1")
    statement, values = select(query, "e.id", by_arrival=True)
    with sqlite._database.read() as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert plan[0] == "SEARCH e USING INTEGER PRIMARY KEY (rowid>?)"
    assert not any("TEMP B-TREE" in step for step in plan), plan


def test_whole_events_come_in_the_order_in_which_they_are_asked_for(store: ArrivalStore, events: list[Event]) -> None:
    other = replace(events[3], source="/other")
    store.ingest([*events, other])
    heads = {(row.event.id, row.event.source): row.event for row in store.query(Query()).rows}
    wanted = [other, events[7], events[1]]
    asked = [heads[event.id, event.source] for event in wanted]
    assert [(event.id, event.source) for event in store.events(asked)] == [(each.id, each.source) for each in wanted]
    assert store.events([replace(asked[0], id="gone"), asked[1]])[0].payload == events[7].payload
    assert store.events([]) == []

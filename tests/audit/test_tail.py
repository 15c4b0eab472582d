"""The end of a store, and each row that arrives behind it, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sentinel_core.audit import tail as module
from sentinel_core.audit.errors import StoreMissing
from sentinel_core.audit.events import Event
from sentinel_core.audit.store.contract import ArrivalStore, Page, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.tail import Tail


def news(tail: Tail) -> list[object]:
    """The count that each change set."""
    return [row.new for rows in tail.new() for row in rows]


def test_it_begins_with_the_newest_oldest_first_and_goes_on_with_what_arrives(
    store: ArrivalStore, events: list[Event]
) -> None:
    store.ingest(events[3:6])
    tail = Tail(store, Query())
    assert [row.new for row in tail.last(2)] == [5, 6]
    assert news(tail) == []
    store.ingest([events[1], events[6]])
    assert news(tail) == [2, 7], "late ones, too"
    store.ingest(events[1:8])
    assert news(tail) == [3, 8], "and nothing twice"
    assert news(tail) == []


def test_none_of_the_newest_is_asked_for(store: ArrivalStore, events: list[Event]) -> None:
    store.ingest(events[:5])
    tail = Tail(store, Query())
    assert tail.last(0) == ()
    store.ingest(events)
    assert news(tail) == [6, 7, 8, 9, 10]


def test_what_arrives_while_the_newest_are_read_is_told_once(
    sqlite: SqliteStore, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.ingest(events[:5])
    query = SqliteStore.query

    def busy(self: SqliteStore, asked: Query) -> Page:
        self.ingest([events[6], events[5], events[7]])
        return query(self, asked)

    tail = Tail(sqlite, Query())
    monkeypatch.setattr(SqliteStore, "query", busy)
    assert [row.new for row in tail.last(2)] == [7, 8]
    assert news(tail) == [6]
    sqlite.ingest([replace(events[6], source="/other")])
    assert news(tail) == [7]


def test_many_that_arrive_at_once_come_page_by_page(
    store: ArrivalStore, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 3)
    tail = Tail(store, Query())
    assert tail.last(5) == ()
    store.ingest(events[1:])
    assert [[row.new for row in rows] for rows in tail.new()] == [[2, 3, 4], [5, 6, 7], [8, 9, 10]]


def test_a_store_that_is_not_there_yet_is_read_from_its_beginning(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "later.db"
    tail = Tail(SqliteStore(path, read_only=True), Query())
    with pytest.raises(StoreMissing):
        tail.last(1)
    SqliteStore(path).ingest(events[1:5])
    assert news(tail) == [2, 3, 4, 5]


@pytest.mark.parametrize("more", [2, 3, 9])
def test_a_store_that_was_replaced_by_another_is_read_from_its_beginning(
    tmp_path: Path, events: list[Event], more: int
) -> None:
    store = SqliteStore(tmp_path / "audit.db")
    store.ingest(events[:2])
    tail = Tail(store, Query())
    tail.last(0)
    other = SqliteStore(tmp_path / "other.db")
    other.ingest([replace(event, source="/other") for event in events[:more]])
    other.close()
    store.close()
    (tmp_path / "other.db").replace(tmp_path / "audit.db")
    assert len(news(tail)) == more
    assert news(tail) == []

"""What `who` looks at beside an answer is bounded: a larger store is not a longer look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel_core.audit.events import Event
from sentinel_core.audit.store import _linked
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore

STEPS = 100


def steps(store: SqliteStore, *, others: bool) -> int:
    """Hundreds of them that SQLite takes to look beside the newest event, or at the other chains of an answer."""
    newest = store.query(Query(limit=1)).rows[0].event
    (event,) = store.links([newest], most_bytes=2**20)
    taken = 0

    def count() -> None:
        nonlocal taken
        taken += 1

    with store._database.read() as connection:
        connection.set_progress_handler(count, STEPS)
        found = _linked.stretches(connection, {event.source: () if others else [event]})
        connection.set_progress_handler(None, 0)
    assert found[event.source].places
    return taken


@pytest.fixture
def many(events: Sequence[Event]) -> Sequence[Event]:
    return [replace(event, id=f"{number:08x}-{event.id}") for number in range(600) for event in events[:5]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "audit.db")) as store:
        yield store


@pytest.mark.parametrize("others", [False, True])
def test_ten_times_the_events_are_no_more_steps(
    opened: SqliteStore, many: Sequence[Event], monkeypatch: pytest.MonkeyPatch, *, others: bool
) -> None:
    monkeypatch.setattr(_linked, "_LOOKED_AT", 100)
    opened.ingest(many[:300])
    few = steps(opened, others=others)
    opened.ingest(many[300:])
    assert steps(opened, others=others) <= few + 2

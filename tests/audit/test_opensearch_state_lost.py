"""The index of records is gone: nothing fails that can go on, `verify` tells, and the next event makes them anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core.audit.event import Event
from sentinel_core.audit.query.interval import Interval
from sentinel_core.audit.query.who import who
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store.contract import Ingested, Query
from sentinel_core.audit.store.opensearch import OpenSearchStore
from sentinel_core.audit.verify import verify
from tests.audit.purging import OTHER, SOURCE, found, numbers, purged
from tests.services.opensearch import OpenSearch

pytestmark = pytest.mark.service("opensearch")
Opened = Callable[..., OpenSearchStore]


@pytest.fixture
def lost(remote: OpenSearchStore, node: OpenSearch, index: str, events: list[Event]) -> OpenSearchStore:
    """Ten events of SOURCE and two of OTHER, and no record of either chain."""
    remote.ingest(events)
    remote.ingest([replace(event, source=OTHER) for event in events[:2]])
    node.ask("DELETE", f"/{index}-state")
    return remote


def ends(store: OpenSearchStore) -> list[tuple[str, int]]:
    return [(head.source, head.number) for head in store.heads()]


def test_verify_names_each_chain(lost: OpenSearchStore) -> None:
    text = "is an end of which the store has no record of its own"
    told = [(each.kind, each.source, each.number, each.text) for each in verify(lost).findings]
    assert told == [("hash mismatch", SOURCE, 10, text), ("hash mismatch", OTHER, 2, text)]
    assert found(lost) == [("hash mismatch", SOURCE, 10, 10), ("hash mismatch", OTHER, 2, 2)]


def test_doctor_tells(lost: OpenSearchStore, events: list[Event]) -> None:
    (text,) = lost.inspect().altered
    assert "the records of its chains are gone" in text
    lost.ingest(events[:1])
    lost.ingest([replace(events[0], source="/new")])
    assert lost.inspect().altered == ()


def test_checkpoints_and_whoever_follows_go_by_the_events(lost: OpenSearchStore) -> None:
    assert ends(lost) == [(SOURCE, 10), (OTHER, 2)]
    assert len(lost.arrived(Query(limit=100)).rows) == 12


def test_questions_and_purges_are_answered(
    lost: OpenSearchStore, events: list[Event], folder: Path, cut: datetime, key: SigningKey
) -> None:
    assert len(who(lost, "payment_invoke", interval=Interval(events[0].time, cut, UTC)).changes) > 3
    assert purged(lost, cut, folder, key).removed == 7
    assert numbers(lost, SOURCE) == [6, 7, 8, 9, 10]
    assert found(lost, key, folder) == []


@pytest.mark.parametrize("source", [SOURCE, "/new"])
@pytest.mark.parametrize("same_writer", [True, False])
def test_the_next_event_of_any_chain_makes_all_records_anew(
    lost: OpenSearchStore, opened: Opened, node: OpenSearch, index: str, events: list[Event], source: str,
    same_writer: bool,
) -> None:  # fmt: skip
    store = lost if same_writer else opened(node.address, index=index)
    assert store.ingest([replace(events[0], source=source, id="a-new-one")]) == Ingested(1, 0)
    assert (verify(store).findings, verify(store).events) == ([], 13)
    assert store.ingest(events) == Ingested(0, 10)
    assert store.ingest([replace(event, source=OTHER) for event in events[:3]]) == Ingested(1, 2)
    assert (verify(store).findings, verify(store).events) == ([], 14)

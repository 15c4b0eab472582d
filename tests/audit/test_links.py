"""Events with their links, as many as are asked for: what `audit who` computes anew of what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sentinel_core.audit.chain import START, LinkedStore
from sentinel_core.audit.events import Event
from sentinel_core.audit.standing import standing
from sentinel_core.audit.store import _os_linked
from sentinel_core.audit.store._os_layout import FIELDS, LISTS
from sentinel_core.audit.store.contract import AuditStore, EventHead, Query
from sentinel_core.audit.store.opensearch import OpenSearchStore
from tests.services.opensearch import OpenSearch

MUCH = 10**6


def linked(store: AuditStore) -> LinkedStore:
    assert isinstance(store, LinkedStore)
    return store


def heads(store: AuditStore) -> Sequence[EventHead]:
    """Newest first."""
    return [row.event for row in store.query(Query(limit=100)).rows]


def test_events_come_with_their_links_in_the_order_asked_for(
    store: AuditStore, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_os_linked, "_FIRST", 2)
    store.ingest([*events, replace(events[4], source="/other")])
    asked = heads(store)
    found = linked(store).links(asked, most_bytes=MUCH)
    assert [(each.columns[0], each.source) for each in found] == [(head.id, head.source) for head in asked]
    assert all(each.is_whole() for each in found)
    chain = sorted((each for each in found if each.source == events[0].source), key=lambda each: each.number)
    assert [each.number for each in chain] == list(range(1, 11))
    assert [each.previous for each in chain] == [START, *(each.hash for each in chain[:-1])]


def test_those_that_are_gone_are_left_out_and_bytes_are_bounded(store: AuditStore, events: list[Event]) -> None:
    store.ingest(events)
    asked = heads(store)
    gone = replace(asked[0], id="gone")
    assert [each.columns[0] for each in linked(store).links([gone, asked[3]], most_bytes=MUCH)] == [asked[3].id]
    assert len(linked(store).links(asked, most_bytes=1)) == 1
    assert 1 < len(linked(store).links(asked, most_bytes=3000)) < 10
    assert linked(store).links([], most_bytes=MUCH) == []


@pytest.mark.parametrize(
    "changed", [{FIELDS["author"]: "x"}, {LISTS["field"]: ["grade"]}, {"event.hash": "no hash"}, {FIELDS["id"]: "x"}]
)
def test_a_document_that_is_not_as_it_was_written_is_broken(
    remote: OpenSearchStore, node: OpenSearch, index: str, events: list[Event], changed: dict[str, Any]
) -> None:
    remote.ingest(events)
    asked = heads(remote)
    lines = "; ".join(f"ctx._source['{name}'] = params['{name}']" for name in changed)
    which = {"term": {FIELDS["id"]: events[4].id}}
    script = {"script": {"source": lines, "params": changed}, "query": which}
    assert node.ask("POST", f"/{index}-events-*/_update_by_query?refresh=true", script)[1]["updated"] == 1
    shown = asked if FIELDS["id"] not in changed else heads(remote)
    told = standing(remote, shown, {})
    assert told is not None
    assert (told.shown, told.checked) == (10, 10)
    assert told.broken == (events[4].id if FIELDS["id"] not in changed else "x",)

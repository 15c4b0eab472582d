"""What the store in OpenSearch wrote is found by what it asks, whatever happens between a write and a refresh."""

from __future__ import annotations

import pytest

from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.store.contract import Query
from tests.audit.test_opensearch import Opened, assert_whole, ids
from tests.services.gate import Gate, gate
from tests.services.opensearch import OpenSearch


@pytest.mark.parametrize("when", ["before it ends", "after it ended"])
def test_a_question_during_a_write_does_not_hide_it_from_the_next_one(
    opened: Opened, node: OpenSearch, index: str, events: list[Event], when: str
) -> None:
    asked: list[list[str]] = []

    def ask(method: str, path: str, body: bytes, link: Gate) -> tuple[int, bytes] | None:
        if not path.startswith("/_bulk") or b'"event.original"' not in body or asked:
            return None
        answer = link.pass_on(method, path, body) if when == "after it ended" else None
        asked.append(ids(store))
        return answer

    with gate(node.port) as link:
        store = opened(link.address, index=index)
        store.ingest(events[:1])
        node.ask("PUT", f"/{index}-events-*/_settings", {"index.refresh_interval": "-1"})
        link.decide = ask
        store.ingest(events)
        assert len(asked) == 1
        assert_whole(store, events)


def test_a_write_during_a_refresh_is_shown_by_the_next_one(
    opened: Opened, node: OpenSearch, index: str, events: list[Event]
) -> None:
    def write(method: str, path: str, body: bytes, link: Gate) -> tuple[int, bytes] | None:
        if not path.endswith("/_refresh"):
            return None
        link.decide = lambda *_: None
        answer = link.pass_on(method, path, body)
        store.ingest(events)
        return answer

    with gate(node.port) as link:
        store = opened(link.address, index=index)
        store.ingest(events[:1])
        node.ask("PUT", f"/{index}-events-*/_settings", {"index.refresh_interval": "-1"})
        link.decide = write
        assert ids(store) == [events[0].id]
        assert_whole(store, events)


def test_after_a_refresh_that_failed_the_next_question_refreshes_again(
    opened: Opened, node: OpenSearch, index: str, events: list[Event]
) -> None:
    with gate(node.port) as link:
        store = opened(link.address, index=index)
        store.ingest(events[:1])
        node.ask("PUT", f"/{index}-events-*/_settings", {"index.refresh_interval": "-1"})
        store.ingest(events)
        link.decide = lambda _, path, *__: (500, b"{}") if path.endswith("/_refresh") else None
        with pytest.raises(StoreUnavailable, match="HTTP 500"):
            store.query(Query())
        link.decide = lambda *_: None
        assert_whole(store, events)

"""The audit store in a real OpenSearch: what goes wrong on the way, and that each event is there once, in order."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sentinel_core.audit.errors import StoreMisconfigured, StoreUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.store import _os_layout, _os_write
from sentinel_core.audit.store._os_write import CHUNK
from sentinel_core.audit.store.contract import Condition, Ingested, Query
from sentinel_core.audit.store.opensearch import OpenSearchStore
from sentinel_core.audit.verify import verify
from tests.services.gate import Gate, gate
from tests.services.killing import die_at
from tests.services.opensearch import OpenSearch
from tests.services.server import wait_until

Child = Callable[..., int]
Opened = Callable[..., OpenSearchStore]


def ids(store: OpenSearchStore) -> list[str]:
    """Of all events, oldest first, one for each row."""
    return [row.event.id for row in reversed(store.query(Query(limit=1000)).rows)]


def assert_whole(store: OpenSearchStore, events: list[Event]) -> None:
    """Each event once, and one sound chain."""
    assert sorted(ids(store)) == sorted(event.id for event in events)
    verdict = verify(store)
    assert (verdict.findings, verdict.events) == ([], len(events))


def written(node: OpenSearch, index: str, name: str = "events-*") -> list[dict[str, Any]]:
    node.ask("POST", f"/{index}-{name}/_refresh")
    _, told = node.ask("POST", f"/{index}-{name}/_search", {"size": 1000, "sort": ["event.sequence"]})
    return [hit["_source"] for hit in told["hits"]["hits"]]


class TestReading:
    def test_a_reader_makes_nothing_and_sees_what_others_wrote(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event]
    ) -> None:
        reader = opened(node.address, index=index, read_only=True)
        for ask in (reader.count, lambda: reader.query(Query()), lambda: reader.get("12345678")):
            with pytest.raises(StoreUnavailable, match="no audit store yet"):
                ask()
        assert node.ask("GET", f"/_cat/indices/{index}-*?format=json")[1] == []
        opened(node.address, index=index).ingest(events)
        assert wait_until(lambda: reader.count() == 10, 5)
        assert len(reader.query(Query()).rows) == 10
        with pytest.raises(StoreMisconfigured, match="for reading"):
            reader.ingest(events)

    def test_a_question_looks_at_no_more_large_events_at_once_than_it_must(
        self, opened: Opened, node: OpenSearch, index: str, history: Any, flow: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_os_layout, "PAGE_CHARACTERS", 20_000)
        commits = [history.commit("flow", [flow(f"r{each}", count) for each in range(20)]) for count in range(1, 90)]
        opened(node.address, index=index).ingest(commits)
        sizes: list[int] = []

        def asked(method: str, path: str, body: bytes, _: Gate) -> None:
            if "/_search" in path:
                sizes.append(json.loads(body)["size"])

        with gate(node.port) as link:
            link.decide = asked
            store = opened(link.address, index=index, read_only=True)
            assert wait_until(lambda: store.count() == 89, 5)
            rows = store.query(Query((), limit=10_000)).rows
        assert len({(row.event.id, row.resource) for row in rows}) == len(rows) == 89 * 20
        assert sizes == [64, 32]

    def test_dashboards_find_the_names_of_the_common_schema(
        self, remote: OpenSearchStore, node: OpenSearch, index: str, history: Any, flow: Any
    ) -> None:
        history.commit("flow", [flow(count=20)])
        event = history.commit("flow", [flow(count=25)], reason="for the sale")
        remote.ingest([event])
        (held,) = written(node, index)
        assert held["@timestamp"] == "2026-11-25T06:30:02.123Z"
        assert held["user.name"] == "chen <chen@example.com>"
        assert (held["service.name"], held["service.environment"]) == ("order-service", "prod")
        assert (held["sentinel.resource"], held["sentinel.set.count"]) == (["payment_invoke"], [25.0])
        asked = {
            "aggs": {"who": {"terms": {"field": "user.name"}}},
            "query": {"range": {"sentinel.set.count": {"gt": 20}}},
        }
        _, told = node.ask("POST", f"/{index}-events-2026.11/_search", asked)
        assert [bucket["doc_count"] for bucket in told["aggregations"]["who"]["buckets"]] == [1]

    def test_a_document_that_somebody_broke_is_found_and_ends_no_answer(
        self, remote: OpenSearchStore, node: OpenSearch, index: str, events: list[Event]
    ) -> None:
        remote.ingest(events[:1])
        broken = {"script": {"source": "ctx._source['sentinel.rows'] = '[[1]]'"}}
        assert written(node, index)
        _, told = node.ask("POST", f"/{index}-events-*/_update_by_query?refresh=true", broken)
        assert told["updated"] == 1
        assert [row.event.id for row in remote.query(Query()).rows] == [events[0].id]
        assert [(each.kind, each.number) for each in verify(remote).findings] == [("hash mismatch", 1)]


class TestWriting:
    def test_months_have_indices_of_their_own_and_a_repeat_is_known_in_any_month(
        self, remote: OpenSearchStore, node: OpenSearch, index: str, events: list[Event], told_by: Any
    ) -> None:
        later = told_by(events[0], "i-2", timedelta(days=70))
        assert remote.ingest(events) == Ingested(10, 0)
        assert remote.ingest([later, replace(events[1], id="another", time=later.time)]) == Ingested(1, 1)
        names = sorted(each["index"] for each in node.ask("GET", f"/_cat/indices/{index}-*?format=json")[1])
        assert names == [f"{index}-events-2026.11", f"{index}-events-2027.02", f"{index}-state"]
        (first, *_) = reversed(remote.query(Query()).rows)
        assert [sighting.instance for sighting in remote.sightings(first.event)] == ["i-1", "i-2"]

    def test_whatever_characters_and_lengths(self, remote: OpenSearchStore, history: Any, flow: Any) -> None:
        strange = ["支付/下单 😀", "a b \"'\\*?", "x" * 5000, "é" * 8191, "../..", "%2F?&#", "_id"]
        history.commit("flow", [flow(name, 1) for name in strange])
        changed = history.commit(
            "flow", [flow(name, 2) for name in strange], author="陈 <c@例子>", message="长" * 20_000
        )
        odd = [replace(changed, id=name, source=f"/源/{name[:4000]}") for name in strange]
        assert remote.ingest([changed, *odd]) == Ingested(8, 0)
        for name in strange:
            rows = remote.query(
                Query((Condition("resource", "is", (name,)), Condition("message", "contains", ("长" * 9,))))
            )
            assert len(rows.rows) == 8, name[:20]
        assert len(remote.query(Query((Condition("author", "contains", ("陈",)),), limit=1000)).rows) == 56
        found = remote.get(strange[1])
        assert found is not None
        assert found.payload == changed.payload
        assert verify(remote).findings == []

    def test_names_that_no_index_holds_are_refused_by_themselves(
        self, remote: OpenSearchStore, events: list[Event]
    ) -> None:
        done = remote.ingest([events[0], replace(events[1], id="x" * 8192)])
        assert [each.reason for each in done.refused] == ["its id is longer than 8191 characters, which no index holds"]
        assert remote.count() == 1

    def test_an_event_of_ten_thousand_rules_comes_back_and_one_beyond_measure_is_refused(
        self, remote: OpenSearchStore, history: Any, flow: Any
    ) -> None:
        history.commit("flow", [flow(f"resource-{number}", 1) for number in range(10_000)])
        large = history.commit("flow", [flow(f"resource-{number}", 2) for number in range(10_000)])
        assert remote.ingest([large]) == Ingested(1, 0)
        found = remote.get(large.id)
        assert found is not None
        assert found.payload == large.payload
        (row,) = remote.query(Query((Condition("resource", "is", ("resource-77",)),))).rows
        assert (row.old, row.new) == (1, 2)
        noise = base64.b64encode(os.urandom(16 * 2**20)).decode()
        huge = replace(large, id="huge", data=json.dumps({**large.payload, "newRules": [], "noise": noise}).encode())
        (refused,) = remote.ingest([huge]).refused
        assert "longer than 15 MiB" in refused.reason
        assert len(remote.query(Query((), limit=10_000)).rows) == 10_000

    def test_a_numeric_field_of_somebody_elses_type_does_not_stop_the_line(
        self, remote: OpenSearchStore, events: list[Event]
    ) -> None:
        for new in (True, "25", 10**400, [1], {"a": 1}, None, 2**60):
            changes = [{"action": "change", "resource": "r", "field": "count", "old": 1, "new": new}]
            data = json.dumps({**events[1].payload, "changes": changes}).encode()
            remote.ingest([replace(events[1], id=f"new is {new!r:.20}", data=data)])
        (row,) = remote.query(Query((Condition("count", ">", (2.0**59,)), Condition("count", "<", (2.0**61,))))).rows
        assert row.new == 2**60

    def test_the_forwarder_of_a_service_delivers_into_it(
        self, remote: OpenSearchStore, outbox: Outbox, events: list[Event]
    ) -> None:
        outbox.append(events)
        assert Forwarder(outbox, StorePublisher(remote)).drain(20)
        assert outbox.depth() == 0
        assert_whole(remote, events)


def test_what_a_process_delivers_at_its_very_end_is_stored(
    opened: Opened, node: OpenSearch, index: str, events: list[Event]
) -> None:
    program = (
        "import atexit, sys\n"
        "from sentinel_core.audit.events import parse_event\n"
        "from sentinel_core.audit.store import open_store\n"
        "events = [parse_event(line) for line in sys.stdin.buffer.read().splitlines()]\n"
        "store = open_store(sys.argv[1])\n"
        "atexit.register(store.ingest, events)\n"
    )
    told = b"\n".join(event.to_json() for event in events)
    command = [sys.executable, "-c", program, node.uri(index)]
    ended = subprocess.run(command, input=told, capture_output=True, check=True, timeout=60)
    assert ended.stderr == b""
    assert len(written(node, index)) == len(events)
    assert_whole(opened(node.address, index=index), events)


def test_a_store_that_was_used_before_a_fork_is_used_on_both_sides(
    remote: OpenSearchStore, events: list[Event], child: Child
) -> None:
    remote.ingest(events[:3])
    assert child(remote.ingest, events[:6]) == 0
    assert remote.ingest(events[2:8]) == Ingested(2, 4)
    assert child(remote.ingest, events) == 0
    assert_whole(remote, events)


class TestFailures:
    @pytest.mark.parametrize(
        ("answered", "chunk"), [(False, 5), (True, 5), (True, CHUNK)], ids=["before", "after", "whole"]
    )
    def test_a_kill_at_any_request_is_repaired_by_the_next_writer(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event], child: Child,
        monkeypatch: pytest.MonkeyPatch, answered: bool, chunk: int,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(_os_write, "CHUNK", chunk)
        monkeypatch.setattr(_os_write, "_LEAST_ACTIONS", 3)
        others = [replace(event, source="/staging/x") for event in events[:4]]
        batch = [*events[:5], *others, *events[5:]]

        def live(number: int, name: str) -> None:
            store = opened(node.address, index=name)
            die_at(number, answered=answered)
            store.ingest(batch)

        for number in range(1, 40):
            name = f"{index}-{number}"
            code = child(live, number, name)
            store = opened(node.address, index=name)
            if store.count():
                assert verify(store).findings == [], "what is under way is nobody's fault"
            new = store.ingest(batch).new
            assert new in ((0, 10, 14) if chunk > len(batch) else range(15))
            assert sorted(ids(store)) == sorted(event.id for event in batch)
            assert [verify(store).findings, [head.number for head in store.heads()]] == [[], [10, 4]]
            in_order = [held["event.id"] for held in written(node, name) if held["event.provider"] == events[0].source]
            assert in_order == [event.id for event in events]
            if code == 0:
                return
            assert code == -signal.SIGKILL
        pytest.fail("it never came to an end")

    def test_many_writers_of_one_source_make_one_chain(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event], child: Child, told_by: Any
    ) -> None:
        def ingest(number: int) -> None:
            store = opened(node.address, index=index, timeout="60s")
            for event in events:
                store.ingest([told_by(event, f"i-{number}", timedelta(milliseconds=number))])
            store.ingest([replace(event, id=f"{number} {event.id}") for event in events])

        writers = [child(ingest, number, wait=False) for number in range(4)]
        assert [os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers] == [0] * 4
        node.ask("POST", f"/{index}-*/_refresh")  # a store refreshes what it wrote itself
        store = opened(node.address, index=index)
        assert sorted({*ids(store)}) == sorted(ids(store))
        assert (verify(store).findings, [head.number for head in store.heads()]) == ([], [50])
        (row,) = [row for row in store.query(Query(limit=1000)).rows if row.event.id == events[3].id]
        assert [sighting.instance for sighting in store.sightings(row.event)] == ["i-0", "i-1", "i-2", "i-3"]

    def test_a_writer_that_slept_through_the_work_of_others_adds_nothing_twice(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event]
    ) -> None:
        with gate(node.port) as link:
            slow, quick = opened(link.address, index=index), opened(node.address, index=index)
            slow.ingest(events[:1])
            seen = len(link.seen)

            def overtaken(method: str, path: str, body: bytes, _: Gate) -> None:
                # After the claim, before the documents.
                if b'"event.original"' in body and not done:
                    done.append(quick.ingest(events[:8]))

            done: list[Ingested] = []
            link.decide = overtaken
            assert slow.ingest(events[:6]) == Ingested(5, 1)
            assert done == [Ingested(2, 6)]
            assert len(link.seen) > seen
        assert quick.ingest(events) == Ingested(2, 8)
        assert_whole(quick, events)

    @pytest.mark.parametrize("status", [429, 503])
    def test_a_busy_server_is_asked_again_for_a_while(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event], status: int
    ) -> None:
        busy = 2

        def decide(method: str, path: str, *_: Any) -> tuple[int, bytes] | None:
            nonlocal busy
            busy -= 1
            return (status, b"") if busy >= 0 else None

        with gate(node.port) as link:
            link.decide = decide
            store = opened(link.address, index=index, timeout="2s")
            assert store.ingest(events[:5]) == Ingested(5, 0)
            busy, began = 10_000, time.monotonic()
            with pytest.raises(StoreUnavailable, match="not ready"):
                store.ingest(events)
            assert time.monotonic() - began < 5
            busy = 0
            assert store.ingest(events) == Ingested(5, 5)
            assert_whole(store, events)

    def test_of_a_bulk_that_is_taken_in_part_the_rest_is_sent_again(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event]
    ) -> None:
        refusals = 3

        def some(method: str, path: str, body: bytes, link: Gate) -> tuple[int, bytes] | None:
            nonlocal refusals
            if not path.startswith("/_bulk") or b'"event.original"' not in body or not refusals:
                return None
            refusals -= 1
            lines = body.decode().splitlines()
            status, told = link.pass_on(method, "/_bulk", ("\n".join(lines[2:4]) + "\n").encode())
            full = {"create": {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "full"}}}
            items = [full, *json.loads(told)["items"], *[full] * (len(lines) // 2 - 2)]
            return status, json.dumps({"errors": True, "items": items}).encode()

        with gate(node.port) as link:
            link.decide = some
            store = opened(link.address, index=index)
            assert store.ingest(events) == Ingested(10, 0)
            assert refusals == 0
            assert_whole(store, events)

    @pytest.mark.parametrize("block", ["index.blocks.write", "index.blocks.read_only_allow_delete"])
    @pytest.mark.parametrize("name", ["events-2026.11", "state"])
    def test_what_is_blocked_halfway_goes_on_when_it_is_free(
        self,
        opened: Opened,
        remote: OpenSearchStore,
        node: OpenSearch,
        index: str,
        events: list[Event],
        block: str,
        name: str,
    ) -> None:
        remote.ingest(events[:3])
        node.ask("PUT", f"/{index}-{name}/_settings", {block: True})
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"takes no writes.*remove the block"):
                opened(node.address, index=index, timeout="500ms").ingest(events[2:6])
        assert verify(remote).findings == []
        node.ask("PUT", f"/{index}-{name}/_settings", {block: None})
        remote.ingest(events)
        assert_whole(remote, events)

    def test_events_of_an_index_that_somebody_deleted_are_missed_and_the_line_goes_on(
        self, remote: OpenSearchStore, node: OpenSearch, index: str, events: list[Event]
    ) -> None:
        remote.ingest(events[:6])
        node.ask("DELETE", f"/{index}-events-2026.11")
        told = [(finding.kind, finding.number) for finding in verify(remote).findings]
        assert told == [("truncated after", 0)]
        assert remote.ingest(events) == Ingested(4, 6)
        assert [(each.kind, each.number, each.last) for each in verify(remote).findings] == [("gap", 1, 6)]

    @pytest.mark.parametrize("same_writer", [True, False])
    def test_a_chain_whose_record_somebody_deleted_goes_on_where_it_ended(
        self,
        opened: Opened,
        remote: OpenSearchStore,
        node: OpenSearch,
        index: str,
        events: list[Event],
        same_writer: bool,
    ) -> None:
        remote.ingest(events[:6])
        node.ask("DELETE", f"/{index}-state")
        store = remote if same_writer else opened(node.address, index=index)
        assert store.ingest(events[3:8]) == Ingested(2, 3)
        assert store.ingest(events) == Ingested(2, 8)
        assert opened(node.address, index=index).ingest(events) == Ingested(0, 10)
        assert_whole(store, events)

    def test_what_arrives_during_a_walk_is_no_finding(self, remote: OpenSearchStore, events: list[Event]) -> None:
        remote.ingest(events[:5])
        pages, walk = remote.pages, remote.pages({})

        def late(_: object) -> Any:
            remote.ingest([*events, *(replace(event, source="/new") for event in events)])
            return walk

        remote.pages = late  # type: ignore[method-assign,assignment]  # the same, a moment later
        verdict = verify(remote)
        assert (verdict.findings, verdict.events) == ([], 5)
        remote.pages = pages  # type: ignore[method-assign]
        assert verify(remote).events == 20


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory, node: OpenSearch) -> Iterator[OpenSearch]:
    """One that a test may kill; `node` says whether there can be one."""
    mine = OpenSearch(tmp_path_factory.mktemp("opensearch"))
    mine.start()
    yield mine
    mine.stop()


@pytest.mark.slow
def test_a_server_that_is_killed_in_the_middle_and_comes_back_has_each_event_once_and_in_order(
    opened: Opened, own: OpenSearch, history: Any, flow: Any
) -> None:
    events = [history.commit("flow", [flow(count=count)]) for count in range(600)]
    store = opened(own.address, timeout="2s")
    store.ingest(events[:10])
    reached = threading.Event()

    def ingest() -> None:
        for start in range(10, len(events), 10):
            while True:
                try:
                    store.ingest(events[start : start + 10])
                    break
                except StoreUnavailable:
                    time.sleep(0.1)
            if start >= 100:
                reached.set()

    thread = threading.Thread(target=ingest, daemon=True)
    thread.start()
    assert reached.wait(60)
    own.kill()
    own.start()
    thread.join(60)
    assert not thread.is_alive()
    assert_whole(store, events)
    assert [held["event.id"] for held in written(own, "sentinel-audit")] == [event.id for event in events]

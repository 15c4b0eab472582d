"""A purge of a real OpenSearch: what is left, kills at any request, sleeping writers, and what somebody does to it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sentinel_core.audit.errors import EventInvalid, PurgeFailed, StoreUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.retention.purge import plan
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store import _os_purge, _os_walk
from sentinel_core.audit.store._os_layout import FIELDS, GONE
from sentinel_core.audit.store._os_layout import key as name_of
from sentinel_core.audit.store._os_write import _Batch
from sentinel_core.audit.store.contract import Ingested, Query
from sentinel_core.audit.store.opensearch import OpenSearchStore
from tests.audit.purging import OTHER, RECORDS, SOURCE, found, numbers, purged
from tests.services.killing import die_at
from tests.services.opensearch import OpenSearch

Child = Callable[..., int]
Opened = Callable[..., OpenSearchStore]


@pytest.fixture
def filled(remote: OpenSearchStore, events: list[Event]) -> OpenSearchStore:
    """Ten events of SOURCE, then two of OTHER."""
    remote.ingest(events)
    remote.ingest([replace(event, source=OTHER) for event in events[:2]])
    return remote


def documents(node: OpenSearch, index: str, name: str) -> list[dict[str, Any]]:
    node.ask("POST", f"/{index}-*/_refresh")
    _, told = node.ask("POST", f"/{index}-{name}/_search", {"size": 1000})
    hits: list[dict[str, Any]] = told["hits"]["hits"]
    return hits


def test_of_a_purged_event_an_empty_document_and_its_id_are_left(
    filled: OpenSearchStore,
    node: OpenSearch,
    index: str,
    folder: Path,
    cut: datetime,
    told_by: Any,
    events: list[Event],
) -> None:
    assert filled.ingest([told_by(events[1], "i-2", timedelta(seconds=3))]) == Ingested(0, 1)
    done = purged(filled, cut, folder)
    assert done.removed == 7
    held = [hit["_source"] for hit in documents(node, index, "events-*")]
    assert [each for each in held if FIELDS["source"] not in each] == [GONE] * 7
    assert not [each for each in documents(node, index, "state") if "sighted" in each["_source"]]
    assert (filled.count(), len(filled.query(Query()).rows)) == (6, 6)
    assert filled.get(events[1].id) is None
    assert found(filled) == []


def test_what_instances_saw_of_it_is_sealed_with_an_event(
    filled: OpenSearchStore,
    folder: Path,
    cut: datetime,
    told_by: Any,
    events: list[Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instances = [f"i-{number}" for number in range(2, 7)]
    filled.ingest([told_by(events[1], name, timedelta(seconds=place)) for place, name in enumerate(instances)])
    monkeypatch.setattr(_os_purge, "_MOST_SIGHTINGS", 5)
    by_number = {event.number: event for event in filled.linked({SOURCE: 5})}
    assert [instance for instance, _ in by_number[2].sightings] == ["i-1", *instances]
    assert [instance for instance, _ in by_number[3].sightings] == ["i-1"]


def test_months_and_pages_join(
    remote: OpenSearchStore,
    folder: Path,
    events: list[Event],
    told_by: Any,
    monkeypatch: pytest.MonkeyPatch,
    key: SigningKey,
) -> None:
    monkeypatch.setattr(_os_walk, "_MOST", 3)
    monkeypatch.setattr(_os_walk, "_FIRST_PAGE", 2)
    months = [told_by(event, "i-1", timedelta(days=10 * place)) for place, event in enumerate(events)]
    remote.ingest([months[0], months[2], months[1], *months[3:]])
    for number in (4, 8):
        purged(remote, months[number].time, folder, key)
        assert numbers(remote, SOURCE) == list(range(number + 1, 11))
        assert found(remote, key) == found(remote, key, folder) == []


def test_an_index_of_several_shards_is_emptied_event_by_event(
    remote: OpenSearchStore, node: OpenSearch, index: str, folder: Path, cut: datetime, events: list[Event]
) -> None:
    own = {"index_patterns": [f"{index}-events-2026.11"], "priority": 300, "template": {
        "settings": {"index.number_of_shards": 3},
        "mappings": {"dynamic": False, "properties": {
            "event.provider": {"type": "keyword"}, "event.sequence": {"type": "long"}, "event.id": {"type": "keyword"},
            "event.hash": {"type": "keyword"}, "event.action": {"type": "keyword"}, "@timestamp": {"type": "date"},
        }},
    }}  # fmt: skip
    assert node.ask("PUT", f"/_index_template/{index}-own", own)[0] == 200
    remote.ingest(events)
    assert plan(remote, cut).events == 5
    assert list(remote.remove({SOURCE: 5})) == [1] * 5


class TestFailures:
    @pytest.mark.slow
    def test_a_purge_that_is_killed_at_any_request_is_sound_and_the_next_goes_on(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event], child: Child,
        tmp_path: Path, cut: datetime, key: SigningKey, told_by: Any,
    ) -> None:  # fmt: skip
        more = [
            *events,
            told_by(events[1], "i-2", timedelta(seconds=1)),
            *(replace(e, source=OTHER) for e in events[:2]),
        ]

        def live(number: int, name: str, folder: Path) -> None:
            store = opened(node.address, index=name)
            _os_purge.MOST_AT_ONCE = 2
            die_at(number, answered=number % 2 == 0)  # in turn: before it is sent, and when it was carried out
            purged(store, cut, folder, key)

        for number in range(1, 80):
            name, folder = f"{index}-{number}", tmp_path / str(number)
            store = opened(node.address, index=name)
            store.ingest(more)
            code = child(live, number, name, folder)
            recorded = store.last_purge() is not None
            assert found(store, key) == [], number
            if recorded:
                assert found(store, key, folder) == [], number
            purged(store, cut, folder, key)
            assert (numbers(store, SOURCE), numbers(store, OTHER), numbers(store, RECORDS)) == (
                [6, 7, 8, 9, 10],
                [],
                [1],
            )
            assert found(store, key) == found(store, key, folder) == []
            assert store.ingest(more) == Ingested(0, 13)
            node.forget(name)
            if code == 0:
                assert number > 10
                return
            assert code == -signal.SIGKILL
        pytest.fail("it never came to an end")

    def test_a_writer_that_slept_since_it_claimed_makes_nothing_again(
        self, opened: Opened, remote: OpenSearchStore, node: OpenSearch, index: str, events: list[Event], folder: Path,
        monkeypatch: pytest.MonkeyPatch, key: SigningKey,
    ) -> None:  # fmt: skip
        make = _Batch._carry_out

        def asleep(self: _Batch, plans: Any) -> None:
            monkeypatch.setattr(_Batch, "_carry_out", make)
            other = opened(node.address, index=index)
            other.ingest(events)
            purged(other, events[8].time, folder, key)
            make(self, plans)

        monkeypatch.setattr(_Batch, "_carry_out", asleep)
        assert remote.ingest(events[:6]) == Ingested(6, 0)
        assert numbers(remote, SOURCE) == [9, 10]
        assert found(remote, key) == found(remote, key, folder) == []
        assert remote.ingest(events) == Ingested(0, 10)

    def test_writers_go_on_while_a_purge_runs(
        self, opened: Opened, remote: OpenSearchStore, node: OpenSearch, index: str, history: Any, flow: Any,
        folder: Path, child: Child, key: SigningKey,
    ) -> None:  # fmt: skip
        events = [history.commit("flow", [flow(count=count)]) for count in range(200)]
        remote.ingest(events[:100])

        def write() -> None:
            store = opened(node.address, index=index, timeout="60s")
            for start in range(100, 200, 5):
                store.ingest(events[start : start + 5])

        process = child(write, wait=False)
        for number in (20, 40, 60, 80):
            purged(remote, events[number].time, folder, key)
            assert found(remote, key) == []
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        assert found(remote, key) == found(remote, key, folder) == []
        assert numbers(remote, SOURCE) == list(range(81, 201))

    def test_verify_is_right_at_any_moment_of_a_removal(
        self, opened: Opened, node: OpenSearch, index: str, filled: OpenSearchStore, history: Any, flow: Any,
        folder: Path, child: Child, key: SigningKey,
    ) -> None:  # fmt: skip
        events = [history.commit("flow", [flow(count=count)]) for count in range(300)]
        filled.ingest(events)

        def run() -> None:
            _os_purge.MOST_AT_ONCE = 5
            purged(opened(node.address, index=index), events[250].time, folder, key)

        process, walks = child(run, wait=False), 0
        while os.waitpid(process, os.WNOHANG)[0] == 0:
            assert found(filled, key) == []
            walks += 1
        assert walks
        assert numbers(filled, SOURCE) == list(range(261, 311))
        assert found(filled, key) == found(filled, key, folder) == []

    def test_purged_ids_stay_known_where_the_state_is_lost(
        self, opened: Opened, node: OpenSearch, index: str, filled: OpenSearchStore, events: list[Event], folder: Path,
        cut: datetime,
    ) -> None:  # fmt: skip
        purged(filled, cut, folder)
        node.ask("DELETE", f"/{index}-state")
        assert opened(node.address, index=index).ingest(events) == Ingested(0, 10)
        assert filled.count() == 6, "five events and the record"

    @pytest.mark.parametrize(
        "stray",
        [{"event.sequence": ...}, {"@timestamp": 4_000_000_000_000}, {"event.sequence": "7"}, {FIELDS["source"]: "/x"}],
    )
    def test_what_somebody_put_there_is_no_traceback(
        self, filled: OpenSearchStore, node: OpenSearch, index: str, folder: Path, cut: datetime, stray: dict[str, Any]
    ) -> None:
        held = next(each for each in documents(node, index, "events-*") if each["_source"]["event.sequence"] == 6)
        put = {name: value for name, value in (held["_source"] | stray).items() if value is not ...}
        assert node.ask("PUT", f"/{index}-events-2026.11/_doc/stray?refresh=true", put)[0] == 201
        sighting = {"sighted": held["_id"], "time": "never"}
        node.ask("PUT", f"/{index}-state/_doc/stray?refresh=true", sighting)
        before = found(filled)
        assert purged(filled, cut, folder).removed == 7
        assert found(filled) == before != []

    def test_of_two_machines_one_gives_up_and_the_other_is_whole(
        self, opened: Opened, node: OpenSearch, index: str, filled: OpenSearchStore, tmp_path: Path, cut: datetime,
        child: Child, key: SigningKey,
    ) -> None:  # fmt: skip
        def run(name: str) -> None:
            try:
                purged(opened(node.address, index=index), cut, tmp_path / name, key)
            except PurgeFailed:
                os._exit(9)

        started = [child(run, name, wait=False) for name in ("a", "b")]
        codes = sorted(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started)
        assert codes in ([0, 0], [0, 9]), "the second one may have come when nothing was left to do"
        assert numbers(filled, RECORDS) == [1]
        assert numbers(filled, SOURCE) == [6, 7, 8, 9, 10]
        assert found(filled, key) == []

    def test_a_refusal_leaves_what_the_next_purge_finishes(
        self, filled: OpenSearchStore, node: OpenSearch, index: str, folder: Path, cut: datetime, key: SigningKey
    ) -> None:
        block = {"index.blocks.write": True}
        node.ask("PUT", f"/{index}-events-2026.11/_settings", block)
        with pytest.raises(StoreUnavailable, match="takes no writes"):
            purged(filled, cut, folder, key)
        assert found(filled, key) == found(filled, key, folder) == []
        node.ask("PUT", f"/{index}-events-2026.11/_settings", {"index.blocks.write": None})
        assert purged(filled, cut, folder, key).removed == 7
        assert (numbers(filled, RECORDS), found(filled, key)) == ([1], [])


@pytest.fixture
def after(filled: OpenSearchStore, folder: Path, cut: datetime, key: SigningKey) -> OpenSearchStore:
    """The store after a purge of 1 to 5, and of the whole other source."""
    purged(filled, cut, folder, key)
    return filled


class TestTampering:
    """Beyond what is done to any chain."""

    LEFT: ClassVar = [("gap", SOURCE, 1, 5), ("truncated after", OTHER, 0, 0)]

    def test_that_there_was_a_purge_is_taken_away(self, after: OpenSearchStore, node: OpenSearch, index: str) -> None:
        node.ask("DELETE", f"/{index}-state/_doc/{name_of('purge')}?refresh=true")
        assert found(after) == self.LEFT

    @pytest.mark.parametrize("text", ["{}", "7", "no JSON"])
    def test_which_purge_is_the_last_one_is_made_unreadable(
        self, after: OpenSearchStore, node: OpenSearch, index: str, text: str, folder: Path, cut: datetime
    ) -> None:
        node.ask("PUT", f"/{index}-state/_doc/{name_of('purge')}?refresh=true", {"purge": text})
        assert [("hash mismatch", "", 0, 0), *self.LEFT] == found(after)
        with pytest.raises(EventInvalid):
            purged(after, cut, folder)

    def test_an_event_is_put_among_those_that_were_purged(
        self, after: OpenSearchStore, node: OpenSearch, index: str, key: SigningKey, folder: Path
    ) -> None:
        held = next(
            each["_source"] for each in documents(node, index, "events-*") if each["_source"].get("event.sequence") == 6
        )
        for number in (3, 5):
            node.ask("PUT", f"/{index}-events-2026.11/_doc/forged?refresh=true", held | {"event.sequence": number})
            assert found(after, key), number
            assert found(after, key, folder), number

    def test_the_record_is_removed_from_its_chain(
        self, after: OpenSearchStore, node: OpenSearch, index: str, key: SigningKey
    ) -> None:
        (held,) = [
            each for each in documents(node, index, "events-*") if each["_source"].get(FIELDS["source"]) == RECORDS
        ]
        node.ask("DELETE", f"/{index}-events-2026.11/_doc/{held['_id']}?refresh=true")
        assert found(after, key) == [("truncated after", RECORDS, 0, 0)]

    @pytest.mark.parametrize("which", ["in its chain", "where it was decided", "in both"])
    def test_a_record_that_was_changed(
        self, after: OpenSearchStore, node: OpenSearch, index: str, key: SigningKey, which: str
    ) -> None:
        event = after.last_purge()
        assert event is not None
        chains = [{**chain, "number": chain["number"] + 1} for chain in event.payload["chains"]]
        forged = replace(event, data=json.dumps({**event.payload, "chains": chains}).encode())
        if which != "where it was decided":
            path = f"/{index}-events-2026.11/_update/{_id(event)}?refresh=true"
            assert node.ask("POST", path, {"doc": {"event.original": forged.data.decode()}})[0] == 200
        if which != "in its chain":
            decided = {"purge": forged.to_json().decode()}
            node.ask("PUT", f"/{index}-state/_doc/{name_of('purge')}?refresh=true", decided)
        told = {(kind, source) for kind, source, *_ in found(after, key)}
        if which == "where it was decided":
            assert told == set(), "what is hashed counts"
        else:
            assert {("bad signature", RECORDS), ("hash mismatch", RECORDS), ("gap", SOURCE)} <= told

    def test_a_living_event_is_emptied_like_a_purged_one(
        self, after: OpenSearchStore, node: OpenSearch, index: str, events: list[Event], key: SigningKey
    ) -> None:
        node.ask("PUT", f"/{index}-events-2026.11/_doc/{_id(events[7])}?refresh=true", GONE)
        assert found(after, key) == [("gap", SOURCE, 8, 8)]


def _id(event: Event) -> str:
    return name_of("event", event.id, event.source)

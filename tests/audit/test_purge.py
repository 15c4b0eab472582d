"""Old events leave the store: what a purge does, and what goes wrong on its way."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sentinel_core.audit.errors import PurgeFailed, StoreUnavailable
from sentinel_core.audit.events import Event, parse_event
from sentinel_core.audit.lease import Lease
from sentinel_core.audit.retention import purge as steps
from sentinel_core.audit.retention.contract import PURGED, Holder, PurgingStore
from sentinel_core.audit.retention.past import past_of
from sentinel_core.audit.retention.purge import Statement, plan, purge
from sentinel_core.audit.retention.record import read_record
from sentinel_core.audit.retention.segment import write_segment
from sentinel_core.audit.schemas import event_schema
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store import _os_purge, _purge, _walk
from sentinel_core.audit.store.contract import Ingested, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import verify
from tests.audit.purging import AT, OTHER, RECORDS, SOURCE, found, numbers, purged, tamper

# -- what a purge does -------------------------------------------------------------------------------------------------


def test_old_events_move_into_a_segment_and_the_rest_is_sound(
    stocked: PurgingStore, events: list[Event], folder: Path, cut: datetime, key: SigningKey
) -> None:
    source = events[0].source
    assert dict(plan(stocked, cut).counts) == {source: 5, OTHER: 2}
    done = purged(stocked, cut, folder, key)
    assert done.segment is not None
    assert (done.segment.events, done.removed) == (7, 7)
    assert (numbers(stocked, source), numbers(stocked, OTHER)) == ([6, 7, 8, 9, 10], [])
    assert found(stocked) == found(stocked, key) == found(stocked, key, folder) == found(stocked, None, folder) == []
    with gzip.open(folder / done.segment.file, "rt") as file:
        head, *lines = map(json.loads, file)
    assert head == {"formatVersion": 1, "type": "sentinel.audit.segment"}
    assert [(line["number"], line["columns"][0]) for line in lines][:5] == [
        (number, event.id) for number, event in enumerate(events[:5], 1)
    ]
    assert json.loads(lines[0]["data"]) == events[0].payload
    assert lines[0]["sightings"] == [["i-1", int(events[0].time.timestamp() * 1000)]]
    assert (folder / done.segment.file).stat().st_mode & 0o777 == 0o600


def test_nothing_of_what_was_purged_is_left_in_the_tables(filled: SqliteStore, folder: Path, cut: datetime) -> None:
    purged(filled, cut, folder)
    with filled._database.read() as connection:
        for table, column in (("bodies", "event"), ("changes", "event"), ("sightings", "event")):
            query = f"SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT seq FROM events)"
            assert connection.execute(query).fetchone() == (0,), table


def test_the_purge_is_an_event_in_a_chain_that_meets_its_schema(
    stocked: PurgingStore, folder: Path, cut: datetime, key: SigningKey
) -> None:
    done = purged(stocked, cut, folder, key)
    event = stocked.last_purge()
    assert event is not None
    assert done.record is not None
    assert (event.id, event.type, event.source) == (done.record.id, PURGED, RECORDS)
    jsonschema.validate(json.loads(event.to_json()), event_schema(event.type))
    record = read_record(event)
    assert (record.before, record.segments, record.signature([key.public])) == (cut, (done.segment,), "good")
    assert (event.payload["publishedBy"], event.payload["reason"]) == ("ada", "retention")
    assert numbers(stocked, RECORDS) == [1]
    (beside,) = folder.glob("*.json")
    assert parse_event(beside.read_bytes()).payload == event.payload
    (row,) = (row for row in stocked.query(Query()).rows if row.event.type == PURGED)
    assert (row.action, row.new, row.event.author) == ("purged", 7, "ada")


def test_a_record_that_came_from_elsewhere_is_none_of_this_store(
    stocked: PurgingStore, folder: Path, cut: datetime, tmp_path: Path, key: SigningKey
) -> None:
    done = purged(stocked, cut, folder, key)
    assert done.record is not None
    other = SqliteStore(tmp_path / "other.db")
    other.ingest([replace(done.record, source="/elsewhere"), done.record])
    assert other.last_purge() is None
    assert found(other, key) == []
    stocked.ingest([replace(done.record, id="forged", source="/elsewhere")])
    last = stocked.last_purge()
    assert last is not None
    assert last.id == done.record.id


def test_of_two_purges_that_did_not_see_each_other_the_second_gives_up(
    stocked: PurgingStore, events: list[Event], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(steps, "write_segment", write_segment)
        purged(stocked, events[3].time, tmp_path / "another")
        return write_segment(*arguments)

    monkeypatch.setattr(steps, "write_segment", meanwhile)
    with pytest.raises(PurgeFailed):
        purged(stocked, events[5].time, folder)
    assert numbers(stocked, SOURCE) == [4, 5, 6, 7, 8, 9, 10]
    assert found(stocked) == found(stocked, None, tmp_path / "another") == []


def test_a_secret_in_the_reason_is_masked(filled: SqliteStore, folder: Path, cut: datetime) -> None:
    purge(filled, cut, folder, Statement("prod", AT, reason="see https://ops:hunter2@wiki.example/why"))
    assert not [path for path in (filled.path, *folder.iterdir()) if b"hunter2" in path.read_bytes()]
    event = filled.last_purge()
    assert event is not None
    assert event.payload["reason"] == "see https://***@wiki.example/why"


def test_a_chain_is_purged_only_as_far_as_all_before_is_old(
    store: PurgingStore, events: list[Event], folder: Path, cut: datetime
) -> None:
    store.ingest([*events[:2], events[8], *events[2:8]])
    purged(store, cut, folder)
    assert numbers(store, events[0].source) == [3, 4, 5, 6, 7, 8, 9]
    assert found(store) == []


def test_what_holds_older_events_back_is_named_and_what_is_of_the_future_may_be_passed(
    store: PurgingStore, events: list[Event], folder: Path, cut: datetime
) -> None:
    far = replace(events[2], id="far", time=events[9].time + timedelta(days=30_000))
    store.ingest([*events[:2], far, events[2], events[8], events[3], events[9]])
    future = events[9].time + timedelta(days=1)
    planned = plan(store, cut)
    assert (dict(planned.ends), planned.holders) == ({SOURCE: 2}, [Holder(SOURCE, 3, far.time, 2)])
    planned = plan(store, cut, future=future)
    assert (dict(planned.ends), planned.holders) == ({SOURCE: 4}, [Holder(SOURCE, 5, events[8].time, 1)])
    done = purge(store, cut, folder, Statement("prod", AT), future=future)
    assert (done.removed, numbers(store, SOURCE)) == (4, [5, 6, 7])
    assert found(store) == found(store, None, folder) == []


def test_an_event_of_the_future_goes_only_where_an_old_one_stands_behind_it(
    store: PurgingStore, events: list[Event], cut: datetime
) -> None:
    far = replace(events[2], id="far", time=events[9].time + timedelta(days=30_000))
    store.ingest([*events[:2], far, events[8], replace(far, source=OTHER), replace(events[0], source=OTHER)])
    planned = plan(store, cut, future=events[9].time + timedelta(days=1))
    assert (dict(planned.ends), planned.holders) == ({SOURCE: 2, OTHER: 2}, [])
    planned = plan(store, cut)
    assert (dict(planned.ends), planned.holders) == ({SOURCE: 2}, [Holder(OTHER, 1, far.time, 1)])


def test_later_purges_go_on_where_the_last_ended_and_all_segments_link_up(
    stocked: PurgingStore, events: list[Event], folder: Path, key: SigningKey
) -> None:
    for number in (3, 6, 9):
        done = purged(stocked, events[number].time, folder, key)
        assert (done.segment or pytest.fail("nothing sealed")).file.startswith(f"audit-00000{number // 3}-")
        assert found(stocked, key) == found(stocked, key, folder) == []
    assert numbers(stocked, events[0].source) == [10]
    verdict = verify(stocked, begins=(), sealed=past_of(stocked, [], folder).pages)
    assert verdict.events == 12 + 3, "every event and three records are met"


def test_the_records_of_purges_are_purged_in_their_turn(
    stocked: PurgingStore, events: list[Event], folder: Path, key: SigningKey
) -> None:
    purged(stocked, events[5].time, folder, key)
    purge(stocked, AT + timedelta(days=1), folder, Statement("prod", AT + timedelta(days=2), key=key))
    assert (numbers(stocked, events[0].source), numbers(stocked, OTHER), numbers(stocked, RECORDS)) == ([], [], [2])
    assert found(stocked, key) == found(stocked, key, folder) == []


def test_where_nothing_is_old_enough_nothing_happens(stocked: PurgingStore, events: list[Event], folder: Path) -> None:
    done = purged(stocked, events[0].time, folder)
    assert (done.segment, done.record, done.removed, stocked.last_purge()) == (None, None, 0, None)


def test_new_events_go_on_in_the_chain(stocked: PurgingStore, folder: Path, history: Any, flow: Any) -> None:
    purged(stocked, AT, folder)
    assert stocked.ingest([history.commit("flow", [flow(count=99)])]) == Ingested(1, 0)
    assert numbers(stocked, history.source + "/flow") == [11]
    assert found(stocked) == []


def test_a_purged_event_that_comes_again_is_no_new_one(
    stocked: PurgingStore, events: list[Event], folder: Path, cut: datetime
) -> None:
    purged(stocked, cut, folder)
    assert stocked.ingest(events) == Ingested(0, 10)
    assert numbers(stocked, events[0].source) == [6, 7, 8, 9, 10]
    assert found(stocked) == []


def test_pages_and_transactions_join(
    filled: SqliteStore, events: list[Event], folder: Path, cut: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (1, 3):
        monkeypatch.setattr(_purge, "_PAGE", size)
        purged(filled, events[size].time, folder)
        assert found(filled) == found(filled, None, folder) == []


@pytest.mark.parametrize("sealed", [False, True])
def test_a_walk_that_meets_a_purge_is_no_alarm(
    stocked: PurgingStore, folder: Path, cut: datetime, key: SigningKey, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(stocked)
    pages = kind.pages

    def meanwhile(self: PurgingStore, wanted: Any) -> Any:
        monkeypatch.setattr(kind, "pages", pages)
        heads, walk = pages(self, wanted)
        purged(self, cut, folder, key)
        return heads, walk

    folder.mkdir()
    monkeypatch.setattr(kind, "pages", meanwhile)
    assert found(stocked, key, folder if sealed else None) == []
    assert stocked.last_purge() is not None


def test_a_walk_that_meets_the_end_of_a_purge_is_no_alarm(
    filled: SqliteStore, folder: Path, cut: datetime, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_walk, "PAGE", 1)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "remove", lambda *_: iter(()))
        purged(filled, cut, folder, key)
    pages = SqliteStore.pages

    def meanwhile(self: SqliteStore, wanted: Any) -> Any:
        monkeypatch.setattr(SqliteStore, "pages", pages)
        heads, walk = pages(self, wanted)

        def slow() -> Any:
            yield next(walk)
            assert sum(self.remove({SOURCE: 5, OTHER: 2})) == 7
            yield from walk

        return heads, slow()

    monkeypatch.setattr(SqliteStore, "pages", meanwhile)
    assert found(filled, key) == []


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_what_is_not_sound_is_not_purged(filled: SqliteStore, folder: Path, cut: datetime) -> None:
    tamper(filled, "UPDATE events SET author = 'x' WHERE seq = 4")
    with pytest.raises(PurgeFailed, match="event 4 of"):
        purged(filled, cut, folder)
    assert [path.name for path in folder.iterdir()] == [".purge.lock"]
    assert len(numbers(filled, OTHER)) == 2


def test_a_chain_with_a_gap_is_not_purged(filled: SqliteStore, folder: Path, cut: datetime) -> None:
    tamper(filled, "DELETE FROM events WHERE seq = 1")
    with pytest.raises(PurgeFailed, match="others are missing before it"):
        purged(filled, cut, folder)


def test_a_folder_that_cannot_be_written_leaves_all_as_it_was(
    stocked: PurgingStore, tmp_path: Path, cut: datetime
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PurgeFailed, match=r"Not a directory|File exists"):
        purged(stocked, cut, tmp_path / "file")
    assert found(stocked) == []


def test_two_purges_do_not_meet(stocked: PurgingStore, folder: Path, cut: datetime, child: Callable[..., int]) -> None:
    lease = Lease(folder / ".purge.lock")
    assert lease.acquire()

    def refused() -> None:
        with pytest.raises(PurgeFailed, match="another purge"):
            purged(stocked, cut, folder)

    assert child(refused) == 0
    lease.release()


STEPS = {
    "before the segment": (steps, "write_segment"),
    "before the document beside it": (steps, "written_whole"),
    "before the record": (None, "record_purge"),
    "before anything is removed": (None, "remove"),
}
"""None: the store itself."""


@pytest.mark.parametrize("step", STEPS)
def test_a_purge_that_is_cut_off_leaves_a_sound_store_and_the_next_goes_on(
    stocked: PurgingStore, events: list[Event], folder: Path, cut: datetime, key: SigningKey, step: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        module, name = STEPS[step]
        patch.setattr(
            module or type(stocked), name, lambda *_, **__: (_ for _ in ()).throw(StoreUnavailable("power cut"))
        )
        with pytest.raises(StoreUnavailable):
            purged(stocked, cut, folder, key)
    recorded = step == "before anything is removed"
    assert found(stocked, key) == []
    assert (stocked.last_purge() is not None) is recorded
    if recorded:
        assert found(stocked, key, folder) == []
    purged(stocked, cut, folder, key)
    assert numbers(stocked, events[0].source) == [6, 7, 8, 9, 10]
    assert found(stocked, key) == found(stocked, key, folder) == []


KILLED = [(os, "fsync", place) for place in range(1, 5)] + [(_purge, "_meant", place) for place in range(1, 25, 3)]


@pytest.mark.parametrize(("module", "name", "place"), KILLED, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_purge_that_is_killed_leaves_a_sound_store_and_the_next_goes_on(
    filled: SqliteStore, events: list[Event], folder: Path, cut: datetime, key: SigningKey, child: Callable[..., int],
    module: Any, name: str, place: int,
) -> None:  # fmt: skip
    filled.close()

    def killed() -> None:
        _purge._PAGE = 1
        calls, whole = iter(range(1, 1000)), getattr(module, name)

        def call(*arguments: Any) -> Any:
            if next(calls) == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(*arguments)

        setattr(module, name, call)
        purged(filled, cut, folder, key)

    assert child(killed) == -signal.SIGKILL
    assert found(filled, key) == []
    if filled.last_purge() is not None:
        assert found(filled, key, folder) == []
    purged(filled, cut, folder, key)
    assert numbers(filled, events[0].source) == [6, 7, 8, 9, 10]
    assert found(filled, key) == found(filled, key, folder) == []
    assert not list(folder.glob(".*.part"))


@pytest.mark.parametrize("removed", range(1, 7))
def test_a_purge_that_is_cut_off_while_it_removes_is_sound_and_is_finished_by_the_next(
    stocked: PurgingStore, events: list[Event], folder: Path, cut: datetime, key: SigningKey, removed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(_purge, "_PAGE", 1)
    monkeypatch.setattr(_os_purge, "MOST_AT_ONCE", 1)
    kind = type(stocked)
    remove = kind.remove

    def some(self: PurgingStore, ends: Any) -> Any:
        for place, count in enumerate(remove(self, ends), 1):
            yield count
            if place == removed:
                raise StoreUnavailable("power cut")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "remove", some)
        with pytest.raises(StoreUnavailable):
            purged(stocked, cut, folder, key)
    assert found(stocked, key) == found(stocked, key, folder) == []
    assert purged(stocked, cut, folder, key).removed == 7 - removed
    assert numbers(stocked, events[0].source) == [6, 7, 8, 9, 10]


def test_what_was_cut_off_is_finished_only_where_its_segment_is(
    stocked: PurgingStore, folder: Path, tmp_path: Path, cut: datetime
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(stocked), "remove", lambda *_: (_ for _ in ()).throw(StoreUnavailable("power cut")))
        with pytest.raises(StoreUnavailable):
            purged(stocked, cut, folder)
    with pytest.raises(PurgeFailed, match="has not ended"):
        purged(stocked, cut, tmp_path / "another")
    assert len(numbers(stocked, OTHER)) == 2

"""One item's rounds, step by step, on a clock that stands still."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.datasources import (
    Applied,
    ItemStatus,
    LastGood,
    MemorySource,
    Outcome,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    State,
    SubscriptionOptions,
)
from sentinel_core.datasources.rounds import Clocks
from sentinel_core.datasources.worker import ItemWorker
from sentinel_core.rules import Revision, RuleRejected

A, B = b'[{"resource": "a"}]', b'[{"resource": "b"}]'


class Bench:
    """A worker without threads, and its world."""

    def __init__(self, recorder: Any, *, source: Any = None, last_good: LastGood | None = None) -> None:
        self.evidence_is_safe = True
        self.source = source or MemorySource()
        self.now = 1000.0
        self.told: list[ItemStatus] = []
        (item,) = self.source.items(["flow"])
        self.worker = ItemWorker(
            self.source,
            item,
            recorder,
            last_good=last_good,
            recorded=lambda: self.evidence_is_safe,
            options=SubscriptionOptions(),
            clocks=Clocks(lambda: self.now, lambda: datetime(2026, 11, 30, tzinfo=UTC), lambda: 0.5),
            announce=self.announce,
        )

    def announce(self, status: ItemStatus) -> int:
        self.told.append(status)
        return 0

    def step(self) -> ItemStatus:
        self.worker.step()
        return self.worker.status()

    def put(self, content: bytes, version: int | None = None) -> ItemStatus:
        self.source.set("flow", content, version=version)
        return self.step()


@pytest.fixture
def bench(recorder: Any) -> Bench:
    return Bench(recorder)


def test_absent_at_start_is_told_once(bench: Bench) -> None:
    for _ in range(5):
        bench.step()
    assert [status.state for status in bench.told] == [State.INIT]


def test_d09_a_version_that_comes_late_is_dropped_and_counted(bench: Bench, recorder: Any) -> None:
    bench.put(A, version=3)
    status = bench.put(B, version=2)
    assert recorder.contents == [A]
    assert (status.state, status.counters.older) == (State.STALE, 1)
    assert "version 2 was delivered after 3" in str(status.reason)
    assert bench.put(B, version=4).state is State.READY


def test_d10_ten_thousand_identical_pushes_are_one_activation(bench: Bench, recorder: Any) -> None:
    for _ in range(10_000):
        bench.source.set("flow", A)
    for _ in range(100):
        bench.step()
    counters = bench.worker.status().counters
    assert recorder.contents == [A]
    assert (counters.activated, counters.suppressed) == (1, 99)


def test_a_refused_content_is_not_applied_again_while_unchanged(bench: Bench, recorder: Any) -> None:
    bench.put(A)
    for _ in range(3):
        status = bench.put(b"invalid")
    assert (status.counters.rejected, len(recorder.refused)) == (1, 1)
    assert (status.state, status.version) == (State.STALE, "1")
    assert "not a list of rules" in str(status.reason)


def test_a_refused_content_is_told_again_when_it_comes_back(bench: Bench, recorder: Any) -> None:
    bench.put(A)
    bench.put(b"invalid")
    bench.source.delete("flow")
    assert "nothing stands there" in str(bench.step().reason)
    assert "is refused" in str(bench.put(b"invalid").reason)
    assert len(recorder.refused) == 1


def test_returning_to_the_active_content_after_a_bad_one_is_ready(bench: Bench, recorder: Any) -> None:
    bench.put(A)
    bench.put(b"invalid")
    assert bench.put(A).state is State.READY
    assert recorder.contents == [A]


def test_d15_a_start_at_a_bad_revision_takes_the_newest_valid_one_before_it(bench: Bench, recorder: Any) -> None:
    bench.source.set("flow", A)
    bench.source.set("flow", B)
    bench.source.set("flow", b"invalid, older")
    status = bench.put(b"invalid")
    assert recorder.contents == [B]
    assert (status.state, status.version) == (State.STALE, "2")
    assert "revision 4 is refused" in str(status.reason)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (SourceUnavailable("down"), State.STALE),
        (SourceDenied("no"), State.ERROR),
        (SourceMisconfigured("wrong"), State.ERROR),
        (RuntimeError("a bug of the source"), State.STALE),
    ],
)
def test_an_unreadable_source_keeps_the_rules(bench: Bench, recorder: Any, error: Any, state: State) -> None:
    bench.put(A)
    bench.source.fail(error)
    status = bench.step()
    assert (status.state, status.reason, status.last_error) == (state, str(error), str(error))
    bench.source.recover()
    assert bench.step().state is State.READY
    assert recorder.contents == [A]


def test_secrets_in_errors_are_masked(bench: Bench) -> None:
    bench.source.fail(SourceUnavailable("cannot reach https://ops:hunter2@host/x?token=abc"))
    assert "hunter2" not in str(bench.step())
    assert "abc" not in str(bench.step())


def test_what_was_saved_is_restored_as_such_and_confirmed_by_the_source(recorder: Any, tmp_path: Path) -> None:
    source, last_good = MemorySource(), LastGood(tmp_path)
    Bench(recorder, source=source, last_good=last_good).put(A)
    after = Bench(recorder, source=source, last_good=last_good)
    after.worker.restore()
    assert recorder.seen == [(A, False), (A, True)]
    assert (after.worker.status().state, after.worker.status().restored) == (State.STALE, True)
    status = after.step()
    assert (status.state, status.restored) == (State.READY, False)
    assert len(recorder.seen) == 2


def test_a_saved_revision_that_is_refused_today_is_passed_over(recorder: Any, tmp_path: Path) -> None:
    source, last_good = MemorySource(), LastGood(tmp_path)
    Bench(lambda *_: Applied(Outcome.ACTIVATED, frozenset({"flow"})), source=source, last_good=last_good).put(
        b"invalid"
    )
    after = Bench(recorder, source=source, last_good=last_good)
    after.worker.restore()
    assert recorder.contents == []
    assert "the rules of the last run are not taken" in str(after.worker.status().last_error)


VALID = [A, B, b"[]"]


@dataclass
class Engine:
    active: bytes | None = None
    disk_full: bool = False

    def apply(self, revision: Revision, _restored: bool) -> Applied:
        content = revision.texts[0].content
        if self.disk_full:
            raise OSError("disk full")
        if content not in VALID:
            raise RuleRejected([])
        self.active = content
        return Applied(Outcome.ACTIVATED, frozenset({"flow"}))


@given(
    st.lists(st.sampled_from([*VALID, b"", b"invalid", b"null", "delete", "cut", "mend", "fill", "free"]), max_size=40)
)
def test_what_stands_is_active_when_it_can_be_and_else_nothing_changes(events: list[Any]) -> None:
    engine, stands, reachable = Engine(), None, True
    bench = Bench(engine.apply)
    for event in events:
        before = engine.active
        if isinstance(event, bytes):
            bench.source.set("flow", stands := event)
        elif event == "delete":
            bench.source.delete("flow")
            stands = None
        elif event == "cut":
            bench.source.fail(SourceUnavailable("cut"))
        elif event == "mend":
            bench.source.recover()
        reachable = event != "cut" and (reachable or event == "mend")
        engine.disk_full = event != "free" and (engine.disk_full or event == "fill")
        status = bench.step()
        if reachable and stands in VALID and (stands == before or not engine.disk_full):
            assert (engine.active, status.state) == (stands, State.READY)
        elif before is not None:
            assert engine.active == before
            assert status.state in {State.STALE, State.ERROR}


class Killed(BaseException):
    """The process ends here."""


def test_killed_between_apply_and_save_it_applies_the_same_bytes_again(recorder: Any, tmp_path: Path) -> None:
    source, last_good = MemorySource(), LastGood(tmp_path)
    Bench(recorder, source=source, last_good=last_good).put(A)

    def apply_then_die(revision: Any, restored: bool) -> Any:
        recorder(revision, restored)
        raise Killed

    dying = Bench(apply_then_die, source=source, last_good=last_good)
    with pytest.raises(Killed):
        dying.put(B)
    after = Bench(recorder, source=source, last_good=last_good)
    after.worker.restore()
    after.step()
    assert recorder.seen[-3:] == [(B, False), (A, True), (B, False)]
    assert recorder.versions[-3:] == ["2", "1", "2"]


def test_a_copy_that_cannot_be_saved_is_shown_and_stops_nothing(recorder: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    status = Bench(recorder, last_good=LastGood(tmp_path / "taken")).put(A)
    assert status.state is State.READY
    assert "cannot be written" in str(status.last_good_problem)


def test_the_last_good_copy_waits_for_the_evidence(recorder: Any, tmp_path: Path) -> None:
    """A restart must find the change anew and tell of it, when the event was lost with the process."""
    last_good = LastGood(tmp_path)
    bench = Bench(recorder, last_good=last_good)
    (item,) = bench.source.items(["flow"])

    def saved() -> bytes | None:
        revisions = LastGood(tmp_path).load(item)
        return revisions[-1].texts[0].content if revisions else None

    bench.put(A)
    bench.evidence_is_safe = False
    bench.put(B)
    assert (recorder.contents, saved()) == ([A, B], A)
    bench.step()
    assert saved() == A
    bench.evidence_is_safe = True
    bench.step()
    assert saved() == B

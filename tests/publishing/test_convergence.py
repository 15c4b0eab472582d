"""Who follows a store, and whether they run what was written there: from applied events alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from sentinel_core.audit.event import Event, RuleApplied
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.publishing.convergence import CLOCKS_DIFFER, Convergence, Fleet, Share, Target

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
FLOW, DEGRADE = "/prod/etcd/sentinel/flow", "/prod/etcd/sentinel/degrade"
BEFORE = Target(FLOW, FLOW, "flow", "old")
WRITTEN = Target(FLOW, FLOW, "flow", "new", "7")


class Told:
    """An audit store, and instances that tell it what they run."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self._numbers = count()

    def runs(self, name: str, digest: str, *, source: str = FLOW, revision: str = "1", at_s: float = 0) -> None:
        """`at_s`: seconds after noon, by the instance's clock."""
        data = {"environment": "prod", "instance": name, "digest": digest, "revision": revision, "kind": "flow"}
        at = NOON + timedelta(seconds=at_s)
        identity = f"{next(self._numbers):08}-applied"
        self.store.ingest([Event(identity, source, RuleApplied.TYPE, "flow", at, json.dumps(data).encode())])

    def look(self, fleet: Fleet, *targets: Target, share: Share | None = None) -> Convergence:
        return fleet.look(targets or (WRITTEN,), NOON, share or Share())


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    store = SqliteStore(tmp_path / "audit.db")
    store.ingest([])
    yield Told(store)
    store.close()


def test_who_ran_what_stood_there_follows_the_store(told: Told) -> None:
    told.runs("a", "old", at_s=-86400 * 90)
    told.runs("b", "older", at_s=-60)
    told.runs("c", "old", source="/prod/another", at_s=-60)
    assert Fleet(told.store, [BEFORE]).followers == {"a"}


def test_the_newest_word_of_an_instance_counts(told: Told) -> None:
    told.runs("a", "old", at_s=-90)
    told.runs("a", "older", at_s=-60, revision="2")
    assert Fleet(told.store, [BEFORE]).followers == set()


def test_they_arrive_one_after_the_other(told: Told) -> None:
    for name in ("a", "b"):
        told.runs(name, "old", at_s=-86400)
    fleet = Fleet(told.store, [BEFORE])
    told.runs("a", "new", revision="7", at_s=1)
    found = told.look(fleet)
    assert (found.arrived, dict(found.lagging), found.done) == (("a",), {"b": "old"}, False)
    told.runs("b", "new", revision="7", at_s=2)
    assert told.look(fleet).done


def test_one_that_starts_meanwhile_counts_too(told: Told) -> None:
    told.runs("a", "old", at_s=-60)
    fleet = Fleet(told.store, [BEFORE])
    told.runs("fresh", "new", revision="7", at_s=1)
    found = told.look(fleet)
    assert (found.arrived, tuple(found.lagging), found.needed) == (("fresh",), ("a",), 2)


def test_one_that_has_gone_on_has_run_it(told: Told) -> None:
    """Somebody published again, before this one was asked."""
    told.runs("a", "old", at_s=-60)
    fleet = Fleet(told.store, [BEFORE])
    told.runs("a", "new", revision="7", at_s=1)
    told.runs("a", "newest", revision="8", at_s=2)
    assert told.look(fleet).arrived == ("a",)


def test_the_same_rules_at_an_older_revision_are_no_answer(told: Told) -> None:
    """A → B → A: whoever ran A then and B since has not come back yet."""
    told.runs("a", "new", revision="5", at_s=-30)
    told.runs("a", "old", revision="6", at_s=-20)
    fleet = Fleet(told.store, [BEFORE])
    assert tuple(told.look(fleet).lagging.items()) == (("a", "old"),)


def test_one_that_missed_what_was_between_runs_it_already(told: Told) -> None:
    told.runs("a", "new", revision="5", at_s=-30)
    told.runs("b", "old", revision="6", at_s=-20)
    fleet = Fleet(told.store, [BEFORE])
    assert told.look(fleet).arrived == ("a",)


def test_each_kind_that_was_written_must_run(told: Told) -> None:
    for source in (FLOW, DEGRADE):
        told.runs("a", "old", source=source, at_s=-60)
    fleet = Fleet(told.store, [BEFORE, Target(DEGRADE, DEGRADE, "degrade", "old")])
    told.runs("a", "new", revision="7", at_s=1)
    both = (WRITTEN, Target(DEGRADE, DEGRADE, "degrade", "new", "8"))
    assert not told.look(fleet, *both).done
    told.runs("a", "new", source=DEGRADE, revision="8", at_s=1)
    assert told.look(fleet, *both).done


def test_a_clock_that_is_behind_is_heard(told: Told) -> None:
    told.runs("a", "old", at_s=-86400)
    fleet = Fleet(told.store, [BEFORE])
    told.runs("a", "new", revision="7", at_s=1 - CLOCKS_DIFFER.total_seconds())
    assert told.look(fleet).done


@pytest.mark.parametrize(
    ("share", "counted", "needed"),
    [
        (Share(), 20, 20),
        (Share(percent=95), 20, 19),
        (Share(percent=95), 10, 10),
        (Share(percent=100 / 3), 3, 1),
        (Share(number=7), 20, 7),
    ],
)
def test_a_share_is_rounded_up(share: Share, counted: int, needed: int) -> None:
    assert share.of(counted) == needed

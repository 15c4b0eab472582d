"""Locks: who writes now, over every store that keeps notes; leases, clocks that differ, and holders that die."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import MemorySource, SourceDenied, SourceMisconfigured
from sentinel_core.datasources.contract import DatasourceError, HasNotes, Item, NotesInHistory
from sentinel_core.publishing import carry_out, make_plan
from sentinel_core.publishing.holding import held
from sentinel_core.publishing.locks import (
    LEASE_S,
    NOTE,
    Lock,
    LockHeld,
    LockLost,
    break_lock,
    encoded,
    found,
    is_same_person,
    lease,
    release,
    renew,
    standing,
    take,
)
from sentinel_core.publishing.make import Wanted
from sentinel_core.rules import Provenance, parse_rules
from sentinel_core.settings import Guards
from sentinel_core.testing import FakeClock


def lock(clock: FakeClock, id_: str = "aaaa1111", *, renewed: bool = True, **fields: Any) -> Lock:
    now = clock.wall()
    values: dict[str, Any] = {
        "holder": "chen",
        "command": "publish",
        "reason": "促销",
        "since": now,
        "until": lease(now),
    }
    return Lock(id_, renewed=renewed, **{**values, **fields})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start_ms=1_000_000)


@pytest.fixture
def plain() -> MemorySource:
    return MemorySource()


@pytest.fixture
def item(plain: MemorySource) -> Item:
    return plain.items(["flow"])[0]


# -- over every store --------------------------------------------------------------------------------------------------


def test_a_lock_is_taken_standsand_given_up(noting: Any, clock: FakeClock) -> None:
    (first,) = noting.items(["flow"])
    mine = lock(clock)
    take(noting, first, mine, clock, noting.uri)
    assert [(each, [item.source for item in items]) for each, items in found(noting, [first])] == [
        (mine, [first.source])
    ]
    with pytest.raises(LockHeld, match=r"locked by chen \(publish: 促销\) since 1970-01-01 00:16:40 UTC until"):
        take(noting, first, lock(clock, "bbbb2222"), clock, noting.uri)
    assert release(noting, [first], "bbbb2222") == []
    assert release(noting, [first], mine.id) == [mine]
    assert standing(noting, first).lock is None
    take(noting, first, lock(clock, "bbbb2222"), clock, noting.uri)


def test_who_broke_a_lock_and_why_stays_beside_the_rules(noting: Any, clock: FakeClock) -> None:
    (first,) = noting.items(["flow"])
    take(noting, first, lock(clock), clock, noting.uri)
    assert break_lock(noting, [first], "aaaa1111", by="li", reason="chen's laptop died", at=clock.wall())
    take(noting, first, lock(clock, "bbbb2222"), clock, noting.uri)
    (broken,) = standing(noting, first).broken
    assert (broken.lock.holder, broken.by, broken.reason) == ("chen", "li", "chen's laptop died")


def test_a_command_holds_it_while_it_writes_and_the_rules_keep_their_version(noting: Any) -> None:
    items = noting.items(["flow"])
    before = noting.read(items[0])
    with held(noting, noting.uri, items, holder="chen", command="publish", reason="sale") as holding:
        holding.check(items[0])
        mine = found(noting, items)
        assert bool(mine) != isinstance(noting, NotesInHistory), "a commit for each lock would be too dear"
        if mine:
            with (
                pytest.raises(LockHeld, match="chen"),
                held(noting, noting.uri, items, holder="li", command="sync", reason=None),
            ):
                raise AssertionError("not reached")
    assert found(noting, items) == []
    assert noting.read(items[0]) == before


def test_the_lock_of_a_person_is_respected_and_written_under(noting: Any, clock: FakeClock) -> None:
    items = noting.items(["flow"])
    person = lock(clock, command="hold", renewed=False)
    for item in items:
        take(noting, item, person, clock, noting.uri)
    with (
        pytest.raises(LockHeld, match="hold"),
        held(noting, noting.uri, items, holder="li", command="publish", reason=None, clock=clock),
    ):
        raise AssertionError("not reached")
    with held(noting, noting.uri, items, holder="chen", command="publish", reason=None, under=person.id, clock=clock):
        pass
    assert [each for each, _ in found(noting, items)] == [person], "it stays after the command"


def test_of_many_who_take_it_at_once_one_has_it(noting: Any, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["noting"] == "nacos-2":
        pytest.skip("Nacos 2 compares and sets nothing over HTTP, so two may have it; rules are compared by themselves")
    (first,) = noting.items(["flow"])
    clock = FakeClock(start_ms=1_000_000)
    barrier = threading.Barrier(4)
    told: list[str] = []

    def work(number: int) -> None:
        barrier.wait()
        try:
            take(noting, first, lock(clock, f"{number}" * 8), clock, noting.uri)
            told.append("mine")
        except DatasourceError:  # a conflict; of many Gits at once one may also find the repository busy
            told.append("theirs")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["mine", "theirs", "theirs", "theirs"]


# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_lock_that_is_renewed_lasts_on(plain: MemorySource, item: Item, clock: FakeClock) -> None:
    note = take(plain, item, lock(clock), clock, "store")
    for _ in range(10):
        clock.advance(10_000)
        note = renew(plain, item, note, lease(clock.wall()))
        with pytest.raises(LockHeld):
            take(plain, item, lock(clock, "bbbb2222"), clock, "store")


def test_the_lock_of_a_holder_that_was_killed_is_watched_and_taken_over(
    plain: MemorySource, item: Item, clock: FakeClock
) -> None:
    take(plain, item, lock(clock), clock, "store")
    clock.advance(LEASE_S * 1000 + 1)
    told: list[str] = []
    began = clock.monotonic_ns()
    take(plain, item, lock(clock, "bbbb2222", holder="li"), clock, "store", told.append)
    assert (clock.monotonic_ns() - began) / 1e9 == pytest.approx(15)
    assert told == ["store: the lock aaaa1111 of chen looks dead; waiting 15 s for a sign of it"]
    stands = standing(plain, item)
    assert stands.lock is not None
    assert stands.lock.id == "bbbb2222"
    assert [(each.lock.id, each.by, each.reason) for each in stands.broken] == [("aaaa1111", "li", "it was dead")]


HOLDER = """
import sys, time
from sentinel_core import datasources
from sentinel_core.publishing.holding import held
source = datasources.open(sys.argv[1])
with held(source, "store", source.items(["flow"]), holder="chen", command="publish", reason="sale"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_process_that_is_killed_leaves_a_lock_that_runs_out(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/sentinel-flow-rules.json"
    with subprocess.Popen([sys.executable, "-c", HOLDER, uri], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    source = datasources.open(uri)
    assert isinstance(source, HasNotes)
    (item,) = source.items(["flow"])
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    with pytest.raises(LockHeld, match=r"chen \(publish: sale\)"):
        take(source, item, lock(FakeClock(now_ms), "bbbb2222"), FakeClock(now_ms), uri)
    later = FakeClock(now_ms + int(LEASE_S * 1000) + 1)
    take(source, item, lock(later, "bbbb2222"), later, uri)
    assert [each.lock.holder for each in standing(source, item).broken] == ["chen"]


def beating(clock: FakeClock, beat: Callable[[], None], every_s: float) -> None:
    """While somebody waits, the holder goes on."""
    sleep, last = clock.sleep, [clock.monotonic_ns()]

    def waiting(ns: int) -> None:
        sleep(ns)
        if clock.monotonic_ns() - last[0] >= every_s * 1e9:
            last[0] = clock.monotonic_ns()
            beat()

    clock.sleep = waiting


@pytest.mark.parametrize("skew_s", [-3600, 3600])
def test_a_holder_whose_clock_is_an_hour_off_keeps_its_lock_for_as_long_as_it_lives(
    plain: MemorySource, item: Item, clock: FakeClock, skew_s: float
) -> None:
    theirs = clock.wall() + timedelta(seconds=skew_s)
    notes = [take(plain, item, lock(clock, since=theirs, until=lease(theirs)), clock, "store")]

    def beat() -> None:
        notes[0] = renew(plain, item, notes[0], lease(clock.wall() + timedelta(seconds=skew_s)))

    beating(clock, beat, 10)
    with pytest.raises(LockHeld):
        take(plain, item, lock(clock, "bbbb2222"), clock, "store")


def test_a_dead_holder_whose_clock_was_far_ahead_keeps_nobody_away_for_long(
    plain: MemorySource, item: Item, clock: FakeClock
) -> None:
    theirs = clock.wall() + timedelta(hours=5)
    take(plain, item, lock(clock, since=theirs, until=lease(theirs)), clock, "store")
    began = clock.monotonic_ns()
    take(plain, item, lock(clock, "bbbb2222"), clock, "store")
    assert (clock.monotonic_ns() - began) / 1e9 == pytest.approx(40)


def test_the_lock_of_a_person_ends_when_it_says(plain: MemorySource, item: Item, clock: FakeClock) -> None:
    until = clock.wall() + timedelta(minutes=30)
    take(plain, item, lock(clock, renewed=False, command="hold", until=until), clock, "store")
    clock.advance(30 * 60_000 - 1)
    with pytest.raises(LockHeld):
        take(plain, item, lock(clock, "bbbb2222"), clock, "store")
    clock.advance(2)
    take(plain, item, lock(clock, "bbbb2222"), clock, "store")
    assert clock.waits == []


# -- holding -----------------------------------------------------------------------------------------------------------


def holding_of(source: Any, clock: FakeClock, **options: Any) -> Any:
    arguments = {"holder": "chen", "command": "publish", "reason": None, "clock": clock, **options}
    return held(source, "store", source.items(["flow", "degrade"]), **arguments)


def test_all_items_are_taken_or_none(plain: MemorySource, clock: FakeClock) -> None:
    flow, degrade = plain.items(["flow", "degrade"])
    take(plain, degrade, lock(clock, "bbbb2222"), clock, "store")
    with pytest.raises(LockHeld), holding_of(plain, clock):
        raise AssertionError("not reached")
    assert standing(plain, flow).lock is None


def test_whoever_lost_its_lock_writes_nothing_more(plain: MemorySource, clock: FakeClock) -> None:
    items = plain.items(["flow", "degrade"])
    with holding_of(plain, clock) as holding:
        holding.check(items[0])
        ((mine, _),) = found(plain, items)
        break_lock(plain, items, mine.id, by="li", reason="now me", at=clock.wall())
        with pytest.raises(LockLost, match="broken or has run out"):
            holding.check(items[0])
        holding.renew()
        with pytest.raises(LockLost):
            holding.check(items[1])
        take(plain, items[0], lock(clock, "bbbb2222"), clock, "store")
    assert standing(plain, items[0]).lock is not None, "that of somebody else is not given up"


def test_whoever_could_not_renew_for_a_whole_lease_writes_nothing_more(plain: MemorySource, clock: FakeClock) -> None:
    item = plain.items(["flow"])[0]
    with holding_of(plain, clock) as holding:
        clock.advance(LEASE_S * 1000)
        holding.check(item)
        clock.advance(1)
        with pytest.raises(LockLost):
            holding.check(item)
        holding.renew()
        holding.check(item)


def test_a_plan_whose_lock_was_broken_stops_where_it_is(plain: MemorySource, clock: FakeClock) -> None:
    sets = {kind: parse_rules(kind, b"[]") for kind in ("flow", "degrade")}
    plan = make_plan(
        plain, "store", Wanted("r", sets), environment="prod", provenance=Provenance(reason="x"), policy=Guards(),
        max_bytes=1000,
    ).plan  # fmt: skip
    items = plain.items(["flow", "degrade"])

    def stolen(_: Any) -> None:
        for mine, _items in found(plain, items):
            break_lock(plain, items, mine.id, by="li", reason="now me", at=clock.wall())

    with holding_of(plain, clock) as holding:
        outcomes = carry_out(plan, plain, told=stolen, check=holding.check)
    assert [each.state for each in outcomes] == ["written", "failed"]
    assert isinstance(outcomes[1].error, LockLost)


class NoNotes(MemorySource):
    """A caller without the right to write notes."""

    def write_note(self, item: Item, name: str, content: bytes, *, expected: bytes | None, why: str) -> None:
        raise SourceDenied("no right to write notes")


def test_whoever_may_not_write_notes_goes_on_and_is_told(clock: FakeClock) -> None:
    told: list[str] = []
    source = NoNotes()
    with holding_of(source, clock, told=told.append) as holding:
        holding.check(source.items(["flow"])[0])
    assert told == [
        "no lock was taken, because it may not be written (no right to write notes); each write still compares and sets"
    ]


@pytest.mark.parametrize(
    "note", [b"", b"junk", b"[]", b'{"formatVersion": 2}', b'{"formatVersion": 1, "lock": 5, "broken": []}']
)
def test_a_note_that_cannot_be_read_lets_nobody_write(
    plain: MemorySource, item: Item, clock: FakeClock, note: bytes
) -> None:
    plain.write_note(item, NOTE, note, expected=None, why="by hand")
    with pytest.raises(SourceMisconfigured, match="mend it, or remove it"), holding_of(plain, clock):
        raise AssertionError("not reached")


def changed(note: bytes, place: str, value: object) -> bytes:
    """The note with another value at `lock.until`, `broken.by` …"""
    document = json.loads(note)
    *above, name = place.split(".")
    into = document["lock"] if above == ["lock"] else document["broken"][0]
    into = into["lock"] if above == ["broken", "lock"] else into
    assert name in into
    into[name] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *[
            (f"{where}.id", value)
            for where in ("lock", "broken.lock")
            for value in ("x; touch pwn; #", "$(id)", "", "aaaa1111\n", "AAAA1111", "aaaa11112", "١١١١١١١١", 5, None)
        ],
        *[
            (where, value)
            for where in ("lock.until", "lock.since", "broken.at", "broken.lock.until")
            for value in ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-11-30T10:00:00", 5, None)
        ],
        *[
            (where, value)
            for where in ("lock.holder", "lock.reason", "broken.by", "broken.lock.holder")
            for value in ({"a": 1}, ["a"], 5, True)
        ],
    ],
)
def test_a_note_with_what_no_lock_has_cannot_be_read(
    plain: MemorySource, item: Item, clock: FakeClock, place: str, value: object
) -> None:
    take(plain, item, lock(clock), clock, "store")
    break_lock(plain, [item], "aaaa1111", by="li", reason="gone", at=clock.wall())
    note = take(plain, item, lock(clock, "bbbb2222"), clock, "store")
    assert standing(plain, item).lock is not None
    plain.write_note(item, NOTE, changed(note, place, value), expected=note, why="by hand")
    with pytest.raises(SourceMisconfigured, match="mend it, or remove it"):
        standing(plain, item)


def test_a_note_that_is_too_long_says_so_with_its_size(clock: FakeClock, tmp_path: Path) -> None:
    source = datasources.open(f"file://{tmp_path}/rules.yaml")
    (whole, *_) = source.items(["flow"])
    assert isinstance(source, HasNotes)
    note = take(source, whole, lock(clock, reason="x" * 3 * 2**20), clock, "store")
    assert len(note) > 3 * 2**20
    with pytest.raises(SourceMisconfigured, match=r"cannot be read: it is 1\.0 MiB or more, and"):
        standing(source, whole)


def test_the_reason_of_a_command_is_cut_to_what_a_note_takes(plain: MemorySource, item: Item, clock: FakeClock) -> None:
    with held(plain, "store", [item], holder="chen", command="publish", reason="x" * 3 * 2**20, clock=clock):
        stands = standing(plain, item).lock
    assert stands is not None
    assert stands.reason == "x" * 1000


def test_a_lock_that_is_named_must_be_held(plain: MemorySource, clock: FakeClock) -> None:
    with pytest.raises(LockLost), holding_of(plain, clock, under="cccc3333"):
        raise AssertionError("not reached")


@pytest.mark.parametrize(
    ("fields", "holder"),
    [
        ({"renewed": False}, "mallory"),
        ({"renewed": False}, "che"),
        ({"renewed": False}, None),
        ({"renewed": False, "holder": None}, "mallory"),
        ({"renewed": True}, "chen"),
    ],
)
def test_nobody_writes_under_the_lock_of_another_or_of_a_running_command(
    plain: MemorySource, item: Item, clock: FakeClock, fields: dict[str, Any], holder: str | None
) -> None:
    theirs = lock(clock, **fields)
    take(plain, item, theirs, clock, "store")
    with (
        pytest.raises(LockHeld),
        held(plain, "store", [item], holder=holder, command="publish", reason=None, under=theirs.id, clock=clock),
    ):
        raise AssertionError("not reached")


def test_a_person_writes_under_a_lock_from_another_job(plain: MemorySource, item: Item, clock: FakeClock) -> None:
    mine = lock(clock, holder="chen (GitLab job 42)", renewed=False)
    take(plain, item, mine, clock, "store")
    with held(
        plain, "store", [item], holder="chen (GitLab job 43)", command="apply", reason=None, under=mine.id, clock=clock
    ):
        pass


def test_a_lock_of_a_part_is_written_under_with_the_rest_free(plain: MemorySource, clock: FakeClock) -> None:
    flow, degrade = plain.items(["flow", "degrade"])
    mine = lock(clock, command="hold", renewed=False)
    take(plain, flow, mine, clock, "store")
    with holding_of(plain, clock, under=mine.id):
        pass
    take(plain, degrade, lock(clock, "bbbb2222"), clock, "store")
    with pytest.raises(LockHeld), holding_of(plain, clock, under=mine.id):
        raise AssertionError("not reached")


def test_a_note_is_read_as_it_was_written(plain: MemorySource, item: Item, clock: FakeClock) -> None:
    note = take(plain, item, lock(clock, holder=None, reason=None), clock, "store")
    assert encoded(standing(plain, item)) == note == plain.note(item, NOTE)


@pytest.mark.parametrize(
    ("holder", "name", "same"),
    [
        ("chen", "chen", True),
        ("chen (GitLab job 42)", "chen (GitLab job 43)", True),
        ("Chen Li <chen@example.org>", "Chen Li <Chen@Example.org> (GitLab job 43)", True),
        ("Chen Li <chen@example.org>", "chen (GitHub Actions run 1)", True),
        ("chen", "Chen Li <42+chen@users.noreply.github.com>", True),
        ("Chen Li <chen@example.org>", "Chen Li", True),
        ("Chen Li <chen@example.org>", "Chen Li <chen@example.com>", False),
        ("Chen Li <chen@example.org>", "li", False),
        ("chen", None, False),
        (None, None, True),
        (None, "chen", False),
    ],
)
def test_one_person_has_several_names(holder: str | None, name: str | None, same: bool) -> None:
    assert is_same_person(holder, [name]) is same

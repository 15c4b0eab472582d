"""`lock list`, `hold`, `release` and `break`, and what writing commands make of a lock."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sentinel_core import datasources
from sentinel_core.cli.actor import actor
from sentinel_core.cli.exits import Exit
from sentinel_core.clock import Clock
from sentinel_core.datasources.contract import HasNotes
from sentinel_core.publishing import locks
from sentinel_core.publishing.locks import Lock
from tests.cli.conftest import Run, Shop, ok


@pytest.fixture
def plain(here: Path, sentinelctl: Run) -> Shop:
    (here / "lists").mkdir()
    return Shop(here, f"file://{here}/lists?format=json", sentinelctl)


def held(made: Shop, reason: str = "incident 42") -> str:
    return ok(made.run("lock", "hold", "--reason", reason, "--for", "30m", "-o", "name")).out.strip()


def by(patch: pytest.MonkeyPatch, name: str) -> None:
    patch.setenv("GITHUB_ACTOR", name)
    patch.setenv("GITHUB_RUN_ID", "42")


def test_the_lock_of_a_person_keeps_others_from_writing_until_it_is_given_up(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    by(monkeypatch, "chen")
    lock = held(shop)
    (found,) = json.loads(ok(shop.run("lock", "list", "-o", "json")).out)["locks"]
    assert (found["id"], found["holder"], found["command"]) == (lock, "chen (GitHub Actions run 42)", "hold")
    assert found["reason"] == "incident 42"
    shop.commit(25, "Raise it")
    by(monkeypatch, "li")
    refused = shop.run("rules", "publish", "--yes")
    assert refused.code == Exit.CONFLICT
    assert "is locked by chen (GitHub Actions run 42) (hold: incident 42) since 20" in refused.err
    assert f"sentinelctl lock break {lock} --store" in refused.err
    assert "nothing was written" in refused.err
    assert shop.standing()["count"] == 20
    theirs = shop.run("lock", "release", lock)
    assert (theirs.code, "sentinelctl lock break" in theirs.err) == (Exit.USAGE, True)
    under = shop.run("rules", "publish", "--yes", "--lock", lock)
    assert (under.code, "is locked by chen" in under.err) == (Exit.CONFLICT, True)
    assert shop.standing()["count"] == 20
    by(monkeypatch, "chen")
    ok(shop.run("rules", "publish", "--yes", "--lock", lock))
    assert shop.standing()["count"] == 25
    assert "released" in ok(shop.run("lock", "release", lock)).out
    assert "Nothing is locked." in ok(shop.run("lock", "list")).err


def test_a_lock_is_broken_with_a_reason_that_is_kept(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    lock = held(shop)
    assert shop.run("lock", "break", lock, "--yes").code == Exit.USAGE
    assert "broken" in ok(shop.run("lock", "break", lock, "--reason", "token=hunter2 died", "--yes")).out
    shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    told = ok(shop.run("lock", "list", "-o", "wide")).out
    assert lock in told
    assert "token=*** died" in told
    (broken,) = json.loads(ok(shop.run("lock", "list", "-o", "json")).out)["broken"]
    assert (broken["lock"]["id"], broken["lock"]["reason"]) == (lock, "incident 42")


def test_a_dry_run_of_a_lock_writes_nothing(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = ok(plain.run("lock", "hold", "--reason", "incident 42", "--dry-run"))
    assert "would be held until" in dry.out
    assert "Nothing is locked." in ok(plain.run("lock", "list")).err
    by(monkeypatch, "chen")
    lock = held(plain)
    by(monkeypatch, "li")
    taken = plain.run("lock", "hold", "--reason", "mine", "--dry-run")
    assert (taken.code, "is locked by chen" in taken.err) == (Exit.CONFLICT, True)
    broken = ok(plain.run("lock", "break", lock, "--reason", "gone", "--dry-run"))  # asks nothing
    assert f"{lock}  would be broken: held by chen (GitHub Actions run 42)" in broken.out
    assert lock in ok(plain.run("lock", "list")).out


def test_every_command_that_writes_respects_it(plain: Shop) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    plain.commit(25, "Raise it")
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    lock = held(plain)
    assert plain.run("rules", "apply", "x.plan", "--yes").code == Exit.CONFLICT
    look = plain.run("sync", f"git+file://{plain.here}?ref=main&path=rules.yaml", "--once", "--drift", "heal")
    assert (look.code, "locked" in look.out, "next: wait, or ask" in look.err) == (Exit.CONFLICT, True, True)
    assert plain.run("lock", "hold", "--reason", "me too").code == Exit.CONFLICT
    ok(plain.run("rules", "apply", "x.plan", "--yes", "--lock", lock))
    assert plain.run("rules", "publish", "git:HEAD~1", "--yes", "--lock", "00000000").code == Exit.CONFLICT


def test_a_rollback_respects_it_and_goes_on_under_it(project: object, sentinelctl: Run) -> None:
    lock = ok(sentinelctl("lock", "hold", "--reason", "incident 42", "-o", "name")).out.strip()
    refused = sentinelctl("rules", "rollback", "--yes")
    assert (refused.code, "incident 42" in refused.err) == (Exit.CONFLICT, True)
    assert "Nothing is under quarantine" in ok(sentinelctl("rules", "quarantine")).err
    ok(sentinelctl("rules", "rollback", "--yes", "--lock", lock))


def test_the_beginning_of_an_id_is_enough_where_it_is_that_of_one(plain: Shop) -> None:
    lock = held(plain)
    short = plain.run("lock", "release", lock[:3])
    assert (short.code, "give at least 4 characters" in short.err) == (Exit.USAGE, True)
    assert "released" in ok(plain.run("lock", "release", lock[:4])).out
    lock = held(plain)
    assert "broken" in ok(plain.run("lock", "break", lock[:4], "--reason", "gone", "--yes")).out


def test_an_id_of_which_several_begin_so_names_them(plain: Shop) -> None:
    now = datetime.now(UTC)
    source = datasources.open(plain.store, environment="prod")
    assert isinstance(source, HasNotes)
    for item, id_ in zip(source.items(("flow", "degrade")), ("0bad0001", "0bad0002"), strict=True):
        lock = Lock(id_, actor(), "hold", "x", now, now + timedelta(minutes=5), renewed=False)
        locks.take(source, item, lock, Clock(), plain.store)
    refused = plain.run("lock", "release", "0bad")
    assert (refused.code, "0bad0001, 0bad0002" in refused.err) == (Exit.USAGE, True), refused.err
    ok(plain.run("lock", "release", "0bad0002"))
    ok(plain.run("lock", "release", "0bad"))


def test_whoever_held_it_in_one_job_gives_it_up_in_another(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    by(monkeypatch, "chen")
    lock = held(plain)
    monkeypatch.setenv("GITHUB_RUN_ID", "43")
    ok(plain.run("lock", "release", lock))


def test_of_one_kind_alone(plain: Shop) -> None:
    ok(plain.run("lock", "hold", "--reason", "breakers are mine", "--kind", "degrade"))
    ok(plain.run("rules", "publish", "--yes"))
    assert "degrade" in ok(plain.run("lock", "list", "-o", "wide")).out


@pytest.mark.parametrize(
    "line",
    [
        ["lock", "hold"],
        ["lock", "hold", "--reason", " "],
        ["lock", "hold", "--reason", "x" * 1001],
        ["lock", "break", "1f2e3d4c", "--reason", "x" * 1001, "--yes"],
        ["lock", "hold", "--reason", "x", "--for", "0s"],
        ["lock", "hold", "--reason", "x", "--for", "8d"],
        ["lock", "release", "nothing"],
        ["lock", "break", "nothing", "--reason", "x", "--yes"],
    ],
)
def test_what_cannot_be_meant(plain: Shop, line: list[str]) -> None:
    refused = plain.run(*line)
    assert refused.code == Exit.USAGE
    assert "next:" in refused.err

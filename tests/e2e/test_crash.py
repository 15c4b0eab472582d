"""Killing the process between any two steps loses no event and repeats none in the store."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sentinel_core.audit.events import Event
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from tests.e2e.conftest import Site

LIFE = Path(__file__).with_name("service_process.py")
STEPS = ("read", "make durable", "swap", "save last good", "publish", "ingest", "mark sent")
OLD = "flowRules:\n  - {resource: payment_invoke, grade: qps, count: 20}\n"
NEW = "flowRules:\n  - {resource: payment_invoke, grade: qps, count: 25}\n"


def live(site: Site, digest: str, *kill_points: str) -> int:
    """One life of the service; its exit code."""
    done = subprocess.run(
        [sys.executable, str(LIFE), str(site.settings), digest, *kill_points],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def events(site: Site) -> list[Event]:
    """Everything in the audit store, oldest first, each event once per row it has there."""
    store = SqliteStore(site.folder / ".sentinel" / "audit.db")
    heads = {row.event.id: row.event for row in reversed(store.query(Query(limit=1000)).rows)}
    found = [store.get(head) for head in heads]
    store.close()
    return [event for event in found if event is not None]


def stored_bodies(site: Site) -> int:
    connection = sqlite3.connect(site.folder / ".sentinel" / "audit.db")
    of_changes = "SELECT count(*) FROM events WHERE type <> 'sentinel.rules.applied.v1'"
    count = int(connection.execute(of_changes).fetchone()[0])
    connection.close()
    return count


@pytest.fixture(scope="module")
def first_life(module_site: Site) -> Site:
    """A service that ran the old rules and was closed cleanly."""
    module_site.commit(OLD)
    assert live(module_site, module_site.digest(OLD)) == 0
    return module_site


@pytest.fixture
def site(first_life: Site, tmp_path: Path) -> Iterator[Site]:
    """That service again for every test, at the same place, because its path is part of what it knows."""
    kept = tmp_path / "kept"
    shutil.copytree(first_life.folder, kept, symlinks=True)
    yield first_life
    shutil.rmtree(first_life.folder)
    kept.rename(first_life.folder)


@pytest.mark.parametrize("point", [f"{when} {step}" for step in STEPS for when in ("before", "after")])
def test_a_kill_loses_and_repeats_nothing(site: Site, point: str) -> None:
    commit = site.commit(NEW)
    assert live(site, site.digest(NEW), point) == -signal.SIGKILL
    assert live(site, site.digest(NEW)) == 0

    told = [event for event in events(site) if event.type != "sentinel.rules.applied.v1"]
    assert len(told) == stored_bodies(site) == 2
    first, second = (event.payload for event in told)
    assert first["newDigest"] == second["oldDigest"] == site.digest(OLD)
    assert second["newDigest"] == site.digest(NEW)
    assert second["commitHash"] == commit
    assert Outbox(site.folder / ".sentinel" / "outbox.db").depth() == 0


@pytest.mark.parametrize("point", ["before make durable", "after make durable", "after publish", "before mark sent"])
def test_a_kill_while_refusing_tells_the_refusal_once(site: Site, point: str) -> None:
    site.commit(OLD.replace("20", "2O"))
    assert live(site, "never", point) == -signal.SIGKILL
    site.commit(NEW)
    assert live(site, site.digest(NEW)) == 0
    told = [event.type for event in events(site)]
    # Killed before the refusal was durable, and mended before the next start: nobody has seen the bad revision.
    rejected = 0 if point == "before make durable" else 1
    assert told.count("sentinel.rules.rejected.v1") == rejected
    assert told.count("sentinel.rules.changed.v1") == 2

"""An auditor who may read the file of the store, and write nothing: neither to it nor beside it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run

WITHOUT_RIGHTS = "setpriv --bounding-set -dac_override,-dac_read_search --inh-caps -dac_override,-dac_read_search"
"""Root may write everywhere."""
ASKED = ("verify", "who pay --since 400d", "query", "export")


@pytest.fixture
def place(months: Path) -> Iterator[Path]:
    """Settings in a folder, and the store in another one that is to be closed."""
    folder = months / "evidence"
    folder.mkdir()
    with closing(sqlite3.connect(months / "audit.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.move(months / "audit.db", folder / "audit.db")
    (months / "sentinel.yaml").write_text("environment: prod\naudit: {store: 'sqlite:///evidence/audit.db'}\n")
    yield folder
    folder.chmod(0o700)


def shut(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(0o400)
    folder.chmod(0o500)


@pytest.fixture
def auditor(process: Run) -> Run:
    may_anything = os.geteuid() == 0
    if may_anything and shutil.which("setpriv") is None:
        pytest.skip("root, and no setpriv to be less")
    return lambda command: process(script=f"{WITHOUT_RIGHTS if may_anything else ''} $SENTINELCTL audit {command}")


@pytest.mark.parametrize("command", ASKED)
def test_all_can_be_asked_and_nothing_is_left_behind(place: Path, auditor: Run, command: str) -> None:
    shut(place)
    ended = auditor(command)
    assert ended.code == 0, ended.err
    assert [path.name for path in place.iterdir()] == ["audit.db"]


def test_what_was_tampered_with_is_found(place: Path, auditor: Run) -> None:
    with closing(sqlite3.connect(place / "audit.db", isolation_level=None)) as connection:
        connection.execute("UPDATE events SET author = 'mallory' WHERE seq = 3")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shut(place)
    ended = auditor("verify")
    assert (ended.code, "hash mismatch" in ended.out) == (2, True)


def test_with_a_log_that_cannot_be_read_it_is_said_what_to_copy(place: Path, auditor: Run) -> None:
    with closing(sqlite3.connect(place / "audit.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO sightings VALUES (1, 'i-9', 0)")
        log = (place / "audit.db-wal").read_bytes()
    (place / "audit.db-wal").write_bytes(log)
    (place / "audit.db-shm").unlink(missing_ok=True)
    shut(place)
    ended = auditor("verify")
    assert ended.code == 69
    assert "what is in audit.db-wal cannot be read; copy both files into a folder of your own" in ended.err


def test_what_is_written_meanwhile_is_seen(place: Path, auditor: Run, process: Run) -> None:
    """A file that is read as it is must not be taken for the one that it was."""
    shut(place)
    script = (
        "from sentinel_core.audit.store.sqlite import SqliteStore; import os, sqlite3\n"
        "store = SqliteStore('evidence/audit.db', read_only=True); print(store.count())\n"
        "os.chmod('evidence', 0o700); os.chmod('evidence/audit.db', 0o600)\n"
        "connection = sqlite3.connect('evidence/audit.db', isolation_level=None)\n"
        "connection.execute('DELETE FROM events WHERE seq = 6'); connection.close()\n"
        "os.chmod('evidence/audit.db', 0o400); os.chmod('evidence', 0o500); print(store.count())\n"
    )
    (place.parent / "look.py").write_text(script)
    prefix = WITHOUT_RIGHTS if os.geteuid() == 0 else ""
    assert process(script=f"{prefix} {sys.executable} look.py").out.split() == ["6", "5"]

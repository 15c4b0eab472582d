"""A file that is, or was, an audit store and says otherwise: `audit verify` finds it, and nothing is written to it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sentinel_core.audit.errors import StoreDamaged
from sentinel_core.audit.store._layout import MIGRATIONS
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

LATEST = len(MIGRATIONS)


def pragma(text: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA {text}")

    return change


def byte(place: int, value: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[place] = value
        path.write_bytes(content)

    return change


def cut(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size if size > 0 else path.stat().st_size + size)


HEADERS = {
    **{f"layout {layout}": (pragma(f"user_version={layout}"), f"it says layout {layout}") for layout in (0, 1, 2, 3)},
    "a layout to come": (pragma("user_version=99"), "it says layout 99, and its tables are those of layout"),
    "an owner": (pragma("application_id=1"), "application_id is 1"),
}
FILES: dict[str, Callable[[Path], object]] = {
    "cut off": cut(-5000),
    "cut off in the header": cut(50),
    "a byte of the header": byte(0, 0x58),
    "a byte of the first page": byte(100, 0xFF),
    "the format": byte(19, 9),
    "the whole first page": lambda path: path.write_bytes(bytes(range(256)) * 16 + path.read_bytes()[4096:]),
}


@pytest.fixture
def path(months: Path, sentinelctl: Run) -> Path:
    with closing(sqlite3.connect(months / "audit.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert sentinelctl("audit", "verify").code == 2, "there is no checkpoint yet"
    sentinelctl("audit", "checkpoint")
    assert sentinelctl("audit", "verify").code == 0
    return months / "audit.db"


@pytest.mark.parametrize("how", HEADERS)
def test_a_header_that_was_changed_is_a_finding_and_nothing_is_written(path: Path, sentinelctl: Run, how: str) -> None:
    change, words = HEADERS[how]
    with closing(SqliteStore(path)) as store:
        events = store.events([row.event for row in store.query(Query(limit=1)).rows])
    change(path)
    ended = sentinelctl("audit", "verify")
    assert ended.code == 2
    assert "! damaged file  " in ended.out
    assert words in ended.out
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match=words):
        SqliteStore(path).ingest(events)
    assert path.read_bytes() == before


def test_a_header_of_one_layout_before_is_an_altered_layout_and_nothing_is_written(
    path: Path, sentinelctl: Run
) -> None:
    pragma(f"user_version={LATEST - 1}")(path)
    assert "! altered layout" in sentinelctl("audit", "verify").out
    with pytest.raises(StoreDamaged, match=f"it says layout {LATEST - 1}, which has no such index events_source"):
        SqliteStore(path).ingest([])


@pytest.mark.parametrize("how", FILES)
def test_a_file_that_cannot_be_read_any_more_is_a_finding(path: Path, sentinelctl: Run, how: str) -> None:
    FILES[how](path)
    ended = sentinelctl("audit", "verify", "-o", "json")
    assert ended.code == 2
    assert '"damaged file"' in ended.out
    assert sentinelctl("audit", "who", "pay").code == 2
    assert "unexpected" not in ended.err


def test_a_file_of_another_program_or_of_a_newer_version_is_no_finding(path: Path, sentinelctl: Run) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE to_come (a)")
    pragma("user_version=99")(path)
    ended = sentinelctl("audit", "verify")
    assert (ended.code, "written by a newer version (layout 99)" in ended.err) == (69, True)
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a)")
    ended = sentinelctl("audit", "verify")
    assert (ended.code, "holds something else" in ended.err) == (69, True)


@pytest.mark.parametrize("gone", [Path.unlink, lambda path: os.truncate(path, 0)])
def test_a_store_that_is_gone_and_has_checkpoints_is_a_finding(
    path: Path, sentinelctl: Run, gone: Callable[[Path], None]
) -> None:
    gone(path)
    ended = sentinelctl("audit", "verify")
    assert (ended.code, "! truncated after 0 of /prod/x" in ended.out) == (2, True)
    (path.parent / "checkpoints.ndjson").unlink()
    assert sentinelctl("audit", "verify").code == 69, "it may never have been there"


def test_a_text_is_no_store_but_a_wrong_path(path: Path, sentinelctl: Run) -> None:
    path.write_text("flowRules: []\n" * 1000)
    assert sentinelctl("audit", "verify").code == 69


def test_output_that_cannot_be_written_does_not_look_like_a_finding(path: Path, sentinelctl: Run, process: Run) -> None:
    assert process(script="$SENTINELCTL audit verify >/dev/full").code == 74

"""A file that is not ours is told, and stays as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.store.sqlite import SqliteStore


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("statement", ["CREATE TABLE notes (text)", "PRAGMA application_id=7"])
def test_a_database_of_somebody_else_is_not_taken_over(tmp_path: Path, statement: str, read_only: bool) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="this SQLite file holds something else; give another path"):
        SqliteStore(path, read_only=read_only).heads()
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["theirs.db"]


def test_an_empty_file_is_told_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    path.touch()
    with pytest.raises(StoreUnavailable, match="empty; nothing was ever written to it"):
        SqliteStore(path, read_only=True).heads()
    assert SqliteStore(path).heads() == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_folder_is_told_as_a_folder(tmp_path: Path, read_only: bool) -> None:
    with pytest.raises(StoreUnavailable, match="a folder; give the path of a file"):
        SqliteStore(tmp_path, read_only=read_only).heads()

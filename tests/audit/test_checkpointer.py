"""Checkpoints from time to time: of what has moved, whatever fails in between."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.checkpointer import Checkpointer
from sentinel_core.audit.checkpoints import read
from sentinel_core.audit.events import Event
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store.sqlite import SqliteStore

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / "checkpoints.ndjson"


def numbers(path: Path, key: SigningKey) -> list[int]:
    told = read(path, [key.public])
    assert not told.findings
    return [promise.number for promise in told.promises]


def test_only_what_has_moved_is_signed(sqlite: SqliteStore, events: list[Event], path: Path, key: SigningKey) -> None:
    sqlite.ingest(events[:3])
    line = Checkpointer(sqlite, key, path, lambda: AT)
    assert [len(line.make()) for _ in range(3)] == [1, 0, 0]
    sqlite.ingest(events)
    line.make()
    assert numbers(path, key) == [3, 10]


class Rounds(threading.Event):
    """An event that is waited for without waiting: each wait is a turn of the story."""

    def __init__(self, *turns: Any) -> None:
        super().__init__()
        self.turns = list(turns)
        self.waited: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        if self.turns:
            self.turns.pop(0)()
        else:
            self.set()
        return self.is_set()


def test_it_goes_on_and_signs_once_more_at_its_end(
    sqlite: SqliteStore, events: list[Event], path: Path, key: SigningKey
) -> None:
    heard: list[Sequence[dict[str, Any]]] = []
    stop = Rounds()
    stop.turns = [lambda: sqlite.ingest(events[:4]), lambda: None, lambda: sqlite.ingest(events[4:6])]
    Checkpointer(sqlite, key, path, lambda: AT).run(stop, 3600, heard.append)
    assert stop.waited == [3600] * 4
    assert [[each["number"] for each in made] for made in heard] == [[4], [6]]
    assert numbers(path, key) == [4, 6]


def test_trouble_is_told_once_and_what_was_missed_is_signed_later(
    sqlite: SqliteStore, events: list[Event], path: Path, key: SigningKey, caplog: pytest.LogCaptureFixture
) -> None:
    sqlite.ingest(events[:4])
    path.parent.write_text("in the way")
    Checkpointer(sqlite, key, path, lambda: AT).run(
        Rounds(lambda: None, lambda: None, path.parent.unlink, lambda: None), 1, lambda _: None
    )
    assert numbers(path, key) == [4]
    assert len(caplog.records) == 1
    assert "no checkpoint can be made" in caplog.text


def test_a_store_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, events: list[Event], path: Path, key: SigningKey
) -> None:
    store = SqliteStore(tmp_path / "later.db", read_only=True)
    turns = Rounds(lambda: SqliteStore(tmp_path / "later.db").ingest(events))
    Checkpointer(store, key, path, lambda: AT).run(turns, 1, lambda _: None)
    assert numbers(path, key) == [10]

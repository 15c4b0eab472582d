"""`audit tail`: what it shows at once, and what it shows as it arrives, run as the process that users start."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from sentinel_core.audit.events import Event
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

AT = datetime(2026, 11, 25, 6, 30, tzinfo=UTC)


def event(number: int, *, late: int = 0) -> Event:
    """A change that sets `count` to `number`."""
    change = {"action": "change", "resource": "pay", "rule": "flow/pay", "field": "count", "old": 0, "new": number}
    data = json.dumps({"environment": "prod", "author": "chen", "kind": "flow", "changes": [change]}).encode()
    at = AT + timedelta(seconds=number - late)
    return Event(f"{number:08}-event", "/prod/x/flow", "sentinel.rules.changed.v1", "flow", at, data)


@pytest.fixture
def place(here: Path) -> Path:
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")
    return here


@pytest.fixture
def store(place: Path) -> SqliteStore:
    made = SqliteStore(place / "audit.db")
    made.ingest([event(number) for number in range(1, 16)])
    return made


class Following:
    """`audit tail --follow` as a process; its lines as they come."""

    def __init__(self, place: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "audit", "tail", "-f", *arguments],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out, self.err = self._lines(self.process.stdout), self._lines(self.process.stderr)

    def _lines(self, stream: Any) -> Queue[str]:
        lines: Queue[str] = Queue()

        def read() -> None:
            with stream:
                for line in stream:
                    lines.put(line.rstrip("\n"))

        Thread(target=read, daemon=True).start()
        return lines

    def next(self, count: int) -> list[int]:
        """What the next changes set."""
        return [json.loads(self.out.get(timeout=20))["new"] for _ in range(count)]

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


_MAIN = "from sentinel_core.cli.main import main; main()"


@pytest.fixture
def follow(place: Path) -> Iterator[Callable[..., Following]]:
    begun: list[Following] = []

    def begin(*arguments: str) -> Following:
        begun.append(Following(place, *arguments))
        return begun[-1]

    yield begin
    for each in begun:
        each.process.kill()
        each.process.wait(10)


def test_the_newest_are_shown_oldest_first(store: SqliteStore, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "tail", "-o", "ndjson")
    assert (ended.code, ended.err) == (0, "")
    assert [json.loads(line)["new"] for line in ended.out.splitlines()] == list(range(6, 16))
    header, *lines = sentinelctl("audit", "tail", "-n", "2", "--zone", "UTC").out.splitlines()
    assert header.split()[:2] == ["WHEN", "WHO"]
    assert [line.split("0 → ")[1].split()[0] for line in lines] == ["14", "15"]
    ended = sentinelctl("audit", "tail", "count<3", "-o", "json")
    assert [change["new"] for change in json.loads(ended.out)["changes"]] == [1, 2]
    assert sentinelctl("audit", "tail", "-n", "0").out == ""


def test_without_follow_a_store_that_is_not_there_is_an_error(place: Path, sentinelctl: Run) -> None:
    assert sentinelctl("audit", "tail").code == 69


@pytest.mark.parametrize("arguments", [("-o", "json"), ("-o", "yaml"), ("--json-into", "x.json")])
def test_what_has_an_end_is_refused_with_follow(
    store: SqliteStore, sentinelctl: Run, arguments: tuple[str, ...]
) -> None:
    ended = sentinelctl("audit", "tail", "--follow", *arguments)
    assert ended.code == 64
    assert "ndjson" in ended.err


def test_what_arrives_is_shown_within_half_a_second_late_or_not(
    store: SqliteStore, follow: Callable[..., Following]
) -> None:
    tail = follow("-n", "2", "-o", "ndjson")
    assert tail.next(2) == [14, 15]
    for number in range(16, 22):
        store.ingest([event(number, late=1000 * (number % 2))])
        begun = time.monotonic()
        assert tail.next(1) == [number]
        assert time.monotonic() - begun < 0.5 + 1.5, "half a second, on a machine that does other things as well"
    store.ingest([event(number) for number in range(22)])
    assert tail.next(1) == [0]
    assert tail.end() == 130
    assert (tail.out.empty(), tail.err.empty()) == (True, True), "an interrupt is quiet"


def test_lines_for_people_stay_in_their_columns(store: SqliteStore, follow: Callable[..., Following]) -> None:
    tail = follow("-n", "1", "--zone", "UTC")
    first = tail.out.get(timeout=20)
    store.ingest([event(100)])
    second = tail.out.get(timeout=20)
    assert first.startswith("2026-11-25 06:30:15   chen")
    assert first.index("count") == second.index("count")


def test_a_store_that_is_not_there_yet_is_waited_for_and_all_of_it_is_new(
    place: Path, follow: Callable[..., Following]
) -> None:
    tail = follow("-n", "1", "-o", "ndjson")
    assert "there is no audit store yet" in tail.err.get(timeout=20)
    SqliteStore(place / "audit.db").ingest([event(1), event(2), event(3)])
    assert tail.next(3) == [1, 2, 3]
    assert tail.err.get(timeout=20) == "the audit store is there again"
    assert tail.end() == 130


def test_an_outage_is_told_once_and_survived(store: SqliteStore, place: Path, follow: Callable[..., Following]) -> None:
    tail = follow("-n", "1", "-o", "ndjson")
    assert tail.next(1) == [15]
    store.close()
    (place / "audit.db").rename(place / "aside.db")
    assert tail.err.get(timeout=20).startswith("waiting for the audit store: ")
    time.sleep(1)  # several looks
    (place / "aside.db").rename(place / "audit.db")
    assert tail.err.get(timeout=20) == "the audit store is there again"
    store.ingest([event(16)])
    assert tail.next(1) == [16]
    assert tail.err.empty()


def test_a_writer_that_holds_the_store_does_not_hold_the_reader(
    store: SqliteStore, place: Path, follow: Callable[..., Following]
) -> None:
    tail = follow("-n", "1", "-o", "ndjson")
    assert tail.next(1) == [15]
    holding = sqlite3.connect(place / "audit.db", isolation_level=None)
    holding.execute("BEGIN EXCLUSIVE")
    time.sleep(0.6)
    holding.execute("ROLLBACK")
    holding.close()
    store.ingest([event(16)])
    assert tail.next(1) == [16]
    assert tail.err.empty()


def test_it_ends_with_its_reader_even_if_nothing_arrives(store: SqliteStore, process: Run) -> None:
    ended = process(script="$SENTINELCTL audit tail -f -n 1 -o name | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}")
    assert (ended.out.strip(), ended.err) == ("0", "")


def test_waiting_takes_next_to_no_time_of_a_core(store: SqliteStore, follow: Callable[..., Following]) -> None:
    tail = follow("-n", "1", "-o", "ndjson")
    tail.next(1)
    time.sleep(0.5)  # what belongs to the start

    def used() -> float:
        fields = Path(f"/proc/{tail.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    time.sleep(3)
    assert used() - before <= 0.03 + 0.02, "1 % of three seconds, to two ticks of the clock that counts"

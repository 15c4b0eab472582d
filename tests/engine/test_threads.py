"""Many threads at once: counts are exact, limits never overshoot, callers do not wait for each other."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from sentinel_core import Engine, EngineClosed, Entry
from sentinel_core.datasources import MemorySource
from sentinel_core.testing import FakeClock

THREADS = 8


@pytest.fixture(autouse=True)
def often_switched() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(threads)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures


def test_counts_are_exact(engine: Engine) -> None:
    calls = 3_000

    def work(number: int) -> None:
        for turn in range(calls):
            entry = engine.entry("r", origin=f"app-{number % 2}")
            if turn % 3 == 0:
                entry.trace(ValueError())
            entry.exit()

    engine.load_rules("flow", [{"resource": "r", "grade": 1, "count": 10**9, "limitApp": "app-0"}])
    together(work)
    stats = engine.stats("r")
    assert (stats.passed, stats.success, stats.threads) == (THREADS * calls, THREADS * calls, 0)
    assert stats.exception == THREADS * calls // 3


def test_exactly_count_requests_pass(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "r", "grade": 1, "count": 1000}])
    passed = [0] * THREADS

    def work(number: int) -> None:
        for _ in range(500):
            passed[number] += bool(engine.try_entry("r"))

    together(work)
    assert sum(passed) == 1000
    assert engine.stats("r").blocked == THREADS * 500 - 1000


def test_concurrency_never_overshoots(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "r", "grade": 0, "count": 3}])
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 10**9}])
    inside: list[int] = []
    most = [0]

    def work(number: int) -> None:
        for _ in range(1500):
            entry = engine.try_entry("r", args=("a",))
            if isinstance(entry, Entry):
                inside.append(number)
                most[0] = max(most[0], len(inside))
                inside.pop()
                entry.exit()

    together(work)
    assert 0 < most[0] <= 3
    assert engine.stats("r").threads == 0


def test_one_probe_of_a_hundred_callers(engine: Engine, clock: FakeClock, fails: Callable[..., int]) -> None:
    """E06"""
    engine.load_rules("degrade", [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}])
    fails(1, "r")
    clock.advance(ms=1000)
    entered: list[Entry] = []

    def work(_number: int) -> None:
        for _ in range(13):
            entry = engine.try_entry("r")
            if isinstance(entry, Entry):
                entered.append(entry)

    together(work)
    assert len(entered) == 1


def test_calls_run_side_by_side() -> None:
    """E21: no lock is held while a caller's code runs."""
    engine = Engine()
    engine.load_rules("degrade", [{"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 1}])

    def work(_number: int) -> None:
        with engine.entry("r"):
            time.sleep(0.1)

    began = time.monotonic()
    together(work, threads=10)
    assert time.monotonic() - began < 0.5
    assert engine.breakers("r")[0]["total"] == 10


def test_first_calls_of_many_resources_at_once(engine: Engine) -> None:
    def work(_number: int) -> None:
        for number in range(300):
            engine.entry(f"r{number}").exit()

    together(work)
    assert all(engine.stats(f"r{number}").success == THREADS for number in range(300))


def test_a_store_that_is_named_while_the_engine_is_closed_is_not_followed() -> None:
    engine = Engine(app="app")

    class Closing(MemorySource):
        def items(self, kinds: Sequence[str]) -> Any:
            engine.close()
            return super().items(kinds)

    with pytest.raises(EngineClosed):
        engine.subscribe("flow", Closing())
    assert not [each.name for each in threading.enumerate() if each.name.startswith("sentinel-worker")]

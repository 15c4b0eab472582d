"""Sources do not wait for each other, and nothing outlives the engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sentinel_core import Engine
from sentinel_core.collectors.refresher import READERS
from tests.services.server import wait_until


class Counter:
    """Gives how often it was read."""

    metric = "READS"
    every_s = 0.02

    def __init__(self) -> None:
        self.reads = 0
        self.closed = 0
        self.moments: list[float] = []

    def collect(self) -> dict[str, float]:
        self.reads += 1
        self.moments.append(time.monotonic())
        return {"": self.reads}

    def close(self) -> None:
        self.closed += 1


class Hanging(Counter):
    """Answers nobody before it is let go."""

    def __init__(self, let_go: threading.Event) -> None:
        super().__init__()
        self.let_go = let_go

    def collect(self) -> dict[str, float]:
        self.reads += 1
        self.let_go.wait(30)
        return {"": 1}


@contextmanager
def hanging(engine: Engine, number: int) -> Iterator[list[Hanging]]:
    let_go = threading.Event()
    collectors = [Hanging(let_go) for _ in range(number)]
    for collector in collectors:
        engine.collectors.register(collector)
    try:
        yield collectors
    finally:
        let_go.set()


def readers() -> int:
    return sum(thread.name == "sentinel-collectors" for thread in threading.enumerate())


@pytest.fixture
def engine() -> Iterator[Engine]:
    before = readers()
    with Engine(app="test") as made:
        yield made
    assert wait_until(lambda: readers() <= before), "no thread outlives the engine"


def test_no_thread_before_the_first_collector(engine: Engine) -> None:
    before = readers()
    engine.collectors.register(Counter(), thread=False)
    assert readers() == before


def test_the_first_read_is_at_once_and_the_next_ones_at_its_pace(engine: Engine) -> None:
    counter = Counter()
    begun = time.monotonic()
    engine.collectors.register(counter, every_s=0.2)
    assert wait_until(lambda: counter.reads >= 4)
    assert counter.moments[0] - begun < 0.19
    gaps = [later - earlier for earlier, later in zip(counter.moments[1:], counter.moments[2:], strict=False)]
    assert min(gaps) > 0.179


def test_a_source_that_hangs_delays_no_other(engine: Engine) -> None:
    with hanging(engine, READERS - 1) as stuck:
        assert wait_until(lambda: all(each.reads for each in stuck))
        counter = Counter()
        engine.collectors.register(counter)
        assert wait_until(lambda: counter.reads > 5)
        assert all(each.reads == 1 for each in stuck)


def test_many_quick_sources_share_few_threads(engine: Engine) -> None:
    before = readers()
    counters = [Counter() for _ in range(40)]
    for counter in counters:
        engine.collectors.register(counter)
    assert wait_until(lambda: all(counter.reads > 2 for counter in counters))
    assert readers() - before <= READERS


def test_threads_are_bounded_and_what_hung_goes_on(engine: Engine) -> None:
    before = readers()
    with hanging(engine, READERS + 3) as stuck:
        assert wait_until(lambda: sum(each.reads for each in stuck) == READERS)
        assert readers() - before == READERS
    assert wait_until(lambda: all(each.reads > 1 for each in stuck))


def test_close_waits_no_longer_than_a_second_for_one_that_hangs() -> None:
    engine = Engine(app="test")
    counter = Counter()
    engine.collectors.register(counter)
    with hanging(engine, 1) as (stuck,):
        assert wait_until(lambda: stuck.reads == 1 and counter.reads > 1)
        begun = time.monotonic()
        engine.close()
        assert time.monotonic() - begun < 1.5
        assert (counter.closed, stuck.closed) == (1, 0)
    assert wait_until(lambda: stuck.closed == 1), "its reader closes it"
    assert counter.reads == len(counter.moments)


def test_a_removed_collector_is_closed_and_read_no_more(engine: Engine) -> None:
    counter = Counter()
    engine.collectors.register(counter)
    assert wait_until(lambda: counter.reads > 1)
    engine.collectors.remove(counter)
    assert wait_until(lambda: counter.closed == 1)
    reads = counter.reads
    time.sleep(0.1)
    assert counter.reads == reads
    assert engine.collectors.status() == ()


def test_one_collector_is_never_read_twice_at_a_time(engine: Engine) -> None:
    inside = threading.Semaphore(1)
    clashes = []

    class Slow(Counter):
        def collect(self) -> dict[str, float]:
            if not inside.acquire(blocking=False):
                clashes.append(1)
            time.sleep(0.002)
            inside.release()
            return super().collect()

    slow = Slow()
    engine.collectors.register(slow, every_s=0.01)
    for _ in range(20):
        engine.collectors.refresh()
    assert slow.reads >= 20
    assert clashes == []

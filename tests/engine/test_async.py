"""Async code: cancellation, streams closed elsewhere, waiting without holding the loop."""

from __future__ import annotations

import asyncio
import gc
import types
from collections.abc import AsyncIterator, Generator, Iterator

import pytest

from sentinel_core import Engine, FlowException, guard, trace
from sentinel_core.clock import Clock
from sentinel_core.testing import FakeClock


async def test_a_task_cancelled_between_enter_and_exit_leaves_nothing(engine: Engine) -> None:
    """E15: concurrency is back to 0, nothing failed, and the next request is clean."""
    engine.load_rules("flow", [{"resource": "r", "grade": 0, "count": 1}])
    inside = asyncio.Event()

    async def work() -> None:
        async with engine.aentry("r"):
            inside.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(work())
    await inside.wait()
    assert not engine.try_entry("r")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.stats("r").threads == 0
    assert engine.stats("r").exception == 0
    assert engine.try_entry("r")


async def test_a_task_cancelled_while_it_queues_gives_back_its_probe() -> None:
    started = asyncio.Event()

    async def forever(_ns: int) -> None:
        started.set()
        await asyncio.sleep(3600)

    time = FakeClock()
    clock = Clock(lambda: time.now_ns, time.wall, time.sleep, forever)
    engine = Engine(clock=clock)
    engine.load_rules("degrade", [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}])
    engine.load_rules(
        "param_flow",
        [{"resource": "r", "paramIdx": 0, "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 5000}],
    )
    failing = engine.entry("r", args=("a",))
    failing.trace(ValueError())
    failing.exit()
    time.advance(ms=1000)

    async def work() -> None:
        async with engine.aentry("r", args=("a",), count=2):
            pass

    task = asyncio.create_task(work())
    await started.wait()
    assert engine.breakers("r")[0]["state"] == "HALF_OPEN"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.breakers("r")[0]["state"] == "OPEN"
    assert engine.stats("r").threads == 0


@pytest.mark.parametrize("sort", ["aentry", "coroutine", "stream"])
async def test_a_task_cancelled_while_it_queues_was_never_inside(sort: str) -> None:
    started = asyncio.Event()

    async def forever(_ns: int) -> None:
        started.set()
        await asyncio.sleep(3600)

    time = FakeClock()
    engine = Engine(clock=Clock(lambda: time.now_ns, time.wall, time.sleep, forever))
    engine.load_rules("flow", [{"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 5000}])
    engine.entry("r").exit()

    @engine.guard("r", fallback=lambda _error: pytest.fail("a cancellation is no failure"))
    async def coroutine() -> None:
        pytest.fail("nothing runs")

    @engine.guard("r", fallback=lambda _error: pytest.fail("a cancellation is no failure"))
    async def stream() -> AsyncIterator[int]:
        yield pytest.fail("nothing runs")

    async def work() -> None:
        if sort == "aentry":
            async with engine.aentry("r"):
                pytest.fail("nothing runs")
        elif sort == "coroutine":
            await coroutine()
        else:
            async for _ in stream():
                pass

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stats = engine.stats("r")
    assert (stats.threads, stats.exception) == (0, 0)


@types.coroutine
def suspended(_ns: int) -> Generator[None]:
    yield


@pytest.mark.parametrize("leave", ["close", "drop"])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_coroutine_that_is_given_up_while_it_queues_gives_back_its_probe(leave: str, guarded: bool) -> None:
    time = FakeClock()
    engine = Engine(clock=Clock(lambda: time.now_ns, time.wall, time.sleep, suspended))
    engine.load_rules("degrade", [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}])
    queue = {"resource": "r", "paramIdx": 0, "count": 1, "durationInSec": 10, "controlBehavior": 2}
    engine.load_rules("param_flow", [{**queue, "maxQueueingTimeMs": 60_000}])
    failing = engine.entry("r", args=("a",))
    failing.trace(ValueError())
    failing.exit()
    time.advance(ms=1000)

    async def by_hand(value: str) -> None:
        async with engine.aentry("r", args=(value,)):
            pytest.fail("nothing runs")

    @engine.guard("r")
    async def by_guard(value: str) -> None:
        pytest.fail("nothing runs")

    running = (by_guard if guarded else by_hand)("a")
    running.send(None)
    assert engine.breakers("r")[0]["state"] == "HALF_OPEN"
    if leave == "close":
        running.close()
    del running
    assert engine.breakers("r")[0]["state"] == "OPEN"
    assert engine.stats("r").threads == 0


async def test_an_aentry_serves_one_call_at_a_time(engine: Engine) -> None:
    shared = engine.aentry("r")
    async with shared:
        with pytest.raises(RuntimeError, match="write aentry"):
            await shared.__aenter__()
        assert engine.stats("r").threads == 1
    assert engine.stats("r").threads == 0
    async with shared:
        assert engine.stats("r").threads == 1
    engine.load_rules("flow", [{"resource": "r", "count": 0}])
    for _ in range(2):
        with pytest.raises(FlowException):
            await shared.__aenter__()


async def test_entries_of_tasks_do_not_mix(engine: Engine) -> None:
    async def work(name: str, failing: bool) -> None:
        async with engine.aentry(name):
            await asyncio.sleep(0)
            if failing:
                trace(ValueError("handled"))
            await asyncio.sleep(0)

    await asyncio.gather(*(work(f"r{number}", number % 2 == 0) for number in range(10)))
    assert [engine.stats(f"r{number}").exception for number in range(10)] == [1, 0] * 5


async def test_a_block_is_raised_inside_the_statement(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "r", "grade": 1, "count": 0}])
    with pytest.raises(FlowException):
        async with engine.aentry("r"):
            pytest.fail("nothing runs")


async def test_a_stream_closed_by_the_collector_is_left(engine: Engine) -> None:
    """E15: the generator's exit runs in another context than its entry."""

    @guard("stream", engine=engine)
    async def stream() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def consume() -> None:
        async for _ in stream():
            break

    await asyncio.create_task(consume())
    gc.collect()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert engine.stats("stream").threads == 0
    assert engine.stats("stream").exception == 0


def test_a_generator_abandoned_in_another_thread_is_left(engine: Engine) -> None:
    @guard("rows", engine=engine)
    def rows() -> Iterator[int]:
        yield 1
        yield 2

    first = rows()
    next(first)
    assert engine.stats("rows").threads == 1
    del first
    gc.collect()
    assert engine.stats("rows").threads == 0


async def test_waiting_does_not_hold_the_loop() -> None:
    engine = Engine()
    engine.load_rules(
        "flow", [{"resource": "r", "grade": 1, "count": 50, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]
    )

    async def work() -> None:
        async with engine.aentry("r"):
            pass

    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(work() for _ in range(4)))
    assert 0.05 < loop.time() - began < 0.5

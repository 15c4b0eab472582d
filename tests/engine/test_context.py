"""What a request says of itself (channel, tenant) reaches every place its work is done, and no other request's.

The trap is a value kept by thread: a pool's threads work for one request after the other, and a task of an event loop
shares its thread with all others.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from sentinel_core import Engine, context
from sentinel_core.context import Context, current, wrap

Decide = Callable[[], bool]
Run = Callable[[Decide], bool]


@pytest.fixture
def decide(engine: Engine) -> Decide:
    """Whether a call passes here: the card channel is broken, all others are well."""
    rule = {"resource": "pay", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5, "dimension": "channel"}
    engine.load_rules("biz_metric", [rule])
    engine.report("PAY_FAIL_RATE", ok=False, resource="pay", dimension="card", count=10)
    return lambda: bool(engine.try_entry("pay"))


def in_thread(work: Decide) -> bool:
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def answer() -> None:
        answers.put(work())

    thread = threading.Thread(target=wrap(answer))
    thread.start()
    thread.join()
    return answers.get_nowait()


def in_pool(work: Decide) -> bool:
    with ThreadPoolExecutor(1) as pool:
        answer: bool = pool.submit(wrap(work)).result()
    return answer


def mapped_in_pool(work: Decide) -> bool:
    bound = wrap(work)
    with ThreadPoolExecutor(3) as pool:
        answers = set(pool.map(lambda _: bound(), range(20)))
    return answers == {True}


def in_callback(work: Decide) -> bool:
    done: Future[None] = Future()
    answers: list[bool] = []
    bound = wrap(work)
    done.add_done_callback(lambda _: answers.append(bound()))
    thread = threading.Thread(target=done.set_result, args=(None,))
    thread.start()
    thread.join()
    return answers[0]


def in_timer(work: Decide) -> bool:
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def answer() -> None:
        answers.put(work())

    threading.Timer(0, wrap(answer)).start()
    return answers.get(timeout=5)


def in_loop(start: Callable[[Decide], Any]) -> Run:
    async def main(work: Decide) -> bool:
        answer: bool = await start(work)
        return answer

    run: Run = lambda work: asyncio.run(main(work))  # noqa: E731 (one of a list)
    run.__name__ = start.__name__
    return run


async def in_task(work: Decide) -> bool:
    async def task() -> bool:
        await asyncio.sleep(0)
        return work()

    return await asyncio.create_task(task())


async def in_task_group(work: Decide) -> bool:
    async def task() -> bool:
        return work()

    async with asyncio.TaskGroup() as group:
        made = group.create_task(task())
    return made.result()


async def to_thread(work: Decide) -> bool:
    return await asyncio.to_thread(work)


async def in_executor(work: Decide) -> bool:
    return await asyncio.get_running_loop().run_in_executor(None, wrap(work))


async def call_soon(work: Decide) -> bool:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()
    loop.call_soon(lambda: answer.set_result(work()))
    return await answer


RUNS: list[Run] = [in_thread, in_pool, mapped_in_pool, in_callback, in_timer]
RUNS += map(in_loop, (in_task, in_task_group, to_thread, in_executor, call_soon))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.__name__))
def test_the_channel_of_a_request_reaches(decide: Decide, run: Run) -> None:
    with context("checkout", tags={"channel": "card"}):
        assert not run(decide)
    with context("checkout", tags={"channel": "transfer"}):
        assert run(decide)


def test_a_thread_of_a_pool_forgets_the_request_before(decide: Decide) -> None:
    with ThreadPoolExecutor(1) as pool:
        with context(tags={"channel": "card"}):
            assert not pool.submit(wrap(decide)).result()
        assert pool.submit(decide).result(), "the same thread, for nobody"
        with context(tags={"channel": "transfer"}):
            assert pool.submit(wrap(decide)).result()


async def test_requests_that_share_a_loop_do_not_mix(decide: Decide) -> None:
    async def request(channel: str) -> bool:
        with context(tags={"channel": channel}):
            await asyncio.sleep(0)
            return decide()

    assert await asyncio.gather(*map(request, ("card", "transfer") * 20)) == [False, True] * 20


async def test_a_wrapped_coroutine_function_keeps_its_request_whoever_awaits_it(decide: Decide) -> None:
    async def work() -> bool:
        await asyncio.sleep(0)
        return decide()

    with context(tags={"channel": "card"}):
        later = wrap(work)
    with context(tags={"channel": "transfer"}):
        assert not await later()
        assert await work()


def test_one_context_serves_many_blocks_one_in_another_and_at_once() -> None:
    api = context("api")
    with context("outer", origin="web"):
        with api as inner:
            assert (inner.name, inner.origin) == ("api", "web")
            with api:
                pass
            assert current() == inner
        assert current() == Context("outer", "web")
    assert current() is None

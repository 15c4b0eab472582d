"""Guarded generators and async generators: what is sent, thrown, closed and dropped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from sentinel_core import Engine, FlowException, trace

NONE = [{"resource": "r", "count": 0}]


class Echo:
    """Generators that give back what they are sent, answer what is thrown, and tell how often they were closed."""

    def __init__(self) -> None:
        self.closed = 0

    def items(self) -> Generator[Any, Any, str]:
        given: Any = "first"
        try:
            while given != "end":
                try:
                    given = yield given
                except KeyError as error:
                    given = repr(error)
        finally:
            self.closed += 1
        return "returned"

    async def stream(self) -> AsyncGenerator[Any, Any]:
        given: Any = "first"
        try:
            while given != "end":
                try:
                    given = yield given
                except KeyError as error:
                    given = repr(error)
        finally:
            await asyncio.sleep(0)
            self.closed += 1


@pytest.fixture
def echo() -> Echo:
    return Echo()


def test_a_generator_is_sent_and_thrown_what_its_consumer_sends_and_throws(engine: Engine, echo: Echo) -> None:
    running = engine.guard("r")(echo.items)()
    assert next(running) == "first"
    assert running.send(7) == 7
    assert running.throw(KeyError("x")) == "KeyError('x')"
    with pytest.raises(StopIteration, match="returned"):
        running.send("end")
    assert echo.closed == 1
    assert engine.stats("r").threads == engine.stats("r").exception == 0


async def test_an_async_generator_too(engine: Engine, echo: Echo) -> None:
    running = engine.guard("r")(echo.stream)()
    assert await anext(running) == "first"
    assert await running.asend(7) == 7
    assert await running.athrow(KeyError("x")) == "KeyError('x')"
    with pytest.raises(StopAsyncIteration):
        await running.asend("end")
    assert echo.closed == 1
    assert engine.stats("r").threads == engine.stats("r").exception == 0


@pytest.mark.parametrize("thrown", [ValueError("thrown"), StopIteration("early"), StopAsyncIteration("early")])
async def test_what_a_generator_does_not_answer_comes_out_and_counts_as_its_failure(
    engine: Engine, echo: Echo, thrown: Exception
) -> None:
    items, stream = engine.guard("r")(echo.items)(), engine.guard("r")(echo.stream)()
    next(items)
    await anext(stream)
    with pytest.raises((ValueError, RuntimeError, StopAsyncIteration)):
        items.throw(thrown)
    with pytest.raises((ValueError, RuntimeError)):
        await stream.athrow(thrown)
    assert (engine.stats("r").exception, engine.stats("r").threads) == (2, 0)
    assert echo.closed == 2


async def test_a_closed_stream_closes_its_function_once_and_says_nothing_about_health(
    engine: Engine, echo: Echo
) -> None:
    items, stream = engine.guard("r")(echo.items)(), engine.guard("r")(echo.stream)()
    next(items)
    await anext(stream)
    assert engine.stats("r").threads == 2
    items.close()
    await stream.aclose()
    await stream.aclose()
    assert echo.closed == 2
    assert (engine.stats("r").exception, engine.stats("r").threads) == (0, 0)


async def test_a_stream_that_was_never_begun_was_never_inside(engine: Engine, echo: Echo) -> None:
    engine.guard("r")(echo.items)().close()
    await engine.guard("r")(echo.stream)().aclose()
    assert engine.stats("r").passed == echo.closed == 0


async def test_one_that_will_not_close_is_told_so_and_left(engine: Engine) -> None:
    @engine.guard("r")
    async def stubborn() -> AsyncIterator[int]:
        with contextlib.suppress(GeneratorExit):
            yield 1
        yield 2

    @engine.guard("r")
    def as_stubborn() -> Iterator[int]:
        with contextlib.suppress(GeneratorExit):
            yield 1
        yield 2

    running, other = stubborn(), as_stubborn()
    await anext(running)
    next(other)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        await running.aclose()  # type: ignore[attr-defined]  # the annotation says less than the function does
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        other.close()  # type: ignore[attr-defined]  # as above
    assert engine.stats("r").threads == 0


async def test_a_failure_while_it_is_closed_asks_for_no_answer(engine: Engine) -> None:
    @engine.guard("r", fallback=lambda _error: pytest.fail("nobody waits for an answer"))
    def items() -> Iterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("while closing")

    @engine.guard("r", fallback=lambda _error: pytest.fail("nobody waits for an answer"))
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("while closing")

    running, flowing = items(), stream()
    next(running)
    await anext(flowing)
    with pytest.raises(ValueError, match="while closing"):
        running.close()  # type: ignore[attr-defined]  # the annotation says less than the function does
    with pytest.raises(ValueError, match="while closing"):
        await flowing.aclose()  # type: ignore[attr-defined]  # as above
    assert (engine.stats("r").exception, engine.stats("r").threads) == (0, 0)


def test_a_failure_inside_anothers_cleanup_is_still_answered(engine: Engine) -> None:
    answered: list[list[str]] = []

    @engine.guard("r", fallback=lambda _error: ["sorry"])
    def failing() -> Iterator[str]:
        yield "one"
        raise ValueError

    def consumer() -> Iterator[int]:
        try:
            yield 1
        finally:
            answered.append(list(failing()))

    running = consumer()
    next(running)
    running.close()  # type: ignore[attr-defined]  # the annotation says less than the function does
    assert answered == [["one", "sorry"]]


async def test_the_fallbacks_items_take_the_place_of_those_that_are_left(engine: Engine) -> None:
    @engine.guard("r", fallback=lambda error: [str(error)])
    def items() -> Iterator[str]:
        yield "one"
        raise ValueError("broken")

    async def sorry(error: Exception) -> AsyncIterator[str]:
        yield str(error)

    @engine.guard("r", fallback=sorry)
    async def stream() -> AsyncIterator[str]:
        yield "one"
        raise ValueError("broken")

    assert list(items()) == ["one", "broken"]
    assert [item async for item in stream()] == ["one", "broken"]
    assert engine.stats("r").exception == 2


@pytest.mark.parametrize("answer", [lambda _error: None, lambda _error: 503])
async def test_an_answer_that_is_no_stream_is_refused_in_words(engine: Engine, answer: Callable[..., Any]) -> None:
    engine.load_rules("flow", NONE)
    echo = Echo()
    with pytest.raises(TypeError, match="return an iterable"):
        next(engine.guard("r", block_handler=answer)(echo.items)())
    with pytest.raises(TypeError, match="return an iterable"):
        await anext(engine.guard("r", block_handler=answer)(echo.stream)())


async def test_an_async_generator_takes_every_kind_of_answer(engine: Engine) -> None:
    engine.load_rules("flow", NONE)

    async def awaited(_error: Exception) -> list[str]:
        return ["sorry"]

    async def streamed(_error: Exception) -> AsyncIterator[str]:
        yield "sorry"

    for handler in (awaited, streamed, lambda _error: ["sorry"]):
        stream = engine.guard("r", block_handler=handler)(Echo().stream)
        assert [item async for item in stream()] == ["sorry"]


async def test_context_managers_are_made_of_guarded_generators(engine: Engine) -> None:
    @contextlib.contextmanager
    @engine.guard("r")
    def session() -> Iterator[int]:
        yield 1

    @contextlib.asynccontextmanager
    @engine.guard("r")
    async def async_session() -> AsyncIterator[int]:
        yield 1

    with session() as one:
        assert (one, engine.stats("r").threads) == (1, 1)
    with pytest.raises(KeyError), session():
        raise KeyError
    with pytest.raises(KeyError):
        async with async_session():
            raise KeyError
    assert (engine.stats("r").exception, engine.stats("r").threads) == (2, 0)


def test_a_generator_dropped_half_way_through_the_fallbacks_items_is_left(engine: Engine) -> None:
    @engine.guard("r", fallback=lambda _error: iter("ab"))
    def items() -> Iterator[str]:
        yield from [str(int("no number"))]

    running = items()
    assert next(running) == "a"
    assert engine.stats("r").threads == 1
    del running
    gc.collect()
    assert (engine.stats("r").exception, engine.stats("r").threads) == (1, 0)


async def test_a_task_cancelled_inside_a_stream_leaves_it(engine: Engine) -> None:
    inside = asyncio.Event()

    @engine.guard("r", fallback=lambda _error: pytest.fail("a cancellation is no failure"))
    async def stream() -> AsyncIterator[int]:
        inside.set()
        await asyncio.sleep(3600)
        yield 1

    async def consume() -> None:
        async for _ in stream():
            pass

    task = asyncio.create_task(consume())
    await inside.wait()
    assert engine.stats("r").threads == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (engine.stats("r").exception, engine.stats("r").threads) == (0, 0)


def test_a_generators_entry_is_not_the_one_that_its_consumer_traces(engine: Engine, echo: Echo) -> None:
    with engine.entry("outer"):
        running = engine.guard("r")(echo.items)()
        next(running)
        trace(ValueError())
        running.close()
    assert (engine.stats("outer").exception, engine.stats("r").exception) == (1, 0)


async def test_what_returns_a_stream_is_guarded_until_it_returns(engine: Engine, echo: Echo) -> None:
    @engine.guard("r")
    def opened() -> Iterator[Any]:
        return echo.items()

    running = opened()
    assert engine.stats("r").threads == 0, "the call is over"
    assert next(running) == "first"
    engine.load_rules("flow", NONE)
    with pytest.raises(FlowException):
        opened()

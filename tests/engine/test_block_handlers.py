"""One place for the answers to refused calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sentinel_core import (
    AuthorityException,
    BlockException,
    Engine,
    FlowException,
    guard,
    register_block_handler,
    set_default_engine,
)


@pytest.fixture
def closed(engine: Engine) -> Engine:
    """An engine that refuses every call of `r`."""
    engine.load_rules("flow", [{"resource": "r", "count": 0}])
    return engine


def too_many(block: FlowException) -> str:
    return f"429 {block.resource}"


def unavailable(block: BlockException) -> str:
    return f"503 {block.kind}"


def call(engine: Engine, **options: Any) -> str:
    @guard("r", engine=engine, **options)
    def function() -> str:
        return "called"

    return function()


def test_the_nearest_class_answers(closed: Engine) -> None:
    closed.register_block_handler({BlockException: unavailable, FlowException: too_many})
    assert call(closed) == "429 r"
    closed.load_rules("authority", [{"resource": "r", "limitApp": "web"}])
    assert call(closed) == "503 authority"


def test_without_a_matching_handler_the_exception_is_raised(closed: Engine) -> None:
    closed.register_block_handler({AuthorityException: unavailable})
    with pytest.raises(FlowException):
        call(closed)


def test_what_a_guard_says_itself_goes_first(closed: Engine) -> None:
    closed.register_block_handler({BlockException: unavailable})
    assert call(closed, block_handler=lambda _block: "own") == "own"
    assert call(closed, fallback=lambda _error: "own") == "own"


def test_a_later_handler_of_a_class_replaces_the_earlier_one(closed: Engine) -> None:
    closed.register_block_handler({BlockException: unavailable})
    closed.register_block_handler({BlockException: lambda _block: "later"})
    assert call(closed) == "later"


def test_a_handler_may_raise_what_the_framework_understands(closed: Engine) -> None:
    def refuse(block: BlockException) -> None:
        raise PermissionError(block.resource)

    closed.register_block_handler({BlockException: refuse})
    with pytest.raises(PermissionError, match="r"):
        call(closed)


def test_refusals_of_inner_calls_are_not_answered_by_the_registered_handler(closed: Engine) -> None:
    """Its answer is for who asked: the inner call had no guard, so its exception is its answer."""
    closed.register_block_handler({BlockException: unavailable})

    @guard("outer", engine=closed)
    def outer() -> None:
        closed.entry("r")

    with pytest.raises(FlowException):
        outer()


async def answers(engine: Engine, **options: Any) -> list[str]:
    """What guarded functions of all four sorts answer, when a call inside of them is refused."""
    guarded = engine.guard("outer", **options)

    @guarded
    def plain() -> str:
        engine.entry("r")
        return "never"

    @guarded
    async def coroutine() -> str:
        async with engine.aentry("r"):
            return "never"

    @guarded
    def generator() -> Iterator[str]:
        with engine.entry("r"):
            yield "never"

    @guarded
    async def stream() -> AsyncIterator[str]:
        async with engine.aentry("r"):
            yield "never"

    return [plain(), await coroutine(), "".join(generator()), "".join([item async for item in stream()])]


async def test_refusals_of_inner_calls_are_answered_by_a_guards_own_block_handler(closed: Engine) -> None:
    """As @SentinelResource has it: whatever block comes out of the function, blockHandler answers."""
    assert await answers(closed, block_handler=too_many) == ["429 r"] * 4
    assert await answers(closed, fallback=too_many) == ["429 r"] * 4
    assert await answers(closed, block_handler=too_many, fallback=unavailable) == ["429 r"] * 4
    assert await answers(closed, block_handler=too_many, ignore=Exception) == ["429 r"] * 4
    stats = closed.stats("outer")
    assert (stats.passed, stats.exception, stats.threads) == (16, 0, 0), "a block is no failure"


async def test_without_an_own_handler_refusals_of_inner_calls_are_raised(closed: Engine) -> None:
    closed.register_block_handler({BlockException: unavailable})
    with pytest.raises(FlowException):
        await answers(closed)


def test_a_handler_counts_whatever_its_truth(closed: Engine) -> None:
    class Empty(list[str]):
        def __call__(self, block: BlockException) -> str:
            return "answered"

    assert call(closed, block_handler=Empty()) == "answered"
    assert call(closed, fallback=Empty()) == "answered"


@pytest.mark.parametrize("sort", ["plain", "generator"])
def test_a_registered_async_handler_cannot_answer_for_code_that_is_not(closed: Engine, sort: str) -> None:
    async def later(block: BlockException) -> list[str]:
        return []

    @guard("r", engine=closed)
    def plain() -> str:
        return "called"

    @guard("r", engine=closed)
    def generator() -> Iterator[str]:
        yield "called"

    closed.register_block_handler({BlockException: later})
    with pytest.raises(TypeError, match=r"registered for FlowException is async.*register a plain function") as caught:
        plain() if sort == "plain" else list(generator())
    assert isinstance(caught.value.__cause__, FlowException)


async def test_coroutines_and_generators_are_answered_too(closed: Engine) -> None:
    async def later(block: BlockException) -> list[str]:
        return [f"503 {block.kind}"]

    @guard("r", engine=closed)
    async def coroutine() -> list[str]:
        return []

    @guard("r", engine=closed)
    def generator() -> Iterator[str]:
        yield "called"

    closed.register_block_handler({BlockException: later})
    assert await coroutine() == ["503 flow"]
    closed.register_block_handler({BlockException: lambda _block: ["sorry"]})
    assert list(generator()) == ["sorry"]


async def test_async_generators_are_answered_too(closed: Engine) -> None:
    @guard("r", engine=closed)
    async def generator() -> AsyncIterator[str]:
        yield "called"

    async def sorry(_block: BlockException) -> AsyncIterator[str]:
        async def items() -> AsyncIterator[str]:
            yield "sorry"

        return items()

    closed.register_block_handler({BlockException: sorry})
    assert [item async for item in generator()] == ["sorry"]


def test_the_module_speaks_of_the_default_engine(closed: Engine) -> None:
    before = set_default_engine(closed)
    try:
        register_block_handler({BlockException: unavailable})
        assert guard("r")(str)() == "503 flow"
    finally:
        set_default_engine(before)


@pytest.mark.parametrize("handlers", [{ValueError: unavailable}, {FlowException: "429"}, {"flow": unavailable}])
def test_what_cannot_answer_is_refused(engine: Engine, handlers: Any) -> None:
    with pytest.raises(TypeError, match="write"):
        engine.register_block_handler(handlers)

"""`guard` on every sort of function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from sentinel_core import BlockException, Engine, FlowException, guard

NONE = [{"resource": "r", "grade": 1, "count": 0}]


def test_a_function_is_a_resource_under_its_own_name(engine: Engine) -> None:
    @guard(engine=engine)
    def pay(amount: int) -> int:
        """Pays."""
        return amount

    assert pay(3) == 3
    assert pay.__doc__ == "Pays."
    (name,) = engine.resources()
    assert name.endswith("pay")


def test_the_block_handler_answers_for_refused_calls(engine: Engine) -> None:
    @guard("r", engine=engine, block_handler=lambda amount, error: f"{amount}: {type(error).__name__}")
    def pay(amount: int) -> str:
        if amount < 0:
            raise ValueError(amount)
        return "paid"

    assert pay(1) == "paid"
    with pytest.raises(ValueError, match="-1"):
        pay(-1)
    engine.load_rules("flow", NONE)
    assert pay(2) == "2: FlowException"


def test_the_fallback_answers_for_failures_and_blocks(engine: Engine) -> None:
    @guard("r", engine=engine, fallback=lambda error: type(error).__name__)
    def work() -> str:
        raise KeyError("x")

    assert work() == "KeyError"
    assert engine.stats("r").exception == 1
    engine.load_rules("flow", NONE)
    assert work() == "FlowException"


def test_ignored_exceptions_are_no_failures(engine: Engine) -> None:
    @guard("r", engine=engine, ignore=(KeyError,), fallback=lambda _error: "never")
    def work() -> str:
        raise KeyError("x")

    with pytest.raises(KeyError):
        work()
    assert engine.stats("r").exception == 0


def test_a_block_without_a_handler_is_raised(engine: Engine) -> None:
    engine.load_rules("flow", NONE)

    @guard("r", engine=engine)
    def work() -> None:
        pytest.fail("nothing runs")

    with pytest.raises(FlowException):
        work()


async def test_a_coroutine_function(engine: Engine) -> None:
    async def handler(_number: int, error: BlockException) -> str:
        return error.kind

    @guard("r", engine=engine, block_handler=handler)
    async def work(number: int) -> str:
        if not number:
            raise ValueError("zero")
        return str(number)

    assert await work(7) == "7"
    with pytest.raises(ValueError, match="zero"):
        await work(0)
    assert engine.stats("r").exception == 1
    engine.load_rules("flow", NONE)
    assert await work(7) == "flow"


async def test_an_async_fallback(engine: Engine) -> None:
    async def fallback(error: Exception) -> str:
        return str(error)

    @guard("r", engine=engine, fallback=fallback)
    async def work() -> str:
        raise ValueError("broken")

    assert await work() == "broken"
    assert engine.stats("r").exception == 1


def test_a_generator_is_inside_until_it_ends(engine: Engine) -> None:
    @guard("r", engine=engine, block_handler=lambda _error: iter([0]))
    def rows() -> Iterator[int]:
        yield 1
        yield 2

    running = rows()
    assert engine.stats("r").threads == 0, "nothing has begun"
    next(running)
    assert engine.stats("r").threads == 1
    assert list(running) == [2]
    assert engine.stats("r").threads == 0
    engine.load_rules("flow", NONE)
    assert list(rows()) == [0]


async def test_an_async_generator_records_its_failure(engine: Engine) -> None:
    @guard("r", engine=engine)
    async def rows() -> AsyncIterator[int]:
        yield 1
        raise ValueError("second")

    running = rows()
    assert await anext(running) == 1
    with pytest.raises(ValueError, match="second"):
        await anext(running)
    assert engine.stats("r").exception == 1
    assert engine.stats("r").threads == 0


def test_arguments_reach_hot_parameter_rules(engine: Engine) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1}])

    @guard("r", engine=engine)
    def user(name: str) -> str:
        return name

    assert [user("a"), user("b")] == ["a", "b"]
    with pytest.raises(BlockException):
        user("a")

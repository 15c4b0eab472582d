"""`guard` on every sort of function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sentinel_core import BlockException, Engine, FlowException, guard, trace
from sentinel_core.testing import FakeClock

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


def test_rules_see_arguments_however_they_are_given(engine: Engine) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 1, "count": 1}])

    @guard("r", engine=engine)
    def order(shop: str, item: str = "tea", *more: str, note: str = "") -> str:
        return item

    assert order("s", "coffee") == "coffee"
    with pytest.raises(BlockException):
        order(item="coffee", shop="s", note="by keyword")
    assert order("s") == "tea"
    with pytest.raises(BlockException):
        order("s", "tea", "and more")


def test_handlers_get_every_positional_argument_in_its_place(engine: Engine) -> None:
    def sorry(shop: str, item: str, error: Exception, *, note: str = "") -> tuple[str, str, str]:
        return shop, item, note

    @guard("r", engine=engine, fallback=sorry)
    def order(shop: str, item: str = "tea", *, note: str = "") -> tuple[str, str, str]:
        raise LookupError(shop)

    assert order("s") == order(shop="s") == order("s", "tea") == ("s", "tea", "")
    assert order(item="milk", shop="s", note="n") == ("s", "milk", "n")


async def test_a_call_with_wrong_arguments_fails_as_ever(engine: Engine) -> None:
    guarded = guard("r", engine=engine)

    @guarded
    def plain(shop: str, item: str) -> str:
        return item

    @guarded
    async def coroutine(shop: str, item: str) -> str:
        return item

    @guarded
    def generator(shop: str, item: str) -> Iterator[str]:
        yield item

    @guarded
    async def stream(shop: str, item: str) -> AsyncIterator[str]:
        yield item

    calls: list[Any] = [
        plain,
        coroutine,
        lambda **given: list(generator(**given)),
        lambda **given: anext(stream(**given)),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'shop'"):
            await call(item="tea")
    assert (engine.stats("r").exception, engine.stats("r").threads) == (4, 0)


def test_what_an_answer_raises_is_raised_and_is_no_failure_of_the_function(engine: Engine) -> None:
    def refuse(_inner: object, error: Exception) -> None:
        raise PermissionError("from the handler")

    @guard("r", engine=engine, block_handler=refuse)
    def outer(inner: Callable[[], object]) -> None:
        inner()

    engine.load_rules("flow", [{"resource": "inner", "count": 0}])
    with pytest.raises(PermissionError) as caught:
        outer(lambda: engine.entry("inner"))
    assert isinstance(caught.value.__context__, FlowException)
    assert (engine.stats("r").exception, engine.stats("r").threads) == (0, 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_end_of_a_process_is_nobodys_to_answer(engine: Engine, error: type[BaseException]) -> None:
    @guard("r", engine=engine, fallback=lambda _error: "never", report="X")
    def work() -> str:
        raise error

    with pytest.raises(error):
        work()
    assert (engine.stats("r").exception, engine.stats("r").threads) == (0, 0)


def test_a_guarded_function_may_call_itself(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "r", "grade": 0, "count": 3}])

    @guard("r", engine=engine, block_handler=lambda depth, _error: depth)
    def down(depth: int) -> int:
        return down(depth + 1)

    assert down(0) == 3
    assert engine.stats("r").threads == 0


def test_threads_share_a_guard(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "r", "count": 100}])
    work = guard("r", engine=engine, fallback=lambda number, _error: -number)(lambda number: number)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(1, 201)))
    assert [abs(result) for result in results] == list(range(1, 201))
    assert sum(result > 0 for result in results) == engine.stats("r").passed == 100
    assert engine.stats("r").threads == 0


def test_a_closed_engine_goes_on_deciding(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "r", "count": 1}])
    work: Callable[[], str] = guard("r", engine=engine, block_handler=lambda _error: "busy")(lambda: "done")
    engine.close()
    assert (work(), work()) == ("done", "busy")


def test_a_guarded_function_is_what_trace_finds(engine: Engine) -> None:
    @guard("inner", engine=engine)
    def inner() -> None:
        trace(ValueError("handled"))

    @guard("outer", engine=engine)
    def outer() -> None:
        inner()

    outer()
    assert (engine.stats("inner").exception, engine.stats("outer").exception) == (1, 0)


def test_waiting_for_a_turn(engine: Engine, clock: FakeClock) -> None:
    queue = {"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}
    engine.load_rules("flow", [queue])
    work: Callable[[], str] = guard("r", engine=engine)(lambda: "done")
    assert [work() for _ in range(3)] == ["done"] * 3
    assert clock.waits == [100.0, 100.0]

"""What can be guarded: every sort of callable works, or a TypeError says at once what to write."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from sentinel_core import Engine, default, guard, set_default_engine
from sentinel_core.guard import GuardOptions


@guard
def bare(number: int, /, *, size: int = 1) -> int:
    """Without parentheses."""
    return number * size


def test_parentheses_may_be_left_out(engine: Engine) -> None:
    before = set_default_engine(engine)
    try:
        assert bare(2, size=3) == 6
    finally:
        set_default_engine(before)
    (name,) = engine.resources()
    assert name.endswith(":bare")


def test_an_engine_guards_by_itself(engine: Engine) -> None:
    @engine.guard
    def one() -> int:
        return 1

    @engine.guard("two", fallback=lambda _error: 2)
    def two() -> int:
        raise ValueError

    assert (one(), two()) == (1, 2)
    assert "two" in engine.resources()


def test_an_engine_takes_the_options_of_the_function() -> None:
    parameters = inspect.signature(default.guard).parameters
    assert set(parameters) - {"resource", "engine"} == GuardOptions.__optional_keys__


def test_the_default_engine_is_looked_up_at_every_call(engine: Engine) -> None:
    before = set_default_engine(engine)
    try:
        bare(1)
        set_default_engine(Engine())
        bare(1)
    finally:
        set_default_engine(before)
    assert engine.stats(engine.resources()[0]).passed == 1


def test_a_guarded_function_looks_like_itself() -> None:
    assert (bare.__name__, bare.__doc__) == ("bare", "Without parentheses.")
    assert list(inspect.signature(bare).parameters) == ["number", "size"]
    assert bare.__wrapped__(2) == 2  # type: ignore[attr-defined]  # functools.wraps adds it
    assert inspect.getsource(bare).startswith("@guard")


def test_a_guarded_function_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, bare.__module__, inspect.getmodule(bare) or sys.modules[__name__])
    assert pickle.loads(pickle.dumps(bare)) is bare  # noqa: S301 (our own bytes)


async def nothing() -> int:
    return 1


def rows() -> Iterator[int]:
    yield 1


async def stream() -> AsyncIterator[int]:
    yield 1


@types.coroutine
def iterable_coroutine() -> Generator[Any, Any, int]:
    return (yield from nothing().__await__())


class Called:
    def __call__(self) -> int:
        return 1


class Awaited:
    async def __call__(self) -> int:
        return 1


class Streamed:
    async def __call__(self) -> AsyncIterator[int]:
        yield 1


class Iterated:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    ("function", "is_sort"),
    [
        (nothing, inspect.iscoroutinefunction),
        (functools.partial(nothing), inspect.iscoroutinefunction),
        (functools.partial(functools.partial(Awaited())), inspect.iscoroutinefunction),
        (Awaited(), inspect.iscoroutinefunction),
        (Awaited().__call__, inspect.iscoroutinefunction),
        (iterable_coroutine, inspect.iscoroutinefunction),
        (rows, inspect.isgeneratorfunction),
        (Iterated(), inspect.isgeneratorfunction),
        (stream, inspect.isasyncgenfunction),
        (Streamed(), inspect.isasyncgenfunction),
        (functools.partial(stream), inspect.isasyncgenfunction),
    ],
)
async def test_every_callable_keeps_its_sort(
    engine: Engine, function: Callable[[], Any], is_sort: Callable[[object], bool]
) -> None:
    guarded = engine.guard("r")(function)
    assert is_sort(guarded)
    running = guarded()
    if inspect.isawaitable(running):
        assert await running == 1
    elif inspect.isasyncgen(running):
        assert [item async for item in running] == [1]
    else:
        assert list(running) == [1]
    assert (engine.stats("r").passed, engine.stats("r").threads) == (1, 0)


@pytest.mark.parametrize("function", [Called(), Called().__call__, functools.partial(int, 1), lambda: 1])
def test_other_callables_are_plain_functions(engine: Engine, function: Callable[[], int]) -> None:
    assert engine.guard("r")(function)() == 1
    assert engine.stats("r").passed == 1


def test_a_builtin_without_a_signature(engine: Engine) -> None:
    guarded = engine.guard("r", fallback=lambda *_: -1)(int)
    assert (guarded("7"), guarded("x"), guarded("f", base=16)) == (7, -1, 15)


if hasattr(inspect, "markcoroutinefunction"):  # CPython 3.12

    async def test_a_function_that_is_marked_as_a_coroutine_function(engine: Engine) -> None:
        def returns_a_coroutine() -> Any:
            return nothing()

        marked = inspect.markcoroutinefunction(returns_a_coroutine)  # type: ignore[attr-defined,unused-ignore]  # 3.12
        guarded = engine.guard("r", block_handler=lambda _: nothing())(marked)
        assert inspect.iscoroutinefunction(guarded)
        assert await guarded() == 1


def shop(engine: Engine) -> Any:
    class Shop:
        @engine.guard("r")
        def method(self, item: str) -> str:
            return f"{type(self).__name__} {item}"

        @classmethod
        @engine.guard("r")
        def class_inside(cls, item: str) -> str:
            return f"{cls.__name__} {item}"

        @engine.guard("r")
        @classmethod
        def class_outside(cls, item: str) -> str:
            return f"{cls.__name__} {item}"

        @staticmethod
        @engine.guard("r")
        def static_inside(item: str) -> str:
            return f"Shop {item}"

        @engine.guard
        @staticmethod
        def static_outside(item: str) -> str:
            return f"Shop {item}"

        @property
        @engine.guard("r")
        def value(self) -> str:
            return "Shop tea"

    return Shop


@pytest.mark.parametrize("name", ["method", "class_inside", "class_outside", "static_inside", "static_outside"])
def test_methods_of_every_sort(engine: Engine, name: str) -> None:
    made = shop(engine)()
    assert getattr(made, name)("tea") == "Shop tea"
    assert getattr(made, name)(item="tea") == "Shop tea"
    assert made.value == "Shop tea"


@pytest.mark.parametrize("name", ["method", "class_inside", "class_outside", "static_inside"])
def test_the_object_is_no_argument_for_rules(engine: Engine, name: str) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1}])
    made = shop(engine)
    assert getattr(made(), name)("tea") == "Shop tea"
    assert getattr(made(), name)("coffee") == "Shop coffee"
    with pytest.raises(Exception, match="tea"):
        getattr(made(), name)("tea")


def test_handlers_are_checked_when_the_function_is_decorated(engine: Engine) -> None:
    decorate = engine.guard("r", fallback=lambda item, _error: item)
    with pytest.raises(TypeError, match=r"fallback of r cannot be called.*it gets \(item, size, error\)"):

        @decorate
        def stock(item: str, size: int) -> str:
            return item * size


def sorry(item: str, size: int, error: Exception, *, color: str) -> str:
    return item


def sorry_of(shop: str, item: str, size: int, error: Exception, color: str) -> str:
    return item


@pytest.mark.parametrize("handler", [sorry, functools.partial(sorry_of, "shop"), lambda item, *_, **__: item])
def test_handlers_that_take_the_arguments_and_the_error_are_fine(engine: Engine, handler: Callable[..., str]) -> None:
    @engine.guard("r", fallback=handler)
    def stock(item: str, /, size: int = 1, *, color: str) -> str:
        raise LookupError(item)

    assert stock("tea", color="green") == stock("tea", size=2, color="green") == "tea"


async def late(_error: Exception) -> int:
    return 1


async def late_stream(_error: Exception) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("option", ["block_handler", "fallback"])
@pytest.mark.parametrize("handler", [late, late_stream, functools.partial(late)])
@pytest.mark.parametrize("function", [Called(), rows])
def test_an_async_handler_cannot_answer_for_code_that_is_not(
    engine: Engine, option: str, handler: Any, function: Any
) -> None:
    options: Any = {option: handler}
    with pytest.raises(TypeError, match=f"{option} of r is async.*write a plain function"):
        engine.guard("r", **options)(function)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (property(lambda _self: 1), "right above its `def`"),
        (functools.cached_property(lambda _self: 1), "right above its `def`"),
        (functools.singledispatchmethod(lambda _self: 1), "right above its `def`"),
        (functools.partialmethod(print), "right above its `def`"),
        (functools.partial(int), 'no name of its own; write guard("name")'),
        (Called(), 'no name of its own; write guard("name")'),
    ],
)
def test_what_cannot_be_guarded_is_told_at_once(engine: Engine, given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words.replace("(", r"\(").replace(")", r"\)")):
        engine.guard()(given)


@pytest.mark.parametrize(
    "options",
    [
        {"resource": 3},
        {"block_handler": "busy"},
        {"fallback": 503},
        {"ignore": "KeyError"},
        {"ignore": (KeyError(),)},
        {"report": True},
        {"report": "PAY_FAIL_RATE", "failed": 5},
        {"report": "PAY_FAIL_RATE", "failed": late},
        {"failed": bool},
    ],
)
def test_options_that_no_call_could_use_are_refused_with_what_to_write(engine: Engine, options: Any) -> None:
    with pytest.raises(TypeError, match="write"):
        engine.guard(**options)


def test_ignore_takes_one_class_or_several(engine: Engine) -> None:
    def fail() -> None:
        raise KeyError

    several: Any = [KeyError, ValueError]
    for ignore in (KeyError, (KeyError, ValueError), several):
        with pytest.raises(KeyError):
            engine.guard("r", ignore=ignore)(fail)()
    assert (engine.stats("r").passed, engine.stats("r").exception) == (3, 0)


def test_two_guards_of_one_function_are_two_resources(engine: Engine) -> None:
    engine.guard("outer")(engine.guard("inner")(lambda: None))()
    assert engine.stats("outer").passed == engine.stats("inner").passed == 1


def test_arguments_may_be_called_as_a_guard_calls_its_own(engine: Engine) -> None:
    @engine.guard("r", fallback=lambda resource, error, function, args, _error: (resource, error, function, args))
    def work(resource: int, error: int, function: int, args: int) -> tuple[int, int, int, int]:
        raise ValueError

    assert work(args=4, function=3, error=2, resource=1) == (1, 2, 3, 4)

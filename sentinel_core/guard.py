"""`guard`: decorating a function of whatever sort. What cannot be guarded is told when it is decorated."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from sentinel_core import guarded
from sentinel_core.guarded import Function, Guard, Handler
from sentinel_core.parameters import Parameters

if TYPE_CHECKING:
    from sentinel_core.engine import Engine
    from sentinel_core.gate import Core

HANDLERS = ("block_handler", "fallback")

F = TypeVar("F", bound=Callable[..., Any])

Failed = Callable[[Any], object]
"""Whether a result counts as a failure of a metric; its truth is taken."""


class GuardOptions(TypedDict, total=False):
    """What a guard may be told besides its resource; `sentinel_core.guard` says it of each."""

    block_handler: Handler | None
    fallback: Handler | None
    ignore: type[BaseException] | tuple[type[BaseException], ...]
    report: str | None
    failed: Failed | None
    origin: str
    context: str
    priority: bool
    inbound: bool


def guarding(engine: Callable[[], Engine], core: Core | None, resource: Any, options: GuardOptions) -> Any:
    """The decorator, or the guarded function where `resource` is a function: `@guard` without parentheses.

    `core` is that of the engine where it is always the same. Raises TypeError for options that no call could use.
    """
    if callable(resource) or isinstance(resource, (staticmethod, classmethod)):
        return guarding(engine, core, None, options)(resource)
    if not isinstance(resource, str | None):
        raise TypeError(f'{resource!r} is neither a resource\'s name nor a function; write guard("name")')
    told = _checked(options)

    def decorate(function: Any) -> Any:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(decorate(function.__func__))
        if not callable(function):
            raise TypeError(f"{function!r} cannot be called, so not guarded; put @guard right above its `def`")
        name = resource or _name(function)
        parameters = Parameters(function)
        sort = _sort(function)
        asynchronous = sort in (guarded.coroutine, guarded.async_generator)
        for what in HANDLERS:
            handler: Any = options.get(what)
            if handler is not None:
                _check_handler(handler, f"{what} of {name}", parameters, asynchronous)
        guard = Guard(engine, core, name, parameters, asynchronous, **told)
        return functools.wraps(function)(sort(guard, function))

    return decorate


def _sort(function: Function) -> Callable[[Guard, Function], Function]:
    """Which of the four sorts a function is. An object that is called is what its `__call__` is."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    both = (inner, getattr(type(inner), "__call__", inner))  # noqa: B004 (the method itself is wanted)
    if any(map(inspect.isasyncgenfunction, both)):
        return guarded.async_generator
    if any(map(inspect.iscoroutinefunction, both)) or _code_flags(inner) & inspect.CO_ITERABLE_COROUTINE:
        return guarded.coroutine
    if any(map(inspect.isgeneratorfunction, both)):
        return guarded.generator
    return guarded.plain


def _code_flags(function: Any) -> int:
    """`types.coroutine` marks its functions nowhere else."""
    flags: int = getattr(getattr(function, "__code__", None), "co_flags", 0)
    return flags


def _name(function: Any) -> str:
    try:
        return f"{function.__module__}:{function.__qualname__}"
    except AttributeError:
        raise TypeError(f'{function!r} has no name of its own; write guard("name")') from None


def _checked(options: GuardOptions) -> dict[str, Any]:
    """The options as `Guard` wants them."""
    told: dict[str, Any] = {**options}
    for what in (*HANDLERS, "failed"):
        if told.get(what) is not None and not callable(told[what]):
            raise TypeError(f"{what} is {told[what]!r}; write a function")
    ignore = told.get("ignore", ())
    told["ignore"] = tuple(ignore) if isinstance(ignore, (tuple, list)) else (ignore,)
    for each in told["ignore"]:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(f"ignore holds {each!r}; write exception classes, e.g. (KeyError,)")
    if not isinstance(told.get("report"), str | None):
        raise TypeError(f'report is {told["report"]!r}; write the name of a metric, e.g. "PAY_FAIL_RATE"')
    if told.get("failed") is not None:
        if told.get("report") is None:
            raise TypeError('failed says which results count against a metric; write report="its name" as well')
        if inspect.iscoroutinefunction(told["failed"]):
            raise TypeError("failed is async; write a plain function of the result")
    if told.get("block_handler") is None:
        told["block_handler"] = told.get("fallback")
    return told


def _check_handler(handler: Handler, what: str, parameters: Parameters, asynchronous: bool) -> None:
    if not asynchronous and _sort(handler) in (guarded.coroutine, guarded.async_generator):
        raise TypeError(f"{what} is async and the function is not: its caller could not await; write a plain function")
    parameters.check(handler, what)

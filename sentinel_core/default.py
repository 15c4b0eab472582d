"""The engine of the process, and the functions that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, overload

from sentinel_core.answers import BlockHandler
from sentinel_core.async_entry import AsyncEntry
from sentinel_core.entry import Entry
from sentinel_core.errors import BlockException
from sentinel_core.guard import F, Failed, GuardOptions, guarding
from sentinel_core.guarded import Handler
from sentinel_core.plan import Given

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

_default: Engine | None = None


def default_engine() -> Engine:
    """The engine that module-level functions use; made when first asked for."""
    global _default  # noqa: PLW0603 (one per process is the point)
    if _default is None:
        from sentinel_core.engine import Engine

        _default = Engine()
    return _default


def set_default_engine(engine: Engine | None) -> Engine | None:
    """Makes `engine` the default one (None: a new one when next asked for); returns the one before."""
    global _default
    before, _default = _default, engine
    return before


def entry(
    resource: str,
    *,
    origin: str | None = "",
    context: str | None = "",
    args: Given = (),
    count: int = 1,
    priority: bool = False,
    inbound: bool = False,
) -> Entry:
    """`Engine.entry` of the default engine."""
    return default_engine().entry(
        resource, origin=origin, context=context, args=args, count=count, priority=priority, inbound=inbound
    )


def aentry(
    resource: str,
    *,
    origin: str | None = "",
    context: str | None = "",
    args: Given = (),
    count: int = 1,
    priority: bool = False,
    inbound: bool = False,
) -> AsyncEntry:
    """`Engine.aentry` of the default engine."""
    return default_engine().aentry(
        resource, origin=origin, context=context, args=args, count=count, priority=priority, inbound=inbound
    )


def report(metric: str, ok: bool, *, resource: str | None = None, dimension: str | None = None, count: int = 1) -> None:
    """`Engine.report` of the default engine."""
    default_engine().report(metric, ok, resource=resource, dimension=dimension, count=count)


def gauge(metric: str, value: float, *, resource: str | None = None, dimension: str | None = None) -> None:
    """`Engine.gauge` of the default engine."""
    default_engine().gauge(metric, value, resource=resource, dimension=dimension)


def register_block_handler(handlers: Mapping[type[BlockException], BlockHandler]) -> None:
    """`Engine.register_block_handler` of the default engine."""
    default_engine().register_block_handler(handlers)


@overload
def guard(function: F, /) -> F: ...
@overload
def guard(
    resource: str | None = None, *, engine: Engine | None = None, **options: Unpack[GuardOptions]
) -> Callable[[F], F]: ...
def guard(
    resource: str | F | None = None,
    *,
    engine: Engine | None = None,
    block_handler: Handler | None = None,
    fallback: Handler | None = None,
    ignore: type[BaseException] | tuple[type[BaseException], ...] = (),
    report: str | None = None,
    failed: Failed | None = None,
    origin: str = "",
    context: str = "",
    priority: bool = False,
    inbound: bool = False,
) -> F | Callable[[F], F]:
    """Guards a function, coroutine function, generator or async generator as a resource; `@guard` alone will do.

    resource        its name; the function's module and qualified name without one
    block_handler   answers for refused calls, and for refusals that calls inside of it meet: called with the call's
                    arguments, each positional parameter in its place, and the BlockException (without one: the
                    fallback, then what `register_block_handler` knows, then the exception)
    fallback        answers for failures too: called with the arguments and the exception
    ignore          exceptions that are no failures: breakers do not count such a call at all
    report          name of the business metric that hears of each call that ends (`Engine.report`): not ok where it
                    raised, or where `failed` says so of its result; nothing of a block, a cancellation or `ignore`
    A generator is inside from its first item to its end, or until it is closed. Raises TypeError, when it decorates,
    for what cannot be guarded and for handlers that could not be called.
    """
    options: GuardOptions = {
        "block_handler": block_handler,
        "fallback": fallback,
        "ignore": ignore,
        "report": report,
        "failed": failed,
        "origin": origin,
        "context": context,
        "priority": priority,
        "inbound": inbound,
    }
    given: Any = resource
    decorated: F | Callable[[F], F] = (
        guarding(default_engine, None, given, options) if engine is None else engine.guard(given, **options)
    )
    return decorated

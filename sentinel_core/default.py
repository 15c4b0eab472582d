"""The engine of the process, and the functions that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sentinel_core.answers import BlockHandler
from sentinel_core.entry import Entry
from sentinel_core.errors import BlockException
from sentinel_core.guard import AsyncEntry, F, Guard, Handler
from sentinel_core.plan import Args

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
    origin: str = "",
    context: str = "",
    args: Args = (),
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
    origin: str = "",
    context: str = "",
    args: Args = (),
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


def guard(
    resource: str | None = None,
    *,
    engine: Engine | None = None,
    block_handler: Handler | None = None,
    fallback: Handler | None = None,
    ignore: tuple[type[BaseException], ...] = (),
    origin: str = "",
    context: str = "",
    priority: bool = False,
    inbound: bool = False,
) -> Callable[[F], F]:
    """Guards a function, coroutine function, generator or async generator as a resource.

    resource        its name; the function's module and qualified name without one
    block_handler   answers for refused calls: called with the call's arguments and the BlockException
                    (without one: the fallback, then what `register_block_handler` knows, then the exception)
    fallback        answers for failures too: called with the arguments and the exception
    ignore          exceptions that are no failures: breakers do not count such a call at all
    A generator is inside from its first item to its end, or until it is closed.
    """
    options: dict[str, Any] = {"origin": origin, "context": context, "priority": priority, "inbound": inbound}
    return Guard(lambda: engine or default_engine(), resource, block_handler, fallback, ignore, options)

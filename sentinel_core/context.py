"""Where a call came through: name, origin and tags, carried by `contextvars` through await and tasks.

    with context("order-api", origin="web"):
        engine.entry("order:create")          # chain rules and limitApp see it

Threads start empty: hand work to an executor with `wrap(function)`.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar, cast

from sentinel_core.entry import innermost

PROBE_HEADER = "X-Sentinel-Test"

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Context:
    """What calls inherit that do not say it themselves."""

    name: str = ""
    origin: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    probing: bool = False
    """The caller said that this is its probe."""
    outer: Context | None = field(default=None, repr=False, compare=False)
    """What it replaced."""
    block: context | None = field(default=None, repr=False, compare=False)
    """Whose block it is."""


_current: ContextVar[Context | None] = ContextVar("sentinel_context", default=None)


def current() -> Context | None:
    """The context this code runs in, None outside of any."""
    return _current.get()


class context:  # noqa: N801 (used as a verb: `with context("order-api"):`)
    """Runs its block under a context. Inner ones replace outer ones; what they leave empty is inherited. One object may
    serve many blocks, also at once."""

    __slots__ = ("_name", "_origin", "_probing", "_tags")

    def __init__(
        self,
        name: str | None = "",
        *,
        origin: str | None = "",
        tags: Mapping[str, str | None] | None = None,
        probing: bool = False,
    ) -> None:
        # What is no text counts as its text: `tags={"tenant": 42}` is meant, and rules compare texts.
        self._name = str(name or "")
        self._origin = str(origin or "")
        self._tags = {str(tag): str(value) for tag, value in (tags or {}).items() if value is not None}
        self._probing = probing

    def __enter__(self) -> Context:
        before = _current.get()
        outer = before or Context()
        value = Context(
            self._name or outer.name,
            self._origin or outer.origin,
            {**outer.tags, **self._tags},
            self._probing or outer.probing,
            before,
            self,
        )
        _current.set(value)
        return value

    def __exit__(self, *_: object) -> None:
        # Set, not reset by token: a generator closed by the collector ends in another context, where a token raises.
        value = _current.get()
        if value is not None and value.block is self:
            _current.set(value.outer)


def probing() -> bool:
    """Whether this code works on a probe: inside an entry that a half-open breaker waits for, or in a context whose
    caller said so. Follows await, tasks and `wrap`; false in generators, which run in their consumers' contexts."""
    ambient = _current.get()
    if ambient is not None and ambient.probing:
        return True
    entry = innermost()
    while entry is not None and not entry.probing:
        entry = entry.outer()
    return entry is not None


def probe_headers() -> dict[str, str]:
    """What to add to outgoing requests: `{"X-Sentinel-Test": "true"}` in a probe, nothing otherwise."""
    return {PROBE_HEADER: "true"} if probing() else {}


def is_probe(headers: Mapping[str, str]) -> bool:
    """Whether incoming headers mark a caller's probe, for `context(..., probing=is_probe(headers))`. Whoever can send
    the header can choose it: ask only where callers are trusted."""
    return any(name.lower() == PROBE_HEADER.lower() and value.lower() == "true" for name, value in headers.items())


def wrap(function: Callable[P, R]) -> Callable[P, R]:
    """The function bound to the caller's context, for executors and threads. May be called many times at once.

    A coroutine function runs in a task of its own, for a coroutine has the context of whoever awaits it. Other
    processes have contexts of their own: send them what they need as arguments.
    """
    captured = contextvars.copy_context()
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def task(*args: P.args, **kwargs: P.kwargs) -> Any:
            import asyncio  # whoever awaits has loaded it

            return await asyncio.create_task(function(*args, **kwargs), context=captured.copy())

        return cast("Callable[P, R]", task)

    @functools.wraps(function)
    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        return captured.copy().run(function, *args, **kwargs)

    return bound

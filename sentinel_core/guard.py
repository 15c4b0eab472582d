"""Guarding functions and blocks of async code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sentinel_core.entry import Entry, Waiting
from sentinel_core.errors import BlockException

if TYPE_CHECKING:
    from sentinel_core.engine import Engine
    from sentinel_core.gate import Core

F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[..., Any]


class AsyncEntry:
    """`async with engine.aentry(...) as entry`. A task cancelled while it waits leaves nothing behind."""

    __slots__ = ("_core", "_entry", "_wish")

    def __init__(self, core: Core, wish: tuple[Any, ...]) -> None:
        self._core = core
        self._wish = wish
        self._entry: Entry | None = None

    async def __aenter__(self) -> Entry:
        outcome = self._core.begin(*self._wish)
        while isinstance(outcome, Waiting):
            try:
                await self._core.clock.asleep(outcome.wait)
            except BaseException:
                self._core.abandon(outcome)
                raise
            outcome = self._core.resume(outcome)
        if isinstance(outcome, Entry):
            self._entry = outcome
            return outcome.__enter__()
        raise outcome.exception()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            entry.__exit__(kind, error, traceback)


class Guard:
    """What `guard(...)` was told; wraps functions of every sort. `function` and handlers get the call's arguments."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        resource: str | None,
        block_handler: Handler | None,
        fallback: Handler | None,
        ignore: tuple[type[BaseException], ...],
        options: dict[str, Any],
    ) -> None:
        self.engine = engine
        self.resource = resource
        self.block_handler = block_handler
        self.fallback = fallback
        self.ignore = ignore
        self.options = options

    def __call__(self, function: F) -> F:
        resource = self.resource or f"{function.__module__}:{function.__qualname__}"
        if inspect.isasyncgenfunction(function):
            wrapped: Callable[..., Any] = self._asyncgen(function, resource)
        elif inspect.iscoroutinefunction(function):
            wrapped = self._coroutine(function, resource)
        elif inspect.isgeneratorfunction(function):
            wrapped = self._generator(function, resource)
        else:
            wrapped = self._plain(function, resource)
        return cast("F", functools.wraps(function)(wrapped))

    def _answer(self, error: BaseException) -> Handler | None:
        """Who answers instead: the block handler for a block of this guard, the fallback for the rest, or nobody."""
        if isinstance(error, BlockException):
            return self.block_handler or self.fallback
        return None if isinstance(error, self.ignore) or not isinstance(error, Exception) else self.fallback

    def _refused(self, block: BlockException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer to a call that was not let in: this guard's own, else the engine's, else the exception."""
        handler = None if self._answer(block) else self.engine().block_handler(block)
        return self._answered(block, args, kwargs) if handler is None else handler(block)

    def _record(self, entry: Entry, error: BaseException) -> None:
        if isinstance(error, self.ignore):
            entry.disregard()
        else:
            entry.trace(error)

    def _plain(self, function: Callable[..., Any], resource: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                entry = self.engine().entry(resource, args=args, **self.options)
            except BlockException as block:
                return self._refused(block, args, kwargs)
            with _Inside(self, entry):
                if self.fallback is None:
                    return function(*args, **kwargs)
                try:
                    return function(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 (handed to the fallback or raised again)
                    self._record(entry, error)
                    return self._answered(error, args, kwargs)

        return wrapped

    def _answered(self, error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = self._answer(error)
        if handler is None:
            raise error
        return handler(*args, error, **kwargs)

    def _coroutine(self, function: Callable[..., Any], resource: str) -> Callable[..., Any]:
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            asking = AsyncEntry(self.engine().core, self._wish(resource, args))
            try:
                entry = await asking.__aenter__()
            except BlockException as block:
                return await _awaited(self._refused(block, args, kwargs))
            with _Inside(self, entry, entered=True):
                if self.fallback is None:
                    return await function(*args, **kwargs)
                try:
                    return await function(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 (handed to the fallback or raised again)
                    self._record(entry, error)
                    return await _awaited(self._answered(error, args, kwargs))

        return wrapped

    def _generator(self, function: Callable[..., Any], resource: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            try:
                entry = self.engine().entry(resource, args=args, **self.options)
            except BlockException as block:
                return (yield from _iterated(self._refused(block, args, kwargs)))
            with _Inside(self, entry, tracked=False):
                return (yield from function(*args, **kwargs))

        return wrapped

    def _asyncgen(self, function: Callable[..., Any], resource: str) -> Callable[..., Any]:
        async def wrapped(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            core = self.engine().core
            outcome = core.begin(*self._wish(resource, args))
            while isinstance(outcome, Waiting):
                try:
                    await core.clock.asleep(outcome.wait)
                except BaseException:
                    core.abandon(outcome)
                    raise
                outcome = core.resume(outcome)
            if not isinstance(outcome, Entry):
                answer = await _awaited(self._refused(outcome.exception(), args, kwargs))
                async for item in answer:
                    yield item
                return
            with _Inside(self, outcome, tracked=False):
                inner = function(*args, **kwargs)
                try:
                    async for item in inner:
                        yield item
                finally:
                    await inner.aclose()

        return wrapped

    def _wish(self, resource: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        options = self.options
        return (
            resource,
            options.get("origin", ""),
            options.get("context", ""),
            args,
            options.get("count", 1),
            options.get("priority", False),
            options.get("inbound", False),
        )


class _Inside:
    """The body of a guarded call: records what it raises unless ignored, leaves the entry in any case.

    `tracked` makes the entry the one `trace()` finds; a generator's body runs in its consumer's context, so there it
    must not be.
    """

    __slots__ = ("_entry", "_guard", "_tracked")

    def __init__(self, guard: Guard, entry: Entry, *, entered: bool = False, tracked: bool = True) -> None:
        self._guard = guard
        self._entry = entry
        self._tracked = tracked
        if tracked and not entered:
            entry.__enter__()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._guard._record(self._entry, error)  # noqa: SLF001 (one thing in two classes)
        if self._tracked:
            self._entry.__exit__(None, None, None)
        else:
            self._entry.exit()


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _iterated(value: Any) -> Generator[Any, Any, Any]:
    yield from value

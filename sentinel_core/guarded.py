"""The four sorts of guarded functions. All keep one order: ask, run, record how it ended, let a handler answer, leave.

An entry is the one that `trace()` finds while a function or coroutine runs. A generator runs in its consumer's
context, so there it must not be.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sentinel_core.async_entry import awaited
from sentinel_core.entry import Blocked, Entry
from sentinel_core.errors import BlockException
from sentinel_core.parameters import Args, Keywords, Parameters

if TYPE_CHECKING:
    from sentinel_core.engine import Engine
    from sentinel_core.gate import Core, Outcome

Function = Callable[..., Any]
Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Guard:
    """What the guard of one function was told (see `guard`), and the steps that all sorts of functions share."""

    engine: Callable[[], Engine]
    core: Core | None
    """Of the one engine that it is for; None where it is for the default one, which may change."""
    resource: str
    parameters: Parameters
    asynchronous: bool
    block_handler: Handler | None = None
    """The fallback where there is no other."""
    fallback: Handler | None = None
    ignore: tuple[type[BaseException], ...] = ()
    report: str | None = None
    failed: Callable[[Any], object] | None = None
    origin: str = ""
    context: str = ""
    priority: bool = False
    inbound: bool = False

    def ask(self, engine: Engine, args: Args, keywords: Keywords) -> Outcome:
        """The first step of a call."""
        parameters = self.parameters
        if len(args) < parameters.number:
            args = parameters.in_order(args, keywords)
        if parameters.own:
            args = args[1:]
        return engine.core.begin(self.resource, self.origin, self.context, args, 1, self.priority, self.inbound)

    def refused(self, engine: Engine, blocked: Blocked, args: Args, keywords: Keywords) -> Any:
        """The answer to a call that was not let in: this guard's own, else the engine's, else the exception."""
        block = blocked.exception()
        if self.block_handler is not None:
            return self.answer(self.block_handler, block, args, keywords)
        registered = engine.block_handler(block)
        if registered is None:
            raise block
        answer = registered(block)
        if not self.asynchronous and inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(
                f"the handler registered for {type(block).__name__} is async and what is guarded as {self.resource} is "
                "not; register a plain function, or give that guard a block_handler of its own"
            ) from block
        return answer

    def ended(self, engine: Engine, entry: Entry, error: BaseException) -> Handler | None:
        """Records a call that raised. Returns who answers for it: `block_handler` for a block that a call inside met,
        `fallback` for a failure, nobody for what is ignored, a cancellation or the end of the process."""
        ignored = isinstance(error, self.ignore)
        if ignored:
            entry.disregard()
        else:
            entry.trace(error)
        if isinstance(error, BlockException):
            return self.block_handler
        if ignored or not isinstance(error, Exception):
            return None
        if self.report is not None:
            engine.report(self.report, ok=False, resource=self.resource)
        return self.fallback

    def finished(self, engine: Engine, result: Any) -> None:
        """Reports a call that returned, where a metric wants to know."""
        if self.report is None:
            return
        try:
            ok = self.failed is None or not self.failed(result)
        except Exception as error:  # noqa: BLE001 (the caller's result is right, whatever is thought of it)
            engine.core.failed(error)
        else:
            engine.report(self.report, ok=ok, resource=self.resource)

    def answer(self, handler: Handler, error: BaseException, args: Args, keywords: Keywords) -> Any:
        parameters = self.parameters
        return handler(*parameters.in_order(args, keywords), error, **parameters.others(keywords))


def plain(guard: Guard, function: Function) -> Function:
    """A function, inside until it returns. The quickest of the four: `Guard.ask` is written out, a call saved."""
    only, find, parameters, reports = guard.core, guard.engine, guard.parameters, guard.report is not None
    number, own = parameters.number, parameters.own
    resource, origin, context, priority, inbound = (
        guard.resource, guard.origin, guard.context, guard.priority, guard.inbound,
    )  # fmt: skip

    def wrapped(*args: Any, **keywords: Any) -> Any:
        core = only if only is not None else find().core
        seen = args if len(args) >= number else parameters.in_order(args, keywords)
        entry = core.begin(resource, origin, context, seen[1:] if own else seen, 1, priority, inbound)
        if not isinstance(entry, Entry):
            entry = core.waited(entry)
            if not isinstance(entry, Entry):
                return guard.refused(find(), entry, args, keywords)
        entry.__enter__()
        try:
            result = function(*args, **keywords)
        except BaseException as error:
            handler = guard.ended(find(), entry, error)
            if handler is None:
                raise
            return guard.answer(handler, error, args, keywords)
        else:
            if reports:
                guard.finished(find(), result)
            return result
        finally:
            entry.__exit__(None, None, None)

    return wrapped


def coroutine(guard: Guard, function: Function) -> Function:
    """A coroutine function, inside from its first await to its end."""

    async def wrapped(*args: Any, **keywords: Any) -> Any:
        engine = guard.engine()
        entry = guard.ask(engine, args, keywords)
        if not isinstance(entry, Entry):
            entry = await awaited(engine.core, entry)
            if not isinstance(entry, Entry):
                return await _later(guard.refused(engine, entry, args, keywords))
        entry.__enter__()
        try:
            result = await function(*args, **keywords)
        except BaseException as error:
            handler = guard.ended(engine, entry, error)
            if handler is None:
                raise
            return await _later(guard.answer(handler, error, args, keywords))
        else:
            guard.finished(engine, result)
            return result
        finally:
            entry.__exit__(None, None, None)

    return wrapped


def generator(guard: Guard, function: Function) -> Function:  # noqa: C901 (`yield from`, written out)
    """A generator function, inside from its first item to its end. A handler's items take the place of those left.

    `yield from` would do but for one thing: it cannot tell a failure from a failure while the consumer closes.
    """

    def wrapped(*args: Any, **keywords: Any) -> Generator[Any, Any, Any]:  # noqa: C901 (as said)
        engine = guard.engine()
        asked = engine.core.waited(guard.ask(engine, args, keywords))
        entry = asked if isinstance(asked, Entry) else None
        running = entry  # None where a handler's items run
        inner: Any = None

        def first(_: None) -> Any:
            nonlocal inner
            if isinstance(asked, Entry):
                inner = function(*args, **keywords)
            else:
                inner = _items(guard.refused(engine, asked, args, keywords))
            return next(inner)

        try:
            step, given = first, None
            while True:
                try:
                    item = step(given)
                except StopIteration as end:
                    if running is not None:
                        guard.finished(engine, end.value)
                    return end.value
                except BaseException as error:
                    handler = None if running is None else guard.ended(engine, running, error)
                    if handler is None:
                        raise
                    running = None
                    inner = _items(guard.answer(handler, error, args, keywords))
                    step, given = inner.send, None
                    continue
                try:
                    given = yield item
                except GeneratorExit:
                    if running is not None:
                        running.disregard()
                    inner.close()
                    raise
                except BaseException as thrown:  # noqa: BLE001 (the function's to answer)
                    step, given = inner.throw, thrown
                else:
                    step = inner.send
        finally:
            if entry is not None:
                entry.exit()

    return wrapped


def async_generator(guard: Guard, function: Function) -> Function:  # noqa: C901 (`yield from`, written out)
    """As `generator`. What consumers send and throw reaches the function, as PEP 380 has it for generators."""

    async def wrapped(*args: Any, **keywords: Any) -> AsyncGenerator[Any, Any]:  # noqa: C901 (as said)
        engine = guard.engine()
        asked = await awaited(engine.core, guard.ask(engine, args, keywords))
        entry = asked if isinstance(asked, Entry) else None
        running = entry  # None where a handler's items run
        inner: Any = None

        async def first() -> Any:
            nonlocal inner
            if isinstance(asked, Entry):
                inner = function(*args, **keywords)
            else:
                inner = _stream(await _later(guard.refused(engine, asked, args, keywords)))
            return await anext(inner)

        try:
            step = first()
            while True:
                try:
                    item = await step
                except StopAsyncIteration:
                    break
                except BaseException as error:
                    handler = None if running is None else guard.ended(engine, running, error)
                    if handler is None:
                        raise
                    running = None
                    inner = _stream(await _later(guard.answer(handler, error, args, keywords)))
                    step = inner.asend(None)
                    continue
                try:
                    sent = yield item
                except GeneratorExit:
                    if running is not None:
                        running.disregard()
                    await inner.aclose()
                    raise
                except BaseException as thrown:  # noqa: BLE001 (the function's to answer)
                    step = inner.athrow(thrown)
                else:
                    step = inner.asend(sent)
            if running is not None:
                guard.finished(engine, None)
        finally:
            if entry is not None:
                entry.exit()

    return wrapped


async def _later(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _items(answer: Any) -> Generator[Any, Any, Any]:
    if not isinstance(answer, Iterable):
        raise TypeError(f"the answer for a generator is {answer!r}; let the handler return an iterable")
    return (yield from answer)


def _stream(answer: Any) -> AsyncGenerator[Any, Any]:
    return answer if isinstance(answer, AsyncGenerator) else _all(answer)


async def _all(answer: Any) -> AsyncGenerator[Any, Any]:
    if isinstance(answer, AsyncIterable):
        async for item in answer:
            yield item
    else:
        for item in _items(answer):
            yield item

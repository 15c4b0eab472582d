"""Entering where a call may have to wait: `async with`, and the way to wait that it shares with guards."""

from __future__ import annotations

from types import TracebackType

from sentinel_core.entry import Blocked, Entry, Waiting
from sentinel_core.gate import Core, Outcome
from sentinel_core.plan import Given


async def awaited(core: Core, outcome: Outcome) -> Entry | Blocked:
    """As `Core.waited`, without holding the event loop. A task cancelled while it waits leaves nothing behind."""
    while isinstance(outcome, Waiting):
        try:
            await core.clock.asleep(outcome.wait)
        except BaseException:
            core.abandon(outcome)
            raise
        outcome = core.resume(outcome)
    return outcome


class AsyncEntry:
    """`async with engine.aentry(...) as entry`: one call at a time, RuntimeError for a second one inside the first."""

    __slots__ = ("args", "context", "core", "count", "entered", "inbound", "origin", "priority", "resource", "taken")

    def __init__(
        self,
        core: Core,
        resource: str,
        origin: str | None,
        context: str | None,
        args: Given,
        count: int,
        priority: bool,
        inbound: bool,
    ) -> None:
        self.core = core
        self.resource = resource
        self.origin = origin
        self.context = context
        self.args = args
        self.count = count
        self.priority = priority
        self.inbound = inbound
        self.taken = False
        self.entered: Entry | None = None

    async def __aenter__(self) -> Entry:
        if self.taken:
            raise RuntimeError(f"this aentry of {self.resource} is in use; write aentry(...) for each `async with`")
        self.taken = True
        try:
            outcome = self.core.begin(
                self.resource, self.origin, self.context, self.args, self.count, self.priority, self.inbound
            )
            if not isinstance(outcome, Entry):
                outcome = await awaited(self.core, outcome)
        except BaseException:
            self.taken = False
            raise
        if isinstance(outcome, Entry):
            self.entered = outcome
            return outcome.__enter__()
        self.taken = False
        raise outcome.exception()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entry, self.entered, self.taken = self.entered, None, False
        if entry is not None:
            entry.__exit__(kind, error, traceback)

"""Entering where a call may have to wait: `async with`, and the two ways to wait that guards share."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from sentinel_core.entry import Blocked, Entry, Waiting

if TYPE_CHECKING:
    from sentinel_core.gate import Core, Outcome


def waited(core: Core, outcome: Outcome) -> Entry | Blocked:
    """What comes of a call in the end, having waited on this thread where a rule asked for it."""
    while isinstance(outcome, Waiting):
        core.sleep(outcome)
        outcome = core.resume(outcome)
    return outcome


async def awaited(core: Core, outcome: Outcome) -> Entry | Blocked:
    """As `waited`, without holding the event loop. A task cancelled while it waits leaves nothing behind."""
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

    __slots__ = ("_core", "_entry", "_taken", "_wish")

    def __init__(self, core: Core, wish: tuple[Any, ...]) -> None:
        self._core = core
        self._wish = wish
        self._entry: Entry | None = None
        self._taken = False

    async def __aenter__(self) -> Entry:
        if self._taken:
            raise RuntimeError(f"this aentry of {self._wish[0]} is in use; write aentry(...) for each `async with`")
        self._taken = True
        try:
            outcome = self._core.begin(*self._wish)
            if not isinstance(outcome, Entry):
                outcome = await awaited(self._core, outcome)
        except BaseException:
            self._taken = False
            raise
        if isinstance(outcome, Entry):
            self._entry = outcome
            return outcome.__enter__()
        self._taken = False
        raise outcome.exception()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entry, self._entry, self._taken = self._entry, None, False
        if entry is not None:
            entry.__exit__(kind, error, traceback)

"""The engine's only source of time.

Monotonic nanoseconds decide (windows, open times, waits); wall time only labels. A clock is four callables and not a
class to inherit from, so that compiled code calls `time.monotonic_ns` directly.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

MS: Final = 1_000_000
"""Nanoseconds in a millisecond."""
SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""


def _wall() -> datetime:
    return datetime.now(UTC)


def _sleep(ns: int) -> None:
    time.sleep(ns / SECOND)


async def _asleep(ns: int) -> None:
    import asyncio  # whoever awaits has loaded it; whoever only imports us should not

    await asyncio.sleep(ns / SECOND)


class Clock:
    """What the engine asks for the time.

    monotonic_ns   nanoseconds that never run backwards; the zero point is arbitrary
    wall           aware UTC, for labels in events and logs
    sleep, asleep  wait for nanoseconds: the thread, or the task
    """

    def __init__(
        self,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], datetime] = _wall,
        sleep: Callable[[int], None] = _sleep,
        asleep: Callable[[int], Awaitable[None]] = _asleep,
    ) -> None:
        self.monotonic_ns = monotonic_ns
        self.wall = wall
        self.sleep = sleep
        self.asleep = asleep

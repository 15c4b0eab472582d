"""Whether the wall clock was set while a service ran: told against the monotonic clock, which nobody sets.

Nothing that the engine decides depends on the wall clock, so a step moves no limit. It moves what is labelled with it:
times in events and logs, and the start of a warm-up that is compiled after it.
"""

from __future__ import annotations

from typing import Any, Final

from sentinel_core.clock import SECOND, Clock

STEP_S: Final = 0.5
"""Corrections that are smaller are slewed by NTP, and happen all the time."""
SLOW_S: Final = 0.1
"""Two clocks cannot be read at once; a look that took longer says nothing."""
MOST_STEPS: Final = 10
"""Steps that are told, the last ones; all are counted."""


class ClockWatch:
    """Looks now and then, on its owner's thread. A machine that slept shows as a step forward."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first = self._last = self._offset_s()
        self._count = 0
        self._steps: list[dict[str, Any]] = []

    def look(self) -> dict[str, Any]:
        """How often it was set (`count`), the last `steps` (when by the new time, and by how many seconds), and
        `offsetSeconds`: how far it has moved away since the first look."""
        offset = self._offset_s()
        if offset is not None and self._last is not None and abs(offset - self._last) >= STEP_S:
            self._count += 1
            at = self._clock.wall().isoformat(timespec="milliseconds")
            self._steps = [*self._steps, {"at": at, "seconds": round(offset - self._last, 3)}][-MOST_STEPS:]
        if offset is not None:
            self._first = offset if self._first is None else self._first
            self._last = offset
        moved = 0.0 if self._first is None or self._last is None else self._last - self._first
        return {"count": self._count, "steps": self._steps, "offsetSeconds": round(moved, 3)}

    def _offset_s(self) -> float | None:
        """Wall time less monotonic time, None where reading them took too long to be compared."""
        before = self._clock.monotonic_ns()
        wall_s = self._clock.wall().timestamp()
        after = self._clock.monotonic_ns()
        return None if after - before > SLOW_S * SECOND else wall_s - after / SECOND

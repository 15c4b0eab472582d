"""For tests of code that uses the engine: a clock that moves when told, a guard against I/O where none may be; fixtures
in `sentinel_core.testing.plugin`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sentinel_core.clock import MS, Clock
from sentinel_core.testing.sockets import no_io


class FakeClock(Clock):
    """Time that stands still until `advance`. A wait moves it at once and is noted in `waits` (ms)."""

    def __init__(self, start_ms: int = 0) -> None:
        self.now_ns = start_ms * MS
        self.waits: list[float] = []
        self._wall_offset = timedelta()
        super().__init__(lambda: self.now_ns, self._read_wall, self._wait, self._await)

    def advance(self, ms: float) -> None:
        """Moves monotonic and wall time forward."""
        self.now_ns += round(ms * MS)

    def step_wall(self, seconds: float) -> None:
        """Sets the wall clock alone, as an operator or NTP would."""
        self._wall_offset += timedelta(seconds=seconds)

    def _read_wall(self) -> datetime:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=self.now_ns // 1000) + self._wall_offset

    def _wait(self, ns: int) -> None:
        self.waits.append(ns / MS)
        self.now_ns += ns

    async def _await(self, ns: int) -> None:
        self._wait(ns)


__all__ = ["FakeClock", "no_io"]

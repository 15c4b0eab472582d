"""Writes the business metrics of one engine down, again and again.

    recorder = Recorder(engine, ObservationStore(Path("observations.db"))).start()

No rule need exist: that is the point. The thread reads what calls left behind and no call ever waits for it. What
cannot be written is lost, told once, and shown as a gap: a number that stands at the wrong time is worse than none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from sentinel_core.audit.instants import milliseconds
from sentinel_core.clock import MS
from sentinel_core.metrics.ticker import Ticked, Ticker
from sentinel_core.observation.store import ObservationStore, Reading, Series, Span

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

logger = logging.getLogger("sentinel_core")

DAY_S: Final = 86_400.0
LATE: Final = 3
"""Intervals without a reading that end a span."""
LONGEST_SPAN_MS: Final = 3_600_000
"""Spans are removed whole, so that none claims a time whose readings are gone; the next one follows without a gap."""
FORGET_EVERY_MS: Final = 600_000

Key = tuple[str, str, str]


class Recorder(Ticked):
    """Records one engine into one file.

    every_s    how long an interval is
    keep_s     older readings are removed
    max_bytes  where the file holds more, the oldest tenth of its time is removed, however young
    """

    def __init__(
        self,
        engine: Engine,
        store: ObservationStore,
        *,
        every_s: float = 10.0,
        keep_s: float = 30 * DAY_S,
        max_bytes: int = 256 * 2**20,
    ) -> None:
        self.store = store
        self._engine = engine
        self._every_s = every_s
        self._keep_ms = round(keep_s * 1000)
        self._max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        self._engine.metrics.tallies = {}
        self._ticker = Ticker("observations", self._record, self._every_s)
        self._seen: dict[Key, tuple[int, int]] = {}
        self._span: Span | None = None
        self._tidied: int | None = None
        self._said_full = False

    def close(self, timeout_s: float = 5) -> None:
        """Writes the last interval and ends. A disk that hangs is waited for no longer than `timeout_s`."""
        if self._ticker.close(timeout_s):
            self.store.close()
        else:
            logger.warning("observations: the last interval could not be written in %g s", timeout_s)
        self._engine.metrics.tallies = None

    def renew_after_fork(self) -> None:
        """For a forked child: counts from nothing (what the parent counted is the parent's), starts nothing."""
        self._begin()

    def _record(self) -> None:
        now = milliseconds(self._engine.clock.wall())
        instance = self._engine.instance
        readings = [*self._rates(now, instance), *self._gauges(now, instance)]
        span, self._span = self._next_span(now, instance), None
        self.store.add(readings, span)
        self._span = span  # only what was written goes on
        if self._tidied is None or not 0 <= now - self._tidied < FORGET_EVERY_MS:
            self._tidied = now
            self._tidy(now)

    def _rates(self, now: int, instance: str) -> list[tuple[Series, Reading]]:
        found = []
        for (metric, resource, dimension), tally in list((self._engine.metrics.tallies or {}).items()):
            total, bad = tally.read()
            last_total, last_bad = self._seen.get((metric, resource, dimension), (0, 0))
            if total > last_total:
                self._seen[metric, resource, dimension] = (total, bad)
                series = Series(metric, resource, dimension, "rate", instance)
                found.append((series, Reading(now, total - last_total, bad - last_bad)))
        return found

    def _gauges(self, now: int, instance: str) -> list[tuple[Series, Reading]]:
        monotonic = self._engine.clock.monotonic_ns()
        return [
            (Series(*key, "gauge", instance), Reading(now, value=gauge.value, age=max(0, monotonic - gauge.at) // MS))
            for key, gauge in list(self._engine.metrics.gauges.items())
        ]

    def _next_span(self, now: int, instance: str) -> Span:
        """The span that goes on, or a new one: right behind it, or with this interval where there is a gap."""
        every = round(self._every_s * 1000)
        last = self._span
        if last is None or last.instance != instance or not 0 <= now - last.until <= LATE * every:
            return Span(instance, now - every, now, every)
        return Span(instance, last.began if now - last.began < LONGEST_SPAN_MS else last.until, now, every)

    def _tidy(self, now: int) -> None:
        self.store.forget(now - self._keep_ms)
        held = self.store.span()
        if held is not None and self.store.size() > self._max_bytes:
            oldest, newest = held
            if not self._said_full:
                self._said_full = True
                logger.warning(
                    "observations fill %d bytes: the oldest are removed before their time; let there be fewer names, "
                    "or a longer interval",
                    self._max_bytes,
                )
            self.store.forget(oldest + max((newest - oldest) // 10, 1))

"""Business numbers kept in this process: failure rates from single samples, and gauges set from outside.

The hot path only reads what stands here. Nothing in this file calls user code; all methods run under the engine's lock
where there is one.
"""

from __future__ import annotations

from typing import Final

from sentinel_core.clock import MS

BUCKETS: Final = 10
GAUGES: Final = 10_000
"""Gauges that are kept; beyond it new names are refused and counted."""


class RateWindow:
    """Good and bad samples of the last `interval` ns, in ten buckets, and of all time since it was cleared."""

    __slots__ = ("bad", "bads", "dimension", "end", "length", "resource", "starts", "total", "totals")

    def __init__(self, resource: str, dimension: str | None, interval: int) -> None:
        self.resource = resource
        self.dimension = dimension
        self.length = max(interval // BUCKETS, 1)
        self.end = 0
        self.clear()

    def clear(self) -> None:
        """Forgets every sample."""
        self.total = 0
        self.bad = 0
        self.totals: list[int] = [0]
        self.bads: list[int] = [0]
        self.starts: list[int] = [self.end - self.length]

    def roll(self, now: int) -> None:
        """Drops the buckets that have left at `now`."""
        if now < self.end:
            return
        start = now - now % self.length
        self.end = start + self.length
        first = start - (BUCKETS - 1) * self.length
        while self.starts and self.starts[0] < first:
            self.total -= self.totals.pop(0)
            self.bad -= self.bads.pop(0)
            del self.starts[0]
        self.starts.append(start)
        self.totals.append(0)
        self.bads.append(0)

    def add(self, now: int, ok: bool, count: int) -> None:
        self.roll(now)
        self.total += count
        self.totals[-1] += count
        if not ok:
            self.bad += count
            self.bads[-1] += count

    def percent(self) -> float:
        """Bad samples in percent, 0 without samples."""
        return 100.0 * self.bad / self.total if self.total else 0.0


class Gauge:
    """A number somebody set, and when."""

    __slots__ = ("at", "value")

    def __init__(self, value: float, at: int) -> None:
        self.value = value
        self.at = at


class Verdict:
    """Whether a resource is well, as its health check said last; holds before `until`, monotonic ns."""

    __slots__ = ("until", "well")

    def __init__(self, well: bool, until: int) -> None:
        self.well = well
        self.until = until


class Tally:
    """Samples since recording began, and the bad ones among them. Only grows, so that a reader needs no reset."""

    __slots__ = ("bad", "total")

    def __init__(self) -> None:
        self.total = 0
        self.bad = 0

    def read(self) -> tuple[int, int]:
        """Total and bad, of one moment."""
        return self.total, self.bad


MAX_SAMPLES: Final = 1_000_000_000
"""Samples that one report may stand for; more is a mistake."""


def is_number_of_samples(given: object) -> bool:
    """Whether a caller, who need not be typed, gave a number of samples; anything else is counted as invalid."""
    return isinstance(given, int) and 0 < given < MAX_SAMPLES


class Metrics:
    """Every business number of an engine."""

    __slots__ = ("gauges", "invalid", "refused", "tallies", "windows")

    def __init__(self) -> None:
        self.windows: dict[str, list[RateWindow]] = {}
        """By metric type: the windows of the rules that are loaded."""
        self.gauges: dict[tuple[str, str, str], Gauge] = {}
        """By (metric type, resource or "", dimension or "")."""
        self.tallies: dict[tuple[str, str, str], Tally] | None = None
        """Samples by the same names, whether a rule asks for them or not; None: nobody records them."""
        self.invalid = 0
        """Values that are no numbers: they neither trip nor heal anything."""
        self.refused = 0

    def attach(self, metric: str, window: RateWindow) -> None:
        """From now on samples reach this window."""
        windows = self.windows.setdefault(metric, [])
        if window not in windows:
            windows.append(window)

    def retain(self, windows: set[int]) -> None:
        """Forgets the windows whose `id()` is not among those of the loaded rules."""
        self.windows = {
            metric: kept
            for metric, held in self.windows.items()
            if (kept := [window for window in held if id(window) in windows])
        }

    def report(
        self, now: int, metric: str, ok: bool, resource: str | None, dimension: str | None, count: float = 1
    ) -> None:
        """Adds samples to the window of every rule they belong to: without a resource, to all of the metric."""
        if self.tallies is not None:
            self.count(self.tallies, (metric, resource or "", dimension or ""), ok, int(count))
        for window in self.windows.get(metric, ()):
            if resource is not None and window.resource != resource:
                continue
            if window.dimension is None or window.dimension == dimension:
                window.add(now, ok, int(count))

    def count(
        self, tallies: dict[tuple[str, str, str], Tally], key: tuple[str, str, str], ok: bool, count: int
    ) -> None:
        """Adds samples to their tally; a new name beyond GAUGES is refused and counted."""
        tally = tallies.get(key)
        if tally is None:
            if len(tallies) >= GAUGES:
                self.refused += 1
                return
            tally = tallies[key] = Tally()
        tally.total += count
        if not ok:
            tally.bad += count

    def set_gauge(self, now: int, metric: str, value: float, resource: str | None, dimension: str | None) -> bool:
        """Sets a number; one that is not finite is counted and changes nothing. False: there are too many already, and
        no rule asks for this one."""
        if value - value != 0.0:
            self.invalid += 1
            return True
        key = (metric, resource or "", dimension or "")
        gauge = self.gauges.get(key)
        if gauge is not None:
            gauge.value = value
            gauge.at = now
        elif len(self.gauges) < GAUGES or self.is_asked_for(metric, key[1], key[2]):
            self.gauges[key] = Gauge(value, now)
        else:
            self.refused += 1
            return False
        return True

    def is_asked_for(self, metric: str, resource: str, dimension: str) -> bool:
        """Whether a loaded rule looks at this very gauge."""
        for window in self.windows.get(metric, ()):
            if resource in ("", window.resource) and dimension == (window.dimension or ""):
                return True
        return False

    def gauge(self, metric: str, resource: str, dimension: str | None) -> Gauge | None:
        """The number of a resource, else the one set for all resources."""
        gauge = self.gauges.get((metric, resource, dimension or ""))
        return gauge if gauge is not None else self.gauges.get((metric, "", dimension or ""))


def oldest_allowed(now: int, stale_after_ms: int) -> int:
    """Monotonic ns before which a gauge is stale."""
    return now - stale_after_ms * MS

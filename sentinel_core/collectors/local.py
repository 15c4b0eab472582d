"""Business numbers kept in this process: failure rates from single samples, and gauges set from outside.

The hot path only reads what stands here. Nothing in this file calls user code; all methods run under the engine's lock
where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sentinel_core.product import product

BUCKETS: Final = 10
VALUES: Final = 1000
"""Values of a dimension that one rule judges; beyond it calls and samples of others are not counted."""
GAUGES: Final = 10_000
"""Gauges that are kept; beyond it new names are refused and counted."""


class Tenth:
    """The samples of a tenth of a window."""

    __slots__ = ("bad", "start", "total")

    def __init__(self, start: int) -> None:
        self.start = start
        self.total = 0
        self.bad = 0


class RateWindow:
    """Good and bad samples of the last `interval` ns, in ten buckets, and of the time since it was cleared. What is
    interrupted in the middle (by a signal handler that raises) is right again with the next bucket."""

    __slots__ = (
        "bad", "buckets", "calls", "calls_before", "calls_end", "end", "interval", "length", "since", "since_bad",
        "total",
    )  # fmt: skip

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.calls = 0
        """Calls in the interval of `interval` ns that ends at `calls_end`, and in the one before."""
        self.calls_before = 0
        self.calls_end = 0
        self.length = max(interval // BUCKETS, 1)
        self.end = 0
        self.clear()

    def clear(self) -> None:
        """Forgets every sample."""
        self.since = 0
        """Samples since then, however long ago that is."""
        self.since_bad = 0
        self.total = 0
        self.bad = 0
        self.buckets = [Tenth(self.end - self.length)]

    def call(self, now: int) -> int:
        """Counts a call that a gauge decides about. Returns how many there were in this interval and the one before."""
        if now >= self.calls_end:
            self.turn(now)
        self.calls += 1
        return self.calls + self.calls_before

    def turn(self, now: int) -> None:
        """Begins the interval of calls that holds `now`."""
        begins = now - now % self.interval
        self.calls_before = self.calls if begins == self.calls_end else 0
        self.calls = 0
        self.calls_end = begins + self.interval

    def is_idle(self, now: int) -> bool:
        """Whether nothing stands in it any more."""
        self.roll(now)
        return not self.total and now >= self.calls_end

    def roll(self, now: int) -> None:
        """Drops the buckets that have left at `now`."""
        if now < self.end:
            return
        start = now - now % self.length
        first = start - product(BUCKETS - 1, self.length)
        buckets = [bucket for bucket in self.buckets if bucket.start >= first]
        self.total = sum([bucket.total for bucket in buckets])
        self.bad = sum([bucket.bad for bucket in buckets])
        buckets.append(Tenth(start))
        self.buckets = buckets
        self.end = start + self.length

    def add(self, now: int, ok: bool, count: int) -> None:
        self.roll(now)
        newest = self.buckets[-1]
        self.since += count
        self.total += count
        newest.total += count
        if not ok:
            self.since_bad += count
            self.bad += count
            newest.bad += count

    def percent(self) -> float:
        """Bad samples in percent, 0 without samples."""
        return 100.0 * self.bad / self.total if self.total else 0.0


class Samples:
    """The samples that one rule looks at: all of them in one window, or a window for each value of its dimension."""

    __slots__ = ("dimension", "gauges", "interval", "resource", "swept", "windows")

    def __init__(self, resource: str, dimension: str | None, interval: int) -> None:
        self.resource = resource
        self.dimension = dimension
        """The tag that tells the values apart, None: nothing does."""
        self.interval = interval
        """Length of a window, ns."""
        self.windows: dict[str, RateWindow] = {}
        self.swept = 0
        self.gauges = 0
        """Gauges that are kept beyond the bound of all because this rule has a dimension."""

    def of(self, value: str) -> RateWindow | None:
        """The window of a value, None where nothing was counted."""
        return self.windows.get(value)

    def add(self, now: int, value: str, ok: bool, count: int) -> bool:
        """Counts samples. False: there are VALUES windows in use already, and this value has none."""
        window = self.made(now, value)
        if window is None:
            return False
        window.add(now, ok, count)
        return True

    def made(self, now: int, value: str) -> RateWindow | None:
        """The window of a value, made when there is none yet; None where there are VALUES in use already."""
        window = self.windows.get(value)
        if window is None:
            if len(self.windows) >= VALUES:
                self.sweep(now)
                if len(self.windows) >= VALUES:
                    return None
            window = self.windows[value] = RateWindow(self.interval)
        return window

    def sweep(self, now: int) -> None:
        """Forgets the windows that nothing stands in any more; looks at most ten times a window."""
        if now < self.swept:
            return
        self.swept = now + self.interval // BUCKETS
        for value, window in list(self.windows.items()):
            if window.is_idle(now):
                del self.windows[value]


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

    __slots__ = ("gauges", "invalid", "made", "refused", "samples", "tallies")

    def __init__(self) -> None:
        self.samples: dict[str, list[Samples]] = {}
        """By metric type: what the loaded rules look at."""
        self.gauges: dict[tuple[str, str, str], Gauge] = {}
        """By (metric type, resource or "", dimension's value or "")."""
        self.made = 0
        """Goes up with every new gauge: whoever remembers one looks again then."""
        self.tallies: dict[tuple[str, str, str], Tally] | None = None
        """Samples by the same names, whether a rule asks for them or not; None: nobody records them."""
        self.invalid = 0
        """Values that are no numbers: they neither trip nor heal anything."""
        self.refused = 0

    def attach(self, metric: str, samples: Samples) -> None:
        """From now on samples of the metric reach these."""
        held = self.samples.setdefault(metric, [])
        if samples not in held:
            held.append(samples)

    def retain(self, kept: set[int]) -> None:
        """Forgets the samples whose `id()` is not among those of the loaded rules."""
        self.samples = {
            metric: still
            for metric, held in self.samples.items()
            if (still := [samples for samples in held if id(samples) in kept])
        }
        self.trim()

    def trim(self) -> None:
        """Forgets gauges beyond the bound, which rules that are gone asked for: of those with a dimension that no rule
        looks at, then of all, the ones that were not set for longest."""
        over = len(self.gauges) - GAUGES
        if over <= 0:
            return
        by_dimension: set[tuple[str, str]] = set()
        for metric, held in self.samples.items():
            for samples in held:
                if samples.dimension is not None:
                    by_dimension.update([(metric, samples.resource), (metric, "")])
        ages = [(not key[2] or (key[0], key[1]) in by_dimension, gauge.at, key) for key, gauge in self.gauges.items()]
        for _, _, key in sorted(ages)[:over]:
            del self.gauges[key]
        self.made += 1

    def report(
        self,
        now: int,
        metric: str,
        ok: bool,
        resource: str | None,
        dimension: str | None,
        tags: Mapping[str, str],
        count: int = 1,
    ) -> bool:
        """Adds samples for every rule they belong to: without a resource, for all of the metric. A rule that has a
        dimension counts them for the value `dimension`, where that is None for the one in `tags`. False: a rule has
        too many values."""
        if self.tallies is not None:
            self.count(self.tallies, (metric, resource or "", dimension or ""), ok, count)
        room = True
        for samples in self.samples.get(metric, ()):
            if resource is not None and samples.resource != resource:
                continue
            name = samples.dimension
            value = "" if name is None else dimension if dimension is not None else tags.get(name, "")
            room = samples.add(now, value, ok, count) and room
        return room

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
            self.made += 1
        else:
            self.refused += 1
            return False
        return True

    def is_asked_for(self, metric: str, resource: str, dimension: str) -> bool:
        """Whether a loaded rule looks at this very gauge. One with a dimension may look at any value of it, and has
        room for VALUES more."""
        for samples in self.samples.get(metric, ()):
            if resource not in ("", samples.resource):
                continue
            if not dimension:
                return True
            if samples.dimension is not None and samples.gauges < VALUES:
                samples.gauges += 1
                return True
        return False

    def gauge(self, metric: str, resource: str, dimension: str) -> Gauge | None:
        """The number of a resource, else the one set for all resources."""
        gauge = self.gauges.get((metric, resource, dimension))
        return gauge if gauge is not None else self.gauges.get((metric, "", dimension))

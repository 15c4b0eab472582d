"""What is normal: the recorded values without incidents.

An outlier stands more than 3.5 robust deviations on the bad side of the median (`statistics.outlier_bound`). A rate of
few samples does so by chance as well, so there chance must show it in less than one of RARE windows. Outliers close
together are an **episode**. An episode is an incident and left out, unless it comes back with the clock: where half of
the recorded days, and two at least, have outliers in the same hour, that is the daily peak, and normal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from sentinel_core.observation.statistics import outlier_bound, percentile, tail
from sentinel_core.observation.windows import Observation

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
RARE: Final = 1000
PEAK: Final = 99.0
"""The percentile of the normal values that is called their peak; the lowest hundredth is their trough."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Observations on the bad side with no long pause between them: wall ms, the worst value, instances concerned."""

    began: int
    until: int
    worst: float
    instances: int


@dataclass(frozen=True, slots=True)
class Normal:
    """What is left when incidents are taken out."""

    kept: Sequence[Observation]
    bound: float
    """Where outliers begin."""
    incidents: Sequence[Episode]
    left_out: int
    """Observations in incidents."""
    usual_hours: Sequence[int]
    """Hours of the day, UTC, whose outliers come back and were kept."""


def without_incidents(observations: Sequence[Observation], *, above: bool, pause_ms: int) -> Normal:
    """Of at least one observation, in order of time."""
    bound = outlier_bound([each.value for each in observations], above=above)
    rate = _usual_rate(observations)
    outliers = [
        each
        for each in observations
        if (each.value > bound if above else each.value < bound) and not _is_chance(each, rate, above)
    ]
    usual = _usual_hours(observations, outliers)
    incidents = [each for each in outliers if hour_of_day(each.at) not in usual]
    out = {id(each) for each in incidents}
    kept = [each for each in observations if id(each) not in out]
    return Normal(kept, bound, episodes(incidents, above=above, pause_ms=pause_ms), len(incidents), sorted(usual))


def peak(normal: Normal, *, above: bool) -> float:
    """The high percentile of what is normal; the low one where low is bad."""
    ordered = sorted(each.value for each in normal.kept)
    return percentile(ordered, PEAK if above else 100 - PEAK)


def episodes(bad: Sequence[Observation], *, above: bool, pause_ms: int) -> list[Episode]:
    """Observations in order of time, those less than `pause_ms` apart together."""
    groups: list[list[Observation]] = []
    for each in bad:
        if groups and each.at - groups[-1][-1].at <= pause_ms:
            groups[-1].append(each)
        else:
            groups.append([each])
    worst = max if above else min
    return [
        Episode(group[0].at, group[-1].at, worst(each.value for each in group), len({each.instance for each in group}))
        for group in groups
    ]


def pooled(observations: Sequence[Observation], group: Callable[[int], int]) -> list[float]:
    """Percent bad of all samples of each group of times (wall ms); 0 for a gauge. Windows overlap alike all the time:
    each sample counts as often as any other."""
    sums: dict[int, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for each in observations:
        key = group(each.at)
        bad, total = sums[key]
        sums[key] = (bad + each.value * each.samples, total + each.samples)
    return [bad / max(total, 1) for bad, total in sums.values()]


def _usual_rate(observations: Sequence[Observation]) -> float:
    """Percent bad in the median hour; of all samples, where that is 0."""
    return median(pooled(observations, lambda at: at // HOUR_MS)) or pooled(observations, lambda _: 0)[0]


def _is_chance(observation: Observation, rate: float, above: bool) -> bool:
    """Whether so few samples show this, or worse, in one of RARE windows at the usual rate. Never of a gauge."""
    if not observation.samples:
        return False
    shown, usual = observation.value / 100, rate / 100
    if not above:
        shown, usual = 1 - shown, 1 - usual
    short_of_it = shown - 0.5 / observation.samples
    return short_of_it <= usual or tail(observation.samples, usual, short_of_it) > 1 / RARE


def hour_of_day(at: int) -> int:
    """0 to 23, UTC, of wall ms."""
    return at % DAY_MS // HOUR_MS


def _usual_hours(observations: Sequence[Observation], outliers: Sequence[Observation]) -> set[int]:
    seen, out = _days_by_hour(observations), _days_by_hour(outliers)
    return {hour for hour, days in out.items() if len(days) >= max(2, len(seen[hour]) / 2)}


def _days_by_hour(observations: Sequence[Observation]) -> dict[int, set[int]]:
    days: dict[int, set[int]] = defaultdict(set)
    for each in observations:
        days[hour_of_day(each.at)].add(each.at // DAY_MS)
    return days

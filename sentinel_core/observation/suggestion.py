"""A rule drawn from what was recorded, with its reasons.

    threshold          factor × normal peak; normal trough ÷ factor where low is bad
    windowIntervalMs   the shortest of WINDOWS_MS in which nine of ten windows hold minRequestAmount samples
    minRequestAmount   of a rate: what one bad sample alone cannot trip, and chance at the normal rate less than once in
                       so many days (`statistics.samples_for`); at least FEWEST
    stateWindowMs      30 s
    halfOpen…          2 s and 5 %, or as much more as it takes for a trial to hold enough samples

The first three depend on each other (a longer window is steadier, so its peak and its threshold are lower, so more
samples are needed), so they are sought together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sentinel_core.observation.normal import (
    DAY_MS,
    Episode,
    Normal,
    episodes,
    hour_of_day,
    peak,
    pooled,
    without_incidents,
)
from sentinel_core.observation.statistics import percentile, samples_for, tail
from sentinel_core.observation.store import Kind
from sentinel_core.observation.windows import Found, Observation, kind_of, observations

WINDOWS_MS: Final = (60_000, 120_000, 300_000, 600_000, 1_800_000)
"""60 s is the default of a rule; beyond half an hour a breaker comes too late to help."""
FEWEST: Final = 20
"""A window with fewer samples says little, whatever the formula says."""
STATE_WINDOW_MS: Final = 30_000
CALLS: Final = 10
"""minRequestAmount of a gauge: calls, not samples, so that a start does not trip on the first reading."""
LOOKS: Final = 10
"""Windows that differ, within the time of one: the engine's windows move in tenths."""
USUAL: Final = 10.0
"""The percentile of the volumes of windows that must reach minRequestAmount."""
ROUNDS: Final = 20
TRIAL_MS: Final = 2000
LONGEST_TRIAL_MS: Final = 10_000
TRIAL_PERCENTS: Final = (5.0, 10.0, 20.0, 50.0)
MOST_TRIED: Final = 1000
RETRIP: Final = 0.05
"""Chance at the normal rate may fail one trial in twenty."""

Direction = Literal["above", "below"]


class NoSuggestion(ValueError):
    """Nothing sensible can be drawn from these readings; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The half-open time: how long, how many percent of the calls pass, and the samples this gives in a thin hour (0
    for a gauge), with those it takes."""

    ms: int = TRIAL_MS
    percent: float = TRIAL_PERCENTS[0]
    samples: float = 0.0
    needed: int = 0


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The fields of a rule, what they were drawn from, and what the rule would have done in the recorded time."""

    kind: Kind
    direction: Direction
    threshold: float
    window_ms: int
    minimum: int
    peak: float
    """The normal peak, or trough."""
    factor: float
    normal: Normal
    observed: int
    """Observations with enough samples."""
    judged: float
    """Share (0-1) of all windows that hold `minimum` samples."""
    volume: float
    """Samples that nine of ten windows hold; 0 for a gauge."""
    rate: float
    """Percent bad of all samples in the worst normal hour of the day; 0 for a gauge."""
    days: float
    """Chance alone trips less than once in this many days."""
    looks: float
    """Different windows of a rate that are judged in that time."""
    trips: Sequence[Episode]
    """When it would have opened."""
    clamped: bool
    """The factor could not be kept: a rate ends at 100."""
    trial: Trial


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user may choose."""

    factor: float = 2.5
    direction: Direction = "above"
    window_ms: int | None = None
    days: float = 30.0
    shortest_ms: int = 0
    """How far apart the readings are: nothing can be said of a shorter window."""

    @property
    def above(self) -> bool:
        return self.direction == "above"


def suggest(found: Found, wish: Wish) -> Suggestion:
    """From the series that such a rule would hear of (`windows.selected`). Raises NoSuggestion."""
    return _for_gauge(found, wish) if kind_of(found) == "gauge" else _for_rate(found, wish)


def threshold_of(extreme: float, wish: Wish) -> float:
    """`factor` times the normal peak, or the normal trough by `factor`; not rounded."""
    return extreme * wish.factor if wish.above else extreme / wish.factor


def rounded(value: float, *, above: bool) -> float:
    """Two digits, away from what is normal: up where high is bad, down where low is."""
    if value == 0:
        return 0.0
    digits = 1 - math.floor(math.log10(abs(value)))
    scaled = round(value * 10.0**digits, 6)
    away: Callable[[float], int] = math.ceil if above else math.floor
    return round(away(scaled) / 10.0**digits, digits)


def _for_gauge(found: Found, wish: Wish) -> Suggestion:
    seen = observations(found, 0)
    normal = without_incidents(seen, above=wish.above, pause_ms=STATE_WINDOW_MS)
    extreme = peak(normal, above=wish.above)
    if extreme <= 0:
        what = "peak" if wish.above else "trough"
        raise NoSuggestion(
            f"the normal {what} is {extreme:g}, and a multiple of it says nothing; set the threshold by hand, from "
            "what the business can bear"
        )
    threshold = rounded(threshold_of(extreme, wish), above=wish.above)
    window = wish.window_ms or WINDOWS_MS[0]
    trips = _trips(seen, threshold, wish)
    return Suggestion(
        "gauge", wish.direction, threshold, window, CALLS, extreme, wish.factor, normal, len(seen), 1.0, 0.0, 0.0,
        wish.days, 0.0, trips, clamped=False, trial=Trial(),
    )  # fmt: skip


def _for_rate(found: Found, wish: Wish) -> Suggestion:
    made = None
    for window in _windows(wish):
        made = _with_window(found, window, wish) or made
        if made and made.volume >= made.minimum:
            return made
    if made is None or not made.judged:
        needed = max(made.minimum if made else 0, FEWEST)
        raise NoSuggestion(
            f"no window of {(wish.window_ms or WINDOWS_MS[-1]) / 60_000:g} minutes holds the {needed} samples that it "
            "takes to tell trouble from chance: no breaker on so few is right. Report more often, leave out "
            "--dimension, raise --factor, or watch a gauge instead"
        )
    return made


def _windows(wish: Wish) -> Sequence[int]:
    wanted = (wish.window_ms,) if wish.window_ms else WINDOWS_MS
    long_enough = [window for window in wanted if window >= wish.shortest_ms]
    if not long_enough:
        raise NoSuggestion(
            f"the readings are {wish.shortest_ms / 1000:g} s apart, which is longer than a window of "
            f"{wanted[-1] / 1000:g} s; record more often (observe.every), or ask for a longer --window"
        )
    return long_enough


def _with_window(found: Found, window: int, wish: Wish) -> Suggestion | None:
    """Seeks minimum and threshold: the peak is that of windows with enough samples, enough follows from the peak. The
    minimum only rises, and the mean rate bounds it. None where no window holds FEWEST samples."""
    seen = observations(found, window)
    enough, minimum = [each for each in seen if each.samples >= FEWEST], FEWEST
    if not enough:
        return None
    for _ in range(ROUNDS):
        normal = without_incidents(enough, above=wish.above, pause_ms=window)
        extreme, rate = peak(normal, above=wish.above), _worst_hour(normal.kept, above=wish.above)
        threshold, clamped = _rate_threshold(extreme, rate, minimum, wish)
        needed = _minimum(threshold, rate, window, wish)
        if needed <= minimum:
            break
        minimum = needed
        fuller = [each for each in seen if each.samples >= minimum]
        if not fuller:
            break  # the rule would do nothing; a longer window is tried
        enough = fuller
    judged = [each for each in seen if each.samples >= minimum]
    volume = percentile(sorted(each.samples for each in seen), USUAL)
    return Suggestion(
        "rate", wish.direction, threshold, window, minimum, extreme, wish.factor, normal, len(enough),
        len(judged) / len(seen), volume, rate, wish.days, _looks(window, wish), _trips(judged, threshold, wish),
        clamped, _trial(threshold, rate, volume / window, wish),
    )  # fmt: skip


def _rate_threshold(extreme: float, rate: float, minimum: int, wish: Wish) -> tuple[float, bool]:
    """Percent, and whether the factor had to give way."""
    if not wish.above:
        if extreme <= 0:
            raise NoSuggestion(
                "the normal trough is 0 %, and nothing is below it; look at `sentinelctl biz observe` and set the "
                "threshold by hand"
            )
        return rounded(threshold_of(extreme, wish), above=False), False
    # Nobody saw a bad sample in a normal window: one in the fewest that are judged is still within what is normal.
    extreme = extreme or 100.0 / minimum
    wanted = rounded(threshold_of(extreme, wish), above=True)
    if wanted < 100:
        return wanted, False
    room = (max(extreme, rate) + 100) / 2
    if room >= 100:
        raise NoSuggestion(
            f"the normal peak is {extreme:g} % bad, and no threshold lies above it; "
            "is `ok` reported the wrong way round?"
        )
    return room, True


def _trial(threshold: float, rate: float, per_ms: float, wish: Wish) -> Trial:
    """The mildest trial that one bad sample alone cannot fail, and chance seldom does: longer first, then with more
    calls. A breaker judges its trial however few samples came of it."""
    if not wish.above:
        threshold, rate = 100 - threshold, 100 - rate
    needed = math.ceil(100.0 / threshold)
    while tail(needed, rate / 100, threshold / 100) > RETRIP and needed < MOST_TRIED:
        needed += 1
    for percent in TRIAL_PERCENTS:
        ms = max(TRIAL_MS, math.ceil(needed / (per_ms * percent / 100) / 1000) * 1000)
        if ms <= LONGEST_TRIAL_MS:
            return Trial(ms, percent, per_ms * ms * percent / 100, needed)
    percent = TRIAL_PERCENTS[-1]
    return Trial(LONGEST_TRIAL_MS, percent, per_ms * LONGEST_TRIAL_MS * percent / 100, needed)


def _minimum(threshold: float, rate: float, window: int, wish: Wish) -> int:
    """Samples, so that neither one bad sample alone nor chance at the normal rate trips."""
    if not wish.above:  # few samples make a rate that should be high look low; mirrored, it is the same question
        threshold, rate = 100 - threshold, 100 - rate
    alone = math.ceil(100.0 / threshold)
    chance = samples_for(threshold / 100, rate / 100, 1 / _looks(window, wish)) if rate < threshold else alone
    return max(alone, chance)


def _looks(window: int, wish: Wish) -> float:
    return wish.days * DAY_MS / window * LOOKS


def _worst_hour(kept: Sequence[Observation], *, above: bool) -> float:
    """Percent bad of all samples in the hour of the day that is worst."""
    return (max if above else min)(pooled(kept, hour_of_day))


def _trips(judged: Sequence[Observation], threshold: float, wish: Wish) -> list[Episode]:
    """When a rule would have been open: as long as its metric is bad, and then for one open time."""
    bad = [each for each in judged if (each.value > threshold if wish.above else each.value < threshold)]
    return episodes(bad, above=wish.above, pause_ms=STATE_WINDOW_MS)

"""Plots of text: bars of a histogram, and a line a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEVELS = "▁▂▃▄▅▆▇█"
FULL = "█"
NOTHING = " "
WIDTH = 40


@dataclass(frozen=True, slots=True)
class Bin:
    """Values in `low <= value < high`; the last bin has its upper end too."""

    low: float
    high: float
    count: int


def histogram(ordered: Sequence[float], count: int = 10) -> list[Bin]:
    """Bins of one width over sorted values; a single bin where all are equal. What lies beyond the highest hundredth
    and far away has the last bin to itself, so that one wild value does not press the others into a corner."""
    low, high = ordered[0], ordered[-1]
    if low == high:
        return [Bin(low, high, len(ordered))]
    top = ordered[int((len(ordered) - 1) * 0.99)]
    far = top > low and high - low > 2 * (top - low)
    end = top if far else high
    edges = [low + (end - low) * step / count for step in range(count)] + [end]
    counts = [0] * count
    beyond = 0
    for value in ordered:
        if value > end:
            beyond += 1
        else:
            counts[min(int((value - low) / (end - low) * count), count - 1)] += 1
    bins = [Bin(edges[step], edges[step + 1], counts[step]) for step in range(count)]
    return [*bins, Bin(end, high, beyond)] if beyond else bins


def bar(count: int, most: int) -> str:
    """As long as the count is of the largest one; what is there is seen, however little."""
    return FULL * max(round(WIDTH * count / most), 1 if count else 0)


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """One sign a value, by its height between `low` and `high`; a blank where there is none."""
    return "".join(NOTHING if value is None else _level(value, low, high) for value in values)


def _level(value: float, low: float, high: float) -> str:
    share = (value - low) / (high - low) if high > low else 0.0
    return LEVELS[min(int(share * len(LEVELS)), len(LEVELS) - 1)]

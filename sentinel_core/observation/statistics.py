"""Plain statistics of plain numbers. Pure functions; nothing here knows what it describes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

CUT: Final = 3.5
"""Modified z-score of an outlier: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993)."""
NORMAL_MAD: Final = 1.4826
"""Standard deviation of a normal distribution by its median absolute deviation."""
NORMAL_MEAN_AD: Final = 1.2533
"""The same by its mean absolute deviation, √(π/2); for data of which more than half is one value."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of the values, which are sorted and not empty, that `percent` of them do not exceed (nearest rank):
    always a value that was seen."""
    rank = math.ceil(round(percent * len(ordered) / 100, 9))
    return ordered[min(max(rank, 1), len(ordered)) - 1]


@dataclass(frozen=True, slots=True)
class Summary:
    """A distribution. `mean` is weighted, everything else counts each value once."""

    count: int
    minimum: float
    p1: float
    p50: float
    p90: float
    p99: float
    p999: float
    maximum: float
    mean: float


def summarise(values: Sequence[float], weights: Sequence[float] | None = None) -> Summary:
    """Of at least one value. Weights are those of the mean; None, or all 0: equal ones."""
    ordered = sorted(values)
    p1, p50, p90, p99, p999 = (percentile(ordered, percent) for percent in (1, 50, 90, 99, 99.9))
    mean = fmean(values, weights) if weights is not None and any(weights) else fmean(values)
    mean = min(max(mean, ordered[0]), ordered[-1])
    return Summary(len(ordered), ordered[0], p1, p50, p90, p99, p999, ordered[-1], mean)


def spread(values: Sequence[float], middle: float) -> float:
    """A standard deviation that outliers do not widen: by the median absolute deviation from `middle`, or by the mean
    one where that is 0."""
    deviations = [abs(value - middle) for value in values]
    return NORMAL_MAD * median(deviations) or NORMAL_MEAN_AD * fmean(deviations)


def outlier_bound(values: Sequence[float], *, above: bool) -> float:
    """Beyond this value (above it, or below it) one is an outlier of these; infinite where all are equal."""
    middle = median(values)
    width = spread(values, middle)
    sign = 1 if above else -1
    return middle + sign * CUT * width if width > 0 else sign * math.inf


def divergence(q: float, p: float) -> float:
    """Relative entropy of two coins in nats, ratios 0-1: how unlike `q` is to `p`; infinite where p cannot give q."""

    def term(a: float, b: float) -> float:
        return 0.0 if a == 0 else math.inf if b == 0 else a * math.log(a / b)

    return term(q, p) + term(1 - q, 1 - p)


def samples_for(threshold: float, rate: float, chance: float) -> int:
    """The fewest samples with which a true `rate` shows more than `threshold` (ratios 0-1, rate < threshold) with a
    probability of at most `chance`, and no number of samples above it does so more easily.

    P(X/n > t) <= exp(-n * D(t, p)): Hoeffding, Probability Inequalities for Sums of Bounded Random Variables (1963),
    theorem 1; it falls with n, which the exact binomial tail does in a saw-tooth only.
    """
    return max(1, math.ceil(-math.log(chance) / divergence(threshold, rate)))


def tail(samples: int, rate: float, threshold: float) -> float:
    """The exact probability that of `samples` more than the ratio `threshold` are bad at a true `rate` below it."""
    if rate <= 0 or rate >= 1:
        return float(rate > threshold)
    bad = math.floor(round(samples * threshold, 9)) + 1
    if bad > samples:
        return 0.0
    ways = math.lgamma(samples + 1) - math.lgamma(bad + 1) - math.lgamma(samples - bad + 1)
    term = math.exp(ways + bad * math.log(rate) + (samples - bad) * math.log1p(-rate))
    whole = 0.0
    while term > whole * 1e-17:
        whole += term
        term *= (samples - bad) / (bad + 1) * rate / (1 - rate)
        bad += 1
    return min(whole, 1.0)

"""Recorded days, made up with a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core.observation.store import ObservationStore, Reading, Series, Span

START = round(datetime(2026, 11, 23, tzinfo=UTC).timestamp() * 1000)
DAY = 86_400_000
EVERY = 10_000


def rate_readings(
    days: float,
    percent: Callable[[int], float],
    *,
    samples: int = 50,
    seed: int = 1,
    start: int = START,
) -> list[Reading]:
    """A reading every 10 s; `percent` gives the true rate by ms since the start."""
    pick = random.Random(seed)
    return [
        Reading(start + at, samples, binomial(pick, samples, percent(at) / 100))
        for at in range(EVERY, round(days * DAY) + 1, EVERY)
    ]


def binomial(pick: random.Random, samples: int, chance: float) -> int:
    """How many of so many samples are bad, from one bad one to the next."""
    if chance > 0.5:
        return samples - binomial(pick, samples, 1 - chance)
    if chance == 0:
        return 0
    bad, place, log_rest = 0, -1, math.log1p(-chance)
    while (place := place + 1 + int(math.log(1.0 - pick.random()) / log_rest)) < samples:
        bad += 1
    return bad


def gauge_readings(days: float, value: Callable[[int], float], *, start: int = START) -> list[Reading]:
    return [Reading(start + at, value=value(at)) for at in range(EVERY, round(days * DAY) + 1, EVERY)]


PAY = Series("PAY_FAIL_RATE", "order_create", "", "rate", "i-1")
STOCK = Series("STOCK_DEPTH", "stock_deduct", "", "gauge", "i-1")


def fill(store: ObservationStore, series: Series, readings: list[Reading]) -> None:
    """Writes them as one span."""
    span = Span(series.instance, readings[0].at - EVERY, readings[-1].at, EVERY)
    store.add([(series, reading) for reading in readings], span)


@pytest.fixture
def store(tmp_path: Path) -> ObservationStore:
    return ObservationStore(tmp_path / "observations.db")

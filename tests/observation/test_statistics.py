"""The statistics do what their names say, of any numbers."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.observation.statistics import (
    divergence,
    outlier_bound,
    percentile,
    samples_for,
    spread,
    summarise,
    tail,
)

numbers = st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-6)
lists = st.lists(numbers, min_size=1, max_size=60)


def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert [percentile(ordered, percent) for percent in (0, 1, 50, 90, 99, 99.9, 100)] == [1, 1, 50, 90, 99, 100, 100]
    assert percentile([7.0], 50) == 7


@given(lists, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise_and_are_values_that_were_seen(values: list[float], one: float, other: float) -> None:
    ordered = sorted(values)
    low, high = sorted((one, other))
    assert percentile(ordered, low) <= percentile(ordered, high)
    assert percentile(ordered, low) in values


@given(lists, st.floats(0, 100))
def test_as_many_values_as_it_says_are_at_or_below_a_percentile(values: list[float], percent: float) -> None:
    found = percentile(sorted(values), percent)
    below = sum(value <= found for value in values)
    assert below >= percent * len(values) / 100 - 1e-6


@given(lists)
def test_a_summary_is_in_order(values: list[float]) -> None:
    made = summarise(values)
    parts = [made.minimum, made.p1, made.p50, made.p90, made.p99, made.p999, made.maximum]
    assert parts == sorted(parts)
    assert made.minimum <= made.mean <= made.maximum
    assert made.count == len(values)


@given(lists, st.sampled_from([0.125, 0.5, 2.0, 1024.0]))
def test_a_summary_of_other_units_is_the_same_in_those_units(values: list[float], scale: float) -> None:
    made, scaled = summarise(values), summarise([scale * value for value in values])
    for name in ("minimum", "p1", "p50", "p90", "p99", "p999", "maximum"):
        assert getattr(scaled, name) == scale * getattr(made, name)
    assert scaled.mean == pytest.approx(scale * made.mean, rel=1e-9, abs=1e-6)


def test_the_mean_of_rates_is_weighted_by_their_samples() -> None:
    """90 of 100 and 0 of 900 are 9 %, not 45 %."""
    assert summarise([90.0, 0.0], [100, 900]).mean == pytest.approx(9)
    assert summarise([90.0, 0.0], [0, 0]).mean == 45


def test_one_wild_value_hardly_widens_the_spread() -> None:
    values = [random.Random(1).gauss(10, 2) for _ in range(2000)]
    pick = random.Random(1)
    values = [pick.gauss(10, 2) for _ in range(2000)]
    assert spread(values, 10) == pytest.approx(2, rel=0.1)
    assert spread([*values, 1e9], 10) == pytest.approx(2, rel=0.1)


def test_where_more_than_half_is_one_value_the_mean_deviation_tells() -> None:
    assert spread([0.0] * 9 + [10.0], 0) == pytest.approx(1.2533)


@given(lists)
def test_at_least_half_of_all_values_are_no_outliers(values: list[float]) -> None:
    above, below = outlier_bound(values, above=True), outlier_bound(values, above=False)
    assert sum(value <= above for value in values) >= len(values) / 2
    assert sum(value >= below for value in values) >= len(values) / 2


def test_equal_values_have_no_outliers() -> None:
    assert outlier_bound([3.0] * 5, above=True) == math.inf
    assert outlier_bound([3.0] * 5, above=False) == -math.inf


def test_the_divergence_is_the_one_of_the_textbook() -> None:
    assert divergence(0.5, 0.25) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(0.5 / 0.75))
    assert divergence(0.3, 0.3) == 0
    assert divergence(0.3, 0.0) == math.inf


@pytest.mark.parametrize(
    ("samples", "rate", "threshold"), [(20, 0.01, 0.05), (50, 0.2, 0.3), (7, 0.5, 0.5), (1, 0.1, 0)]
)
def test_the_tail_is_the_binomial_one(samples: int, rate: float, threshold: float) -> None:
    whole = sum(
        math.comb(samples, bad) * rate**bad * (1 - rate) ** (samples - bad)
        for bad in range(samples + 1)
        if bad > samples * threshold + 1e-9
    )
    assert tail(samples, rate, threshold) == pytest.approx(whole)


@given(st.floats(0.001, 0.4), st.floats(1.5, 3), st.sampled_from([1e-2, 1e-4, 1e-6]), st.integers(0, 500))
def test_with_enough_samples_chance_trips_no_more_often_than_asked(
    rate: float, factor: float, chance: float, more: int
) -> None:
    """For the number itself and for every larger one, by the exact binomial."""
    threshold = rate * factor
    if threshold < 1:
        samples = samples_for(threshold, rate, chance) + more
        assert tail(samples, rate, threshold) <= chance * (1 + 1e-9)


def test_a_rate_of_nothing_needs_one_sample() -> None:
    assert samples_for(0.05, 0.0, 1e-6) == 1
    assert tail(100, 0.0, 0.05) == 0

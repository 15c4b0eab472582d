"""What a rule would have looked at, from readings."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.collectors.local import RateWindow
from sentinel_core.observation.store import Reading, Series, Span
from sentinel_core.observation.windows import gaps, observations, rate_windows, selected, watched
from tests.observation.conftest import PAY, STOCK


def values(readings: list[Reading], window_ms: int) -> list[tuple[int, float, int]]:
    return [(each.at, each.value, each.samples) for each in rate_windows("i", readings, window_ms)]


def test_a_window_is_the_bad_ones_of_all_its_samples() -> None:
    readings = [Reading(10, 90, 0), Reading(20, 10, 10)]
    assert values(readings, 60) == [(10, 0.0, 90), (20, 10.0, 100)]


def test_what_is_as_old_as_the_window_has_left_it() -> None:
    readings = [Reading(10, 1, 1), Reading(70, 1, 0)]
    assert values(readings, 60) == [(10, 100.0, 1), (70, 0.0, 1)]
    assert values(readings, 61) == [(10, 100.0, 1), (70, 50.0, 2)]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9), st.integers(0, 9)), max_size=40), st.integers(1, 90))
def test_every_window_is_the_sum_of_the_readings_in_it(steps: list[tuple[int, int, int]], window: int) -> None:
    at, readings = 0, []
    for step, good, bad in steps:
        at += step
        readings.append(Reading(at, good + bad, bad))
    for each in rate_windows("i", readings, window):
        inside = [reading for reading in readings if each.at - window < reading.at <= each.at]
        assert each.samples == sum(reading.total for reading in inside)
        assert each.value == 100.0 * sum(reading.bad for reading in inside) / each.samples


def test_it_is_the_percentage_that_the_engine_sees() -> None:
    """Readings as often as the engine's buckets, ten in a window."""
    pick, window = random.Random(3), RateWindow(60_000)
    readings, seen = [], []
    for number in range(200):
        now = number * 6000
        bad = [pick.random() < 0.1 for _ in range(pick.randrange(20))]
        window.roll(now)
        for each in bad:
            window.add(now, ok=not each, count=1)
        readings.append(Reading(now, len(bad), sum(bad)))
        if window.total:
            seen.append(window.percent())
    assert [value for _, value, _ in values(readings, 60_000)] == seen


def test_instances_are_judged_apart_and_resources_of_one_instance_together() -> None:
    found = [
        (PAY, [Reading(10, 10, 1)]),
        (Series("PAY_FAIL_RATE", "", "", "rate", "i-1"), [Reading(10, 10, 3)]),
        (Series("PAY_FAIL_RATE", "order_create", "", "rate", "i-2"), [Reading(11, 10, 10)]),
    ]
    made = observations(found, 60)
    assert [(each.instance, each.value, each.samples) for each in made] == [("i-1", 20.0, 20), ("i-2", 100.0, 10)]


def rate(resource: str, dimension: str = "") -> tuple[Series, list[Reading]]:
    return Series("M", resource, dimension, "rate", "i"), [Reading(1, 1, 0)]


def gauge(resource: str, dimension: str = "") -> tuple[Series, list[Reading]]:
    return Series("M", resource, dimension, "gauge", "i"), [Reading(1, value=1.0)]


def test_a_rule_hears_what_the_engine_would_let_it_hear() -> None:
    a, b, everywhere, channel = rate("a"), rate("b"), rate(""), rate("a", "wechat")
    found = [a, b, everywhere, channel]
    assert selected(found, "a", None) == [a, everywhere, channel]
    assert selected(found, "a", "wechat") == [channel]
    assert selected(found, None, None) == found


def test_a_gauge_of_the_resource_comes_before_the_one_for_all_and_before_a_rate() -> None:
    own, everywhere, channel = gauge("a"), gauge(""), gauge("a", "wechat")
    found = [own, everywhere, channel, rate("a")]
    assert selected(found, "a", None) == [own]
    assert selected(found, "b", None) == [everywhere]
    assert selected(found, "a", "wechat") == [channel]
    assert selected(found, "a", "alipay") == []


def test_a_gauge_is_observed_at_every_reading() -> None:
    made = observations([(STOCK, [Reading(1, value=7.0), Reading(2, value=7.0)])], 60)
    assert [each.value for each in made] == [7.0, 7.0]


def test_time_is_watched_while_any_instance_records_once_the_metric_is_known() -> None:
    spans = [Span(*each, 5) for each in (("a", 0, 10), ("b", 5, 20), ("a", 20, 25), ("a", 40, 50))]
    found = [(PAY, [Reading(3)])]
    assert watched(spans, found) == [(3, 25), (40, 50)]
    assert gaps(watched(spans, found)) == [(25, 40)]
    assert watched(spans, [(PAY, [Reading(30)])]) == [(40, 50)]

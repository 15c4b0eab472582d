"""A threshold drawn from days that were made up: what is known of them must come out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel_core import Engine
from sentinel_core.collectors.local import RateWindow
from sentinel_core.observation.normal import peak, without_incidents
from sentinel_core.observation.reasons import cautions, reasons
from sentinel_core.observation.store import Reading
from sentinel_core.observation.suggestion import TRIAL_PERCENTS, NoSuggestion, Suggestion, Wish, rounded, suggest
from sentinel_core.observation.windows import Observation
from tests.observation.conftest import DAY, EVERY, PAY, START, STOCK, binomial, gauge_readings, rate_readings

HOUR = 3_600_000
BELOW = Wish(direction="below")


def at_hour(at: int, *hours: int) -> bool:
    return at % DAY // HOUR in hours


def usual(at: int) -> float:
    """The article's payments: 0.8 % of them fail, 1.5 % in the evening."""
    return 1.5 if at_hour(at, 20, 21) else 0.8


def test_the_threshold_is_a_multiple_of_the_normal_peak_whatever_an_incident_did() -> None:
    def with_incident(at: int) -> float:
        return 40.0 if 30 * HOUR < at < 30 * HOUR + 600_000 else usual(at)

    wish = Wish(window_ms=120_000)
    quiet = suggest([(PAY, rate_readings(3, usual))], wish)
    troubled = suggest([(PAY, rate_readings(3, with_incident))], wish)
    assert 1.5 < quiet.peak < 3
    assert quiet.threshold == pytest.approx(2.5 * quiet.peak, rel=0.05)
    assert troubled.threshold == pytest.approx(quiet.threshold, rel=0.1)
    assert not quiet.trips
    assert [(trip.began > START + 30 * HOUR - 60_000, trip.worst > 30) for trip in troubled.trips] == [(True, True)]


def test_a_peak_that_comes_back_every_day_is_normal_and_one_that_does_not_is_an_incident() -> None:
    daily = gauge_readings(4, lambda at: 300.0 if at_hour(at, 20) else 10.0 + at // EVERY % 5)
    once = gauge_readings(4, lambda at: 300.0 if at > DAY and at // HOUR == 44 else 10.0 + at // EVERY % 5)
    assert suggest([(STOCK, daily)], Wish()).threshold == 750
    assert suggest([(STOCK, daily)], Wish()).normal.usual_hours == [20]
    assert suggest([(STOCK, once)], Wish()).threshold == 35
    assert len(suggest([(STOCK, once)], Wish()).trips) == 1


def test_where_low_is_bad_the_trough_is_divided() -> None:
    made = suggest([(STOCK, gauge_readings(2, lambda at: 100.0 + at % DAY / DAY * 100))], BELOW)
    assert made.peak == pytest.approx(101, abs=0.1)
    assert made.threshold == 40


@pytest.mark.parametrize(("samples", "window_ms"), [(100, 60_000), (25, 120_000), (3, 300_000)])
def test_thinner_traffic_gets_a_longer_window(samples: int, window_ms: int) -> None:
    made = suggest([(PAY, rate_readings(2, lambda _: 0.8, samples=samples))], Wish())
    assert made.window_ms >= window_ms
    assert made.volume >= made.minimum


def test_chance_at_the_normal_rate_trips_no_more_often_than_was_said() -> None:
    """Windows as the engine keeps them, with no more samples than it takes, at a bound of one trip in a day."""
    made = suggest([(PAY, rate_readings(2, lambda _: 2.0, samples=12))], Wish(days=1))
    days, trips = 40, 0
    window, pick = RateWindow(made.window_ms), random.Random(5)
    step = made.window_ms // 10
    for now in range(0, days * DAY, step):
        samples = -(-made.minimum // 10)
        bad = binomial(pick, samples, 0.02)
        window.roll(now)
        window.add(now, ok=True, count=samples - bad)
        window.add(now, ok=False, count=bad)
        trips += window.total >= made.minimum and window.percent() > made.threshold
    assert trips <= days


def test_one_bad_sample_alone_never_trips() -> None:
    made = suggest([(PAY, rate_readings(2, lambda _: 0.0))], Wish())
    assert made.threshold > 0
    assert 100 / made.minimum <= made.threshold


@pytest.mark.parametrize("samples", [2000, 500, 100, 30])
def test_a_trial_is_as_mild_as_it_can_be_and_holds_what_it_takes(samples: int) -> None:
    made = suggest([(PAY, rate_readings(1, lambda _: 2.0, samples=samples))], Wish())
    per_s, trial = samples / (EVERY / 1000), made.trial
    assert trial.samples >= trial.needed >= 100 / made.threshold
    milder = [percent for percent in TRIAL_PERCENTS if percent < trial.percent]
    assert all(per_s * 10 * percent / 100 < trial.needed for percent in milder), "ten seconds would not do"
    assert trial.ms == 2000 or per_s * (trial.ms - 1000) / 1000 * trial.percent / 100 < trial.needed


def test_a_trial_that_stays_too_thin_is_told() -> None:
    made = suggest([(PAY, rate_readings(1, lambda _: 2.0, samples=3))], Wish())
    assert made.trial.samples < made.trial.needed
    assert any("expect it to open again by chance" in each for each in cautions(made))


def test_few_samples_make_no_incidents() -> None:
    """At 0.8 % every sixth window of 24 samples holds a bad one."""
    made = suggest([(PAY, rate_readings(3, lambda _: 0.8, samples=2))], Wish(window_ms=120_000, factor=3))
    assert made.normal.left_out < made.observed / 100
    assert made.rate > 0.8


def test_a_metric_that_never_failed_gets_a_threshold_and_a_caution() -> None:
    made = suggest([(PAY, rate_readings(1, lambda _: 0.0))], Wish())
    assert made.threshold == 13
    assert any("no bad sample was seen" in each for each in cautions(made))


def test_a_rate_that_is_bad_anyway_gets_what_room_there_is_and_a_caution() -> None:
    made = suggest([(PAY, rate_readings(2, lambda _: 50.0))], Wish())
    assert made.peak < made.threshold < 100
    assert any("half-way" in each for each in cautions(made))


def test_traffic_that_is_too_thin_for_any_window_is_told() -> None:
    readings = [reading for reading in rate_readings(3, lambda _: 3.0, samples=1) if reading.at % 600_000 == 0]
    with pytest.raises(NoSuggestion, match="no breaker on so few is right"):
        suggest([(PAY, readings)], Wish())


@pytest.mark.parametrize(
    ("readings", "wish", "said"),
    [
        (gauge_readings(2, lambda _: 0.0), Wish(), "normal peak is 0"),
        (gauge_readings(2, lambda _: -3.0), Wish(), "normal peak is -3"),
        (gauge_readings(2, lambda at: float(at_hour(at, 1, 2))), BELOW, "normal trough is 0"),
    ],
)
def test_what_cannot_be_multiplied_is_refused(readings: list[Reading], wish: Wish, said: str) -> None:
    with pytest.raises(NoSuggestion, match=said):
        suggest([(STOCK, readings)], wish)


def test_only_bad_samples_look_like_a_mistake() -> None:
    with pytest.raises(NoSuggestion, match="wrong way round"):
        suggest([(PAY, rate_readings(2, lambda _: 100.0))], Wish())


def test_a_success_rate_may_be_watched_from_below() -> None:
    made = suggest([(PAY, rate_readings(2, lambda _: 90.0, samples=60))], BELOW)
    assert 30 < made.threshold < made.peak < 90
    assert made.minimum >= 20


@pytest.mark.parametrize(
    ("value", "up", "down"), [(5.41, 5.5, 5.4), (5.5, 5.5, 5.5), (0.01234, 0.013, 0.012), (1234, 1300, 1200), (0, 0, 0)]
)
def test_thresholds_are_rounded_away_from_what_is_normal(value: float, up: float, down: float) -> None:
    assert (rounded(value, above=True), rounded(value, above=False)) == (up, down)


@given(st.floats(1e-6, 1e9), st.booleans())
def test_rounding_goes_one_way_and_not_far(value: float, above: bool) -> None:
    found = rounded(value, above=above)
    assert found >= value * (1 - 1e-6) if above else found <= value * (1 + 1e-6)
    assert found == pytest.approx(value, rel=0.11)


def observed(values: list[float]) -> list[Observation]:
    return [Observation(START + number * EVERY, "i", value) for number, value in enumerate(values)]


some = st.lists(st.integers(0, 1000).map(float), min_size=5, max_size=80)


@given(some, st.booleans())
def test_the_normal_peak_is_a_value_that_was_seen_and_no_incident(values: list[float], above: bool) -> None:
    normal = without_incidents(observed(values), above=above, pause_ms=60_000)
    found = peak(normal, above=above)
    assert found in values
    assert found <= normal.bound if above else found >= normal.bound
    assert len(normal.kept) + normal.left_out == len(values)


@given(some, st.sampled_from([0.25, 2.0, 64.0]))
def test_other_units_have_the_same_peak_in_those_units(values: list[float], scale: float) -> None:
    one = without_incidents(observed(values), above=True, pause_ms=0)
    other = without_incidents(observed([scale * value for value in values]), above=True, pause_ms=0)
    assert peak(other, above=True) == scale * peak(one, above=True)


def drawn(values: list[float], wish: Wish) -> Suggestion | None:
    try:
        return suggest([(STOCK, [Reading(START + n * EVERY, value=value) for n, value in enumerate(values)])], wish)
    except NoSuggestion:
        return None


@given(some, st.floats(1, 10))
def test_a_threshold_never_lies_within_what_is_normal(values: list[float], factor: float) -> None:
    above, below = drawn(values, Wish(factor)), drawn(values, Wish(factor, "below"))
    assert above is None or above.threshold >= above.peak
    assert below is None or below.threshold <= below.peak


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), min_size=5, max_size=60), st.floats(1, 4))
def test_nor_does_that_of_a_rate(samples: list[tuple[int, float]], factor: float) -> None:
    readings = [
        Reading(START + n * EVERY, total, int(total * share)) for n, (total, share) in enumerate(samples) if total
    ]
    if not readings:
        return
    try:
        made = suggest([(PAY, readings)], Wish(factor))
    except NoSuggestion:
        return
    assert made.peak <= made.threshold < 100
    assert 100 / made.minimum <= made.threshold
    assert all(reason for _, reason in reasons(made))


def test_the_rule_is_one_that_the_engine_takes() -> None:
    from sentinel_core.cli.biz.suggest import rule_of

    made = suggest([(PAY, rate_readings(2, usual))], Wish())
    ruleset = Engine().load_rules("biz_metric", [rule_of(made, "PAY_FAIL_RATE", "order_create", None)])
    assert [warning.code for warning in ruleset.warnings] == ["SR218"], "that Java ignores the mode, and no more"
    assert ruleset.rules[0].mode == "shadow"

"""Breakers on business metrics: the state machine, the share that may try, and what has no value."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import BizMetricBlockException, Engine, context
from sentinel_core.collectors import installed
from sentinel_core.collectors.local import VALUES
from sentinel_core.testing import FakeClock

Passes = Callable[..., int]


def rule(**fields: object) -> list[dict[str, object]]:
    return [
        {
            "resource": "r",
            "bizMetricType": "PAY_FAIL_RATE",
            "threshold": 5,
            "minRequestAmount": 10,
            "stateWindowMs": 30_000,
            **fields,
        }
    ]


def state(engine: Engine) -> str:
    return str(engine.breakers("r")[0]["state"])


def report(engine: Engine, good: int, bad: int, **where: str) -> None:
    for number in range(good + bad):
        engine.report("PAY_FAIL_RATE", ok=number < good, resource=where.get("resource", "r"), dimension=where.get("of"))


@pytest.fixture
def opened(engine: Engine) -> Engine:
    engine.load_rules("biz_metric", rule())
    report(engine, 5, 5)
    assert not engine.try_entry("r")
    return engine


def test_equal_to_the_threshold_is_healthy(engine: Engine) -> None:
    engine.load_rules("biz_metric", rule(threshold=50))
    report(engine, 5, 5)
    assert engine.try_entry("r")
    report(engine, 0, 1)
    assert not engine.try_entry("r")


def test_old_samples_leave_the_window(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("biz_metric", rule(windowIntervalMs=10_000))
    report(engine, 0, 9)
    clock.advance(ms=11_000)
    report(engine, 0, 9)
    assert engine.try_entry("r"), "nine samples are too few"


def test_half_open_lets_five_percent_through_and_the_first_one(
    opened: Engine, clock: FakeClock, passes: Passes
) -> None:
    clock.advance(ms=30_000)
    assert [bool(opened.try_entry("r")) for _ in range(3)] == [True, False, False]
    assert passes(197, "r") == 9, "ten of two hundred in all, counted and not drawn"
    assert state(opened) == "HALF_OPEN"


@pytest.mark.parametrize(("bad", "after"), [(0, "CLOSED"), (1, "CLOSED"), (2, "OPEN")])
def test_the_half_open_period_is_judged_as_a_whole(opened: Engine, clock: FakeClock, bad: int, after: str) -> None:
    """A single failure among twenty does not open it again, as a single lucky probe would not close it."""
    clock.advance(ms=30_000)
    opened.try_entry("r")
    report(opened, 20 - bad, bad)
    clock.advance(ms=1_999)
    opened.try_entry("r")
    assert state(opened) == "HALF_OPEN"
    clock.advance(ms=1)
    opened.try_entry("r")
    assert state(opened) == after


@pytest.mark.parametrize(("bad", "after"), [(0, "CLOSED"), (3, "OPEN")])
def test_a_trial_with_too_few_samples_is_judged_with_the_next_one(
    opened: Engine, clock: FakeClock, bad: int, after: str
) -> None:
    """Never by one unlucky sample, and never without an end: each period has a first call that passes."""
    clock.advance(ms=30_000)
    assert opened.try_entry("r")
    report(opened, 0, bad)
    clock.advance(ms=2_000)
    assert opened.try_entry("r"), "the first of the next period"
    assert state(opened) == "HALF_OPEN"
    report(opened, 9, 0)
    report(opened, 0, 1) if bad else report(opened, 1, 0)
    clock.advance(ms=2_000)
    opened.try_entry("r")
    assert state(opened) == after


def test_a_trial_that_is_longer_than_the_window_is_judged_from_its_beginning(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("biz_metric", rule(windowIntervalMs=1000))
    report(engine, 0, 10)
    assert not engine.try_entry("r")
    clock.advance(ms=30_000)
    assert engine.try_entry("r")
    report(engine, 0, 99)
    clock.advance(ms=1_500)
    report(engine, 1, 0)
    clock.advance(ms=500)
    assert not engine.try_entry("r")
    assert state(engine) == "OPEN"


@given(st.floats(0.001, 100), st.integers(1, 400))
def test_never_more_than_the_share_and_the_first_call_passes(percent: float, calls: int) -> None:
    clock = FakeClock()
    engine = Engine(clock=clock)
    engine.load_rules("biz_metric", rule(halfOpenPercent=percent))
    report(engine, 0, 10)
    engine.try_entry("r")
    clock.advance(ms=30_000)
    passed = 0
    for asked in range(1, calls + 1):
        passed += bool(engine.try_entry("r"))
        assert passed == max(1, math.ceil(Fraction(round(percent * 10**6), 10**8) * asked))


def test_a_gauge_heals_after_the_half_open_period(engine: Engine, clock: FakeClock, passes: Passes) -> None:
    engine.load_rules("biz_metric", rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=1))
    engine.gauge("STOCK_DEPTH", 9, resource="r")
    assert passes(3, "r") == 0
    engine.gauge("STOCK_DEPTH", 10, resource="r")
    clock.advance(ms=29_999)
    assert passes(3, "r") == 0
    clock.advance(ms=1)
    assert passes(3, "r") == 1
    clock.advance(ms=2_000)
    assert passes(3, "r") == 3


def test_a_gauge_is_judged_once_enough_calls_have_come(engine: Engine, clock: FakeClock, passes: Passes) -> None:
    """Cold start: calls of this interval and of the one before it count, older ones do not."""
    calls = rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=4, windowIntervalMs=1000)
    engine.load_rules("biz_metric", calls)
    engine.gauge("STOCK_DEPTH", 50, resource="r")
    assert passes(3, "r") == 3
    clock.advance(ms=2_000)
    assert passes(2, "r") == 2
    engine.gauge("STOCK_DEPTH", 5, resource="r")
    clock.advance(ms=1_000)
    assert passes(9, "r") == 1, "two before and one now are three, the next one is judged"


def test_a_metric_without_a_value_lets_everything_pass(engine: Engine, passes: Passes) -> None:
    engine.load_rules("biz_metric", rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=0))
    assert passes(5, "r") == 5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_neither_trips_nor_heals(engine: Engine, passes: Passes, value: float) -> None:
    """P16"""
    engine.load_rules("biz_metric", rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=1))
    engine.gauge("STOCK_DEPTH", 20, resource="r")
    engine.gauge("STOCK_DEPTH", value, resource="r")
    assert passes(3, "r") == 3
    assert engine.status()["metrics"]["invalid"] == 1


def test_a_gauge_for_all_resources_is_the_second_choice(engine: Engine, passes: Passes) -> None:
    engine.load_rules("biz_metric", rule(bizMetricType="QUEUE_DEPTH", threshold=100, minRequestAmount=1))
    engine.gauge("QUEUE_DEPTH", 500)
    assert passes(3, "r") == 0
    assert passes(3, "other") == 3


@pytest.mark.parametrize(("on_stale", "passing"), [("hold", 3), ("close", 3), ("open", 0)])
def test_a_stale_gauge_acts_as_the_rule_says(
    engine: Engine, clock: FakeClock, passes: Passes, on_stale: str, passing: int
) -> None:
    stale = {"staleAfterMs": 5_000, "onStale": on_stale}
    engine.load_rules("biz_metric", rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=1, **stale))
    engine.gauge("STOCK_DEPTH", 50, resource="r")
    clock.advance(ms=5_001)
    assert passes(3, "r") == passing


@pytest.mark.parametrize(("on_stale", "passing"), [("hold", 0), ("close", 3), ("open", 0)])
def test_an_open_breaker_whose_gauge_grows_stale(
    engine: Engine, clock: FakeClock, passes: Passes, on_stale: str, passing: int
) -> None:
    stale = {"staleAfterMs": 5_000, "onStale": on_stale}
    engine.load_rules("biz_metric", rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=1, **stale))
    engine.gauge("STOCK_DEPTH", 5, resource="r")
    assert passes(3, "r") == 0
    clock.advance(ms=5_001)
    assert passes(3, "r") == passing


def test_a_gauge_that_was_never_set_is_stale_for_a_rule_that_would_rather_refuse(
    engine: Engine, clock: FakeClock, passes: Passes, caplog: pytest.LogCaptureFixture
) -> None:
    """The source was down when the service began: nobody knows, as when it goes down later."""
    careful = {"bizMetricType": "STOCK_DEPTH", "threshold": 10, "minRequestAmount": 1, "staleAfterMs": 5_000}
    engine.load_rules("biz_metric", rule(**careful, onStale="open"))
    assert passes(3, "r") == 3, "it has just begun"
    clock.advance(ms=5_001)
    assert passes(3, "r") == 0
    assert "STOCK_DEPTH of 'r' was never set: the breaker opens" in caplog.text
    clock.advance(ms=30_000)
    assert passes(3, "r") == 1, "a trial"
    clock.advance(ms=2_000)
    assert passes(3, "r") == 0, "that is concluded without a value"
    engine.gauge("STOCK_DEPTH", 50, resource="r")
    clock.advance(ms=30_000)
    engine.gauge("STOCK_DEPTH", 50, resource="r")
    assert passes(3, "r") == 1
    clock.advance(ms=2_000)
    assert passes(3, "r") == 3
    engine.load_rules("biz_metric", rule(**careful, onStale="close", resource="other"))
    clock.advance(ms=9_000)
    assert passes(3, "other") == 3


def test_staleness_is_told_when_it_begins_and_when_it_ends(
    engine: Engine, clock: FakeClock, passes: Passes, caplog: pytest.LogCaptureFixture
) -> None:
    stale = {"staleAfterMs": 5_000, "onStale": "open"}
    engine.load_rules("biz_metric", rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=1, **stale))
    engine.gauge("STOCK_DEPTH", 50, resource="r")
    clock.advance(ms=6_000)
    passes(5, "r")
    assert engine.breakers("r")[0]["stale"]
    assert engine.breakers("r")[0]["ageMs"] == 6_000
    engine.gauge("STOCK_DEPTH", 50, resource="r")
    passes(5, "r")
    assert [record.message for record in caplog.records] == [
        "STOCK_DEPTH of 'r' is stale, last set 6000 ms ago: the breaker opens",
        "STOCK_DEPTH of 'r' is back",
    ]
    clock.advance(ms=30_000)
    engine.gauge("STOCK_DEPTH", 50, resource="r")
    passes(1, "r")
    clock.advance(ms=2_000)
    assert passes(5, "r") == 5, "it heals by itself"


def test_the_exception_says_what_stands_where_and_when_to_come_back(opened: Engine, clock: FakeClock) -> None:
    clock.advance(ms=10_000)
    with pytest.raises(BizMetricBlockException) as caught:
        opened.entry("r")
    block = caught.value
    assert (block.resource, block.metric_type, block.value, block.threshold) == ("r", "PAY_FAIL_RATE", 50, 5)
    assert (block.state, block.retry_after) == ("OPEN", 20_000)
    assert "PAY_FAIL_RATE is 50, threshold 5, OPEN, retry after 20000 ms" in str(block)
    assert str(pickle.loads(pickle.dumps(block))) == str(block)  # noqa: S301 (our own)


# -- dimensions --------------------------------------------------------------------------------------------------------


def in_channel(engine: Engine, channel: str) -> bool:
    with context("shop", tags={"channel": channel}):
        return bool(engine.try_entry("r"))


def test_each_value_of_a_dimension_is_judged_for_itself(engine: Engine) -> None:
    engine.load_rules("biz_metric", rule(dimension="channel"))
    report(engine, 0, 50, of="card")
    report(engine, 50, 0, of="transfer")
    assert not in_channel(engine, "card")
    assert in_channel(engine, "transfer")
    assert engine.try_entry("r"), "a call without the tag is none of either"
    with context("shop", tags={"channel": "card"}), pytest.raises(BizMetricBlockException) as caught:
        engine.entry("r")
    assert (caught.value.dimension, caught.value.value, caught.value.retry_after) == ("card", 100, 30_000)
    live = engine.breakers("r")[0]
    assert (live["state"], live["dimension"]) == ("OPEN", "channel")
    assert {value: part["state"] for value, part in live["values"].items()} == {
        "card": "OPEN",
        "transfer": "CLOSED",
        "": "CLOSED",
    }


def test_a_report_takes_its_value_from_the_context(engine: Engine) -> None:
    engine.load_rules("biz_metric", [*rule(dimension="channel"), *rule(dimension="tenant", threshold=99)])
    with context("shop", tags={"channel": "card", "tenant": "a"}):
        report(engine, 1, 9)
    assert not in_channel(engine, "card")
    assert in_channel(engine, "transfer")


def test_a_rule_without_a_dimension_counts_the_samples_of_all(engine: Engine) -> None:
    engine.load_rules("biz_metric", rule())
    report(engine, 0, 5, of="card")
    report(engine, 0, 5, of="transfer")
    assert not engine.try_entry("r")


def test_a_gauge_of_a_dimension(engine: Engine) -> None:
    engine.load_rules(
        "biz_metric", rule(bizMetricType="COUPON_POOL", threshold=10, minRequestAmount=1, dimension="shop")
    )
    engine.gauge("COUPON_POOL", 3, resource="r", dimension="north")
    engine.gauge("COUPON_POOL", 30, dimension="south")
    decided = {}
    for shop in ("north", "south", "unknown"):
        with context(tags={"shop": shop}):
            decided[shop] = bool(engine.try_entry("r"))
    assert decided == {"north": False, "south": True, "unknown": True}


def test_ten_thousand_values_neither_trip_nor_heal(
    engine: Engine, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine.load_rules("biz_metric", rule(dimension="order"))
    report(engine, 0, 10, of="first")
    with context(tags={"order": "first"}):
        assert not engine.try_entry("r")
    for number in range(10_000):
        report(engine, 0, 10, of=f"order-{number}")
        with context(tags={"order": f"order-{number}"}):
            assert bool(engine.try_entry("r")) is (number >= VALUES - 1)
    with context(tags={"order": "first"}):
        assert not engine.try_entry("r")
    assert "a rule judges enough values of its dimension" in caplog.text
    assert engine.status()["beyondBounds"]["dimensions"] >= 10_000 - VALUES
    clock.advance(ms=100_000)
    with context(tags={"order": "first"}):
        assert engine.try_entry("r"), "its trial"
    report(engine, 0, 10, of="late")
    with context(tags={"order": "late"}):
        assert engine.try_entry("r"), "all places are taken by open breakers"


def test_closed_values_make_room_for_others(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("biz_metric", rule(dimension="order"))
    for number in range(3 * VALUES):
        with context(tags={"order": f"order-{number}"}):
            engine.report("PAY_FAIL_RATE", ok=True, resource="r")
            assert engine.try_entry("r")
        clock.advance(ms=100)
    report(engine, 0, 10, of="bad")
    with context(tags={"order": "bad"}):
        assert not engine.try_entry("r")
    assert engine.status()["beyondBounds"] == {}


def test_a_disabled_rule_does_nothing(engine: Engine) -> None:
    engine.load_rules("biz_metric", rule(enabled=False))
    report(engine, 0, 50)
    assert engine.try_entry("r")


def test_samples_outlive_a_change_of_the_threshold(engine: Engine) -> None:
    """A rule made milder does not begin cold: minRequestAmount would protect nobody for a minute."""
    engine.load_rules("biz_metric", rule(threshold=90))
    report(engine, 5, 5)
    engine.load_rules("biz_metric", rule(threshold=40))
    assert not engine.try_entry("r")


def test_a_collector_feeds_a_gauge(engine: Engine, passes: Passes) -> None:
    class Stock:
        metric = "STOCK_DEPTH"

        def collect(self) -> Mapping[str, float]:
            return {"r": 3}

    class Broken:
        metric = "STOCK_DEPTH"

        def collect(self) -> Mapping[str, float]:
            raise OSError("warehouse is down")

    engine.load_rules("biz_metric", rule(bizMetricType="STOCK_DEPTH", threshold=10, minRequestAmount=1))
    engine.collectors.register(Stock(), thread=False)
    engine.collectors.register(Broken(), thread=False)
    engine.collectors.refresh()
    assert passes(2, "r") == 0
    assert engine.collectors.failures == 1


class Coupons:
    """As a package would offer it: `COUPONS_LEFT = "shop.metrics:Coupons"` under `sentinel.collectors`."""

    metric = "COUPONS_LEFT"

    def collect(self) -> Mapping[str, float]:
        return {"": 3}


def test_an_installed_collector_is_found_by_the_name_of_its_metric(
    engine: Engine, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("COUPONS_LEFT", f"{__name__}:Coupons", "sentinel.collectors")
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or ModuleType(__name__))
    monkeypatch.setattr(sys.modules[__name__], "Coupons", Coupons, raising=False)
    offered = {("sentinel.collectors", "COUPONS_LEFT"): [point]}
    monkeypatch.setattr("sentinel_core.collectors.entry_points", lambda group, name: offered.get((group, name), []))
    installed.cache_clear()
    coupons = rule(bizMetricType="COUPONS_LEFT", threshold=5, direction="below", minRequestAmount=1)
    engine.load_rules("biz_metric", coupons)
    engine.collectors.refresh()
    assert passes(2, "r") == 0
    installed.cache_clear()

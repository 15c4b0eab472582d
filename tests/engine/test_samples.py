"""The samples of the articles that this project began with load as they stand and enforce what they say."""

from __future__ import annotations

from collections.abc import Callable

from sentinel_core import BizMetricBlockException, Engine
from sentinel_core.rules import Revision, SourceText, parse_revision
from sentinel_core.testing import FakeClock

FLOW = """[ { "resource": "order:create", "grade": 1, "count": 200, "limitApp": "default", "strategy": 0,
  "controlBehavior": 0 } ]"""
BUSINESS = """[ { "resource": "order:create", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5,
  "windowIntervalMs": 60000, "minRequestAmount": 20, "stateWindowMs": 30000, "enabled": true },
  { "resource": "stock:deduct",
  "bizMetricType": "STOCK_DEPTH", "threshold": 10, "windowIntervalMs": 30000, "minRequestAmount": 5,
  "stateWindowMs": 15000, "enabled": true } ]"""
DEGRADE = '[{ "resource": "order:create", "grade": 0, "count": 100, "timeWindow": 30 }]'
DOCUMENT = b"""# sentinel-rules.yaml
flowRules:
  - resource: order_create
    grade: 1 # QPS
    count: 500
    strategy: 0
    controlBehavior: 0
    clusterMode: false
  - resource: payment_invoke
    grade: 2 # threads
    count: 20
    strategy: 1
    refResource: payment_gateway
    controlBehavior: 1
    warmUpPeriodSec: 120
"""


def test_two_hundred_orders_a_second(engine: Engine, passes: Callable[..., int]) -> None:
    engine.load_rules("flow", FLOW)
    assert passes(300, "order:create") == 200


def test_more_than_five_percent_failed_payments_stop_orders_for_thirty_seconds(
    engine: Engine, clock: FakeClock
) -> None:
    engine.load_rules("biz_metric", BUSINESS)
    for number in range(19):
        engine.report("PAY_FAIL_RATE", ok=number > 1, resource="order:create")
    assert engine.try_entry("order:create"), "19 samples are too few to judge"
    engine.report("PAY_FAIL_RATE", ok=True, resource="order:create")
    blocked = engine.try_entry("order:create")
    assert not blocked
    assert isinstance(blocked.exception(), BizMetricBlockException)  # type: ignore[union-attr]  # falsy, so a Blocked
    clock.advance(ms=29_999)
    assert not engine.try_entry("order:create")


def test_stock_below_ten_stops_deductions_after_five_calls(engine: Engine, passes: Callable[..., int]) -> None:
    engine.load_rules("biz_metric", BUSINESS)
    engine.gauge("STOCK_DEPTH", 9, resource="stock:deduct")
    assert passes(6, "stock:deduct") == 4, "the fifth call makes the amount that is needed to judge"


def test_a_hundred_milliseconds_is_slow_for_an_order(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("degrade", DEGRADE)
    entries = [engine.entry("order:create") for _ in range(5)]
    clock.advance(ms=101)
    for entry in entries:
        entry.exit()
    assert not engine.try_entry("order:create")


def test_the_document_enforces_threads_of_the_related_resource(engine: Engine, passes: Callable[..., int]) -> None:
    text = SourceText("sentinel-rules.yaml", DOCUMENT, "yaml")
    engine.load_rules("flow", parse_revision(Revision((text,), "test", "1"), ["flow"])["flow"])
    assert passes(600, "order_create") == 500
    inside = [engine.entry("payment_gateway") for _ in range(19)]
    assert engine.try_entry("payment_invoke")
    inside.append(engine.entry("payment_gateway"))
    assert not engine.try_entry("payment_invoke"), "20 calls are inside the gateway"
    inside[0].exit()
    assert engine.try_entry("payment_invoke")

"""Nothing grows beyond its bound, the first time is told, and what a rule names goes on working."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable

import pytest

from sentinel_core import Engine, context
from sentinel_core.collectors.local import GAUGES
from sentinel_core.gate import PARTS
from sentinel_core.slots.param_flow import PER_SECOND
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]
Flood = Callable[[Engine, int], None]


def resources(engine: Engine, number: int) -> None:
    engine.entry(f"/orders/{number}").exit()


def origins(engine: Engine, number: int) -> None:
    engine.try_entry("named", origin=f"app-{number}")


def contexts(engine: Engine, number: int) -> None:
    engine.entry("named", context=f"page-{number}").exit()


def values(engine: Engine, number: int) -> None:
    engine.entry("named", args=(f"user-{number}",)).exit()


def gauges(engine: Engine, number: int) -> None:
    engine.gauge("DEPTH", 7, dimension=f"order-{number}")


FLOODS: list[tuple[Flood, int]] = [
    (resources, 100),
    (origins, PARTS),
    (contexts, PARTS),
    (values, PER_SECOND),
    (gauges, GAUGES),
]


@pytest.fixture
def bounded(clock: FakeClock) -> Engine:
    """An engine with a rule of every sort that has something to count by name."""
    engine = Engine(clock=clock, max_resources=100)
    engine.load_rules(
        "flow",
        [
            {"resource": "named", "count": 2, "limitApp": "web"},
            {"resource": "named", "count": 2, "strategy": 2, "refResource": "checkout"},
            {"resource": "named", "count": 3, "limitApp": "other"},
        ],
    )
    engine.load_rules("param_flow", [{"resource": "named", "paramIdx": 0, "count": 2}])
    stock = {"resource": "stock", "bizMetricType": "STOCK", "threshold": 5, "minRequestAmount": 0}
    engine.load_rules("biz_metric", [{**stock, "dimension": "sort", "direction": "below"}])
    return engine


@pytest.mark.parametrize(("flood", "bound"), FLOODS)
def test_beyond_its_bound_nothing_grows_and_one_line_tells(
    bounded: Engine, clock: FakeClock, caplog: pytest.LogCaptureFixture, flood: Flood, bound: int
) -> None:
    for number in range(bound - 5):
        flood(bounded, number)
    assert caplog.text == ""
    for number in range(bound - 5, bound + 200):
        flood(bounded, number)
    clock.advance(ms=5_000)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(bound + 200, 2 * bound + 1_000):
            flood(bounded, number)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Values take the place of others, whose memory was counted before: those cannot be told from growth here.
    assert grown < (1_500_000 if flood is values else 20_000)
    assert len(caplog.records) == 1
    assert bounded.status()["beyondBounds"] == {flood.__name__: pytest.approx(bound + 1_000, abs=10)}


def test_the_values_that_are_kept_are_bounded(bounded: Engine) -> None:
    for number in range(3 * PER_SECOND):
        values(bounded, number)
    live = bounded.explain("named")[-1]["rules"][0]["live"]
    assert live["values"] == PER_SECOND


def test_rules_go_on_for_what_they_name(bounded: Engine, clock: FakeClock, passes: Calls) -> None:
    for flood, bound in FLOODS:
        for number in range(bound + 10):
            flood(bounded, number)
    clock.advance(ms=5_000)

    def let(**call: object) -> int:
        return sum(bool(bounded.try_entry("named", **call)) for _ in range(9))  # type: ignore[arg-type]  # whatever the test passes on

    assert let(origin="web") == 2
    clock.advance(ms=5_000)
    assert let(context="checkout") == 2
    clock.advance(ms=5_000)
    assert let(args=("hot",)) == 2
    bounded.gauge("STOCK", 1, dimension="tea")
    with context(tags={"sort": "tea"}):
        assert not bounded.try_entry("stock")
    bounded.load_rules("flow", [{"resource": "late", "count": 0}])
    assert not bounded.try_entry("late")


def test_callers_beyond_the_bound_are_counted_as_one(bounded: Engine) -> None:
    """A rule for `other` callers cannot be passed by inventing names."""
    for number in range(PARTS + 5):
        bounded.try_entry("named", origin=f"app-{number}")
    assert sum(bool(bounded.try_entry("named", origin=f"new-{number}")) for number in range(9)) == 0


def test_all_resources_share_one_bound_for_callers(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel_core.snapshot.MAX_PARTS", 10)
    engine = Engine(clock=clock)
    engine.load_rules("flow", [{"resource": f"r{n}", "count": 9, "limitApp": "other"} for n in range(4)])
    for number in range(40):
        engine.entry(f"r{number % 4}", origin=f"app-{number}").exit()
    nodes = [engine.snapshot.plans[f"r{n}"].node for n in range(4)]
    assert sum(len(node.origins) for node in nodes) <= 10 + len(nodes)
    assert engine.status()["beyondBounds"]["origins"] > 0


def test_values_inside_at_once_are_bounded_too(engine: Engine) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}])
    entries = [engine.entry("r", args=(f"user-{number}",)) for number in range(PER_SECOND + 10)]
    assert engine.explain("r")[-1]["rules"][0]["live"]["threads"] == PER_SECOND
    for entry in entries:
        entry.exit()
    assert engine.explain("r")[-1]["rules"][0]["live"]["threads"] == 0


def test_calls_beyond_the_bound_do_not_wait_for_a_change_of_rules(clock: FakeClock) -> None:
    engine = Engine(clock=clock, max_resources=1)
    engine.entry("first").exit()
    ended = threading.Event()

    def calls() -> None:
        engine.entry("one too many").exit()
        ended.set()

    with engine._build_lock:
        caller = threading.Thread(target=calls)
        caller.start()
        assert ended.wait(5)
    caller.join()


def test_gauges_of_rules_that_are_gone_make_room(clock: FakeClock) -> None:
    """A rule has room for more gauges than all together; when it goes, or changes, what is beyond goes with it."""
    engine = Engine(clock=clock, collect=False)
    for number in range(GAUGES):
        gauges(engine, number)
    for change in range(4):
        depth = {"resource": "queue", "bizMetricType": "DEPTH", "threshold": 5, "dimension": "topic"}
        engine.load_rules("biz_metric", [{**depth, "windowIntervalMs": 1000 + change}])
        assert len(engine.metrics.gauges) == GAUGES
        clock.advance(ms=1)
        for number in range(20):
            engine.gauge("DEPTH", 7, resource="queue", dimension=f"{change}-{number}")
        assert len(engine.metrics.gauges) == GAUGES + 20
    newest = [engine.metrics.gauge("DEPTH", "queue", f"3-{number}") for number in range(20)]
    assert None not in newest

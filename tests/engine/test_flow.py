"""Flow rules: who is counted, and what is over the limit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from sentinel_core import Blocked, Engine, FlowException, context
from sentinel_core.entry import Waiting
from sentinel_core.testing import FakeClock

Passes = Callable[..., int]


def flow(**fields: object) -> list[dict[str, object]]:
    return [{"resource": "r", "grade": 1, **fields}]


@pytest.mark.parametrize(("count", "passing"), [(0, 0), (1, 1), (2.5, 2), (7, 7)])
def test_at_most_count_requests_pass_in_a_second(engine: Engine, passes: Passes, count: float, passing: int) -> None:
    """P17: 0 blocks every call."""
    engine.load_rules("flow", flow(count=count))
    assert passes(10, "r") == passing


def test_boundary_burst_is_bounded_by_twice_the_count(engine: Engine, clock: FakeClock, passes: Passes) -> None:
    """E01: with two buckets of 500 ms a burst at the end of a second is forgotten half a second later."""
    engine.load_rules("flow", flow(count=5))
    clock.advance(ms=800)
    assert passes(5, "r") == 5
    clock.advance(ms=250)  # 1050: the bucket of 800 still counts
    assert passes(5, "r") == 0
    clock.advance(ms=450)  # 1500: it has left
    assert passes(6, "r") == 5


def test_a_batch_counts_as_many_requests_as_it_says(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", flow(count=5))
    assert passes(10, "r", count=2) == 2


def test_concurrency_is_released_at_exit(engine: Engine) -> None:
    engine.load_rules("flow", flow(grade=0, count=2))
    first, second = engine.entry("r"), engine.entry("r")
    with pytest.raises(FlowException) as caught:
        engine.entry("r")
    assert caught.value.retry_after is None
    first.exit()
    engine.entry("r").exit()
    second.exit()
    assert engine.stats("r").threads == 0


def test_a_rule_for_one_caller_leaves_the_others_alone(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", flow(count=1, limitApp="app-a"))
    assert passes(3, "r", origin="app-a") == 1
    assert passes(3, "r", origin="app-b") == 3
    assert passes(3, "r") == 3


def test_other_means_callers_without_a_rule_of_their_own(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", [*flow(count=5, limitApp="app-a"), *flow(count=1, limitApp="other")])
    assert passes(6, "r", origin="app-a") == 5
    assert passes(3, "r", origin="app-b") == 1
    assert passes(3, "r", origin="app-c") == 1, "each caller has a count of its own"
    assert passes(3, "r") == 3, "no caller is nobody's other"


def test_a_related_resource_limits_this_one(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", flow(count=2, strategy=1, refResource="gateway"))
    assert passes(5, "r") == 5, "the gateway was never called"
    passes(2, "gateway")
    assert passes(5, "r") == 0
    assert passes(5, "gateway") == 5, "the other one is not limited"


def test_a_chain_rule_counts_one_entrance(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", flow(count=1, strategy=2, refResource="web"))
    assert passes(3, "r", context="jobs") == 3
    assert passes(3, "r", context="web") == 1
    with context("web"):
        assert passes(3, "r") == 0, "the context around the call is its entrance"


def test_the_context_carries_the_origin(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", flow(count=1, limitApp="app-a"))
    with context("web", origin="app-a"):
        assert passes(3, "r") == 1


@pytest.mark.parametrize("count", [1000, 1001, 2000, 2004, 5000])
def test_a_queue_keeps_its_rate_above_a_thousand(engine: Engine, clock: FakeClock, count: int) -> None:
    """E02: nanoseconds, so 2000 a second are not 1000."""
    engine.load_rules("flow", flow(count=count, controlBehavior=2, maxQueueingTimeMs=500))
    for _ in range(count):
        engine.entry("r").exit()
    assert clock.now_ns / 1e9 == pytest.approx(1, rel=0.01)


def test_less_than_one_request_a_second_is_paced(engine: Engine, clock: FakeClock) -> None:
    """P18: 0.2 a second lets one call pass every five seconds."""
    engine.load_rules("flow", flow(count=0.2, controlBehavior=2, maxQueueingTimeMs=10_000))
    for _ in range(3):
        engine.entry("r").exit()
    assert clock.waits == [5000, 5000]


def test_a_full_queue_refuses_and_says_when_to_come_again(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("flow", flow(count=10, controlBehavior=2, maxQueueingTimeMs=100))
    core = engine.core
    call = ("r", "", "", (), 1, False, False)
    core.begin(*call)
    core.begin(*call)  # waits 100 ms in another thread
    blocked = core.begin(*call)
    assert isinstance(blocked, Blocked)
    assert blocked.retry_after == 100
    clock.advance(ms=100)
    assert not isinstance(core.begin(*call), Blocked)


def test_warm_up_begins_at_a_third_and_reaches_the_count(engine: Engine, clock: FakeClock, passes: Passes) -> None:
    engine.load_rules("flow", flow(count=30, controlBehavior=1, warmUpPeriodSec=4))
    seconds = []
    for _ in range(12):
        seconds.append(passes(50, "r"))
        clock.advance(ms=1000)
    assert seconds[0] == 10
    assert seconds == sorted(seconds)
    assert seconds[-1] == 30


def test_a_warm_up_too_small_for_a_curve_does_not_block_for_ever(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", flow(count=1, controlBehavior=1, warmUpPeriodSec=1))
    assert passes(3, "r") == 1


def test_concurrency_holds_for_a_call_that_waited(engine: Engine, clock: FakeClock) -> None:
    """A queue in front of a concurrency limit: whoever waited is counted again before it enters."""
    engine.load_rules("flow", [*flow(grade=0, count=1), *flow(count=10, controlBehavior=2, maxQueueingTimeMs=1000)])
    core = engine.core
    call = ("r", "", "", (), 1, False, False)
    waiting = []
    first = core.begin(*call)
    first.exit()  # type: ignore[union-attr]  # it passed
    waiting = [core.begin(*call) for _ in range(3)]
    clock.advance(ms=1000)
    outcomes = [core.resume(each) for each in waiting]  # type: ignore[arg-type]  # all of them wait
    assert [bool(outcome) for outcome in outcomes] == [True, False, False]
    assert engine.stats("r").threads == 1


def test_concurrency_holds_for_a_call_that_borrowed(engine: Engine, clock: FakeClock) -> None:
    """Priority passes a call ahead of its second, not ahead of a limit of calls at once that stands in front."""
    threads = {"resource": "r", "grade": 0, "count": 2}
    engine.load_rules("flow", [threads, {"resource": "r", "count": 5}])
    for _ in range(5):
        engine.entry("r").exit()
    clock.advance(600)
    core = engine.core
    call = ("r", "", "", (), 1, True, False)
    waiting = [core.begin(*call) for _ in range(4)]
    clock.advance(400)
    outcomes = [core.resume(each) for each in waiting]  # type: ignore[arg-type]  # all of them wait
    assert [bool(outcome) for outcome in outcomes] == [True, True, False, False]
    assert engine.stats("r").threads == 2


def test_equal_rules_count_once(engine: Engine, clock: FakeClock) -> None:
    """E04: two equal queues would double every distance."""
    engine.load_rules("flow", flow(count=10, controlBehavior=2) * 2)
    engine.entry("r")
    engine.entry("r")
    assert clock.waits == [100]


def test_a_pattern_counts_each_matching_resource(engine: Engine, passes: Passes) -> None:
    engine.load_rules("flow", [{"resource": "/orders/.*", "regex": True, "count": 1, "grade": 1}])
    assert passes(3, "/orders/1") == 1
    assert passes(3, "/orders/2") == 1
    assert passes(3, "/order") == 3


def test_a_cluster_rule_says_how_it_acts(engine: Engine, passes: Passes) -> None:
    cluster = {"flowId": 7, "fallbackToLocalWhenFail": False}
    loaded = engine.load_rules("flow", flow(count=0, clusterMode=True, clusterConfig=cluster))
    assert any("passes every call" in str(warning) for warning in loaded.warnings)
    assert "passes every call" in engine.status()["kinds"]["flow"]["warnings"][-1]
    assert passes(3, "r") == 3
    engine.load_rules("flow", flow(count=5, clusterMode=True, clusterConfig={"flowId": 7}))
    assert passes(9, "r") == 2, "it falls back to counting here, where three have passed"


def test_a_priority_call_borrows_from_the_next_window(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("flow", flow(count=1))
    engine.entry("r").exit()
    clock.advance(ms=510)
    assert not engine.try_entry("r")
    assert engine.try_entry("r", priority=True)
    assert clock.waits == [490]


def allowed(engine: Engine) -> float:
    """What a warm-up rule lets pass a second now."""
    engine.entry("r").exit()
    told = next(slot for slot in engine.explain("r") if slot["slot"] == "flow")
    return float(told["rules"][0]["live"]["allowed"])


@pytest.mark.parametrize(("since_s", "expected"), [(-5, 10), (0, 10), (50, 15), (100, 30), (1000, 30)])
def test_instances_share_the_start_of_warming_up(clock: FakeClock, since_s: int, expected: float) -> None:
    """From count / 3 to count in the period, whenever one joins. A wall clock that steps later moves nothing."""
    clock.advance(ms=1_000_000)
    start = datetime.fromtimestamp(1000 - since_s, UTC).isoformat()
    engine = Engine(clock=clock)
    engine.load_rules("flow", flow(count=30, controlBehavior=1, warmUpPeriodSec=100, warmUpStart=start))
    engine.explain("r")
    clock.step_wall(3600)
    assert allowed(engine) == pytest.approx(expected)


def test_before_its_start_a_rule_stays_cold(engine: Engine, clock: FakeClock, passes: Passes) -> None:
    start = datetime.fromtimestamp(60, UTC).isoformat()
    engine.load_rules("flow", flow(count=30, controlBehavior=1, warmUpPeriodSec=3, warmUpStart=start))
    for _ in range(60):
        assert passes(30, "r") == 10
        clock.advance(ms=1000)
    for _ in range(10):
        passes(30, "r")
        clock.advance(ms=1000)
    assert passes(31, "r") == 30


def test_the_queue_of_a_warming_rule_shares_the_start_too(engine: Engine, clock: FakeClock) -> None:
    start = datetime.fromtimestamp(-100, UTC).isoformat()
    rule = flow(count=10, controlBehavior=3, warmUpPeriodSec=100, maxQueueingTimeMs=500, warmUpStart=start)
    engine.load_rules("flow", rule)
    for _ in range(2):
        engine.entry("r").exit()
    assert clock.waits == [100], "at full speed; 300 ms when cold"


@pytest.mark.parametrize(("compat", "waits"), [(None, [1000, 2000]), ("sentinel-1.8.9", [])])
def test_a_warm_up_too_short_for_its_count_queues_at_full_speed_and_not_at_all_in_java(
    clock: FakeClock, compat: str | None, waits: list[int]
) -> None:
    """The curve has no length: Java's distance is zero times infinity, which it rounds to 0."""
    engine = Engine(clock=clock, compat=compat)
    short = {"count": 1, "controlBehavior": 3, "warmUpPeriodSec": 1, "maxQueueingTimeMs": 5000}
    engine.load_rules("flow", flow(**short))
    core = engine.core
    call = ("r", "", "", (), 1, False, False)
    outcomes = [core.begin(*call) for _ in range(3)]
    assert [each.wait // 1_000_000 for each in outcomes if isinstance(each, Waiting)] == waits

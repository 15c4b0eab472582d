"""Authority, system and hot-parameter rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel_core import AuthorityException, Blocked, Engine, ParamFlowException, SystemBlockException
from sentinel_core.collectors.machine import CpuUsage
from sentinel_core.testing import FakeClock

Passes = Callable[..., int]


@pytest.mark.parametrize(
    ("strategy", "origins", "origin", "passing"),
    [
        (0, "app1,app2", "app1", True),
        (0, "app1, app2", "app2", True),
        (0, "app1,app2", "", False),
        (0, "app1,app2", "app", False),
        (0, "app1,app2", "app1 ", False),
        (0, "app1,app2", "APP1", False),
        (1, "app10", "app1", True),
        (1, "app10", "app10", False),
        (1, "app10", "", True),
    ],
)
def test_origins_are_compared_whole(engine: Engine, strategy: int, origins: str, origin: str, passing: bool) -> None:
    """E17: a white list refuses callers that say no origin."""
    engine.load_rules("authority", [{"resource": "r", "limitApp": origins, "strategy": strategy}])
    assert bool(engine.try_entry("r", origin=origin)) is passing


def test_compat_lets_unknown_callers_in(clock: FakeClock) -> None:
    """E17: the original passes an empty origin."""
    engine = Engine(clock=clock, compat="sentinel-1.8.9")
    engine.load_rules("authority", [{"resource": "r", "limitApp": "app1"}])
    assert engine.try_entry("r")
    with pytest.raises(AuthorityException, match="app2"):
        engine.entry("r", origin="app2")


def test_system_limits_hold_for_inbound_calls_alone(engine: Engine, passes: Passes) -> None:
    engine.load_rules("system", [{"qps": 3}])
    assert passes(5, "r") == 5
    assert passes(5, "r", inbound=True) == 3
    with pytest.raises(SystemBlockException) as caught:
        engine.entry("s", inbound=True)
    assert caught.value.detail == "qps"


def test_system_threads_never_overshoot(engine: Engine) -> None:
    engine.load_rules("system", [{"maxThread": 2}, {"maxThread": 5}])
    entries = [engine.try_entry(name, inbound=True) for name in "abc"]
    assert [bool(entry) for entry in entries] == [True, True, False]


def test_cpu_limits_once_it_is_known(clock: FakeClock) -> None:
    engine = Engine(clock=clock, collect=False)
    engine.load_rules("system", [{"highestCpuUsage": 0.8}])
    assert engine.try_entry("r", inbound=True)
    engine.gauge("system.cpu", 0.9)
    blocked = engine.try_entry("r", inbound=True)
    assert isinstance(blocked, Blocked)
    assert blocked.exception().detail == "cpu"


def test_load_limits_only_what_is_beyond_the_best_throughput(clock: FakeClock) -> None:
    engine = Engine(clock=clock, collect=False)
    engine.load_rules("system", [{"highestSystemLoad": 4}])
    engine.gauge("system.load", 5)
    inside = [engine.try_entry("r", inbound=True) for _ in range(20)]
    assert sum(map(bool, inside)) == 11, "two a second, taking up to five seconds"


def test_a_rule_on_the_load_has_it_read(engine: Engine) -> None:
    engine.load_rules("system", [{"highestSystemLoad": 1000}])
    engine.collectors.refresh()
    told = next(slot for slot in engine.explain("r") if slot["slot"] == "system")
    assert told["live"]["load"] >= 0


def test_cpu_usage_is_the_busy_share_between_two_readings(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    collector = CpuUsage(stat)
    assert collector.collect() == {}, "no such file on this system"
    stat.write_text("cpu  100 0 0 900 0 0 0 0 0 0\ncpu0 1 1 1 1\n")
    assert collector.collect() == {}, "one reading is no share"
    stat.write_text("cpu  130 0 0 960 10 0 0 0 0 0\n")
    assert collector.collect() == {"": pytest.approx(0.3)}


def test_each_value_has_its_own_limit(engine: Engine, passes: Passes) -> None:
    item = {"object": "vip", "count": 5, "classType": "String"}
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 2, "paramFlowItemList": [item]}])
    assert passes(9, "r", args=("a",)) == 2
    assert passes(9, "r", args=("b",)) == 2
    assert passes(9, "r", args=("vip",)) == 5
    with pytest.raises(ParamFlowException, match="vip"):
        engine.entry("r", args=("vip",))


@pytest.mark.parametrize("args", [(), (None,)])
def test_without_the_argument_a_rule_does_not_apply(engine: Engine, passes: Passes, args: tuple[object, ...]) -> None:
    """P17"""
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": -1, "count": 1}])
    assert passes(3, "r", args=args) == 3


def test_the_last_argument_is_the_last_of_each_call(engine: Engine, passes: Passes) -> None:
    """P17"""
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": -1, "count": 1}])
    assert passes(2, "r", args=("a", "x")) == 1
    assert passes(2, "r", args=("a", "b", "x")) == 0, "the same value, whatever stands in front"
    assert passes(2, "r", args=("x", "y")) == 1


def test_values_are_told_apart_by_type(engine: Engine, passes: Passes) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1}])
    for value in (1, 1.0, True, "1"):
        assert passes(2, "r", args=(value,)) == 1


def test_hours_are_kept_over_reloads(engine: Engine, clock: FakeClock, passes: Passes) -> None:
    """E10: the same list, another resource's edit and a new threshold forgive nothing; removing the rule does."""
    rule = {"resource": "r", "paramIdx": 0, "count": 5, "durationInSec": 3600}
    engine.load_rules("param_flow", [rule])
    assert passes(5, "r", args=("a",)) == 5
    for _ in range(10):
        clock.advance(ms=30_000)
        engine.load_rules("param_flow", [rule])
    engine.load_rules("param_flow", [rule, {"resource": "s", "paramIdx": 0, "count": 1}])
    assert passes(1, "r", args=("a",)) == 0
    engine.load_rules("param_flow", [{**rule, "count": 4}])
    assert passes(1, "r", args=("a",)) == 0
    engine.load_rules("param_flow", [])
    engine.load_rules("param_flow", [rule])
    assert passes(6, "r", args=("a",)) == 5


def test_calls_at_once_are_counted_by_value(engine: Engine) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}])
    first = engine.entry("r", args=("a",))
    assert not engine.try_entry("r", args=("a",))
    assert engine.try_entry("r", args=("b",))
    first.exit()
    assert engine.try_entry("r", args=("a",))


def test_values_that_were_not_used_for_long_are_forgotten(engine: Engine) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1}])
    for number in range(4001):
        engine.try_entry("r", args=(number,))
    assert engine.explain("r")[-1]["rules"][0]["live"]["values"] == 4000
    assert engine.try_entry("r", args=(0,)), "the oldest had to go"


def test_slots_are_asked_in_order_and_the_order_is_a_setting(clock: FakeClock) -> None:
    usual = ("authority", "system", "flow", "biz_metric", "degrade", "param_flow")
    assert tuple(slot for slot in Engine(clock=clock).slots() if slot in usual) == usual
    assert Engine(clock=clock, slot_order=("degrade",)).slots()[0] == "degrade"
    java = Engine(clock=clock, compat="sentinel-1.8.9").slots()
    assert tuple(slot for slot in java if slot in usual) == (
        "authority",
        "system",
        "param_flow",
        "flow",
        "biz_metric",
        "degrade",
    )
    with pytest.raises(ValueError, match=r"the slots are .*authority"):
        Engine(slot_order=("flows",))

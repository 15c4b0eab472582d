"""Whatever is handed in, the caller's business goes on and the counts stay right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from sentinel_core import Engine, Entry, context
from sentinel_core.rules import RuleRejected
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]


def hot(engine: Engine, count: int = 2, **fields: object) -> None:
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": count, **fields}])


def let(engine: Engine, value: object, calls: int = 5) -> int:
    """How many of some calls with this argument pass."""
    return sum(bool(engine.try_entry("r", args=(value,))) for _ in range(calls))


# -- arguments ---------------------------------------------------------------------------------------------------------


class Unreadable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unhashable:
    __hash__ = None  # type: ignore[assignment]  # what makes it so

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __str__(self) -> str:
        return "text"


class str_(str):  # noqa: N801, SLOT000 (a class whose name and methods deceive)
    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")


str_.__name__ = "str"


class Endless(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("not today")


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 7


def recursive() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


@pytest.mark.parametrize("value", [Unreadable(), Endless([1]), [Unreadable()]], ids=["text", "iteration", "inside"])
def test_an_argument_that_cannot_be_read_is_as_good_as_missing(engine: Engine, value: object) -> None:
    hot(engine)
    assert let(engine, value) == 5
    assert engine.status()["internalErrors"]["count"] == 5
    assert let(engine, "other") == 2, "the rule goes on"


@pytest.mark.parametrize(
    "value",
    [{"a": [1]}, Unhashable(), bytearray(b"x"), recursive(), [[1, 2], [3]], str_("x"), float("nan"), object],
    ids=["dict", "unhashable", "bytearray", "recursive", "nested", "deceiving", "nan", "class"],
)
def test_mutable_and_unhashable_arguments_are_counted_by_what_they_are(engine: Engine, value: object) -> None:
    hot(engine)
    assert let(engine, value) == 2
    assert engine.status()["internalErrors"]["count"] == 0


def test_an_enumeration_is_the_value_it_stands_for(engine: Engine) -> None:
    hot(engine, paramFlowItemList=[{"object": "red", "count": 1}, {"object": "7", "count": 3, "classType": "int"}])
    assert (let(engine, Colour.RED), let(engine, "red")) == (1, 0)
    assert (let(engine, Size.BIG), let(engine, 7)) == (3, 0)


def test_an_argument_that_changes_during_the_call_is_counted_out_as_it_came_in(engine: Engine) -> None:
    hot(engine, count=1, grade=0)
    value = ["a", "b"]
    with engine.entry("r", args=(value,)):
        value[:] = ["c"]
        assert (let(engine, "a", 1), let(engine, "b", 1)) == (0, 0)
    live = engine.explain("r")[-1]["rules"][0]["live"]
    assert live["threads"] == 0


@pytest.mark.parametrize("value", ["seven", None, [], float("nan"), float("inf"), 10**400])
def test_a_gauge_that_is_no_number_is_counted_and_ignored(engine: Engine, value: Any) -> None:
    engine.gauge("STOCK", 7)
    engine.gauge("STOCK", value)
    assert engine.status()["metrics"]["invalid"] == 1


# -- exits -------------------------------------------------------------------------------------------------------------


def counts(engine: Engine) -> tuple[int, int, int]:
    stats = engine.stats("r")
    return stats.success, stats.exception, stats.threads


def test_an_entry_may_end_on_another_thread_and_twice(engine: Engine) -> None:
    entry = engine.entry("r")
    entry.trace(ValueError())
    threads = [threading.Thread(target=entry.exit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts(engine) == (1, 1, 0)


def test_a_second_exit_of_a_block_changes_nothing(engine: Engine) -> None:
    with engine.entry("r") as entry:
        entry.exit()
        entry.trace(ValueError())
    entry.exit(count=7)
    assert counts(engine) == (1, 0, 0)


def test_exits_in_any_order_leave_nothing_behind(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "r", "grade": 0, "count": 3}])
    first, second, third = (engine.entry("r").__enter__() for _ in range(3))
    for entry in (second, first, third):
        entry.__exit__(None, None, None)
    assert counts(engine) == (3, 0, 0)
    assert [bool(engine.try_entry("r")) for _ in range(4)] == [True, True, True, False]


def test_what_is_raised_after_the_exit_counts_no_more(engine: Engine) -> None:
    def body() -> None:
        with engine.entry("r") as entry:
            entry.exit()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert counts(engine) == (1, 0, 0)


# -- clocks ------------------------------------------------------------------------------------------------------------

ALL_KINDS: dict[str, dict[str, object]] = {
    "flow": {"resource": "r", "count": 5, "controlBehavior": 3, "maxQueueingTimeMs": 50},
    "degrade": {"resource": "r", "grade": 0, "count": 5, "timeWindow": 1, "recovery": "progressive"},
    "biz_metric": {"resource": "r", "bizMetricType": "PAY_FAIL_RATE", "threshold": 50, "minRequestAmount": 1},
    "system": {"qps": 100, "avgRt": 100},
    "param_flow": {"resource": "r", "paramIdx": 0, "count": 5, "controlBehavior": 2, "maxQueueingTimeMs": 50},
}


@pytest.mark.parametrize("steps", [[0], [0, -1], [-400, 300], [-3_600_000, 7_200_000], [10**9, -1], [1]])
def test_a_clock_that_repeats_or_steps_breaks_nothing(engine: Engine, clock: FakeClock, steps: list[int]) -> None:
    """E14: whatever the source does, no wait is negative, nobody stays inside, and nothing is raised."""
    clock.advance(ms=10**7)
    for kind, rule in ALL_KINDS.items():
        engine.load_rules(kind, [rule])
    passed = blocked = 0
    for number in range(200):
        outcome = engine.try_entry("r", args=("hot",), inbound=True, priority=number % 3 == 0)
        clock.advance(ms=steps[number % len(steps)])
        engine.report("PAY_FAIL_RATE", ok=number % 2 == 0)
        if isinstance(outcome, Entry):
            passed += 1
            outcome.exit()
        else:
            blocked += 1
            assert outcome.retry_after is None or outcome.retry_after >= 0
            assert str(outcome.exception())
    totals = engine.totals("r")
    assert (totals.passed, totals.blocked, totals.success, totals.threads) == (passed, blocked, passed, 0)
    assert totals.rt_ns >= 0
    assert all(wait >= 0 for wait in clock.waits)
    assert engine.status()["internalErrors"]["count"] == 0
    assert all(slot["rules"] is not None for slot in engine.explain("r"))


# -- callbacks ---------------------------------------------------------------------------------------------------------


def test_callbacks_that_raise_are_counted_and_change_nothing(engine: Engine, fails: Calls) -> None:
    class Broken:
        metric = "STOCK"

        def collect(self) -> dict[str, float]:
            raise RuntimeError("no stock system")

    def raises(*_: object) -> Any:
        raise RuntimeError("callback")

    engine.on_breaker(raises)
    engine.on_block(raises)
    engine.collectors.register(Broken(), thread=False)
    engine.health.register("db", raises, thread=False)
    engine.collectors.refresh()
    engine.load_rules("degrade", [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}])
    assert fails(3, "r") == 1
    assert counts(engine) == (1, 1, 0)
    assert engine.collectors.failures == 2
    assert engine.status()["internalErrors"]["count"] == 3, "one move and two refusals"


@pytest.mark.parametrize("behavior", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [5e-324, 1e-300, 1e-9, 0.3, 1e9, 1e18, 1e100, 1e308])
def test_no_count_of_a_flow_rule_is_too_odd_to_decide_with(count: float, behavior: int) -> None:
    engine = Engine(clock=FakeClock())
    rule = {"resource": "r", "count": count, "controlBehavior": behavior, "warmUpPeriodSec": 10}
    try:
        engine.load_rules("flow", [{**rule, "maxQueueingTimeMs": 100}])
    except RuleRejected:
        assert 0 < count < 1, "only fractions are refused, where nothing would ever pass"
        return
    decided = [bool(engine.try_entry("r", count=requests)) for requests in (1, 1, 2**31 - 1, 10**400)]
    engine.explain("r")
    assert decided[0], "the first request passes, however far apart two of them are"
    assert decided[1:] == [False] * 3 if count < 1 else decided[1]
    assert engine.status()["internalErrors"]["count"] == 0


def test_a_call_stands_for_at_most_as_many_requests_as_in_java(engine: Engine) -> None:
    engine.entry("r", count=10**400).exit()
    engine.entry("r", count=-5).exit(-5)
    assert engine.stats("r").passed == engine.stats("r").success == 2**31 - 1


# -- what nobody filled in ---------------------------------------------------------------------------------------------


def test_origin_context_and_args_may_be_none_and_args_any_sequence(engine: Engine) -> None:
    """`origin=headers.get("X-Caller")`: compiled, too, this is a caller that is not known."""
    engine.load_rules("flow", [{"resource": "r", "count": 100, "limitApp": "web"}])
    hot(engine)
    assert engine.try_entry("r", origin=None, context=None, args=None)
    passed = [bool(engine.try_entry("r", args=[7])) for _ in range(3)]
    assert passed == [True, True, False]
    assert engine.status()["internalErrors"]["count"] == 0


@pytest.mark.parametrize("tenant", [42, True, Size.BIG, 4.5])
def test_a_tag_that_is_no_text_counts_as_its_text(engine: Engine, tenant: Any) -> None:
    rule = {"resource": "r", "bizMetricType": "FAIL_RATE", "threshold": 5, "dimension": "tenant"}
    engine.load_rules("biz_metric", [rule])
    engine.report("FAIL_RATE", ok=False, resource="r", dimension=tenant, count=10)
    with context(tags={"tenant": tenant}):
        engine.report("FAIL_RATE", ok=False, resource="r", count=10)
        blocked = engine.try_entry("r")
    assert not blocked
    assert engine.breakers("r")[0]["values"][str(tenant)]["samples"] == 20
    assert engine.status()["internalErrors"]["count"] == 0


def test_a_tag_of_none_is_none(engine: Engine) -> None:
    with context(tags={"tenant": "a"}), context(tags={"tenant": None}) as inner:
        assert inner.tags == {"tenant": "a"}


@pytest.mark.parametrize(("ok", "failed"), [(None, 100.0), ("", 100.0), (1, 0.0), ("sent", 0.0)])
def test_a_sample_is_as_true_as_what_is_said_of_it(engine: Engine, ok: Any, failed: float) -> None:
    """`ok=response and response.ok`"""
    engine.load_rules("biz_metric", [{"resource": "r", "bizMetricType": "FAIL_RATE", "threshold": 5}])
    engine.report("FAIL_RATE", ok=ok, resource="r")
    assert engine.breakers("r")[0]["value"] == failed


def test_a_gauge_of_a_dimension_that_is_no_text_is_that_of_its_text(engine: Engine) -> None:
    shop: Any = 42
    engine.gauge("DEPTH", 7, dimension=shop)
    assert engine.metrics.gauge("DEPTH", "", "42") is not None


@pytest.mark.parametrize("wrong", [None, 7, b"r", ["r"]])
def test_a_resource_that_is_no_text_is_a_type_error(engine: Engine, wrong: Any) -> None:
    for ask in (engine.entry, engine.try_entry):
        with pytest.raises(TypeError):
            ask(wrong)
    assert engine.status()["internalErrors"]["count"] == 0


@pytest.mark.parametrize("name", ["origin", "context"])
def test_an_origin_or_context_that_is_no_text_is_a_type_error_where_a_rule_asks_for_it(
    engine: Engine, name: str
) -> None:
    engine.load_rules("authority", [{"resource": "r", "limitApp": "a", "strategy": 0}])
    engine.load_rules("flow", [{"resource": "r", "count": 5, "strategy": 2, "refResource": "entrance"}])
    with engine.entry("r", origin="a"):
        pass
    wrong: Any = {name: 7}
    with pytest.raises(TypeError):
        engine.entry("r", **wrong)
    assert engine.stats("r").passed == 1


@pytest.mark.parametrize("wrong", ["2", 1.5, [1]])
def test_a_count_that_is_no_whole_number_is_a_type_error(engine: Engine, wrong: Any) -> None:
    with pytest.raises(TypeError):
        engine.entry("r", count=wrong)
    entry = engine.entry("r")
    with pytest.raises(TypeError):
        entry.exit(wrong)
    entry.exit()
    assert (engine.stats("r").passed, engine.stats("r").threads) == (1, 0)

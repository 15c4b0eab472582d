"""Counts since the beginning: exact whatever the windows do, and never smaller than before."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import Engine, Entry
from sentinel_core.clock import MS
from sentinel_core.engine import INBOUND
from sentinel_core.node import ClusterNode
from sentinel_core.stats import Totals
from sentinel_core.testing import FakeClock

steps = st.lists(
    st.tuples(st.integers(0, 2_500), st.integers(1, 3), st.sampled_from(["pass", "block", "leave", "fail", "borrow"])),
    max_size=60,
)


@given(steps)
def test_totals_are_the_sum_of_everything(taken: list[tuple[int, int, str]]) -> None:
    node = ClusterNode("r", 500 * MS, 2, minute=False)
    now = passed = blocked = success = errors = 0
    by_kind: Counter[str] = Counter()
    for wait, count, what in taken:
        now += wait * MS
        if what == "pass":
            node.enter(now, count)
            passed += count
        elif what == "borrow":
            node.borrow(now, 500 * MS, count)
            passed += count
        elif what == "block":
            kind = ("flow", "degrade")[wait % 2]
            node.block_by(kind, now, count)
            by_kind[kind] += count
            blocked += count
        else:
            node.leave(now, count, MS, failed=what == "fail")
            success += count
            errors += count * (what == "fail")
        counts = node.lifetime()
        assert (counts.passed, counts.blocked, counts.success, counts.errors) == (passed, blocked, success, errors)
        assert node.blocked_by() == by_kind


def test_totals_outlive_windows_and_changes_of_rules(engine: Engine, clock: FakeClock) -> None:
    engine.load_rules("flow", [{"resource": "r", "count": 2}])
    for second in range(3):
        for _ in range(5):
            entry = engine.try_entry("r")
            clock.advance(ms=10)
            if isinstance(entry, Entry):
                entry.exit()
        clock.advance(ms=1000)
        engine.load_rules("flow", [{"resource": "r", "count": 2}, {"resource": "other", "count": second}])
    engine.load_rules("authority", [{"resource": "r", "limitApp": "console"}])
    assert not engine.try_entry("r", origin="stranger")
    assert engine.totals("r") == Totals(
        passed=6, blocked=10, success=6, rt_ns=60 * MS, blocked_by={"flow": 9, "authority": 1}
    )


def test_failures_count_as_completions_too(engine: Engine) -> None:
    entry = engine.entry("r", count=3)
    assert engine.totals("r").threads == 1
    entry.trace(ValueError())
    entry.exit()
    totals = engine.totals("r")
    assert (totals.success, totals.exception, totals.threads) == (3, 3, 0)


def test_all_inbound_calls_have_totals_as_well(engine: Engine) -> None:
    engine.entry("a", inbound=True).exit()
    engine.entry("b", inbound=True).exit()
    engine.entry("c").exit()
    assert engine.totals(INBOUND).passed == 2


def test_a_resource_that_was_never_called_has_zeros(engine: Engine) -> None:
    assert engine.totals("nobody") == Totals()


def test_calls_beyond_the_limit_of_resources_are_counted_together(clock: FakeClock) -> None:
    engine = Engine(clock=clock, max_resources=1)
    for name in ("a", "b", "c"):
        engine.entry(name).exit()
    clock.advance(ms=60_000)
    engine.entry("d").exit()
    assert engine.status()["uncountedPasses"] == 3

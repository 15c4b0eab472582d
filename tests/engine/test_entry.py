"""An entry's life, and what a refusal carries."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from sentinel_core import Blocked, BlockException, Engine, Entry, EntryOrderError, FlowException, context, trace
from sentinel_core.context import wrap
from sentinel_core.plan import Checker, Snapshot
from sentinel_core.rules import Provenance, Revision, parse_rules
from sentinel_core.testing import FakeClock


def test_an_entry_counts_pass_time_and_threads(engine: Engine, clock: FakeClock) -> None:
    entry = engine.entry("r")
    assert engine.stats("r").threads == 1
    clock.advance(ms=30)
    entry.exit()
    stats = engine.stats("r")
    assert stats.to_json() == {
        "pass": 1, "block": 0, "success": 1, "exception": 0, "avg_rt": 30.0, "min_rt": 30.0, "threads": 0,
    }  # fmt: skip
    assert (stats["pass"], getattr(stats, "pass")) == (1, 1)


def test_the_second_exit_does_nothing(engine: Engine) -> None:
    entry = engine.entry("r")
    entry.exit()
    entry.exit()
    assert engine.stats("r").threads == 0
    assert engine.stats("r").success == 1


def test_entries_may_end_in_any_order(engine: Engine) -> None:
    """E15: the entry carries everything; nothing is looked up by name or by context."""
    outer, inner = engine.entry("a"), engine.entry("b")
    outer.exit()
    inner.exit()
    assert (engine.stats("a").threads, engine.stats("b").threads) == (0, 0)


def test_compat_wants_the_innermost_entry_to_end_first(clock: FakeClock) -> None:
    engine = Engine(clock=clock, compat="sentinel-1.8.9")
    with engine.entry("a"):
        alone = engine.entry("b")
        with engine.entry("c"):
            alone.exit()
    outer, inner = engine.entry("a").__enter__(), engine.entry("b").__enter__()
    with pytest.raises(EntryOrderError, match="a ended before"):
        outer.exit()
    inner.exit()
    assert [engine.stats(name).threads for name in "abc"] == [0, 0, 0]


def test_an_exception_of_the_block_is_recorded_and_goes_on(engine: Engine) -> None:
    with pytest.raises(ValueError, match="mine"), engine.entry("r"):
        raise ValueError("mine")
    assert engine.stats("r").exception == 1


def test_trace_finds_the_innermost_entry(engine: Engine) -> None:
    with engine.entry("outer"):
        with engine.entry("inner"):
            trace(ValueError("handled here"))
        trace(BlockException("x"))
    trace(ValueError("outside of any"))
    assert (engine.stats("inner").exception, engine.stats("outer").exception) == (1, 0)


def test_a_refusal_leads_to_the_commit(engine: Engine) -> None:
    revision = Revision((), "/prod/git/rules", "9f1c2ab", Provenance(commit_hash="9f1c2ab0" * 5, channel="git"))
    engine.load_rules("flow", parse_rules("flow", [{"resource": "r", "count": 0, "grade": 1}]), revision=revision)
    blocked = engine.try_entry("r")
    assert isinstance(blocked, Blocked)
    assert (blocked.kind, blocked.rule.count, blocked.revision.commit) == ("flow", 0, "9f1c2ab0" * 5)
    error = blocked.exception()
    assert isinstance(error, FlowException)
    assert error.revision == blocked.revision == (engine.rules("flow").digest, "9f1c2ab0" * 5)
    for part in ("r blocked by flow", "flow/r/default", "9f1c2ab0", "sentinelctl rules explain r"):
        assert part in str(error)


def pickled(error: BlockException) -> BlockException:
    return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]  # noqa: S301 (bytes of our own)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_refusal_can_be_sent_elsewhere(engine: Engine, copied: object) -> None:
    engine.load_rules("flow", [{"resource": "r", "count": 0, "grade": 1}])
    with pytest.raises(FlowException) as caught:
        engine.entry("r", origin="web")
    twin = copied(caught.value)  # type: ignore[operator]  # any of the three
    assert type(twin) is FlowException
    assert str(twin) == str(caught.value)
    assert (twin.rule, twin.digest, twin.kind) == (caught.value.rule, caught.value.digest, "flow")


def test_an_internal_error_lets_the_call_pass_and_is_loud(
    engine: Engine, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(Checker):
        def check(self, now: int, count: int, call: object) -> int:
            raise ZeroDivisionError("slot")

    engine.entry("r").exit()
    snapshot: Snapshot = engine.snapshot
    snapshot.plans["r"].checkers = (Faulty("flow", None),)
    for _ in range(5):
        entry = engine.try_entry("r")
        assert isinstance(entry, Entry)
        entry.exit()
    clock.advance(ms=1000)
    engine.entry("r").exit()
    assert engine.status()["internalErrors"] == {"count": 6, "last": "ZeroDivisionError: slot"}
    assert caplog.text.count("internal error; the call passes unchecked") == 2, "once a second"


def test_resources_without_a_rule_are_limited(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    """A service whose names carry ids stays bounded; rules go on working."""
    engine = Engine(clock=clock, max_resources=10)
    for number in range(50):
        engine.entry(f"/orders/{number}").exit()
    assert len(engine.resources()) == 10
    assert caplog.text.count("pass uncounted") == 1
    assert engine.status()["uncountedPasses"] == 40
    engine.load_rules("flow", [{"resource": "late", "count": 0, "grade": 1}])
    assert not engine.try_entry("late")


def test_resources_of_old_rules_are_forgotten(clock: FakeClock) -> None:
    """Years of changing rules do not fill the memory."""
    engine = Engine(clock=clock, max_resources=10)
    for generation in range(5):
        names = [f"{generation}-{number}" for number in range(30)]
        engine.load_rules("flow", [{"resource": name, "count": 1, "grade": 1} for name in names])
        for name in names:
            engine.entry(name).exit()
    held = engine.entry("4-0", count=0)
    engine.load_rules("flow", [])
    assert len(engine.resources()) == 10
    assert "4-0" in engine.resources(), "somebody is inside"
    held.exit()


def test_a_clock_that_stands_still_or_steps_changes_no_decision(engine: Engine, clock: FakeClock) -> None:
    """E14: wall time only labels; the monotonic source may repeat a value."""
    engine.load_rules("flow", [{"resource": "r", "count": 2, "grade": 1}])
    for seconds in (-3600.0, 7200.0, 600.0):
        clock.step_wall(seconds)
        engine.entry("q").exit()
    assert [bool(engine.try_entry("r")) for _ in range(3)] == [True, True, False]
    assert engine.stats("q").avg_rt == 0
    clock.now_ns -= 1
    engine.entry("q").exit()
    assert engine.stats("q").min_rt >= 0


def test_context_is_inherited_and_restored(engine: Engine) -> None:
    seen = []
    with context("web", origin="app-a", tags={"tenant": "1"}) as outer:
        with context(tags={"channel": "card"}) as inner:
            seen.append(inner)
        wrapped = wrap(lambda: engine.try_entry("r"))
    assert (outer.name, outer.origin) == ("web", "app-a")
    assert (seen[0].name, seen[0].origin, dict(seen[0].tags)) == ("web", "app-a", {"tenant": "1", "channel": "card"})
    engine.load_rules("authority", [{"resource": "r", "limitApp": "app-a"}])
    assert wrapped()
    assert not engine.try_entry("r")


def test_a_negative_count_lifts_no_limit(engine: Engine, passes: Callable[..., int]) -> None:
    engine.load_rules("flow", [{"resource": "a", "count": 5}])
    passes(1, "a", count=-1000)
    assert engine.stats("a").passed == 0
    assert passes(500, "a") == 5


@pytest.mark.parametrize("count", [float("nan"), float("inf"), -3, 0])
def test_a_number_of_samples_that_is_none_is_counted_as_invalid(engine: Engine, count: float) -> None:
    engine.load_rules("biz_metric", [{"resource": "a", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5}])
    engine.report("PAY_FAIL_RATE", ok=False, resource="a", count=count)  # type: ignore[arg-type]  # what must not matter
    assert engine.status()["metrics"]["invalid"] == 1


def test_a_plan_that_cannot_be_compiled_lets_the_call_pass(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_resource: str) -> object:
        raise OverflowError("too large")

    monkeypatch.setattr(engine.core, "compile", broken)
    engine.entry("a").exit()
    assert engine.status()["internalErrors"] == {"count": 1, "last": "OverflowError: too large"}

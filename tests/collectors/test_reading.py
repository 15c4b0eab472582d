"""What becomes of what a collector gives, and of what it raises."""

from __future__ import annotations

import decimal
import math
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import Engine
from sentinel_core.collectors import SourceLost
from sentinel_core.collectors.contract import MAX_VALUES, number_of
from sentinel_core.collectors.function import FunctionCollector
from sentinel_core.collectors.task import RETRY_CAP_S, pause
from sentinel_core.testing import FakeClock


class Scripted:
    """A collector that gives, or raises, one thing after the other, the last one for ever."""

    metric = "STOCK_DEPTH"
    source = "test://reader:secret@host/?token=hidden"

    def __init__(self, *script: Any) -> None:
        self.script = list(script)

    def collect(self) -> Mapping[str, object]:
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, BaseException):
            raise step
        return step  # type: ignore[no-any-return]  # whatever the test wrote


def gauges(engine: Engine) -> dict[tuple[str, str], float]:
    return {key[1:]: gauge.value for key, gauge in engine.metrics.gauges.items()}


def read(engine: Engine, *script: Any) -> dict[str, Any]:
    """Reads a script to its end; the status then."""
    engine.collectors.register(Scripted(*script), thread=False)
    for _ in script:
        engine.collectors.refresh()
    return engine.collectors.status()[0]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "number"), [(7, 7), (b"7", 7), (" 7.5\n", 7.5), ("1e3", 1000), (decimal.Decimal("0.1"), 0.1), (True, 1)]
)
def test_numbers_and_texts_that_are_numbers_are_taken(engine: Engine, value: object, number: float) -> None:
    assert read(engine, {"r": value})["state"] == "ok"
    assert gauges(engine) == {("r", ""): number}


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, "NaN", "-inf", "abc", "", b"\xff", "1_000", [], {}, 10**400, "9" * 65, 1j],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_finite_number_is_counted_and_changes_nothing(engine: Engine, value: object) -> None:
    status = read(engine, {"r": 3}, {"r": value})
    assert gauges(engine) == {("r", ""): 3}
    assert (status["state"], status["invalid"], status["failures"]) == ("invalid", 1, 0)
    assert engine.metrics.invalid == 1


def test_a_value_may_be_of_a_dimension_or_of_all_resources(engine: Engine) -> None:
    read(engine, {"": 1, "r": 2, ("r", "alipay"): 3, ("", "alipay"): 4})
    assert gauges(engine) == {("", ""): 1, ("r", ""): 2, ("r", "alipay"): 3, ("", "alipay"): 4}


def test_a_missing_value_leaves_the_gauge_to_grow_stale(engine: Engine, clock: FakeClock) -> None:
    engine.collectors.register(Scripted({"r": 3}, {"r": None}, {}), thread=False)
    engine.collectors.refresh()
    for _ in range(2):
        clock.advance(ms=700)
        engine.collectors.refresh()
    status = engine.collectors.status()[0]
    assert (status["state"], status["ageMs"], status["values"]) == ("empty", 1400, 0)
    assert gauges(engine) == {("r", ""): 3}
    assert engine.metrics.invalid == 0


def test_too_many_values_are_refused_whole(engine: Engine) -> None:
    status = read(engine, {str(number): 1 for number in range(MAX_VALUES + 1)})
    assert status["state"] == "failing"
    assert gauges(engine) == {}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(7, "gave a int; give a mapping"), ({"r": 1, 7: 2}, "7 is no target"), ({("r", "d", "e"): 1}, "is no target")],
)
def test_what_is_no_mapping_of_targets_is_refused_whole(engine: Engine, wrong: object, words: str) -> None:
    assert words in read(engine, wrong)["lastError"]
    assert gauges(engine) == {}


@given(st.floats() | st.integers() | st.text(max_size=80) | st.binary(max_size=80) | st.none() | st.lists(st.none()))
def test_any_value_is_a_finite_number_or_none_at_all(value: object) -> None:
    number = number_of(value)
    assert math.isnan(number) or math.isfinite(number)


STOCK = {"resource": "r", "bizMetricType": "STOCK_DEPTH", "threshold": 10, "direction": "below", "minRequestAmount": 1}


@pytest.mark.parametrize("value", [math.nan, "abc", None])
def test_an_invalid_or_missing_value_never_trips_a_breaker(engine: Engine, value: object) -> None:
    engine.load_rules("biz_metric", [STOCK])
    read(engine, {"r": 50}, {"r": value})
    assert all(engine.try_entry("r") for _ in range(5))


@pytest.mark.parametrize("value", [math.nan, "abc", None])
def test_an_invalid_or_missing_value_never_heals_a_breaker(engine: Engine, clock: FakeClock, value: object) -> None:
    engine.load_rules("biz_metric", [STOCK])
    read(engine, {"r": 3}, {"r": value})
    assert not engine.try_entry("r")
    for _ in range(5):
        clock.advance(ms=31_000)
        engine.try_entry("r")
        clock.advance(ms=3_000)
        assert not engine.try_entry("r")


# -- failures ----------------------------------------------------------------------------------------------------------


def test_an_outage_is_told_once_and_so_is_its_end(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    down = SourceLost("no answer: connection refused")
    other = SourceLost("no answer: timed out")
    status = read(engine, {"r": 1}, down, down, other, {"r": 2})
    who = "collector of STOCK_DEPTH (test://reader:***@host/?token=***)"
    assert told(caplog) == [
        f"{who} failed: SourceLost: no answer: connection refused",
        f"{who} is read again",
    ]
    assert (status["state"], status["failures"]) == ("ok", 3)


def test_different_failures_are_told_once_each_but_not_without_end(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    read(engine, *[OSError(f"number {number % 20}") for number in range(60)])
    assert [text.rpartition(": ")[2] for text in told(caplog)] == [f"number {number}" for number in range(5)]


def test_a_source_that_comes_and_goes_does_not_fill_the_log(
    engine: Engine, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine.collectors.register(Scripted(*[OSError("gone"), {"r": 1}] * 50, OSError("gone")), thread=False)
    for _ in range(100):
        clock.advance(ms=100)
        engine.collectors.refresh()
    assert len(told(caplog)) == 2
    clock.advance(ms=60_000)
    engine.collectors.refresh()
    assert len(told(caplog)) == 3, "it is gone still, and a minute has passed"


def test_a_value_that_is_no_number_is_told_without_the_value(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    read(engine, {"r": "hunter2"}, {"r": "hunter2"}, {"r": 1})
    first, second = told(caplog)
    assert first.endswith("gave what is no number and is not used: no finite number: str for r")
    assert second.endswith("is read again")
    assert "hunter2" not in str(engine.collectors.status())


def test_no_secret_of_a_uri_is_shown(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    read(engine, OSError("cannot open redis://app:hunter2@host/0"))
    shown = str(engine.status()) + caplog.text
    assert "hunter2" not in shown
    assert "secret" not in shown
    assert "hidden" not in shown


def test_a_collector_that_exits_is_a_failure_like_any_other(engine: Engine) -> None:
    assert read(engine, SystemExit(1))["lastError"] == "SystemExit: 1"
    engine.collectors.register(Scripted(KeyboardInterrupt()), thread=False)
    with pytest.raises(KeyboardInterrupt):
        engine.collectors.refresh()


def test_status_is_plain_data(engine: Engine, clock: FakeClock) -> None:
    engine.collectors.register(FunctionCollector("QUEUE_DEPTH", lambda: 5, every_s=0.25), thread=False)
    assert engine.status()["collectors"][0]["state"] == "waiting"
    engine.collectors.refresh()
    clock.advance(ms=40)
    assert engine.status()["collectors"] == (
        {
            "metric": "QUEUE_DEPTH",
            "source": "test_status_is_plain_data.<locals>.<lambda>",
            "state": "ok",
            "everyMs": 250,
            "ageMs": 40,
            "values": 1,
            "reads": 1,
            "failures": 0,
            "invalid": 0,
            "lastError": None,
            "nextReadMs": None,
        },
    )


# -- pace --------------------------------------------------------------------------------------------------------------


@given(st.floats(0, 0.999))
def test_pauses_jitter_by_a_tenth(drawn: float) -> None:
    assert 0.9 <= pause(1.0, 0, lambda: drawn) <= 1.1


@pytest.mark.parametrize(
    ("every_s", "failures", "longest"),
    [(0.03, 1, 0.1), (0.03, 2, 0.2), (0.03, 5, 1.6), (0.03, 99, RETRY_CAP_S), (1, 1, 1), (1, 3, 4), (60, 9, 60)],
)
def test_failures_are_tried_again_later_and_later(every_s: float, failures: int, longest: float) -> None:
    assert pause(every_s, failures, lambda: 0.0) == pytest.approx(longest)
    assert pause(every_s, failures, lambda: 1.0) == pytest.approx(longest / 2)


@pytest.mark.parametrize("every_s", [0, -1, 0.001, math.inf, math.nan])
def test_an_impossible_pace_is_refused(engine: Engine, every_s: float) -> None:
    with pytest.raises(ValueError, match="every_s"):
        engine.collectors.register(Scripted({}), every_s=every_s)
    assert threading.active_count() == 1 or not engine.collectors.status()

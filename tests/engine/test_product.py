"""Products of whole numbers: exact, and no signal is handled in the middle of one."""

from __future__ import annotations

import ctypes
import itertools
import operator
import signal
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import Engine
from sentinel_core.clock import MS, Clock
from sentinel_core.product import product
from sentinel_core.section import is_compiled


@given(st.integers(0, 2**200), st.integers(0, 2**200))
def test_it_is_the_product(a: int, b: int) -> None:
    assert product(a, b) == a * b


@given(st.integers(0, 2**33), st.integers(0, 2**33))
def test_it_is_the_product_around_the_limb(a: int, b: int) -> None:
    assert product(a, b) == a * b


class Interrupted(BaseException):
    """What a time limit raises from its signal handler."""


@pytest.fixture
def interrupts() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Calls something with a signal pending whose handler raises. Only C code runs between the two, so that the first
    chance to handle it is in the call, or after it."""

    def handler(_signal: int, _frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)

    def call(work: Callable[[], object]) -> None:
        send = partial(ctypes.CDLL(None)["raise"], int(signal.SIGUSR1))  # os.kill would handle it before it returns
        both: tuple[Callable[[], object], ...] = (send, work)
        with pytest.raises(Interrupted):
            deque(map(operator.methodcaller("__call__"), both), maxlen=0)

    yield call
    signal.signal(signal.SIGUSR1, before)


DAY = 86_400_000
SECONDS = DAY // 1000
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "failure rate": ("biz_metric", {"bizMetricType": "FAIL_RATE", "threshold": 50, "windowIntervalMs": DAY}),
    "slow ratio": (
        "degrade",
        {"grade": 0, "count": DAY, "slowRatioThreshold": 0.5, "timeWindow": SECONDS, "statIntervalMs": DAY},
    ),
    "queue": ("flow", {"count": 0.5, "controlBehavior": 2, "maxQueueingTimeMs": DAY}),
    "warm-up": ("flow", {"count": 5000, "controlBehavior": 1, "warmUpPeriodSec": SECONDS}),
    "warm-up queue": (
        "flow",
        {"count": 0.01, "controlBehavior": 3, "warmUpPeriodSec": SECONDS, "maxQueueingTimeMs": DAY},
    ),
    "parameters": ("param_flow", {"paramIdx": 0, "count": 5, "durationInSec": SECONDS}),
    "queued parameters": (
        "param_flow",
        {"paramIdx": 0, "count": 5, "durationInSec": SECONDS, "controlBehavior": 2, "maxQueueingTimeMs": DAY},
    ),
}


def stepping(hours: int) -> Clock:
    """A clock that goes on by so much at each look, without a line of Python."""
    return Clock(monotonic_ns=itertools.count(DAY * MS, hours * 3_600_000 * MS).__next__, sleep=lambda _: None)


@pytest.mark.parametrize("compat", [None, "sentinel-1.8.9"])
@pytest.mark.parametrize("name", RULES)
def test_a_signal_that_waits_while_a_long_rule_is_loaded_and_judged_aborts_nothing(
    name: str, compat: str | None, interrupts: Callable[[Callable[[], object]], None]
) -> None:
    engine = Engine(clock=stepping(hours=5), collect=False, compat=compat)
    kind, fields = RULES[name]
    interrupts(partial(engine.load_rules, kind, [{"resource": "r", **fields}]))
    engine.load_rules(kind, [{"resource": "r", **fields}])
    engine.try_entry("r", args=(1,))  # the first call makes what the next ones find
    for _ in range(20):
        interrupts(partial(engine.try_entry, "r", args=(1,)))
    assert engine.status()["internalErrors"]["count"] == 0


def test_a_sample_is_counted_whole_or_not_at_all(
    interrupts: Callable[[Callable[[], object]], None],
) -> None:
    engine = Engine(collect=False)
    engine.load_rules("biz_metric", [{"resource": "r", **RULES["failure rate"][1]}])
    for step in range(20):
        interrupts(
            partial(
                engine.metrics.report,
                step * DAY // 10 * MS,
                "FAIL_RATE",
                ok=True,
                resource="r",
                dimension=None,
                tags={},
            )
        )
    (samples,) = engine.metrics.samples["FAIL_RATE"]
    window = samples.of("")
    if is_compiled():
        assert window is not None
        assert window.since == 20
    else:
        assert window is None, "interpreted code handles a signal before its first line"

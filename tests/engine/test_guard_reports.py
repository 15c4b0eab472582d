"""`guard(report=…, failed=…)`: a business metric that is fed by results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator

import pytest

from sentinel_core import BizMetricBlockException, Engine

RULE = {"resource": "pay", "bizMetricType": "PAY_FAIL_RATE", "threshold": 50, "minRequestAmount": 1}


def samples(engine: Engine) -> tuple[int, float]:
    """How many samples the metric of `pay` has heard of, and the failure rate in percent."""
    live = engine.breakers("pay")[0]
    return live["samples"], live["value"] or 0.0


@pytest.fixture
def watched(engine: Engine) -> Engine:
    """An engine with a rule that looks at the samples and never blocks."""
    engine.load_rules("biz_metric", [{**RULE, "threshold": 100}])
    return engine


def declined(result: dict[str, str]) -> bool:
    return result["status"] == "declined"


def test_failed_results_open_the_breaker_of_the_metric(engine: Engine) -> None:
    engine.load_rules("biz_metric", [{**RULE, "minRequestAmount": 3}])

    @engine.guard("pay", report="PAY_FAIL_RATE", failed=declined)
    def pay(status: str) -> dict[str, str]:
        return {"status": status}

    for status in ("paid", "declined", "declined"):
        assert pay(status) == {"status": status}
    assert engine.stats("pay").exception == 0, "a failure of the business is none of the function"
    with pytest.raises(BizMetricBlockException):
        pay("paid")


async def test_each_call_that_ends_is_one_sample_whatever_the_sort(watched: Engine) -> None:
    guarded = watched.guard("pay", report="PAY_FAIL_RATE", failed=lambda result: result == "bad")

    @guarded
    def plain(result: str) -> str:
        return result

    @guarded
    async def coroutine(result: str) -> str:
        return result

    @guarded
    def generator(result: str) -> Generator[str, None, str]:
        yield "item"
        return result

    @guarded
    async def stream(result: str) -> AsyncIterator[str]:
        yield result

    for result in ("good", "bad"):
        assert plain(result) == await coroutine(result) == result
        assert list(generator(result)) == ["item"]
        assert [item async for item in stream(result)] == [result]
    assert samples(watched) == (8, 37.5), "an async generator has no result that could be bad"


def test_without_a_predicate_a_result_is_good(watched: Engine) -> None:
    watched.guard("pay", report="PAY_FAIL_RATE")(lambda: None)()
    assert samples(watched) == (1, 0.0)


def test_an_exception_is_a_bad_sample_whoever_answers(watched: Engine) -> None:
    def fail() -> None:
        raise ConnectionError

    watched.guard("pay", report="PAY_FAIL_RATE", fallback=lambda _error: "later")(fail)()
    with pytest.raises(ConnectionError):
        watched.guard("pay", report="PAY_FAIL_RATE")(fail)()
    assert samples(watched) == (2, 100.0)
    with pytest.raises(ConnectionError):
        watched.guard("pay", report="PAY_FAIL_RATE", ignore=OSError)(fail)()
    assert samples(watched) == (2, 100.0), "what is ignored says nothing"


async def test_blocks_cancellations_and_streams_closed_early_say_nothing(watched: Engine) -> None:
    watched.load_rules("flow", [{"resource": "inner", "count": 0}])
    guarded = watched.guard("pay", report="PAY_FAIL_RATE", block_handler=lambda *_: "refused")

    @guarded
    def blocked_inside() -> str:
        watched.entry("inner")
        return "never"

    @guarded
    async def slow() -> None:
        await asyncio.sleep(3600)

    @guarded
    def rows() -> Iterator[int]:
        yield 1
        yield 2

    assert blocked_inside() == "refused"
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(slow(), 0.01)
    next(rows())
    watched.load_rules("flow", [{"resource": "pay", "count": 0}])
    assert blocked_inside() == "refused"
    assert samples(watched) == (0, 0.0)


def test_a_predicate_that_raises_is_an_internal_error_and_no_sample(
    watched: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    pay: Callable[[], object] = watched.guard("pay", report="PAY_FAIL_RATE", failed=declined)(dict)
    with caplog.at_level(logging.CRITICAL, "sentinel_core"):
        assert pay() == {}
    assert watched.status()["internalErrors"] == {"count": 1, "last": "KeyError: 'status'"}
    assert samples(watched) == (0, 0.0)
    assert (watched.stats("pay").exception, watched.stats("pay").threads) == (0, 0)

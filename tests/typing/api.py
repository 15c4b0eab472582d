"""Only type-checked: pins the signatures that callers rely on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import assert_type

from sentinel_core import Blocked, BlockException, Engine, Entry, aentry, context, entry, guard, trace
from sentinel_core.collectors.function import FunctionCollector
from sentinel_core.collectors.redis import RedisCollector
from sentinel_core.datasources import MemorySource, Subscription
from sentinel_core.rules import RuleSet
from sentinel_core.stats import Stats
from sentinel_core.testing import FakeClock

engine = Engine(app="order-service", clock=FakeClock(start_ms=0))
assert_type(engine.load_rules("flow", [{"resource": "r", "count": 1}]), RuleSet)
assert_type(engine.rules("flow"), RuleSet)
assert_type(engine.subscribe("flow", MemorySource()), Subscription)
assert_type(engine.stats("r"), Stats)
assert_type(engine.try_entry("r"), Entry | Blocked)
engine.report("PAY_FAIL_RATE", ok=False, resource="order:create", dimension=None)
engine.gauge("STOCK_DEPTH", 7, resource="stock:deduct", dimension=None)

with engine.entry("r", origin="", context="", args=(), count=1, priority=False, inbound=False) as entered:
    assert_type(entered, Entry)
    trace(ValueError())
with entry("r") as entered, context("web", origin="app"):
    assert_type(entered.resource, str)


async def asynchronous() -> None:
    async with engine.aentry("r") as one, aentry("r") as two:
        assert_type(one, Entry)
        assert_type(two, Entry)


@guard("r", block_handler=lambda number, _error: number)
def plain(number: int) -> str:
    return str(number)


@guard()
async def coroutine(number: int) -> str:
    return str(number)


@guard(ignore=(KeyError,))
def generator() -> Iterator[int]:
    yield 1


@guard(fallback=lambda _error: None)
async def stream() -> AsyncIterator[int]:
    yield 1


@guard
def bare(number: int, *, size: int = 1) -> str:
    return str(number * size)


@engine.guard
def own(number: int) -> str:
    return str(number)


@engine.guard("r", fallback=lambda _error: 1, report="PAY_FAIL_RATE", failed=lambda result: result == 0)
async def reported() -> int:
    return 1


async def awaits() -> None:
    assert_type(await coroutine(1), str)
    assert_type(await reported(), int)


assert_type(plain(1), str)
assert_type(bare(1, size=2), str)
assert_type(own(1), str)
assert_type(generator(), Iterator[int])
assert_type(stream(), AsyncIterator[int])


def handle(error: BlockException) -> tuple[str, str, int | None]:
    return error.resource, error.kind, error.retry_after


class CouponPool:
    metric = "COUPON_POOL"

    def collect(self) -> Mapping[str, float]:
        return {"coupon:take": 1}


class CouponsOfCampaigns:
    metric = "COUPON_POOL"

    def collect(self) -> dict[tuple[str, str], int]:
        return {("coupon:take", "spring"): 1}


engine.collectors.register(CouponPool(), every_s=0.25)
engine.collectors.register(CouponsOfCampaigns(), thread=False)
engine.collectors.register(FunctionCollector("QUEUE_DEPTH", lambda: 5))
engine.collectors.register(RedisCollector("STOCK_DEPTH", keys={"a": "stock:a", ("a", "sku1"): "stock:sku1"}))

"""Probes of half-open breakers carry a mark, so that what they reach may answer without doing harm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sentinel_core import Engine, context, guard
from sentinel_core.context import is_probe, probe_headers, probing, wrap
from sentinel_core.testing import FakeClock

Calls = Callable[..., int]
RULE: dict[str, Any] = {"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 10, "minRequestAmount": 2}
MARK = {"X-Sentinel-Test": "true"}


@pytest.fixture
def half_open(engine: Engine, clock: FakeClock, fails: Calls) -> Engine:
    """An engine whose next call of `r` is a probe."""
    engine.load_rules("degrade", [RULE])
    fails(2, "r")
    clock.advance(ms=10_000)
    return engine


def test_a_probe_is_marked_until_its_end(half_open: Engine) -> None:
    assert probe_headers() == {}
    with half_open.entry("r") as entry:
        assert entry.probing
        assert probe_headers() == MARK
        with half_open.entry("inner"):
            assert probing(), "what a probe calls belongs to it"
    assert not probing()
    with half_open.entry("r") as entry:
        assert not entry.probing, "the breaker is closed"
        assert not probing()


def test_every_call_of_a_progressive_recovery_is_marked(half_open: Engine, clock: FakeClock, fails: Calls) -> None:
    half_open.load_rules("degrade", [{**RULE, "recovery": "progressive"}])
    fails(2, "r")
    clock.advance(ms=10_000)
    for _ in range(1 + 5 + 5):
        with half_open.entry("r"):
            assert probing()
    with half_open.entry("r"):
        assert not probing()


@pytest.mark.parametrize("kind", ["flow", "param_flow"])
def test_a_probe_that_waits_is_marked_after_the_wait(half_open: Engine, clock: FakeClock, kind: str) -> None:
    """Before the breaker is asked (flow), or after it (param_flow)."""
    queue: dict[str, Any] = {"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 2000}
    breaker = half_open.breakers("r")
    half_open.load_rules(kind, [{**queue, "paramIdx": 0} if kind == "param_flow" else queue])
    half_open.control("degrade/r/default", "closed")
    half_open.entry("r", args=("hot",)).exit()
    half_open.control("degrade/r/default", None)
    assert half_open.breakers("r") == breaker
    with half_open.entry("r", args=("hot",)) as entry:
        assert clock.waits == [1000]
        assert entry.probing


def test_a_shadow_breaker_marks_nothing(half_open: Engine, clock: FakeClock, fails: Calls) -> None:
    """Otherwise it would have an effect after all."""
    half_open.load_rules("degrade", [{**RULE, "mode": "shadow"}])
    fails(2, "r")
    clock.advance(ms=10_000)
    with half_open.entry("r") as entry:
        assert half_open.breakers("r")[0]["state"] == "HALF_OPEN"
        assert not entry.probing


async def test_the_mark_follows_await_tasks_and_wrapped_threads(half_open: Engine) -> None:
    async def inside() -> bool:
        await asyncio.sleep(0)
        return probing()

    with ThreadPoolExecutor(1) as pool:
        async with half_open.aentry("r"):
            assert await inside()
            assert await asyncio.create_task(inside())
            assert await asyncio.to_thread(probing)
            assert pool.submit(wrap(probing)).result()
            assert not pool.submit(probing).result(), "a bare thread starts empty"
    assert not await inside()


def test_a_guarded_function_sees_it(half_open: Engine) -> None:
    @guard("r", engine=half_open)
    def call() -> dict[str, str]:
        return probe_headers()

    assert call() == MARK
    assert call() == {}


@pytest.mark.parametrize(
    ("headers", "probe"),
    [({"x-sentinel-test": "True"}, True), (MARK, True), ({"X-Sentinel-Test": "false"}, False), ({}, False)],
)
def test_an_incoming_header_marks_the_context(headers: dict[str, str], probe: bool) -> None:
    with context("web", probing=is_probe(headers)):
        assert probing() is probe
        with context("inner", origin="app"):
            assert probing() is probe
    assert not probing()

"""Libraries that each do one of our jobs, as their documentation shows them. Runs in an environment of its own.

Serves rounds over stdin and stdout: name, threads and calls in, ns per call out.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-any-return"
# The libraries are not installed where the types are checked.

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Case = Callable[[], Callable[[], object]]
MANY = 1_000_000_000


def nothing() -> None:
    return None


def circuitbreaker() -> Callable[[], object]:
    from circuitbreaker import circuit

    guarded: Callable[[], object] = circuit(failure_threshold=5, recovery_timeout=10)(nothing)
    return guarded


def pybreaker() -> Callable[[], object]:
    from pybreaker import CircuitBreaker

    breaker = CircuitBreaker(fail_max=5, reset_timeout=10)
    return lambda: breaker.call(nothing)


def aiobreaker() -> Callable[[], object]:
    from aiobreaker import CircuitBreaker

    breaker = CircuitBreaker(fail_max=5, timeout_duration=dt.timedelta(seconds=10))
    return lambda: breaker.call(nothing)


def purgatory() -> Callable[[], object]:
    from purgatory import SyncCircuitBreakerFactory

    breaker = SyncCircuitBreakerFactory(default_threshold=5, default_ttl=10).get_breaker("r")

    def call() -> None:
        with breaker:
            pass

    return call


def ratelimit() -> Callable[[], object]:
    from ratelimit import limits

    guarded: Callable[[], object] = limits(calls=MANY, period=1)(nothing)
    return guarded


def limits_fixed() -> Callable[[], object]:
    from limits import RateLimitItemPerSecond
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter, item = FixedWindowRateLimiter(MemoryStorage()), RateLimitItemPerSecond(MANY)
    return lambda: limiter.hit(item, "r")


def limits_sliding() -> Callable[[], object]:
    from limits import RateLimitItemPerSecond
    from limits.storage import MemoryStorage
    from limits.strategies import SlidingWindowCounterRateLimiter

    limiter, item = SlidingWindowCounterRateLimiter(MemoryStorage()), RateLimitItemPerSecond(MANY)
    return lambda: limiter.hit(item, "r")


def throttled() -> Callable[[], object]:
    from throttled import RateLimiterType, Throttled, rate_limiter

    limiter = Throttled(key="r", using=RateLimiterType.SLIDING_WINDOW.value, quota=rate_limiter.per_sec(MANY))
    return limiter.limit


def pyrate_limiter() -> Callable[[], object]:
    from pyrate_limiter import Duration, Limiter, Rate

    limiter = Limiter(Rate(1_000_000, Duration.SECOND))
    return lambda: limiter.try_acquire("r", blocking=False)


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        circuitbreaker, pybreaker, aiobreaker, purgatory,
        ratelimit, limits_fixed, limits_sliding, throttled, pyrate_limiter,
    )
}  # fmt: skip


def measure(call: Callable[[], object], threads: int, calls: int) -> float:
    """Wall ns of one call as each of the threads sees it."""
    start = threading.Barrier(threads + 1)
    end = threading.Barrier(threads + 1)

    def run() -> None:
        start.wait()
        for _ in range(calls):
            call()
        end.wait()

    for _ in range(threads):
        threading.Thread(target=run, daemon=True).start()
    start.wait()
    began = time.perf_counter_ns()
    end.wait()
    return (time.perf_counter_ns() - began) / calls


def serve(cases: dict[str, Any]) -> None:
    made: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        name, threads, calls = line.split()
        try:
            if name not in made:
                made[name] = cases[name]()
            answer: object = measure(made[name], int(threads), int(calls))
        except Exception as error:  # noqa: BLE001 (a library that fails is told and left out)
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(CASES)

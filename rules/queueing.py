"""What a queue of waiting calls costs the threads that serve: computed from a rule alone.

A queueing rule lets `count` calls a second go on at even distances and refuses who would wait longer than
`maxQueueingTimeMs`, so that no more wait at once than go on within that time (Little's law, L = λW). In a service of
threads each of them holds a worker, and they are never more than there are workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sentinel_core.rules.rule import Finding, warning

MANY = 200
"""Waiting calls that fill the whole pool of a common server, where nobody says how large it is (Tomcat's default)."""
_FIELD = "maxQueueingTimeMs"


@dataclass(frozen=True, slots=True)
class Serving:
    """What is known of the service that runs the rules."""

    workers: int | None = None
    """Threads that serve in one process."""
    request_timeout_ms: int | None = None
    """How long its callers wait for an answer."""

    @property
    def settles(self) -> frozenset[str]:
        """Codes of remarks that are a guess where nothing is known."""
        return frozenset({"SR223"} if self.workers else ())


def most_waiting(count: float, max_queueing_time_ms: int) -> int:
    """Calls that a queue holds at most at one time."""
    return int(min(count, 1e12) * max(max_queueing_time_ms, 0) / 1000)


def longest_queue_ms(count: float, waiting: int) -> int:
    """The `maxQueueingTimeMs` with which no more than `waiting` calls wait."""
    return int(waiting * 1000 / count) if count > 0 else 0


def check_pool(count: float, max_queueing_time_ms: int, workers: int | None) -> Iterator[Finding]:
    """Whether waiting calls can take every worker."""
    waiting = most_waiting(count, max_queueing_time_ms)
    if waiting < (workers or MANY):
        return
    pool = f"all {workers} workers" if workers else "the whole pool of most servers"
    limit = longest_queue_ms(count, (workers or MANY) // 2)
    yield warning(
        "SR223",
        _FIELD,
        f"up to {waiting} calls wait at once ({count:g} a second × {max_queueing_time_ms} ms), each on a thread: "
        f"{pool}; write {limit} or less, which holds half of them, or reject",
    )


def check_timeout(max_queueing_time_ms: int, request_timeout_ms: int) -> Iterator[Finding]:
    """Whether callers give up before their turn comes."""
    if max_queueing_time_ms >= request_timeout_ms:
        yield warning(
            "SR224",
            _FIELD,
            f"a call may wait {max_queueing_time_ms} ms, and callers give up after {request_timeout_ms} ms "
            f"(requestTimeout): it holds a worker for nobody; write less than that, and the time of "
            "the call itself less",
        )

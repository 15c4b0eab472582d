"""Circuit breakers on slow calls, error ratio and error count.

A value opens when it is greater than the threshold; a ratio threshold of 1.0 opens when it is reached (a ratio cannot
be greater). Counted are completions, in the window of their end. A result counts only for the state it began in:
a call that passed before the breaker last moved changes nothing. A probe that is blocked further down, cancelled or
lost does not hold the breaker half open.

`recovery: progressive` tries in cycles. A cycle is a number of permits, one in the first cycle, `permits` in the next
two, and it is good when as many calls came back well; then the next one begins. After three the breaker closes; one bad
call opens it. A permit whose call was refused further down, cancelled or ignored comes back; where all are out and none
came back for a whole open time, their calls are lost and the permits are given out again.

`compat` restores Java Sentinel 1.8.9: any completion decides a half-open breaker, a lost probe holds it for ever, an
error ratio of 1.0 never opens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from sentinel_core.clock import MS, SECOND
from sentinel_core.modes import ENFORCE
from sentinel_core.node import ClusterNode
from sentinel_core.plan import BLOCK, PASS, PLAIN, PROBE, Call, Checker, Pass, Runtime, Transition
from sentinel_core.product import product
from sentinel_core.slots import Build, Slot

CLOSED: Final = "CLOSED"
OPEN: Final = "OPEN"
HALF_OPEN: Final = "HALF_OPEN"
SLOW_RATIO: Final = 0
ERROR_RATIO: Final = 1
QPS: Final = 1
DIRECT: Final = 0
EVERYONE: Final = "default"
GOOD_CYCLES: Final = 3
MOST_PERMITS: Final = 5


class Breaker(Checker):
    """One breaker: a state, one window of completions, and the era of the last move."""

    __slots__ = (
        "any_result", "bad", "compat", "end", "grade", "interval", "minimum", "node", "open_ns", "retry_at", "runtime",
        "since", "slow_ns", "state", "threshold", "total",
    )  # fmt: skip

    def __init__(self, runtime: Runtime, node: ClusterNode, rule: Any) -> None:
        super().__init__("degrade", rule)
        self.demands_call = False
        self.completes = True
        self.lends = True
        self.again = not runtime.compat
        self.runtime = runtime
        self.compat = runtime.compat
        self.any_result = runtime.compat
        """Java: every completion counts, also one of a call from before the last move, and a cancelled one."""
        self.node = node
        self.grade: int = rule.grade
        self.threshold: float = rule.slow_ratio_threshold if rule.grade == SLOW_RATIO else rule.count
        self.slow_ns: int = product(math.floor(rule.count + 0.5), MS) if rule.grade == SLOW_RATIO else 0
        self.minimum: int = rule.min_request_amount
        self.open_ns: int = product(rule.time_window, SECOND)
        self.interval: int = product(rule.stat_interval_ms, MS)
        self.state = CLOSED
        self.idle = True
        self.since = 0
        self.retry_at = 0
        self.end = 0
        self.total = 0
        self.bad = 0

    def check(self, now: int, count: int, call: Call) -> int:
        state = self.state
        if state is CLOSED:
            return PASS  # where somebody asks all the same: a shadow
        if now < self.retry_at or (state is HALF_OPEN and self.compat):
            return BLOCK
        # A half-open breaker past its retry time has lost its probe: another one goes. The first to return decides.
        self.retry_at = now + self.open_ns
        if state is OPEN:
            self.move(HALF_OPEN, None, now)
        return PROBE

    def complete(self, passed: Pass, now: int, rt: int, failed: bool, cancelled: bool) -> None:
        if not self.any_result:
            if passed.era < self.since:
                return
            if cancelled:
                self.give_back(now, passed.era, now)
                return
        if now >= self.end:
            self.end = now - now % self.interval + self.interval
            self.total = 0
            self.bad = 0
        bad = rt > self.slow_ns if self.grade == SLOW_RATIO else failed
        self.total += 1
        if bad:
            self.bad += 1
        state = self.state
        if state is CLOSED:
            if self.bad and self.total >= self.minimum:
                self.judge(now)
        elif state is HALF_OPEN:
            if bad:
                self.retry_at = now + self.open_ns
                self.move(OPEN, 1.0, now)
            else:
                self.recover(now)

    def recover(self, now: int) -> None:
        """A call of a half-open breaker came back well."""
        self.total = 0
        self.bad = 0
        self.move(CLOSED, None, now)

    def judge(self, now: int) -> None:
        """Opens a closed breaker whose window is bad enough."""
        threshold = self.threshold
        if self.grade > ERROR_RATIO:
            value = float(self.bad)
            opens = value > threshold
        else:
            value = self.bad / self.total
            # Java Sentinel closes this gap for slow calls only; an error ratio of 1.0 never opens there.
            reached = value == 1.0 and threshold == 1.0 and (self.grade == SLOW_RATIO or not self.compat)
            opens = value > threshold or reached
        if opens:
            self.retry_at = now + self.open_ns
            self.move(OPEN, value, now)

    def move(self, state: str, value: float | None, now: int) -> None:
        node, before = self.node, self.state
        node.era += 1
        self.since = node.era
        self.state = state
        self.idle = state is CLOSED
        self.runtime.news.append(Transition("degrade", node.resource, self.rule, before, state, value, now))

    def release(self, now: int, era: int) -> None:
        # As long as another rule refuses its probes the breaker cannot learn anything: it waits a whole turn again.
        self.give_back(now, era, now if self.compat else now + self.open_ns)

    def give_back(self, now: int, era: int, retry_at: int) -> None:
        if self.state is HALF_OPEN and era >= self.since:
            self.retry_at = retry_at
            self.move(OPEN, 1.0, now)

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        if self.state is CLOSED:
            return None
        return max(0, -((now - self.retry_at) // MS))

    def live(self, now: int) -> dict[str, Any]:
        counting = now < self.end
        total = self.total if counting else 0
        bad = self.bad if counting else 0
        return {
            "state": self.state,
            "total": total,
            "bad": bad,
            "value": bad if self.grade > ERROR_RATIO else (bad / total if total else 0.0),
            "retryAfterMs": self.retry_after(now),
        }


class ProgressiveBreaker(Breaker):
    """A breaker that recovers in cycles. `retry_at` is also when the permits that are out count as lost."""

    __slots__ = ("cycle", "done", "lent", "permits", "size")

    def __init__(self, runtime: Runtime, node: ClusterNode, rule: Any) -> None:
        super().__init__(runtime, node, rule)
        self.any_result = False
        self.permits = MOST_PERMITS
        """Permits of the cycles after the first; follows the flow rules of the resource."""
        self.cycle = 0
        self.size = 0
        self.lent = 0
        """Permits of this cycle that are out or have come back well."""
        self.done = 0

    def check(self, now: int, count: int, call: Call) -> int:
        state = self.state
        if state is CLOSED:
            return PASS
        if state is OPEN:
            if now < self.retry_at:
                return BLOCK
            self.move(HALF_OPEN, None, now)
            self.begin(1, 1)
        elif self.lent >= self.size:
            if now < self.retry_at:
                return BLOCK
            self.lent = self.done
        self.lent += 1
        self.retry_at = now + self.open_ns
        return PROBE

    def begin(self, cycle: int, size: int) -> None:
        self.cycle = cycle
        self.size = size
        self.lent = 0
        self.done = 0

    def recover(self, now: int) -> None:
        self.done += 1
        if self.done < self.size:
            return
        if self.cycle >= GOOD_CYCLES:
            super().recover(now)
            return
        node = self.node
        node.era += 1
        self.since = node.era  # a lost call of an earlier cycle that comes back after all counts no more
        self.begin(self.cycle + 1, self.permits)

    def give_back(self, now: int, era: int, retry_at: int) -> None:
        if self.state is not HALF_OPEN or era < self.since:
            return
        if self.cycle == 1:
            super().give_back(now, era, retry_at)
        elif self.lent > self.done:
            self.lent -= 1

    def live(self, now: int) -> dict[str, Any]:
        trying = {"cycle": self.cycle, "permits": self.size, "lent": self.lent, "good": self.done}
        return {**super().live(now), **(trying if self.state is HALF_OPEN else {})}


def permits_of(build: Build) -> int:
    """A tenth of what the resource may take a second, 1 to MOST_PERMITS; MOST_PERMITS where nothing limits it."""
    limits = [
        rule.count
        for rule in build.rules("flow")
        if rule.grade == QPS and rule.strategy == DIRECT and rule.limit_app == EVERYONE and build.mode(rule) == ENFORCE
    ]
    return max(1, min(MOST_PERMITS, int(min(limits) / 10))) if limits else MOST_PERMITS


def make(build: Build, node: ClusterNode, rule: Any) -> Breaker:
    return ProgressiveBreaker(build.runtime, node, rule) if rule.recovery else Breaker(build.runtime, node, rule)


def keep(build: Build, node: ClusterNode, rule: Any) -> Checker:
    if build.compat and rule.regex and SLOT.kind in build.changed:
        build.forget(("degrade", rule))  # Java makes breakers of patterns anew with every change
    breaker = build.keep(("degrade", rule), lambda: make(build, node, rule), shared=build.compat)
    if isinstance(breaker, ProgressiveBreaker):
        breaker.permits = permits_of(build)
    return breaker


def compile_degrade(build: Build, node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
    """One breaker a rule, in list order. Equal rules of one resource are one breaker."""
    return [keep(build, node, rule) for rule in (rules if build.compat else dict.fromkeys(rules))]


SLOT = Slot("degrade", 500, compile_degrade, breaks=True)

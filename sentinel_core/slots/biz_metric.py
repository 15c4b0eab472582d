"""Breakers on business metrics: a failure rate from reported samples, or a gauge.

CLOSED     the metric is judged at every entry, once `minRequestAmount` samples (of a rate) or calls (for a gauge) stand
           in `windowIntervalMs`; past the threshold it opens and this call is blocked already
OPEN       blocks for `stateWindowMs`
HALF_OPEN  for `halfOpenMs`, `halfOpenPercent` of the calls pass, the first one in any case, which ones is counted and
           not drawn; then the period is judged as a whole: samples reported in it, or the gauge as it stands. Without
           a sample there is nothing to judge and the period begins anew.

A metric without a value lets every call pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from sentinel_core.clock import MS
from sentinel_core.collectors import Collector, installed
from sentinel_core.collectors.local import Gauge, RateWindow, oldest_allowed
from sentinel_core.node import ClusterNode
from sentinel_core.plan import BLOCK, PASS, Call, Checker, Transition
from sentinel_core.slots import Build, Slot

CLOSED: Final = "CLOSED"
OPEN: Final = "OPEN"
HALF_OPEN: Final = "HALF_OPEN"


class BizBreaker(Checker):
    """One business breaker of one resource."""

    __slots__ = (
        "above", "asked", "calls", "dimension", "half_open_ns", "let", "metric", "metrics", "minimum", "node",
        "on_stale", "open_ns", "percent", "runtime", "samples", "stale_after", "state", "threshold", "until",
    )  # fmt: skip

    def __init__(self, build: Build, node: ClusterNode, rule: Any, samples: RateWindow, calls: RateWindow) -> None:
        super().__init__("biz_metric", rule)
        self.demands_call = False
        self.runtime = build.runtime
        self.metrics = build.metrics
        self.node = node
        self.metric: str = rule.biz_metric_type
        self.dimension: str | None = rule.dimension
        self.threshold: float = rule.threshold
        self.above: bool = rule.direction == "above"
        self.minimum: int = rule.min_request_amount
        self.open_ns: int = rule.state_window_ms * MS
        self.half_open_ns: int = rule.half_open_ms * MS
        self.percent: float = rule.half_open_percent
        self.stale_after: int = rule.stale_after_ms or 0
        self.on_stale: str = rule.on_stale
        self.samples = samples
        self.calls = calls
        self.state = CLOSED
        self.until = 0
        """End of the open time, or of the half-open period; ns."""
        self.asked = 0
        self.let = 0

    def check(self, now: int, count: int, call: Call) -> int:
        gauge = self.metrics.gauge(self.metric, self.node.resource, self.dimension)
        if gauge is not None:
            self.calls.add(now, ok=True, count=1)
        if self.state is CLOSED:
            if not self.enough(now, gauge) or not self.bad(now, gauge):
                return PASS
            self.open(now, self.value(gauge))
            return BLOCK
        if self.state is OPEN:
            if now < self.until:
                return BLOCK
            self.half_open(now)
            self.move(HALF_OPEN, None, now)
        elif now >= self.until:
            return self.conclude(now, gauge)
        return self.let_some()

    def let_some(self) -> int:
        """Passes every n-th call so that `percent` of those that asked have passed, the first one included."""
        self.asked += 1
        if self.let < math.ceil(self.asked * self.percent / 100):
            self.let += 1
            return PASS
        return BLOCK

    def enough(self, now: int, gauge: Gauge | None) -> bool:
        if gauge is not None:
            return self.calls.total >= self.minimum
        self.samples.roll(now)
        return self.samples.total >= self.minimum and self.samples.total > 0

    def value(self, gauge: Gauge | None) -> float:
        return gauge.value if gauge is not None else self.samples.percent()

    def bad(self, now: int, gauge: Gauge | None) -> bool:
        """Whether the metric stands on the bad side; equal does not."""
        if gauge is not None and self.stale_after and gauge.at < oldest_allowed(now, self.stale_after):
            if self.on_stale == "open":
                return True
            if self.on_stale == "close":
                return False
        value = self.value(gauge)
        return value > self.threshold if self.above else value < self.threshold

    def open(self, now: int, value: float) -> None:
        self.until = now + self.open_ns
        self.move(OPEN, value, now)

    def half_open(self, now: int) -> None:
        """A new period, judged by what is reported from now on."""
        self.until = now + self.half_open_ns
        self.asked = 0
        self.let = 0
        self.samples.clear()

    def conclude(self, now: int, gauge: Gauge | None) -> int:
        """The half-open period is over: healthy as a whole, or not."""
        if gauge is None and not self.samples.total:
            self.half_open(now)
            return self.let_some()
        if self.bad(now, gauge):
            self.open(now, self.value(gauge))
            return BLOCK
        self.move(CLOSED, None, now)
        return PASS

    def move(self, state: str, value: float | None, now: int) -> None:
        self.runtime.news.append(Transition("biz_metric", self.node.resource, self.rule, self.state, state, value, now))
        self.state = state

    def retry_after(self, now: int) -> int | None:
        return max(0, -((now - self.until) // MS)) if self.state is OPEN else None

    def detail(self, call: Call) -> str:
        return self.metric

    def live(self, now: int) -> dict[str, Any]:
        gauge = self.metrics.gauge(self.metric, self.node.resource, self.dimension)
        self.samples.roll(now)
        known = gauge is not None or self.samples.total > 0
        return {
            "state": self.state,
            "metric": self.metric,
            "value": self.value(gauge) if known else None,
            "threshold": self.threshold,
            "samples": self.calls.total if gauge is not None else self.samples.total,
            "retryAfterMs": self.retry_after(now),
        }


def window(node: ClusterNode, rule: Any) -> RateWindow:
    return RateWindow(node.resource, rule.dimension, rule.window_interval_ms * MS)


def compile_one(build: Build, node: ClusterNode, rule: Any) -> Checker:
    """A breaker whose samples outlive a change of its thresholds: metric, dimension and interval make a window."""
    source = ("biz_metric", rule.biz_metric_type, rule.dimension, rule.window_interval_ms)
    samples = build.keep((*source, "samples"), lambda: window(node, rule))
    calls = build.keep((*source, "calls"), lambda: window(node, rule))
    build.metrics.attach(rule.biz_metric_type, samples)
    return build.keep(("biz_metric", rule), lambda: BizBreaker(build, node, rule, samples, calls))


def compile_biz_metric(build: Build, node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
    """One breaker a rule that is switched on; equal rules are one."""
    return [compile_one(build, node, rule) for rule in dict.fromkeys(rules) if rule.enabled]


def readings(rule: Any) -> Sequence[Callable[[], Collector]]:
    """The installed collectors of the rule's metric."""
    return installed(rule.biz_metric_type) if rule.enabled else ()


SLOT = Slot("biz_metric", 400, compile_biz_metric, breaks=True, eager=True, readings=readings)

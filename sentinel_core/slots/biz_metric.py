"""Breakers on business metrics: a failure rate from reported samples, or a gauge.

CLOSED     the metric is judged at every entry, once `minRequestAmount` samples (of a rate) or calls (for a gauge) stand
           in `windowIntervalMs`; past the threshold it opens and this call is blocked already
OPEN       blocks for `stateWindowMs`
HALF_OPEN  for `halfOpenMs`, `halfOpenPercent` of the calls pass, the first one in any case; which ones is counted and
           not drawn. Then what was reported since the trial began is judged as a whole, or the gauge as it stands. With
           fewer samples than `minRequestAmount` the trial goes on for another `halfOpenMs` and they are judged with the
           next ones: one unlucky call decides nothing.

A metric without a value lets every call pass. A stale gauge (`staleAfterMs`) goes on with its last value, opens the
breaker or closes it, as `onStale` says; both the beginning and the end of that are told once.

With a `dimension`, the name of a tag of the context, there is one such breaker for each value of the tag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sentinel_core.clock import MS
from sentinel_core.collectors import Collector, installed
from sentinel_core.collectors.local import VALUES, Gauge, Metrics, RateWindow, Samples
from sentinel_core.node import ClusterNode
from sentinel_core.plan import BLOCK, PASS, PLAIN, Call, Checker, Notice, Runtime, Transition
from sentinel_core.product import product
from sentinel_core.slots import Build, Slot

CLOSED: Final = "CLOSED"
OPEN: Final = "OPEN"
HALF_OPEN: Final = "HALF_OPEN"
WORST: Final = {OPEN: 0, HALF_OPEN: 1, CLOSED: 2}
SHOWN: Final = 20
"""Values of a dimension that `live` tells of, the worst first."""
MILLIONTHS: Final = 1e8
"""Hundred percent in millionths of a percent, the unit in which shares are counted."""


class BizBreaker(Checker):
    """One business breaker of one resource, or of one value of its dimension."""

    __slots__ = (
        "above", "asked", "began", "gauge", "half_open_ns", "let", "metric", "metrics", "minimum", "node", "on_stale",
        "open_ns", "runtime", "samples", "seen", "share", "stale", "stale_ns", "state", "threshold", "until", "value",
        "window",
    )  # fmt: skip

    def __init__(
        self, runtime: Runtime, metrics: Metrics, node: ClusterNode, rule: Any, samples: Samples, value: str
    ) -> None:
        super().__init__("biz_metric", rule)
        self.demands_call = False
        self.runtime = runtime
        self.metrics = metrics
        self.node = node
        self.value = value
        """Of the dimension; "" without one."""
        self.metric: str = rule.biz_metric_type
        self.threshold: float = rule.threshold
        self.above: bool = rule.direction == "above"
        self.minimum: int = max(rule.min_request_amount, 1)
        self.open_ns: int = product(rule.state_window_ms, MS)
        self.half_open_ns: int = product(rule.half_open_ms, MS)
        self.share: float = round(rule.half_open_percent * 1e6)
        self.stale_ns: int = product(rule.stale_after_ms or 0, MS)
        self.on_stale: str = rule.on_stale
        self.samples = samples
        self.state = CLOSED
        self.until = 0
        """End of the open time, or of the half-open period; ns."""
        self.asked = 0
        self.let = 0
        self.stale = False
        self.began = -1
        """The first call, ns; -1 before it."""
        self.gauge: Gauge | None = None
        self.seen = -1
        """`Metrics.made` when the gauge was last looked for."""
        self.window: RateWindow | None = None
        """Where calls are counted, once it is known."""

    def check(self, now: int, count: int, call: Call) -> int:
        if self.seen != self.metrics.made:
            self.look_up()
        gauge = self.gauge
        if gauge is not None:
            enough = self.enough_calls(now)
            if self.stale_ns and self.is_lifted(now, gauge):
                return PASS
        elif self.stale_ns and self.on_stale == "open":
            enough = self.never_set(now) or (self.state is CLOSED and self.enough(now))
        else:
            enough = self.state is CLOSED and self.enough(now)
        if self.state is CLOSED:
            if not enough or not self.is_bad():
                return PASS
            self.open(now)
            return BLOCK
        if self.state is OPEN:
            if now < self.until:
                return BLOCK
            self.half_open(now)
        elif now >= self.until:
            return self.conclude(now)
        return self.let_some()

    def look_up(self) -> None:
        """Finds the gauge anew, since another one may be nearer now."""
        self.seen = self.metrics.made
        self.gauge = self.metrics.gauge(self.metric, self.node.resource, self.value)

    def is_lifted(self, now: int, gauge: Gauge) -> bool:
        """Notices when the gauge becomes stale, and when that is over. True: it is, and so calls pass."""
        stale = now - gauge.at > self.stale_ns
        if stale is not self.stale:
            self.stale = stale
            acts = {"hold": "its last value counts on", "open": "the breaker opens", "close": "calls pass"}
            says = f"is stale, last set {(now - gauge.at) // MS} ms ago: {acts[self.on_stale]}" if stale else "is back"
            of = f" {self.value!r}" if self.value else ""
            self.runtime.news.append(Notice(f"{self.metric}{of} of {self.node.resource!r} {says}"))
        if not stale or self.on_stale != "close":
            return False
        if self.state is not CLOSED:
            self.move(CLOSED, None, now)
        return True

    def never_set(self, now: int) -> bool:
        """For a rule that would rather refuse than not know: whether nobody has set the gauge, or reported a sample,
        for so long that a value would be stale by now, and enough calls have come."""
        if self.began < 0:
            self.began = now
        window = self.samples.of(self.value)
        if window is not None:
            window.roll(now)
        silent = (window is None or not window.total) and now - self.began > self.stale_ns
        if silent is not self.stale:
            self.stale = silent
            if silent:
                says = f"{self.metric} of {self.node.resource!r} was never set: the breaker opens"
                self.runtime.news.append(Notice(says))
        return self.enough_calls(now) and silent

    def let_some(self) -> int:
        """Passes the first call and then so many that no more than the share of those that asked have passed."""
        self.asked += 1
        if self.let * MILLIONTHS < self.asked * self.share:
            self.let += 1
            return PASS
        return BLOCK

    def enough_calls(self, now: int) -> bool:
        """Counts this call. Whether there were as many as a judgement of a gauge needs."""
        window = self.window
        if window is None:
            window = self.samples.made(now, self.value)
            if window is None:
                return False
            if self.samples.dimension is None:
                self.window = window  # the only one: it is never swept
        return window.call(now) >= self.minimum

    def enough(self, now: int) -> bool:
        """Whether as many samples stand in the window as a judgement needs."""
        window = self.samples.of(self.value)
        if window is None:
            return False
        window.roll(now)
        return (window.since if self.state is HALF_OPEN else window.total) >= self.minimum

    def measured(self) -> float | None:
        """What the metric stands at, in a trial since it began; None where nobody knows."""
        if self.gauge is not None:
            return self.gauge.value
        window = self.samples.of(self.value)
        if window is None:
            return None
        if self.state is HALF_OPEN:
            return 100.0 * window.since_bad / window.since if window.since else None
        return window.percent() if window.total else None

    def is_bad(self) -> bool:
        """Whether the metric stands on the bad side; equal does not."""
        if self.stale and self.on_stale == "open":
            return True
        value = self.measured()
        if value is None:
            return False
        return value > self.threshold if self.above else value < self.threshold

    def open(self, now: int) -> None:
        self.until = now + self.open_ns
        self.move(OPEN, self.measured(), now)

    def half_open(self, now: int) -> None:
        """A trial begins, judged by what is reported from now on."""
        self.move(HALF_OPEN, None, now)
        window = self.samples.of(self.value)
        if self.gauge is None and window is not None:
            window.clear()
        self.extend(now)

    def extend(self, now: int) -> None:
        """Another period of the trial, with a first call of its own."""
        self.until = now + self.half_open_ns
        self.asked = 0
        self.let = 0

    def conclude(self, now: int) -> int:
        """A period of the trial is over: healthy as a whole, or not, or not to be said yet."""
        if self.gauge is None and not self.stale and not self.enough(now):
            self.extend(now)
            return self.let_some()
        if self.is_bad():
            self.open(now)
            return BLOCK
        self.move(CLOSED, None, now)
        return PASS

    def move(self, state: str, value: float | None, now: int) -> None:
        before, self.state = self.state, state
        transition = Transition("biz_metric", self.node.resource, self.rule, before, state, value, now)
        transition.dimension = self.value
        self.runtime.news.append(transition)

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        return None if self.state is CLOSED else max(0, -((now - self.until) // MS))

    def detail(self, call: Call) -> str:
        return self.metric

    def facts(self, call: Call) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "value": self.measured(),
            "threshold": self.threshold,
            "state": self.state,
            "dimension": self.value,
        }

    def live(self, now: int) -> dict[str, Any]:
        self.look_up()
        samples = 0
        window = self.samples.of(self.value)
        if window is not None:
            window.roll(now)
            if self.gauge is not None:
                samples = window.calls + window.calls_before
            else:
                samples = window.since if self.state is HALF_OPEN else window.total
        return {
            "state": self.state,
            "metric": self.metric,
            "value": self.measured(),
            "threshold": self.threshold,
            "ageMs": (now - self.gauge.at) // MS if self.gauge is not None else None,
            "stale": self.stale_ns > 0 and self.gauge is not None and now - self.gauge.at > self.stale_ns,
            "samples": samples,
            "retryAfterMs": self.retry_after(now),
        }


class ByDimension(Checker):
    """A breaker for each value of a tag that calls carry. A closed one has nothing to remember and goes first."""

    __slots__ = ("metrics", "name", "node", "parts", "runtime", "samples")

    def __init__(self, build: Build, node: ClusterNode, rule: Any, samples: Samples) -> None:
        super().__init__("biz_metric", rule)
        self.by_tags = True
        self.runtime = build.runtime
        self.metrics = build.metrics
        self.node = node
        self.name: str = rule.dimension
        self.samples = samples
        self.parts: dict[str, BizBreaker] = {}

    def part(self, value: str) -> BizBreaker | None:
        """The breaker of a value, made when first asked for; None where too many are open already."""
        part = self.parts.get(value)
        if part is not None:
            return part
        if len(self.parts) >= VALUES:
            self.parts = {value: part for value, part in self.parts.items() if part.state is not CLOSED}
            if len(self.parts) >= VALUES:
                return None
        part = self.parts[value] = BizBreaker(self.runtime, self.metrics, self.node, self.rule, self.samples, value)
        return part

    def check(self, now: int, count: int, call: Call) -> int:
        value = call.tags.get(self.name, "")
        part = self.part(value)
        if part is None:
            self.runtime.beyond("dimensions", f"{self.name} {value!r} of {self.node.resource!r}")
            return PASS
        verdict = part.check(now, count, call)
        if verdict == BLOCK:
            call.hit = value
        return verdict

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        part = self.parts.get(call.hit)
        return part.retry_after(now) if part is not None else None

    def detail(self, call: Call) -> str:
        return f"{self.rule.biz_metric_type}:{call.hit}"

    def facts(self, call: Call) -> dict[str, Any]:
        part = self.parts.get(call.hit)
        return part.facts(call) if part is not None else {}

    def live(self, now: int) -> dict[str, Any]:
        parts = {value: self.parts[value].live(now) for value in self.parts}
        shown = sorted(parts, key=lambda value: (WORST[parts[value]["state"]], -parts[value]["samples"], value))
        return {
            "state": min([live["state"] for live in parts.values()], key=WORST.__getitem__, default=CLOSED),
            "metric": self.rule.biz_metric_type,
            "threshold": self.rule.threshold,
            "dimension": self.name,
            "values": {value: parts[value] for value in shown[:SHOWN]},
            "beyond": max(0, len(parts) - SHOWN),
        }


def compile_one(build: Build, node: ClusterNode, rule: Any) -> Checker:
    """A breaker whose samples outlive a change of its thresholds: metric, dimension and interval make a window."""
    source = ("biz_metric", rule.biz_metric_type, rule.dimension, rule.window_interval_ms)
    samples = build.keep(source, lambda: Samples(node.resource, rule.dimension, product(rule.window_interval_ms, MS)))
    build.metrics.attach(rule.biz_metric_type, samples)
    return build.keep(("biz_metric", rule), lambda: make(build, node, rule, samples))


def make(build: Build, node: ClusterNode, rule: Any, samples: Samples) -> Checker:
    if rule.dimension is not None:
        return ByDimension(build, node, rule, samples)
    return BizBreaker(build.runtime, build.metrics, node, rule, samples, "")


def compile_biz_metric(build: Build, node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
    """One breaker a rule that is switched on; equal rules are one."""
    return [compile_one(build, node, rule) for rule in dict.fromkeys(rules) if rule.enabled]


def readings(rule: Any) -> Sequence[Callable[[], Collector]]:
    """The installed collectors of the rule's metric."""
    return installed(rule.biz_metric_type) if rule.enabled else ()


SLOT = Slot("biz_metric", 400, compile_biz_metric, breaks=True, eager=True, readings=readings)

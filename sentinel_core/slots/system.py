"""What the whole process takes: limits on all inbound calls together, the smallest of every rule.

Load and CPU come from the gauges `system.load` and `system.cpu`, which the first rule that limits them has read once a
second (`sentinel_core.collectors.machine`); without a reading they do not limit.

`compat` restores two oddities of Java Sentinel 1.8.9: one more call than `maxThread` may be inside, and a last rule
without any limit switches all of them off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sentinel_core.clock import MS, SECOND
from sentinel_core.collectors import Collector
from sentinel_core.collectors.local import Metrics
from sentinel_core.collectors.machine import CPU, LOAD, CpuUsage, LoadAverage
from sentinel_core.modes import ENFORCE
from sentinel_core.node import ClusterNode, Node
from sentinel_core.plan import BLOCK, PASS, PLAIN, Call, Checker
from sentinel_core.product import product
from sentinel_core.slots import Build, Slot

OFF: Final = -1.0


class SystemLimits(Checker):
    """Every system rule together. Which limit was hit stands in the call."""

    __slots__ = ("avg_rt_ns", "cpu", "inbound", "load", "max_rt_ns", "max_thread", "metrics", "qps", "seconds", "slack")

    def __init__(self, build: Build, rules: Sequence[Any]) -> None:
        super().__init__("system", None)
        self.demands_call = False  # inbound calls always bring a Call
        self.again = not build.compat
        self.inbound: Node = build.runtime.inbound
        self.metrics: Metrics = build.metrics
        self.seconds: float = build.settings.interval_ms / 1000
        self.slack = 0 if build.compat else 1
        self.max_rt_ns: int = product(build.settings.max_rt_ms, MS)
        limits = limits_of(rules)
        self.qps = limits["qps"]
        self.max_thread = limits["maxThread"]
        avg_rt = limits["avgRt"]
        self.avg_rt_ns = avg_rt * MS if avg_rt >= 0 else OFF
        self.load = limits["highestSystemLoad"]
        self.cpu = limits["highestCpuUsage"]

    def check(self, now: int, count: int, call: Call) -> int:
        if not call.inbound:
            return PASS
        node = self.inbound
        if now >= node.end:
            node.roll(now)
        if self.qps >= 0 and node.pass_sum() / self.seconds + count > self.qps:
            return self.hit(call, "qps")
        if self.max_thread >= 0 and node.threads + self.slack > self.max_thread:
            return self.hit(call, "thread")
        if self.avg_rt_ns >= 0 and node.average_rt() > self.avg_rt_ns:
            return self.hit(call, "rt")
        if self.load >= 0 and self.reading(LOAD) > self.load and self.saturated(node):
            return self.hit(call, "load")
        if self.cpu >= 0 and self.reading(CPU) > self.cpu:
            return self.hit(call, "cpu")
        return PASS

    def hit(self, call: Call, limit: str) -> int:
        call.hit = limit
        return BLOCK

    def reading(self, metric: str) -> float:
        gauge = self.metrics.gauge(metric, "", "")
        return gauge.value if gauge is not None else OFF

    def saturated(self, node: Node) -> bool:
        """More calls inside than the process has been seen to finish (BBR: best throughput times shortest time)."""
        best = float(node.busiest_success()) * node.size / self.seconds
        return node.threads > 1 and node.threads > best * node.shortest_rt(self.max_rt_ns) / SECOND

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        return None

    def detail(self, call: Call) -> str:
        return call.hit

    def live(self, now: int) -> dict[str, Any]:
        node = self.inbound
        node.roll(now)
        return {
            "qps": node.pass_sum() / self.seconds,
            "threads": node.threads,
            "avgRtMs": node.average_rt() / MS,
            "load": self.reading(LOAD),
            "cpu": self.reading(CPU),
            "limits": {
                "qps": self.qps,
                "threads": self.max_thread,
                "avgRtMs": self.avg_rt_ns / MS,
                "load": self.load,
                "cpu": self.cpu,
            },
        }


def smallest(values: list[float]) -> float:
    """The smallest limit that is switched on, OFF without any."""
    return min([value for value in values if value >= 0], default=OFF)


def limits_of(rules: Sequence[Any]) -> dict[str, float]:
    """The limits of all rules together, by JSON name; OFF where none is set."""
    return {
        "qps": smallest([float(rule.qps) for rule in rules]),
        "avgRt": smallest([float(rule.avg_rt) for rule in rules]),
        "maxThread": smallest([float(rule.max_thread) for rule in rules]),
        "highestSystemLoad": smallest([float(rule.highest_system_load) for rule in rules]),
        "highestCpuUsage": smallest([float(rule.highest_cpu_usage) for rule in rules if rule.highest_cpu_usage <= 1]),
    }


def compile_system(build: Build, _node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
    """One checker for all rules together, one for all shadow rules; none where nothing is limited."""
    enforced = [rule for rule in rules if build.mode(rule) == ENFORCE]
    shadowed = [rule for rule in rules if build.mode(rule) != ENFORCE]
    checkers: list[Checker] = []
    if limiting(build, enforced):
        checkers.append(SystemLimits(build, enforced))
    if limiting(build, shadowed):
        checkers.append(build.shadow(SystemLimits(build, shadowed), "system"))
    return checkers


def limiting(build: Build, rules: Sequence[Any]) -> bool:
    """Whether these rules limit anything; for Java the last one alone says so."""
    return any(rule.limits() for rule in (rules[-1:] if build.compat else rules))


def readings(rule: Any) -> list[Callable[[], Collector]]:
    """What must be read of the machine for this rule."""
    needed: list[Callable[[], Collector]] = []
    if rule.highest_system_load >= 0:
        needed.append(LoadAverage)
    if rule.highest_cpu_usage >= 0:
        needed.append(CpuUsage)
    return needed


SLOT = Slot("system", 200, compile_system, universal=True, readings=readings)

"""What `engine.stats` and `engine.totals` show: the counts of one resource, read at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sentinel_core.clock import MS
from sentinel_core.node import ClusterNode, Node
from sentinel_core.window import NO_RT


@dataclass(frozen=True, slots=True)
class Stats:
    """Requests of the sliding second (two buckets of 500 ms) and calls inside now. Readable as `stats["pass"]` too."""

    passed: int = 0
    blocked: int = 0
    success: int = 0
    exception: int = 0
    avg_rt: float = 0.0
    """Milliseconds, 0 without completions."""
    min_rt: float = 0.0
    threads: int = 0

    @property
    def block(self) -> int:
        return self.blocked

    def __getattr__(self, name: str) -> int:
        if name in ("pass", "pass_"):  # a keyword cannot be a field
            return self.passed
        raise AttributeError(f"stats have no {name!r}; they have {', '.join(self.to_json())}")

    def __getitem__(self, name: str) -> Any:
        return self.to_json()[name]

    def to_json(self) -> dict[str, Any]:
        """Under the names of the pinned API: pass, block, success, exception, avg_rt, min_rt, threads."""
        values = asdict(self)
        return {"pass": values.pop("passed"), "block": values.pop("blocked"), **values}


@dataclass(frozen=True, slots=True)
class Totals:
    """Requests of a resource since the engine first saw it; only ever grows, but for `threads`."""

    passed: int = 0
    blocked: int = 0
    success: int = 0
    exception: int = 0
    rt_ns: int = 0
    """Sum of response times, one for each completion whatever its count."""
    blocked_by: Mapping[str, int] = field(default_factory=dict)
    """`blocked` by the kind of the rule that decided; empty for the inbound total."""
    threads: int = 0
    """Calls inside now."""


def totals_of(node: Node | None) -> Totals:
    """The lifetime counts of a node; zeros for one that does not exist. The caller holds the lock."""
    if node is None:
        return Totals()
    counts = node.lifetime()
    return Totals(
        passed=counts.passed,
        blocked=counts.blocked,
        success=counts.success,
        exception=counts.errors,
        rt_ns=counts.rt,
        blocked_by=node.blocked_by() if isinstance(node, ClusterNode) else {},
        threads=node.threads,
    )


def stats_of(node: Node | None, now: int) -> Stats:
    """The counts of a node at monotonic ns `now`; zeros for one that does not exist. The caller holds the lock."""
    if node is None:
        return Stats()
    node.roll(now)
    success = node.base_success + node.success
    return Stats(
        passed=node.pass_sum(),
        blocked=node.base_blocked + node.blocked,
        success=success,
        exception=node.base_errors + node.errors,
        avg_rt=(node.base_rt + node.rt) / success / MS if success else 0.0,
        min_rt=node.shortest_rt(NO_RT) / MS if success else 0.0,
        threads=node.threads,
    )

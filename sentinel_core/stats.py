"""What `engine.stats` shows: the counts of one resource, read at one instant."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sentinel_core.clock import MS
from sentinel_core.node import Node
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

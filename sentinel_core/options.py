"""How an engine counts and in which order it asks; everything has a default that suits a service."""

from __future__ import annotations

from dataclasses import dataclass

SENTINEL_1_8_9 = "sentinel-1.8.9"
SENTINEL_SLOT_ORDER = ("authority", "system", "param_flow", "flow", "biz_metric", "degrade")
"""The order of Java Sentinel 1.8.9 with its hot-parameter extension, and the business slot where its author put it."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """How calls are counted.

    interval_ms, sample_count   the sliding window: this long, in this many buckets
    precise                     sum one bucket more than the interval, so that no span of it, wherever it begins, sees
                                more than a limit; stricter than written by up to a bucket
    cold_factor                 a warm-up rule starts at count / cold_factor
    occupy_timeout_ms           how long a priority call may wait for the next window
    max_rt_ms                   the shortest response time of a window without completions (`statistic.max.rt`)
    minutes                     keep the last 60 seconds of every resource (7 KB each), for metric logs
    """

    interval_ms: int = 1000
    sample_count: int = 2
    precise: bool = False
    cold_factor: int = 3
    occupy_timeout_ms: int = 500
    max_rt_ms: int = 5000
    minutes: bool = False

    def __post_init__(self) -> None:
        if self.sample_count < 1 or self.interval_ms < 1 or self.interval_ms % self.sample_count:
            raise ValueError(
                f"interval_ms {self.interval_ms} cannot be cut into {self.sample_count} equal buckets; "
                "write a sample_count that divides it"
            )

    @property
    def bucket_ns(self) -> int:
        """Length of a bucket."""
        return self.interval_ms * 1_000_000 // self.sample_count

    @property
    def buckets(self) -> int:
        """Buckets that are summed."""
        return self.sample_count + self.precise

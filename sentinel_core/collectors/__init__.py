"""Collectors: where gauges come from that nobody sets by hand.

A collector is read by a thread beside the calls, never by a call: what the hot path sees is the gauge it left.
`contract` says what a collector is, `refresher` when it is read and what becomes of failures; the sources of this
package are modules of their own (`redis`, `kafka`, `prometheus`, `http_json`, `sql`, `function`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points

from sentinel_core.collectors.contract import Collector, CollectorError, SourceLost, Target, Values
from sentinel_core.collectors.refresher import Collectors
from sentinel_core.collectors.uris import open  # noqa: A004 - collectors.open(…) is the public name

ENTRY_POINTS = "sentinel.collectors"


@cache
def installed(metric: str) -> tuple[Callable[[], Collector], ...]:
    """The collectors that packages offer for a metric: entry points of the group `sentinel.collectors` named like the
    `bizMetricType`, each a class (or a function) that makes one."""
    return tuple(point.load() for point in entry_points(group=ENTRY_POINTS, name=metric))


__all__ = [
    "ENTRY_POINTS",
    "Collector",
    "CollectorError",
    "Collectors",
    "SourceLost",
    "Target",
    "Values",
    "installed",
    "open",
]

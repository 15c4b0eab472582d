"""An engine's metrics for Prometheus.

    from prometheus_client import start_http_server
    from sentinel_core.metrics.prometheus import register

    register(engine)
    start_http_server(9464)

Values are read when they are scraped. Each process has an engine of its own: with several worker processes let each
listen on a port of its own and have all of them scraped. The multi-process mode of `prometheus_client` merges files
of its own counters only and leaves collectors such as this one out. Needs the extra `[prometheus]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

try:
    from prometheus_client import REGISTRY
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "install it: pip install 'sentinel-control-plane[prometheus]'", name=error.name
    ) from error
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from sentinel_core.metrics.families import LIMIT, Family, Reading, Sample, families

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from sentinel_core.engine import Engine


class EngineCollector(Collector):
    """Reads an engine at every scrape. Safe from any thread; never raises.

    limit   resources with a label of their own; the rest is summed under `__other__`
    """

    def __init__(self, engine: Engine, *, limit: int = LIMIT) -> None:
        self._engine = engine
        self._limit = limit
        self._named: set[str] = set()
        self._families = families(engine)

    def describe(self) -> list[Metric]:
        """Names without values, so that registering reads nothing."""
        return [_translate(family, []) for family in self._families]

    def collect(self) -> Iterator[Metric]:
        reading = Reading(self._engine, self._named, self._limit)
        for family in self._families:
            if samples := family.samples(reading):
                yield _translate(family, samples)


def register(engine: Engine, registry: CollectorRegistry = REGISTRY, *, limit: int = LIMIT) -> Callable[[], None]:
    """Adds an engine to a registry and returns what removes it again. One engine a registry: names would clash."""
    collector = EngineCollector(engine, limit=limit)
    registry.register(collector)
    return lambda: registry.unregister(collector)


def _translate(family: Family, samples: list[Sample]) -> Metric:
    if family.type == "summary":
        summary = SummaryMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value, number in samples:
            summary.add_metric(labels, number, value)
        return summary
    if family.type == "counter":
        counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value, _ in samples:
            counter.add_metric(labels, value)
        return counter
    name = f"{family.name}_info" if family.type == "info" else family.name
    gauge = GaugeMetricFamily(name, family.help, labels=family.labels)
    for labels, value, _ in samples:
        gauge.add_metric(labels, value)
    return gauge

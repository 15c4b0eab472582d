"""What OpenTelemetry collects, through the real SDK."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint, Sum

from sentinel_core import Engine, Entry
from sentinel_core.metrics.otel import instrument
from sentinel_core.testing import FakeClock


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


def meter(reader: InMemoryMetricReader) -> Any:
    return MeterProvider([reader], shutdown_on_exit=False).get_meter("sentinel")


def collect(reader: InMemoryMetricReader) -> dict[str, dict[frozenset[tuple[str, Any]], float]]:
    """name → attributes → value."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, dict[frozenset[tuple[str, Any]], float]] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            assert isinstance(point, NumberDataPoint)
            found.setdefault(metric.name, {})[frozenset((point.attributes or {}).items())] = point.value
    return found


def of(**attributes: Any) -> frozenset[tuple[str, Any]]:
    return frozenset(attributes.items())


def test_counts_and_states_are_observed(engine: Engine, clock: FakeClock, reader: InMemoryMetricReader) -> None:
    instrument(engine, meter(reader))
    engine.load_rules("flow", [{"resource": "r", "count": 2}])
    rule = {"resource": "r", "grade": 2, "count": 0, "timeWindow": 9, "minRequestAmount": 1}
    path = engine.load_rules("degrade", [rule]).rules[0].path
    for _ in range(5):
        entry = engine.try_entry("r")
        clock.advance(ms=50)
        if isinstance(entry, Entry):
            entry.exit()
    seen = collect(reader)
    assert seen["sentinel.pass"][of(resource="r")] == 2
    assert seen["sentinel.flow.reject"][of(resource="r")] == 3
    assert seen["sentinel.rt.sum"][of(resource="r")] == pytest.approx(0.1)
    assert seen["sentinel.rt.count"][of(resource="r")] == 2
    assert seen["sentinel.breaker_state"][of(resource="r", rule=path)] == 0
    assert seen["sentinel.rules"][of(kind="flow")] == 1
    assert "sentinel.outbox_depth" not in seen


def test_counters_are_monotonic_sums_with_units(engine: Engine, reader: InMemoryMetricReader) -> None:
    instrument(engine, meter(reader))
    engine.entry("r").exit()
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    assert isinstance(metrics["sentinel.rt.sum"].data, Sum)
    assert metrics["sentinel.rt.sum"].data.is_monotonic
    assert metrics["sentinel.rt.sum"].unit == "s"
    assert not isinstance(metrics["sentinel.threads"].data, Sum)


def test_resources_beyond_the_limit_are_summed(engine: Engine, reader: InMemoryMetricReader) -> None:
    instrument(engine, meter(reader), limit=1)
    for name in ("a", "b", "c"):
        engine.entry(name).exit()
    assert collect(reader)["sentinel.pass"] == {of(resource="a"): 1, of(resource="__other__"): 2}

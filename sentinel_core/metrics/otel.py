"""An engine's metrics for OpenTelemetry: observable instruments, read when they are collected.

    from opentelemetry.metrics import get_meter
    from sentinel_core.metrics.otel import instrument

    instrument(engine, get_meter("sentinel"))

Names are those of Prometheus with dots (`sentinel.pass`, `sentinel.flow.reject`); a summary is two counters, `.sum` and
`.count`. Several worker processes tell themselves apart by `service.instance.id` of their resource. Needs the extra
`[otel]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("install it: pip install 'sentinel-control-plane[otel]'", name=error.name) from error

from sentinel_core.metrics.families import LIMIT, Family, Reading, Sample, families

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

Callback = Callable[[CallbackOptions], Iterable[Observation]]


def instrument(engine: Engine, meter: Meter, *, limit: int = LIMIT) -> None:
    """Makes the instruments of an engine; once for each engine and meter, they cannot be taken back.

    limit   resources with an attribute of their own; the rest is summed under `__other__`
    """
    named: set[str] = set()

    def observe(family: Family, value: Callable[[Sample], float] = lambda sample: sample.value) -> list[Callback]:
        def callback(_options: CallbackOptions) -> Iterable[Observation]:
            for sample in family.samples(Reading(engine, named, limit)):
                yield Observation(value(sample), dict(zip(family.labels, sample.labels, strict=True)))

        return [callback]

    for family in families(engine):
        name, unit = _name(family), "s" if family.name.endswith("_seconds") else "1"
        if family.type == "summary":
            meter.create_observable_counter(f"{name}.sum", observe(family), unit, family.help)
            count = observe(family, lambda sample: sample.number)
            meter.create_observable_counter(f"{name}.count", count, "1", family.help)
        elif family.type == "counter":
            meter.create_observable_counter(name, observe(family), unit, family.help)
        else:
            meter.create_observable_gauge(name, observe(family), unit, family.help)


def _name(family: Family) -> str:
    """`sentinel_param_flow_reject` → `sentinel.param_flow.reject`."""
    words = family.name.removeprefix("sentinel_").removesuffix("_seconds")
    return "sentinel." + (".".join(words.rsplit("_", 1)) if words.endswith("_reject") else words)

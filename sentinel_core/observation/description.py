"""A metric over a time, described by what a rule would have judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from sentinel_core.audit.instants import from_milliseconds
from sentinel_core.observation.statistics import Summary, summarise
from sentinel_core.observation.store import Kind, Span
from sentinel_core.observation.windows import Found, Observation, kind_of, observations, watched

QUARTER_MS: Final = 900_000
OLD_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Description:
    """What was recorded of one metric. Values are percent for a rate."""

    kind: Kind
    falling: bool
    """Whether it is bad when it is low."""
    window_ms: int
    minimum: int
    kept: Sequence[Observation]
    thin: int
    """Windows of a rate with fewer samples than `minimum`, left out."""
    samples: int
    bad: int
    instances: int
    stale: float
    """Share (0-1) of the readings whose gauge had not been set for a minute."""
    times: Sequence[tuple[int, int]]
    """When anybody recorded, wall ms."""
    summary: Summary | None
    """None where nothing was kept."""

    @property
    def worst(self) -> Callable[[float, float], float]:
        """The worse of two values."""
        return min if self.falling else max


def describe(found: Found, spans: Iterable[Span], *, window_ms: int, minimum: int, falling: bool) -> Description:
    """Of at least one series, all of one kind."""
    kind = kind_of(found)
    made = observations(found, window_ms)
    kept = [each for each in made if kind == "gauge" or each.samples >= minimum]
    readings = [reading for _, of_series in found for reading in of_series]
    return Description(
        kind=kind,
        falling=falling,
        window_ms=window_ms,
        minimum=minimum,
        kept=kept,
        thin=len(made) - len(kept),
        samples=sum(reading.total for reading in readings),
        bad=sum(reading.bad for reading in readings),
        instances=len({series.instance for series, _ in found}),
        stale=sum(reading.age > OLD_MS for reading in readings) / len(readings),
        times=watched(spans, found),
        summary=summarise([each.value for each in kept], [each.samples for each in kept]) if kept else None,
    )


def worst_by_hour(of: Description, zone: tzinfo) -> dict[datetime, float]:
    """The worst value of every hour that has any, by its beginning, in order."""
    quarters: dict[int, float] = {}
    for each in of.kept:  # zones differ by quarters of an hour, and there are fewer of these to convert
        quarter = each.at // QUARTER_MS
        quarters[quarter] = of.worst(quarters.get(quarter, each.value), each.value)
    found: dict[datetime, float] = {}
    for quarter, value in sorted(quarters.items()):
        at = from_milliseconds(quarter * QUARTER_MS).astimezone(zone).replace(minute=0)
        found[at] = of.worst(found.get(at, value), value)
    return found

"""From readings to what a rule would have looked at.

A rule judges in each instance by itself and at every call, so an **observation** is one window of one instance, and
windows overlap: one ends with every reading. A window of a rate is the bad ones of all its samples, never a mean of
percentages. A gauge is judged as it stands; each reading is an observation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from sentinel_core.observation.store import Kind, Reading, Series, Span


@dataclass(frozen=True, slots=True)
class Observation:
    """A value that a rule would have judged at `at` (wall ms): percent bad of `samples`, or a gauge (samples 0)."""

    at: int
    instance: str
    value: float
    samples: int = 0


Found = Sequence[tuple[Series, Sequence[Reading]]]


def kind_of(found: Found) -> Kind:
    """Where both were recorded a rule looks at the gauge."""
    return "gauge" if any(series.kind == "gauge" for series, _ in found) else "rate"


def selected(found: Found, resource: str | None, dimension: str | None) -> Found:
    """The series that a rule of this resource and dimension would hear of. None: every resource; every dimension of a
    rate, and the gauges without one."""
    kind = kind_of(found)
    of_kind = [(series, readings) for series, readings in found if series.kind == kind]
    if kind == "rate":
        return [
            (series, readings)
            for series, readings in of_kind
            if (resource is None or series.resource in (resource, "")) and dimension in (None, series.dimension)
        ]
    fitting = [(series, readings) for series, readings in of_kind if series.dimension == (dimension or "")]
    own = [each for each in fitting if resource is None or each[0].resource == resource]
    return own or [each for each in fitting if not each[0].resource]


def observations(found: Found, window_ms: int) -> list[Observation]:
    """Of series of one kind, all resources and dimensions of an instance together, in order of time."""
    if kind_of(found) == "gauge":
        made = [
            Observation(reading.at, series.instance, reading.value)
            for series, readings in found
            for reading in readings
        ]
    else:
        made = [
            observation
            for instance, readings in _by_instance(found).items()
            for observation in rate_windows(instance, readings, window_ms)
        ]
    return sorted(made, key=lambda observation: observation.at)


def _by_instance(found: Found) -> dict[str, Sequence[Reading]]:
    """The readings of every instance in order of time, those of one time added up."""
    parts: dict[str, list[Sequence[Reading]]] = defaultdict(list)
    for series, readings in found:
        parts[series.instance].append(readings)
    return {instance: own[0] if len(own) == 1 else _added(own) for instance, own in parts.items()}


def _added(parts: Sequence[Sequence[Reading]]) -> list[Reading]:
    sums: dict[int, tuple[int, int]] = {}
    for each in chain.from_iterable(parts):
        total, bad = sums.get(each.at, (0, 0))
        sums[each.at] = (total + each.total, bad + each.bad)
    return [Reading(at, total, bad) for at, (total, bad) in sorted(sums.items())]


def rate_windows(instance: str, readings: Sequence[Reading], window_ms: int) -> Iterable[Observation]:
    """The window that ends with each reading; readings are in order of time."""
    total = bad = first = 0
    for last in readings:
        total += last.total
        bad += last.bad
        while readings[first].at <= last.at - window_ms:
            total -= readings[first].total
            bad -= readings[first].bad
            first += 1
        if total:
            yield Observation(last.at, instance, 100.0 * bad / total, total)


def watched(spans: Iterable[Span], found: Found) -> list[tuple[int, int]]:
    """The times (wall ms) in which any instance recorded, in order and disjoint, from the first of these readings on:
    before it nothing was reported, and silence says little of a metric that did not exist yet."""
    first = min(readings[0].at for _, readings in found)
    merged: list[tuple[int, int]] = []
    for began, until in sorted((max(span.began, first), span.until) for span in spans):
        if merged and began <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], until))
        elif until > began:
            merged.append((began, until))
    return merged


def gaps(times: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What lies between the times that `watched` gave: nobody recorded."""
    return [(before[1], after[0]) for before, after in pairwise(times)]

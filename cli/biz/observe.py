"""`sentinelctl biz observe`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import click

from sentinel_core.audit.instants import from_milliseconds, milliseconds
from sentinel_core.audit.query.interval import Interval
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.biz.common import (
    found_of,
    interval_of,
    name_of,
    none_of,
    number,
    opened,
    readings_options,
    recorded_json,
    seconds,
    shown,
    stretch,
    times_json,
)
from sentinel_core.cli.biz.plot import bar, histogram, sparkline
from sentinel_core.cli.moments import age
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, Styled, plural
from sentinel_core.observation.statistics import Summary, summarise
from sentinel_core.observation.store import Kind, ObservationStore, Recorded
from sentinel_core.observation.windows import Found, Observation, gaps, kind_of, observations, selected, watched
from sentinel_core.rules.kinds.biz_metric import FALLING_METRICS

GAPS_SHOWN = 5
FEW = 100
"""Observations below which percentiles say little."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A metric over a time, described."""

    name: str
    metric: str
    falling: bool
    """Whether it is bad when it is low."""
    kind: Kind
    window_s: float
    minimum: int
    interval: Interval
    kept: Sequence[Observation]
    thin: int
    """Windows with fewer samples than `minimum`."""
    samples: int
    bad: int
    instances: int
    times: Sequence[tuple[int, int]]
    """When anybody recorded, wall ms."""
    summary: Summary | None


@click.command()
@click.argument("metric", required=False, type=WORDS)
@readings_options
@click.option(
    "--window",
    "window_s",
    callback=seconds,
    metavar="DURATION",
    default="60s",
    show_default=True,
    help="Time over which a rate is taken, as windowIntervalMs of a rule.",
)
@click.option(
    "--minimum",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Windows of a rate with fewer samples are counted and left out, as minRequestAmount of a rule does.",
)
@output_options
@pass_app
def observe(
    app: App,
    metric: str | None,
    resource: str | None,
    dimension: str | None,
    file: Path | None,
    start: str | None,
    span: tuple[str, str] | None,
    zone: str | None,
    window_s: float,
    minimum: int,
) -> None:
    """How a business metric was distributed, as recorded. Without METRIC: what is recorded.

    \b
    sentinelctl biz observe
    sentinelctl biz observe PAY_FAIL_RATE --resource order_create
    sentinelctl biz observe STOCK_DEPTH --since yesterday -o json

    What is counted are windows as a rule would judge them: of each instance by itself, one at every reading. A rate is
    the share of bad samples in a window, in percent; a gauge is its value at each reading.
    """
    with opened(app, file) as store:
        if metric is None:
            _list(app, store.recorded(), zone)
            return
        interval = interval_of(start, span, zone)
        app.out.say(interval.describe())
        with app.out.waiting("reading"):
            seen = look(store, metric, resource, dimension, interval, window_s, minimum)
    app.out.show(
        View(document=document(seen), items=[document(seen)], names=[seen.metric], lines=lambda _: lines(seen))
    )
    for remark in remarks(seen):
        app.out.say(f"note: {remark}")


def look(
    store: ObservationStore,
    metric: str,
    resource: str | None,
    dimension: str | None,
    interval: Interval,
    window_s: float,
    minimum: int,
) -> Seen:
    """Reads and describes. Raises CommandError where nothing fits."""
    everything = found_of(store, metric, interval)
    found = selected(everything, resource, dimension)
    if not found:
        raise none_of(everything, metric, resource, dimension)
    kind = kind_of(found)
    made = observations(found, round(window_s * 1000))
    kept = [each for each in made if kind == "gauge" or each.samples >= minimum]
    readings = [reading for _, of_series in found for reading in of_series]
    weights = [each.samples for each in kept]
    return Seen(
        _name(found, metric, resource, dimension),
        metric,
        metric in FALLING_METRICS,
        kind,
        window_s,
        minimum,
        interval,
        kept,
        len(made) - len(kept),
        sum(reading.total for reading in readings),
        sum(reading.bad for reading in readings),
        len({series.instance for series, _ in found}),
        watched(store.spans(milliseconds(interval.start), milliseconds(interval.end)), found),
        summarise([each.value for each in kept], weights) if kept else None,
    )


def _name(found: Found, metric: str, resource: str | None, dimension: str | None) -> str:
    """With the resource, where it is the only one."""
    resources = {series.resource for series, _ in found}
    return name_of(metric, resource or (resources.pop() if len(resources) == 1 else ""), dimension or "")


def document(seen: Seen) -> dict[str, Any]:
    """For programs. Values are percent for a rate."""
    values = sorted(each.value for each in seen.kept)
    return {
        "metric": seen.metric,
        "name": seen.name,
        "kind": seen.kind,
        "interval": seen.interval.to_json(),
        "instances": seen.instances,
        "windowMs": round(seen.window_s * 1000) if seen.kind == "rate" else None,
        "minimum": seen.minimum if seen.kind == "rate" else None,
        "samples": seen.samples if seen.kind == "rate" else None,
        "bad": seen.bad if seen.kind == "rate" else None,
        "thinWindows": seen.thin,
        "summary": asdict(seen.summary) if seen.summary else None,
        "histogram": [asdict(each) for each in histogram(values)] if values else [],
        "hours": [{"hour": at.isoformat(), side(seen): value} for at, value in sorted(hours(seen).items())],
        "watchedSeconds": sum(until - began for began, until in seen.times) / 1000,
        "gaps": times_json(gaps(seen.times)),
    }


def lines(seen: Seen) -> Iterator[Sequence[Span]]:
    """For people."""
    what = f"percent bad in windows of {seen.window_s:g} s" if seen.kind == "rate" else "value at each reading"
    yield [Styled(seen.name, "bold"), f"   {seen.kind}, {what}, {plural(seen.instances, 'instance')}"]
    if seen.kind == "rate":
        yield [f"{seen.samples:,} samples, {seen.bad:,} of them bad"]
    if seen.summary is None:
        yield [f"no window held {seen.minimum} samples or more ({seen.thin:,} thinner ones)"]
        return
    summary = seen.summary
    pairs = [
        ("count", float(summary.count)), ("min", summary.minimum), ("p1", summary.p1), ("p50", summary.p50),
        ("p90", summary.p90), ("p99", summary.p99), ("p99.9", summary.p999), ("max", summary.maximum),
        ("mean", summary.mean),
    ]  # fmt: skip
    yield []
    yield from table([name for name, _ in pairs], [[number(value) for _, value in pairs]])
    yield []
    yield from _bars(seen)
    yield []
    yield from _days(seen)


def _bars(seen: Seen) -> Iterator[Sequence[Span]]:
    bins = histogram(sorted(each.value for each in seen.kept))
    most = max(each.count for each in bins)
    ends = [(number(each.low), number(each.high)) for each in bins]
    left, right = (max(len(pair[side]) for pair in ends) for side in (0, 1))
    for each, (low, high) in zip(bins, ends, strict=True):
        share = f"{100 * each.count / len(seen.kept):6.2f} %"
        yield [f"{low:>{left}} – {high:>{right}}  {share}  ", Styled(bar(each.count, most), "cyan")]


def side(seen: Seen) -> str:
    """Which value of an hour is shown: the worst one."""
    return "lowest" if seen.falling else "highest"


def hours(seen: Seen) -> dict[datetime, float]:
    """The worst value of every hour, by its beginning in the zone of the interval."""
    worst, found = _worst(seen), dict[datetime, float]()
    for each in seen.kept:
        at = from_milliseconds(each.at).astimezone(seen.interval.zone).replace(minute=0, second=0, microsecond=0)
        found[at] = worst(found.get(at, each.value), each.value)
    return found


def _worst(seen: Seen) -> Callable[[float, float], float]:
    return min if seen.falling else max


def _days(seen: Seen) -> Iterator[Sequence[Span]]:
    """A line a day, a sign an hour."""
    by_day: dict[str, dict[int, float]] = defaultdict(dict)
    worst = _worst(seen)
    for at, value in hours(seen).items():
        of_day = by_day[f"{at:%Y-%m-%d}"]
        of_day[at.hour] = worst(of_day.get(at.hour, value), value)  # an hour that comes twice is one sign
    values = [value for of_day in by_day.values() for value in of_day.values()]
    low, high = min(0.0, *values), max(values)
    yield [Styled(f"{side(seen):>7} of each hour   0     6     12    18", "dim")]
    for day in _from_first_to_last(sorted(by_day)):
        of_day = by_day.get(day, {})
        line = sparkline([of_day.get(hour) for hour in range(24)], low, high)
        reach = f"{'down' if seen.falling else 'up'} to {number(reduce(worst, of_day.values()))}" if of_day else "–"
        yield [f"{day}             ", Styled(line, "cyan"), f"  {reach}"]


def _from_first_to_last(days: Sequence[str]) -> Iterator[str]:
    first, last = (datetime.fromisoformat(day).date() for day in (days[0], days[-1]))
    return ((first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1))


def remarks(seen: Seen) -> Iterator[str]:
    """What a reader should know before believing the numbers."""
    zone = seen.interval.zone
    lasted = sum(until - began for began, until in seen.times) / 1000
    yield f"recorded for {age(lasted)} of the time asked for"
    holes = gaps(seen.times)
    for began, until in holes[:GAPS_SHOWN]:
        yield f"gap: nothing was recorded {stretch(began, until, zone)} ({age((until - began) / 1000)})"
    if len(holes) > GAPS_SHOWN:
        yield f"{len(holes) - GAPS_SHOWN} more gaps; -o json has all"
    if seen.thin:
        yield f"{seen.thin:,} windows with fewer than {seen.minimum} samples are left out; --minimum 1 takes them in"
    if seen.summary is not None and seen.summary.count < FEW:
        yield f"only {plural(seen.summary.count, 'observation')}: percentiles say little; record for longer"
    elif seen.summary is not None and seen.summary.count < 1000:
        yield "fewer than 1,000 observations: p99.9 is the maximum"


def _list(app: App, recorded: Sequence[Recorded], zone: str | None) -> None:
    place = interval_of(None, None, zone).zone
    items = [recorded_json(each) for each in recorded]

    def rows(_: bool) -> Iterator[Sequence[Span]]:
        if recorded:
            yield from table(
                ["METRIC", "RESOURCE", "DIMENSION", "KIND", "INSTANCES", "READINGS", "FIRST", "LAST"],
                [
                    [
                        each.metric, each.resource or "–", each.dimension or "–", each.kind, str(each.instances),
                        f"{each.readings:,}", shown(each.first, place), shown(each.last, place),
                    ]
                    for each in recorded
                ],
            )  # fmt: skip

    names = sorted({each.metric for each in recorded})
    app.out.show(View(document={"recorded": items}, items=items, names=names, lines=rows))
    app.out.say(plural(len(recorded), "metric") + " recorded." if recorded else "Nothing is recorded yet.")

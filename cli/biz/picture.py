"""How an observed metric looks: numbers, bars, a line a day, and what to know before believing them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from sentinel_core.audit.query.interval import Interval
from sentinel_core.cli.biz.common import number, stretch, times_json
from sentinel_core.cli.biz.plot import bar, histogram, sparkline
from sentinel_core.cli.moments import age
from sentinel_core.cli.output import table
from sentinel_core.cli.text import Span, Styled, plural
from sentinel_core.observation.description import Description, worst_by_hour
from sentinel_core.observation.windows import gaps

GAPS_SHOWN = 5
FEW = 100
"""Observations below which percentiles say little."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A metric, its name for people, the time that was asked for, and what was found."""

    metric: str
    name: str
    interval: Interval
    what: Description


def document(seen: Seen) -> dict[str, Any]:
    """For programs. Values are percent for a rate."""
    what, rate = seen.what, seen.what.kind == "rate"
    values = sorted(each.value for each in what.kept)
    return {
        "metric": seen.metric,
        "name": seen.name,
        "kind": what.kind,
        "interval": seen.interval.to_json(),
        "instances": what.instances,
        "windowMs": what.window_ms if rate else None,
        "minimum": what.minimum if rate else None,
        "samples": what.samples if rate else None,
        "bad": what.bad if rate else None,
        "thinWindows": what.thin,
        "staleShare": None if rate else what.stale,
        "summary": asdict(what.summary) if what.summary else None,
        "histogram": [asdict(each) for each in histogram(values)] if values else [],
        "hours": [
            {"hour": at.isoformat(), side(what): value} for at, value in worst_by_hour(what, seen.interval.zone).items()
        ],
        "watchedSeconds": sum(until - began for began, until in what.times) / 1000,
        "gaps": times_json(gaps(what.times)),
    }


def lines(seen: Seen) -> Iterator[Sequence[Span]]:
    """For people."""
    what = seen.what
    rate = f"percent bad in windows of {what.window_ms / 1000:g} s"
    how = rate if what.kind == "rate" else "value at each reading"
    yield [Styled(seen.name, "bold"), f"   {what.kind}, {how}, {plural(what.instances, 'instance')}"]
    if what.kind == "rate":
        yield [f"{what.samples:,} samples, {what.bad:,} of them bad"]
    if what.summary is None:
        yield [f"no window held {what.minimum} samples or more ({what.thin:,} thinner ones)"]
        return
    summary = what.summary
    pairs = [
        ("count", float(summary.count)), ("min", summary.minimum), ("p1", summary.p1), ("p50", summary.p50),
        ("p90", summary.p90), ("p99", summary.p99), ("p99.9", summary.p999), ("max", summary.maximum),
        ("mean", summary.mean),
    ]  # fmt: skip
    yield []
    yield from table([name for name, _ in pairs], [[number(value) for _, value in pairs]])
    yield []
    yield from _bars(what)
    yield []
    yield from _days(seen)


def _bars(what: Description) -> Iterator[Sequence[Span]]:
    bins = histogram(sorted(each.value for each in what.kept))
    most = max(each.count for each in bins)
    ends = [(number(each.low), number(each.high)) for each in bins]
    left, right = (max(len(pair[end]) for pair in ends) for end in (0, 1))
    for each, (low, high) in zip(bins, ends, strict=True):
        share = f"{100 * each.count / len(what.kept):6.2f} %"
        yield [f"{low:>{left}} – {high:>{right}}  {share}  ", Styled(bar(each.count, most), "cyan")]


def side(what: Description) -> str:
    """Which value of an hour is shown: the worst one."""
    return "lowest" if what.falling else "highest"


def _days(seen: Seen) -> Iterator[Sequence[Span]]:
    """A line a day, a sign an hour."""
    what = seen.what
    by_day: dict[str, dict[int, float]] = defaultdict(dict)
    for at, value in worst_by_hour(what, seen.interval.zone).items():
        of_day = by_day[f"{at:%Y-%m-%d}"]
        of_day[at.hour] = what.worst(of_day.get(at.hour, value), value)  # an hour that comes twice is one sign
    values = [value for of_day in by_day.values() for value in of_day.values()]
    low, high, ends = min(0.0, *values), max(values), "down" if what.falling else "up"
    yield [Styled(f"{side(what):>7} of each hour   0     6     12    18", "dim")]
    for day in _from_first_to_last(sorted(by_day)):
        of_day = by_day.get(day, {})
        line = sparkline([of_day.get(hour) for hour in range(24)], low, high)
        reach = f"{ends} to {number(reduce(what.worst, of_day.values()))}" if of_day else "–"
        yield [f"{day}             ", Styled(line, "cyan"), f"  {reach}"]


def _from_first_to_last(days: Sequence[str]) -> Iterator[str]:
    first, last = (datetime.fromisoformat(day).date() for day in (days[0], days[-1]))
    return ((first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1))


def remarks(seen: Seen) -> Iterator[str]:
    """What a reader should know before believing the numbers."""
    what, zone = seen.what, seen.interval.zone
    lasted = sum(until - began for began, until in what.times) / 1000
    yield f"recorded for {age(lasted)} of the time asked for"
    holes = gaps(what.times)
    for began, until in holes[:GAPS_SHOWN]:
        yield f"gap: nothing was recorded {stretch(began, until, zone)} ({age((until - began) / 1000)})"
    if len(holes) > GAPS_SHOWN:
        yield f"{len(holes) - GAPS_SHOWN} more gaps; -o json has all"
    if what.stale:
        yield f"in {what.stale:.1%} of the readings the gauge had not been set for a minute: the old value counts"
    if what.thin:
        yield f"{what.thin:,} windows with fewer than {what.minimum} samples are left out; --minimum 1 takes them in"
    if what.summary is not None and what.summary.count < FEW:
        yield f"only {plural(what.summary.count, 'observation')}: percentiles say little; record for longer"
    elif what.summary is not None and what.summary.count < 1000:
        yield "fewer than 1,000 observations: p99.9 is the maximum"

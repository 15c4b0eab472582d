"""`sentinelctl biz observe`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from sentinel_core.audit.instants import milliseconds
from sentinel_core.audit.query.interval import Interval
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.biz.common import (
    found_of,
    interval_of,
    name_of,
    none_of,
    opened,
    readings_options,
    recorded_json,
    shown,
)
from sentinel_core.cli.biz.picture import Seen, document, lines, remarks
from sentinel_core.cli.durations import seconds
from sentinel_core.cli.exits import UsageProblem
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, plural
from sentinel_core.observation.description import describe
from sentinel_core.observation.store import ObservationStore, Recorded
from sentinel_core.observation.windows import kind_of, selected
from sentinel_core.rules.kinds.biz_metric import FALLING_METRICS


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
            seen = _look(store, metric, resource, dimension, interval, round(window_s * 1000), minimum)
    whole = document(seen)
    app.out.show(View(document=whole, items=[whole], names=[metric], lines=lambda _: lines(seen)))
    for remark in remarks(seen):
        app.out.say(f"note: {remark}")


def _look(
    store: ObservationStore,
    metric: str,
    resource: str | None,
    dimension: str | None,
    interval: Interval,
    window_ms: int,
    minimum: int,
) -> Seen:
    everything = found_of(store, metric, interval)
    found = selected(everything, resource, dimension)
    if not found:
        raise none_of(everything, metric, resource, dimension)
    resources = {series.resource for series, _ in found}
    only = resources.pop() if len(resources) == 1 else ""
    spans = store.spans(milliseconds(interval.start), milliseconds(interval.end))
    apart = max((each.every for each in spans), default=0)
    if kind_of(found) == "rate" and window_ms < apart:
        raise UsageProblem(
            f"the readings are {apart / 1000:g} s apart: nothing can be said of windows of {window_ms / 1000:g} s",
            next_step=f"add --window {apart / 1000:g}s, or record more often (observe.every)",
        )
    what = describe(found, spans, window_ms=window_ms, minimum=minimum, falling=metric in FALLING_METRICS)
    return Seen(metric, name_of(metric, resource or only, dimension or ""), interval, what)


def _list(app: App, recorded: Sequence[Recorded], zone: str | None) -> None:
    place = zone_named(zone)
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

"""`sentinelctl biz suggest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

import click

from sentinel_core.audit.instants import milliseconds
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.biz.common import (
    episode_json,
    found_of,
    interval_of,
    none_of,
    number,
    opened,
    readings_options,
    stretch,
)
from sentinel_core.cli.durations import seconds
from sentinel_core.cli.encode import to_yaml
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.moments import age
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span, Styled, plural
from sentinel_core.observation.reasons import cautions, reasons
from sentinel_core.observation.suggestion import (
    STATE_WINDOW_MS,
    WINDOWS_MS,
    Direction,
    NoSuggestion,
    Suggestion,
    Wish,
)
from sentinel_core.observation.suggestion import (
    suggest as draw,
)
from sentinel_core.observation.windows import Found, observations, selected, watched
from sentinel_core.rules.kinds.biz_metric import FALLING_METRICS

DAY_S = 86_400
FEW = 100
TRIPS_SHOWN = 10
AGAIN = "record for longer (a week holds every day's habits), or add --force to see what can be said now"


@click.command()
@click.argument("metric", type=WORDS)
@readings_options
@click.option(
    "--factor",
    type=click.FloatRange(1, 10),
    default=2.5,
    show_default=True,
    help="How many times the normal peak the threshold is; 2 to 3 proved itself.",
)
@click.option(
    "--direction",
    type=click.Choice(["above", "below"]),
    help=f"The bad side (default: below for {' and '.join(sorted(FALLING_METRICS))}, else above).",
)
@click.option(
    "--window",
    "window_s",
    callback=seconds,
    metavar="DURATION",
    help="This window; default: the shortest that will do.",
)
@click.option(
    "--once-in",
    "days",
    type=click.FloatRange(1, 3650),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Chance alone may trip once in so many days.",
)
@click.option("--force", is_flag=True, help="Suggest although too little was recorded.")
@output_options
@pass_app
def suggest(
    app: App,
    metric: str,
    resource: str | None,
    dimension: str | None,
    file: Path | None,
    start: str | None,
    span: tuple[str, str] | None,
    zone: str | None,
    factor: float,
    direction: Direction | None,
    window_s: float | None,
    days: float,
    force: bool,
) -> None:
    """A rule for a business metric, drawn from what was recorded, with the reasons.

    \b
    sentinelctl biz suggest PAY_FAIL_RATE --resource order_create
    sentinelctl biz suggest PAY_FAIL_RATE --factor 2 -o yaml
    sentinelctl biz suggest STOCK_DEPTH --since 14d

    The threshold is a multiple of the normal peak, incidents left out; the rule comes in shadow mode, ready to paste,
    with the times at which it would have opened. Less than a day of readings is refused (exit code 3).
    """
    side: Direction = direction or ("below" if metric in FALLING_METRICS else "above")
    interval = interval_of(start, span, zone)
    app.out.say(interval.describe())
    with opened(app, file) as store, app.out.waiting("reading"):
        everything = found_of(store, metric, interval)
        spans = store.spans(milliseconds(interval.start), milliseconds(interval.end))
    name = resource or _only_resource(everything, metric)
    found = selected(everything, name, dimension)
    if not found:
        raise none_of(everything, metric, name, dimension)
    lasted = sum(until - began for began, until in watched(spans, found)) / 1000
    if not force:
        _refuse_few(found, metric, lasted)
    apart = max((each.every for each in spans), default=0)
    wish = Wish(factor, side, round(window_s * 1000) if window_s else None, days, apart)
    try:
        made = draw(found, wish)
    except NoSuggestion as error:
        raise CommandError(str(error), next_step=f"sentinelctl biz observe {metric}", code=Exit.REFUSED) from error
    rule = rule_of(made, metric, name, dimension)
    whole = document(made, rule, lasted)
    app.out.show(
        View(document=whole, items=[whole], names=[name], lines=lambda _: lines(made, rule, interval.zone, lasted))
    )
    for caution in cautions(made):
        app.out.say(f"caution: {caution}")


def _only_resource(found: Found, metric: str) -> str:
    names = sorted({series.resource for series, _ in found} - {""})
    if len(names) == 1:
        return names[0]
    known = f"it was recorded of {', '.join(names)}" if names else "it was recorded without a resource"
    raise UsageProblem(
        f"a rule is for one resource, and {known}", next_step=f"sentinelctl biz suggest {metric} --resource NAME"
    )


def _refuse_few(found: Found, metric: str, lasted: float) -> None:
    if lasted < DAY_S:
        raise CommandError(
            f"{metric} was recorded for {age(lasted)} only; less than a day says nothing about a normal peak",
            next_step=AGAIN,
            code=Exit.REFUSED,
        )
    count = len(observations(found, WINDOWS_MS[0]))
    if count < FEW:
        raise CommandError(
            f"there are {plural(count, 'observation')} of {metric} only; a peak cannot be told from chance with fewer "
            f"than {FEW}",
            next_step=AGAIN,
            code=Exit.REFUSED,
        )


def rule_of(made: Suggestion, metric: str, resource: str, dimension: str | None) -> dict[str, Any]:
    """The rule, as a document of rules writes it."""
    return {
        "resource": resource,
        "bizMetricType": metric,
        "threshold": whole(made.threshold),
        "direction": made.direction,
        "windowIntervalMs": made.window_ms,
        "minRequestAmount": made.minimum,
        "stateWindowMs": STATE_WINDOW_MS,
        "halfOpenMs": made.trial.ms,
        "halfOpenPercent": whole(made.trial.percent),
        **({"dimension": dimension} if dimension else {}),
        "mode": "shadow",
    }


def whole(value: float) -> float:
    """Written without `.0`."""
    return int(value) if value.is_integer() else value


def document(made: Suggestion, rule: Mapping[str, Any], lasted: float) -> dict[str, Any]:
    """For programs; `bizMetricRules` can be pasted as it is."""
    return {
        "bizMetricRules": [rule],
        "kind": made.kind,
        "factor": made.factor,
        "normalPeak" if made.direction == "above" else "normalTrough": made.peak,
        "observations": made.observed,
        "leftOut": made.normal.left_out,
        "judgedShare": made.judged,
        "watchedSeconds": lasted,
        "incidents": [episode_json(each) for each in made.normal.incidents],
        "wouldHaveOpened": [episode_json(each) for each in made.trips],
        "reasons": [{"field": field, "reason": reason} for field, reason in reasons(made)],
        "cautions": list(cautions(made)),
    }


def lines(made: Suggestion, rule: Mapping[str, Any], zone: tzinfo, lasted: float) -> Iterator[Sequence[Span]]:
    """For people: the rule to paste, why, and what it would have done."""
    for line in to_yaml({"bizMetricRules": [rule]}, ascii_only=False).splitlines():
        yield [Styled(line, "bold")]
    yield []
    for field, reason in reasons(made):
        yield [Styled(f"{field}  ", "cyan"), reason]
    yield []
    if not made.trips:
        yield [f"In the {age(lasted)} that were recorded it would not have opened."]
        return
    yield [f"In the {age(lasted)} that were recorded it would have opened {plural(len(made.trips), 'time')}:"]
    unit = " %" if made.kind == "rate" else ""
    for trip in made.trips[-TRIPS_SHOWN:]:
        worst = (
            f"up to {number(trip.worst)}{unit}" if made.direction == "above" else f"down to {number(trip.worst)}{unit}"
        )
        yield [f"  {stretch(trip.began, trip.until, zone)}   {worst}   {plural(trip.instances, 'instance')}"]
    if len(made.trips) > TRIPS_SHOWN:
        yield [f"  … the latest {TRIPS_SHOWN} of {len(made.trips)}; -o json has all"]

"""What the biz commands share: the file, the choice of readings, and how times and numbers read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

import click

from sentinel_core.audit.instants import from_milliseconds, milliseconds, rfc3339
from sentinel_core.audit.query.interval import Interval, between, since
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.cli.app import WORDS, App
from sentinel_core.cli.exits import BadSettings, CommandError, UsageProblem
from sentinel_core.cli.moments import utc_now
from sentinel_core.observation.normal import Episode
from sentinel_core.observation.store import ObservationStore, Recorded
from sentinel_core.observation.windows import Found

Command = TypeVar("Command", bound=Callable[..., Any])
DEFAULT_SINCE = "7d"


def _path(_: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    """A path; never a URI, whose password would lose its mask as a path."""
    if value is not None and "://" in value:
        raise click.BadParameter("readings stand in a file: write its path", param=parameter)
    return None if value is None else Path(value)


def readings_options(command: Command) -> Command:
    """Which readings: of which file, resource, dimension and time."""
    for decorate in (
        click.option("--zone", metavar="NAME", help="Time zone, e.g. Asia/Shanghai (default: this machine's)."),
        click.option(
            "--between",
            "span",
            nargs=2,
            type=WORDS,
            metavar="START END",
            help="From START up to END, END not included.",
        ),
        click.option(
            "--since", "start", type=WORDS, metavar="TIME", help=f"From TIME until now (default: {DEFAULT_SINCE})."
        ),
        click.option(
            "--file",
            callback=_path,
            metavar="FILE",
            help="File of readings (default: the setting observe.file).",
        ),
        click.option("--dimension", type=WORDS, metavar="NAME", help="Only what was reported with this dimension."),
        click.option("--resource", type=WORDS, metavar="NAME", help="Only what a rule of this resource would hear of."),
    ):
        command = decorate(command)
    return command


def interval_of(start: str | None, span: tuple[str, str] | None, zone: str | None) -> Interval:
    """The time that was asked for. Raises QueryInvalid, UsageProblem."""
    if start is not None and span is not None:
        raise UsageProblem("--since and --between name the time in two ways", next_step="give one of them")
    place, now = zone_named(zone), utc_now()
    return between(*span, now=now, zone=place) if span else since(start or DEFAULT_SINCE, now=now, zone=place)


@contextmanager
def opened(app: App, file: Path | None) -> Iterator[ObservationStore]:
    """The file of readings, for reading."""
    named = file or (Path(app.settings.observe.file) if app.settings.observe.file is not None else None)
    if named is None:
        raise BadSettings(
            "no file of readings: nothing is recorded yet",
            next_step="write `observe: {file: .sentinel/observations.db}` into sentinel.yaml and start the service, "
            "or name a file with --file",
        )
    if named.is_dir():
        raise UsageProblem(f"{named} is a folder", next_step="name the file of readings in it with --file")
    store = ObservationStore(named, read_only=True)
    try:
        yield store
    finally:
        store.close()


def found_of(store: ObservationStore, metric: str, interval: Interval) -> Found:
    """Every series of the metric; CommandError where nothing was recorded, with what was."""
    found = store.readings(metric, milliseconds(interval.start), milliseconds(interval.end))
    if found:
        return found
    recorded = store.recorded()
    if any(each.metric == metric for each in recorded):
        newest = max(each.last for each in recorded if each.metric == metric)
        raise CommandError(
            f"nothing of {metric} was recorded in this time; the newest reading is of {shown(newest, interval.zone)}",
            next_step="name an earlier time with --since or --between",
        )
    names = ", ".join(sorted({each.metric for each in recorded})) or "nothing at all"
    raise CommandError(
        f"{metric} is not recorded; recorded is: {names}",
        next_step="sentinelctl biz observe    (lists what is recorded; a metric is, once the service reports it)",
    )


def none_of(found: Found, metric: str, resource: str | None, dimension: str | None) -> CommandError:
    """What to say where the choice of resource and dimension leaves nothing."""
    pairs = sorted({(series.resource, series.dimension) for series, _ in found})
    asked = name_of(metric, resource or "", dimension or "")
    return CommandError(
        f"nothing was recorded of {asked}; there is: {', '.join(name_of(metric, *pair) for pair in pairs)}",
        next_step="give --resource and --dimension as they were recorded, or leave them out",
    )


def name_of(metric: str, resource: str, dimension: str) -> str:
    """`PAY_FAIL_RATE of order_create (wechat)`."""
    return metric + (f" of {resource}" if resource else "") + (f" ({dimension})" if dimension else "")


def shown(at: int, zone: tzinfo) -> str:
    """`2026-11-25 14:41`, of wall ms."""
    return f"{from_milliseconds(at).astimezone(zone):%Y-%m-%d %H:%M}"


def stretch(began: int, until: int, zone: tzinfo) -> str:
    """`2026-11-25 14:41 – 14:52`, of wall ms."""
    first, last = (from_milliseconds(at).astimezone(zone) for at in (began, until))
    same = first.date() == last.date()
    return f"{first:%Y-%m-%d %H:%M} – {last:%H:%M}" if same else f"{first:%Y-%m-%d %H:%M} – {last:%Y-%m-%d %H:%M}"


def number(value: float) -> str:
    """Short, and exact enough for a person: at most four digits after a small point, `12,345`."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def times_json(times: Sequence[tuple[int, int]]) -> list[dict[str, str]]:
    return [{"start": stamp(began), "end": stamp(until)} for began, until in times]


def episode_json(episode: Episode) -> dict[str, object]:
    return {
        "start": stamp(episode.began),
        "end": stamp(episode.until),
        "worst": episode.worst,
        "instances": episode.instances,
    }


def stamp(at: int) -> str:
    """RFC 3339, of wall ms."""
    return rfc3339(from_milliseconds(at))


def recorded_json(recorded: Recorded) -> dict[str, object]:
    return {
        "metric": recorded.metric,
        "resource": recorded.resource or None,
        "dimension": recorded.dimension or None,
        "kind": recorded.kind,
        "instances": recorded.instances,
        "readings": recorded.readings,
        "first": stamp(recorded.first),
        "last": stamp(recorded.last),
    }

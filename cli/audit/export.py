"""`sentinelctl audit export`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, cast

import click

from sentinel_core.audit.errors import EventDamaged
from sentinel_core.audit.export.lines import comma_separated, ndjson
from sentinel_core.audit.export.paging import Tally
from sentinel_core.audit.export.parquet import write_parquet
from sentinel_core.audit.files import written_whole
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.audit.store.contract import ArrivalStore, Query
from sentinel_core.cli.app import App, pass_app
from sentinel_core.cli.audit.asked import Asking, asked, span_options, terms_argument
from sentinel_core.cli.audit.common import SHORT_ID, opened_in_order, zone_option
from sentinel_core.cli.audit.stands import IDS_SHOWN
from sentinel_core.cli.exits import CommandError, UsageProblem
from sentinel_core.cli.output import FORMATS as SHOWN
from sentinel_core.cli.output import Output
from sentinel_core.cli.text import plural, visible

OWNER_ONLY = 0o600
FORMATS = ("ndjson", "csv", "parquet")


@click.command(cls=Asking)
@terms_argument
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: as FILE is named, else ndjson.")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write there instead of to stdout, whole or not at all.",
)
@span_options
@zone_option
@pass_app
def export(
    app: App,
    terms: tuple[str, ...],
    form: str | None,
    file: Path | None,
    start: str | None,
    end: str | None,
    span: tuple[str, str] | None,
    zone: str | None,
) -> None:
    """Write events for other programs, in the order in which the store took them.

    \b
    sentinelctl audit export -o events.ndjson
    sentinelctl audit export type:changed --format csv --since 30d -o changes.csv

    \b
    ndjson           each event whole, as CloudEvents, a line each
    csv, parquet     a row a change, as `audit query` finds them

    TERMs are those of `audit query`, and events of all types are written: moves of breakers and what instances run,
    too. type:changed narrows.
    """
    if str(file) in (*FORMATS, *SHOWN):
        raise UsageProblem(f"-o names a file here, and {file} is a form", next_step=f"write --format {FORMATS[0]}")
    file = None if str(file) == "-" else file
    form = form or _named(file)
    query = asked(app, terms, zone_named(zone), start=start, end=end, span=span).of_every_type()
    tally = Tally()
    with opened_in_order(app) as store:
        if file is None:
            _to_stdout(app.out, form, store, query, tally)
        else:
            _to_file(app, form, store, query, file, tally)
    if not app.out.closed:
        what = plural(tally.written, "event" if form == "ndjson" else "change")
        app.out.say(f"{what} written to {file}." if file else f"{what} written.")
    if tally.unread:
        ids = ", ".join(visible(each[:SHORT_ID]) for each in tally.unread[:IDS_SHOWN])
        raise EventDamaged(f"{plural(len(tally.unread), 'event')} cannot be read any more and were left out: {ids}")


def _named(file: Path | None) -> str:
    suffix = file.suffix.removeprefix(".").lower() if file else ""
    return suffix if suffix in FORMATS else FORMATS[0]


def _to_stdout(out: Output, form: str, store: ArrivalStore, query: Query, tally: Tally) -> None:
    is_terminal = sys.stdout.isatty()
    if form == "parquet":
        if is_terminal:
            raise UsageProblem("Parquet is nothing to look at on a terminal", next_step="add -o FILE")
        write_parquet(store, query, cast("BinaryIO", _Sink(out)), tally)
        return
    for piece in _pieces(form, store, query, tally):
        out.write_bytes(_shown(piece) if is_terminal else piece)
        if out.closed:
            return


def _shown(piece: bytes) -> bytes:
    """For people; names come from events, and none of them moves a cursor. What a program reads is as it is."""
    lines = piece.decode("utf-8", "replace").split("\n")
    return "\n".join(map(visible, lines)).encode("utf-8", "replace")


class _Sink:
    """Stdout as pyarrow writes to it; ends the writing once nobody reads."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self.closed = False

    def write(self, content: bytes) -> int:
        if self._out.closed:
            raise BrokenPipeError
        self._out.write_bytes(content)
        return len(content)

    def flush(self) -> None:
        """Each piece is flushed as it is written."""

    def close(self) -> None:
        self.closed = True


def _to_file(app: App, form: str, store: ArrivalStore, query: Query, file: Path, tally: Tally) -> None:
    try:
        with app.out.waiting(f"writing {file}"), written_whole(file, mode=OWNER_ONLY) as sink:
            if form == "parquet":
                write_parquet(store, query, sink, tally)
            else:
                sink.writelines(_pieces(form, store, query, tally))
    except OSError as error:
        raise CommandError(
            f"{file}: {error.strerror or error}; nothing was left there",
            next_step="give -o a path that this user may write, on a disk with room",
        ) from error


def _pieces(form: str, store: ArrivalStore, query: Query, tally: Tally) -> Iterable[bytes]:
    return ndjson(store, query, tally) if form == "ndjson" else comma_separated(store, query, tally)

"""`sentinelctl audit tail`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click

from sentinel_core.audit.errors import StoreMissing, StoreUnavailable
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.audit.store.contract import Row
from sentinel_core.audit.tail import Tail
from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.audit.asked import HEADERS, Asking, asked, row_cells, row_json, terms_argument
from sentinel_core.cli.audit.common import opened_in_order, zone_option
from sentinel_core.cli.exits import Exit, UsageProblem
from sentinel_core.cli.output import View, aligned, table, widths_of
from sentinel_core.cli.text import Span

POLL_S = 0.25
ENDLESS = ("table", "wide", "ndjson", "name")
"""Forms that need no end."""


@click.command(cls=Asking)
@terms_argument
@click.option("-f", "--follow", is_flag=True, help="Go on with what arrives, until it is interrupted.")
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="How many of the newest rows to begin with.",
)
@zone_option
@output_options
@pass_app
def tail(app: App, terms: tuple[str, ...], follow: bool, count: int, zone: str | None) -> None:
    """The newest changes of rules, oldest first, and with --follow each new one as it arrives, however late.

    \b
    Examples:
      sentinelctl audit tail -f
      sentinelctl audit tail -f -n 0 payment_invoke -o ndjson | while read -r change; do …; done

    TERMs are those of `audit query`. A store that is not there yet or is down for a while is waited for.
    """
    place = zone_named(zone)
    query = asked(app, terms, place).query()
    if follow and (app.output not in ENDLESS or app.json_into is not None):
        raise UsageProblem(
            "with --follow there is no end, and so no whole document", next_step="use -o ndjson, or leave --follow out"
        )
    with opened_in_order(app) as store:
        line = Tail(store, query)
        if not follow:
            app.out.show(_view(line.last(count), place))
            return
        try:
            _follow(app, line, count, place)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(Exit.INTERRUPTED) from None


def _follow(app: App, line: Tail, count: int, zone: tzinfo) -> None:
    """Until nobody reads, or an interrupt."""
    told = _Told(app, zone)
    begun, trouble = False, False
    while app.out.is_read():
        try:
            if not begun:
                told.tell(line.last(count))
            for rows in line.new():
                told.tell(rows)
            begun = True
            if trouble:
                app.out.say("the audit store is there again")
            trouble = False
        except StoreUnavailable as error:
            # What comes into a store that is not there yet is new, all of it.
            begun = begun or isinstance(error, StoreMissing)
            if not trouble:
                app.out.say(f"waiting for the audit store: {error}")
            trouble = True
        time.sleep(POLL_S)


class _Told:
    """Rows one after the other, as soon as they are known; columns are as wide as what came before needed."""

    def __init__(self, app: App, zone: tzinfo) -> None:
        self._out = app.out
        self._zone = zone
        self._widths: list[int] = []

    def tell(self, rows: Sequence[Row]) -> None:
        if self._out.form in ("table", "wide"):
            cells = [row_cells(row, self._zone, wide=self._out.form == "wide") for row in rows]
            self._widths = widths_of(cells, self._widths or [0] * len(HEADERS[self._out.form]))
            for each in cells:
                self._out.line(*aligned(each, self._widths))
        else:
            self._out.show(_view(rows, self._zone))
        self._out.flush()


def _view(rows: Sequence[Row], zone: tzinfo) -> View:
    items = [row_json(row) for row in rows]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        if rows:
            yield from table(HEADERS["wide" if wide else "table"], [row_cells(row, zone, wide=wide) for row in rows])

    return View(document={"changes": items}, items=items, names=[row.event.id for row in rows], lines=lines)

"""`sentinelctl audit query`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click

from sentinel_core.audit.query.grammar import Question, unknown_fields
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.audit.store.contract import Page
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.asked import HEADERS, Asking, asked, row_cells, row_json, span_options, terms_argument
from sentinel_core.cli.audit.common import opened, zone_option
from sentinel_core.cli.audit.stands import say_tampered, stands_of
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, plural, visible


@click.command(cls=Asking)
@terms_argument
@span_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many rows to show.")
@click.option("--after", type=WORDS, metavar="TOKEN", help="Go on where the page before ended; it prints the token.")
@zone_option
@output_options
@pass_app
def query(
    app: App,
    terms: tuple[str, ...],
    start: str | None,
    end: str | None,
    span: tuple[str, str] | None,
    limit: int,
    after: str | None,
    zone: str | None,
) -> None:
    """Search the changes of rules, newest first.

    \b
    sentinelctl audit query order_create --since 2h
    sentinelctl audit query "author:chen count>300" --limit 5

    \b
    TERMs must all hold:
      order_create  resource:order-*   a resource, * is any text
      field:count  kind:flow  author:chen  channel:git  commit:9f1c2ab  env:prod
      count>300                        a change that set it so (also < <= >= =)
      since:2h  until:"last friday"  in:"last wednesday afternoon"  in:上周三下午
      -env:staging                     not; a comma between values is "or"
    Put -- before a term that begins with a minus.
    """
    place = zone_named(zone)
    question = asked(app, terms, place, start=start, end=end, span=span)
    with opened(app) as store, app.out.waiting("asking the audit store"):
        page = store.query(question.query(limit=limit, after=after))
        stands = stands_of(app, store, [row.event for row in page.rows])
    app.out.show(_view(page, question, place))
    if page.rows:
        app.out.say(plural(len(page.rows), "row") + ".")
    else:
        app.out.say("; ".join(("No change matches.", *map(visible, unknown_fields(question)))).replace(".;", ":", 1))
    if page.next is not None:
        app.out.say(f"There is more: add --after {page.next}")
    if say_tampered(app, stands):
        raise click.exceptions.Exit(Exit.ERROR)


def _view(page: Page, question: Question, zone: tzinfo) -> View:
    items = [row_json(row) for row in page.rows]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        if page.rows:
            yield from table(
                HEADERS["wide" if wide else "table"], [row_cells(row, zone, wide=wide) for row in page.rows]
            )

    return View(
        document={
            "interval": question.interval and question.interval.to_json(),
            "changes": items,
            "next": page.next,
        },
        items=items,
        names=[row.event.id for row in page.rows],
        lines=lines,
    )

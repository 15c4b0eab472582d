"""`sentinelctl audit query`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click

from sentinel_core.audit.query.grammar import Question, parse_query
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.audit.store.contract import Page, Row
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.common import SHORT_ID, SIGNS, author, clock, opened, what, zone_option
from sentinel_core.cli.exits import UsageProblem
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, plural


@click.command()
@click.argument("terms", metavar="[TERM]...", nargs=-1, type=WORDS)
@click.option("--since", "start", type=WORDS, metavar="TIME", help="From TIME until now; the same as since:TIME.")
@click.option(
    "--between", "span", nargs=2, type=WORDS, metavar="START END", help="From START up to END, END not included."
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many rows to show.")
@click.option("--after", type=WORDS, metavar="TOKEN", help="Go on where the page before ended; it prints the token.")
@zone_option
@output_options
@pass_app
def query(
    app: App,
    terms: tuple[str, ...],
    start: str | None,
    span: tuple[str, str] | None,
    limit: int,
    after: str | None,
    zone: str | None,
) -> None:
    """Search the changes of rules, newest first.

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
    if start is not None and span is not None:
        raise UsageProblem("--since and --between name the time in two ways", next_step="give one of them")
    text = " ".join([*map(_quoted, terms), *_time_terms(start, span)])
    question = parse_query(text, now=utc_now(), zone=place)
    if question.interval is not None:
        app.out.say(question.interval.describe())
    with opened(app) as store:
        page = store.query(question.query(limit=limit, after=after))
    app.out.show(_view(page, question, place))
    app.out.say("No change matches." if not page.rows else plural(len(page.rows), "row") + ".")
    if page.next is not None:
        app.out.say(f"There is more: add --after {page.next}")


def _quoted(term: str) -> str:
    """One argument that is one term: the shell took the quotes around its blanks, and the grammar wants them back.
    An argument that holds several terms stays as it is."""
    name, colon, text = term.partition(":")
    if not colon or " " not in text or " " in name or '"' in text or re.search(r"\s-?[A-Za-z][\w.]*[:<>=]", text):
        return term
    return f'{name}:"{text}"'


def _time_terms(start: str | None, span: tuple[str, str] | None) -> list[str]:
    """The flags are another spelling of the terms, for those who know them from `audit who`."""
    words = {"since": start} if start is not None else {}
    if span is not None:
        words |= {"since": span[0], "until": span[1]}
    quoted = {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in words.items()}
    return [f'{name}:"{text}"' for name, text in quoted.items()]


def row_json(row: Row) -> dict[str, object]:
    """A change with the event it belongs to."""
    facts = {name: getattr(row, name) for name in ("action", "kind", "resource", "rule", "field", "old", "new")}
    return {**facts, "event": row.event.to_json()}


def _view(page: Page, question: Question, zone: tzinfo) -> View:
    items = [row_json(row) for row in page.rows]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        if page.rows:
            headers = ["WHEN", "WHO", "", "KIND", "RESOURCE", "WHAT", "WHY", "ID"] + (
                ["ENV", "APP", "SOURCE"] if wide else []
            )
            yield from table(headers, [_cells(row, zone, wide=wide) for row in page.rows])

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


def _cells(row: Row, zone: tzinfo, *, wide: bool) -> list[Span]:
    head = row.event
    cells: list[Span] = [
        clock(head.time, zone, None),
        author(head),
        SIGNS.get(row.action, row.action),
        row.kind or "–",
        row.resource or "–",
        what(row.action, row.field, row.old, row.new),
        "–" if row.action == "rejected" else head.reason or (head.message or "").partition("\n")[0] or "–",
        head.id[:SHORT_ID],
    ]
    return cells + ([head.environment or "–", head.app or "–", head.source] if wide else [])

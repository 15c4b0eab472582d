"""What `audit query`, `audit export` and `audit tail` share: the question, and how a row reads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, TypeVar

import click

from sentinel_core.audit.query.grammar import QUALIFIERS, Question, parse_query
from sentinel_core.audit.store.contract import EventHead, Row
from sentinel_core.cli.app import WORDS, App
from sentinel_core.cli.audit.common import SHORT, SHORT_ID, SIGNS, author, clock, what
from sentinel_core.cli.exits import UsageProblem
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.text import Span

HEADERS = {
    "table": ("WHEN", "WHO", "", "KIND", "RESOURCE", "WHAT", "WHY", "ID"),
    "wide": ("WHEN", "WHO", "", "KIND", "RESOURCE", "WHAT", "WHY", "ID", "ENV", "APP", "SOURCE"),
}
"""Of `row_cells`, by the form of the output."""
Command = TypeVar("Command", bound=Callable[..., Any])


def terms_argument(command: Command) -> Command:
    """`[TERM]...`, as docs/audit.md tells of queries."""
    return click.argument("terms", metavar="[TERM]...", nargs=-1, type=WORDS)(command)


class Asking(click.Command):
    """A command of terms: one that begins with a minus is no option, and a qualifier no flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raises UsageProblem, which says what to write."""
        given = args[: args.index("--")] if "--" in args else args
        for each in given:
            if re.fullmatch(r"-[A-Za-z][\w.]+(?::|<=?|>=?|=).*", each, re.DOTALL):
                raise UsageProblem(
                    f"{each} begins with a minus, so it is read as options",
                    next_step=f"{ctx.command_path} [OPTION]... -- {shlex.quote(each)}",
                )
            name, _, text = each.removeprefix("--").partition("=")
            if each.startswith("--") and name in QUALIFIERS and not self._has_option(ctx, each.partition("=")[0]):
                raise UsageProblem(
                    f"there is no option --{name}; it is a qualifier of a term",
                    next_step=f"{ctx.command_path} {shlex.quote(f'{name}:{text or name.upper()}')}",
                )
        return super().parse_args(ctx, args)

    def _has_option(self, ctx: click.Context, flag: str) -> bool:
        return any(flag in parameter.opts for parameter in self.get_params(ctx))


def span_options(command: Command) -> Command:
    """`--since` and `--between`: another spelling of the terms, for those who know them from `audit who`."""
    for decorate in (
        click.option(
            "--between",
            "span",
            nargs=2,
            type=WORDS,
            metavar="START END",
            help="From START up to END, END not included.",
        ),
        click.option(
            "--until", "end", type=WORDS, metavar="TIME", help="Up to TIME, or its end; the same as until:TIME."
        ),
        click.option(
            "--since", "start", type=WORDS, metavar="TIME", help="From TIME until now; the same as since:TIME."
        ),
    ):
        command = decorate(command)
    return command


def asked(
    app: App,
    terms: Sequence[str],
    zone: tzinfo,
    *,
    start: str | None = None,
    end: str | None = None,
    span: tuple[str, str] | None = None,
) -> Question:
    """The terms as understood; says which window that is. Raises QueryInvalid."""
    if span is not None and (start, end) != (None, None):
        raise UsageProblem("--between names both ends of the time", next_step="leave --since and --until out")
    start, end = span or (start, end)
    text = " ".join([*map(_quoted, terms), *_time_terms(start, end)])
    question = parse_query(text, now=utc_now(), zone=zone)
    if question.interval is not None:
        app.out.say(question.interval.describe())
    return question


def _quoted(term: str) -> str:
    """One argument that is one term: the shell took the quotes around its blanks, and the grammar wants them back.
    An argument that holds several terms stays as it is."""
    name, colon, text = term.partition(":")
    if not colon or " " not in text or " " in name or '"' in text or re.search(r"\s-?[A-Za-z][\w.]*[:<>=]", text):
        return term
    return f'{name}:"{text}"'


def _time_terms(start: str | None, end: str | None) -> list[str]:
    words = {name: text for name, text in (("since", start), ("until", end)) if text is not None}
    quoted = {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in words.items()}
    return [f'{name}:"{text}"' for name, text in quoted.items()]


def row_json(row: Row) -> dict[str, object]:
    """A change with the event it belongs to."""
    facts = {name: getattr(row, name) for name in ("action", "kind", "resource", "rule", "field", "old", "new")}
    return {**facts, "event": row.event.to_json()}


def _runs(head: EventHead) -> str:
    """Of an event without changes: which instance runs which rules."""
    return f"{head.instance or 'somebody'} runs {(head.new_digest or '–')[:SHORT]}"


def row_cells(row: Row, zone: tzinfo, *, wide: bool) -> list[Span]:
    """A change for people, in columns."""
    head = row.event
    cells: list[Span] = [
        clock(head.time, zone, None),
        author(head),
        SIGNS.get(row.action, row.action),
        row.kind or (head.subject if row.action == "" else "") or "–",
        row.resource or "–",
        _runs(head) if row.action == "" else what(row.action, row.field, row.old, row.new),
        "–" if row.action == "rejected" else head.reason or (head.message or "").partition("\n")[0] or "–",
        head.id[:SHORT_ID],
    ]
    return cells + ([head.environment or "–", head.app or "–", head.source] if wide else [])

"""Help as people read it: what a command does, examples, the rest, then options; the man pages are made of the same.

A command's text is its docstring. Its first paragraph says what it does; a block behind `\\b` of which every line holds
`sentinelctl` is its examples, a line each, with a note behind two blanks or more.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

PROGRAM = "sentinelctl"
WIDEST = 58
"""Of an example that has its note beside it."""


@dataclass(frozen=True, slots=True)
class Example:
    """A line to type, and what it is for."""

    line: str
    note: str


@dataclass(frozen=True, slots=True)
class Page:
    """The text of a command, in its parts."""

    what: str
    examples: Sequence[Example]
    rest: Sequence[str]
    """Paragraphs; those that begin with `\\b` keep their lines."""


def page_of(command: click.Command) -> Page:
    """Takes a command's help apart."""
    what, *paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))
    blocks = [block for paragraph in paragraphs if (block := _examples(paragraph))]
    rest = [paragraph for paragraph in paragraphs if not _examples(paragraph)]
    return Page(" ".join(what.split()), [each for block in blocks for each in block], rest)


def _examples(paragraph: str) -> list[Example]:
    first, *lines = [line.strip() for line in paragraph.splitlines()]
    if lines and lines[0] in ("Example:", "Examples:"):
        lines = lines[1:]
    if first != "\b" or not lines or not all(PROGRAM in line for line in lines):
        return []
    parts = [re.split(r" {2,}", line, maxsplit=1) for line in lines]
    return [Example(part[0], part[1].strip("()") if len(part) > 1 else "") for part in parts]


def write_page(
    command: click.Command, shared: Iterable[str], context: click.Context, formatter: click.HelpFormatter
) -> None:
    """The help page. `shared`: the options that every command has, told behind its own."""
    page = page_of(command)
    formatter.write_text(page.what)
    formatter.write_paragraph()
    command.format_usage(context, formatter)
    if page.examples:
        with formatter.section("Examples"):
            for line in example_lines(page.examples):
                formatter.write(f"  {line}\n")
    for paragraph in page.rest:
        formatter.write_paragraph()
        formatter.write_text(paragraph)
    if isinstance(command, click.Group):
        command.format_commands(context, formatter)
    own, all_ = options_of(command, shared, context)
    for title, rows in (("Options", own), ("Options of all commands", all_)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def example_lines(examples: Sequence[Example]) -> list[str]:
    """Notes stand in a column, where the examples are short enough."""
    width = max(len(each.line) for each in examples)
    column = width if width <= WIDEST else 0
    return [f"{each.line:<{column}}   {each.note}" if each.note else each.line for each in examples]


def options_of(
    command: click.Command, shared: Iterable[str], context: click.Context
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """A command's own options and those that all have, each as it is written and what it does."""
    everywhere = {*shared, "--help"}
    own: list[tuple[str, str]] = []
    all_: list[tuple[str, str]] = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            (all_ if everywhere.intersection(parameter.opts) else own).append(record)
    return own, all_

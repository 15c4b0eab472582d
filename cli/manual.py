"""The manual, made of the commands: `python -m sentinel_core.cli.manual FOLDER` writes a page a command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sentinel_core.cli.lazy import LazyGroup
from sentinel_core.cli.main import PROGRAM, cli
from sentinel_core.cli.pages import example_lines, options_of, page_of

Words = tuple[str, ...]


def pages() -> dict[str, str]:
    """Name of the file → text in roff, for the program and each of its commands."""
    return {f"{'-'.join(words)}.1": _roff(words, command) for words, command in every_command()}


def every_command(words: Words = (PROGRAM,), command: click.Command = cli) -> Iterator[tuple[Words, click.Command]]:
    """The program and every command below it, each by its words."""
    yield words, command
    if isinstance(command, LazyGroup):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None:
                    yield from every_command((*words, name), below)


def _roff(words: Words, command: click.Command) -> str:
    page = page_of(command)
    context = click.Context(command, info_name=words[-1])
    name = "-".join(words)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{_text(name.upper())}" "1" "" "{PROGRAM}" "Sentinel Control Plane"',
        *(".SH NAME", f"{_text(name)} \\- {_text(page.what)}"),
        *(".SH SYNOPSIS", f".B {_text(' '.join(words))}", _text(usage)),
    ]
    if page.examples:
        lines += [".SH EXAMPLES", ".nf", *map(_text, example_lines(page.examples)), ".fi"]
    if page.rest:
        lines.append(".SH DESCRIPTION")
        for paragraph in page.rest:
            lines += _paragraph(paragraph)
    own, everywhere = options_of(command, cli.everywhere, context)
    if isinstance(command, LazyGroup):
        lines.append(".SH COMMANDS")
        for below, lazy in command.lazy.items():
            lines += [".TP", f".BR {_text(f'{name}-{below}')} (1)", _text(lazy.short_help)]
    lines += _options(".SH OPTIONS", everywhere if command is cli else own)
    if command is not cli:
        above = "-".join(words[:-1])
        also = [above] if above == PROGRAM else [PROGRAM, above]
        lines += [".SH SEE ALSO", "Options of all commands and exit codes:", *_references(also)]
    return "\n".join(lines) + "\n"


def _references(names: list[str]) -> list[str]:
    return [f".BR {_text(name)} (1){',' if name is not names[-1] else ''}" for name in names]


def _paragraph(paragraph: str) -> list[str]:
    if paragraph.lstrip(" ").startswith("\b"):
        return [".PP", ".nf", *(_text(line) for line in paragraph.splitlines()[1:]), ".fi"]
    return [".PP", _text(" ".join(paragraph.split()))]


def _options(title: str, rows: list[tuple[str, str]]) -> list[str]:
    lines = [title] if rows else []
    for spelling, text in rows:
        lines += [".TP", f".B {_text(spelling)}", _text(" ".join(text.split()))]
    return lines


def _text(text: str) -> str:
    """What roff would read as an order of its own, written so that it is text."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return re.sub(r"^([.'])", r"\\&\1", text)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for left in {path.name for path in folder.glob("*.1")} - made.keys():
        (folder / left).unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

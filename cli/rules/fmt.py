"""`sentinelctl rules fmt`."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterable
from pathlib import Path

import click

from sentinel_core.cli.app import App, pass_app
from sentinel_core.cli.exits import CommandError, Exit
from sentinel_core.cli.rules.inputs import STDIN, given_or_default, read_texts
from sentinel_core.cli.text import Styled
from sentinel_core.datasources.atomic import replace_file
from sentinel_core.rules import SourceText, format_text

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--check", is_flag=True, help="Change nothing; name the files that would change; exit code 1 if any.")
@click.option("--diff", "show_diff", is_flag=True, help="Change nothing; print the differences; exit code 1 if any.")
@pass_app
def fmt(app: App, paths: tuple[str, ...], check: bool, show_diff: bool) -> int:
    """Rewrite rules canonically; comments stay, line ends become LF.

    \b
    sentinelctl rules fmt
    sentinelctl rules fmt --check      in CI: ends with 1 where something would change
    sentinelctl rules fmt --diff

    PATH is a file, a folder, or - (stdin to stdout); default: the `rules` of the settings. Rules that are not valid
    YAML or JSON are refused and nothing is written.
    """
    dry = check or show_diff
    texts = [(path, text) for path in given_or_default(app, paths) for text in read_texts(path)]
    formatted = [(path, text, format_text(text)) for path, text in texts]
    changed = [(text, new) for _, text, new in formatted if new != text.content]
    for path, text, new in formatted:
        if path == STDIN and not dry:
            app.out.write_bytes(new)
        elif not dry and new != text.content:
            _replace(Path(text.name), new)
            app.out.say(f"formatted {text.name}")
    if show_diff:
        _show(app, changed)
    elif check:
        for text, _ in changed:
            app.out.line(text.name)
    return Exit.DIFFERENCES if dry and changed else Exit.DONE


def _show(app: App, changed: Iterable[tuple[SourceText, bytes]]) -> None:
    for text, new in changed:
        old_lines = text.content.decode("utf-8", "backslashreplace").splitlines()
        lines = difflib.unified_diff(old_lines, new.decode().splitlines(), text.name, f"{text.name} (formatted)")
        shown = [line.rstrip("\n") for line in lines]
        for line in shown or [f"{text.name}: only line ends differ"]:
            colour = _COLOURS.get(line[:1])
            app.out.line(Styled(line, colour) if colour else line)


def _replace(path: Path, content: bytes) -> None:
    """In one step, through symbolic links, keeping the file's mode."""
    target = path.resolve()
    try:
        replace_file(target, content, mode=stat.S_IMODE(target.stat().st_mode))
    except OSError as error:
        raise CommandError(
            f"{path}: cannot be written: {error.strerror}",
            next_step="check its permissions, or use `fmt - < FILE` and redirect",
        ) from error

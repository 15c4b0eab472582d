"""Rule texts named on the command line: files, folders and `-`."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import UsageProblem
from sentinel_core.datasources.names import format_of, is_rule_file, kind_of
from sentinel_core.rules import KINDS, Kind, Revision, SourceText

MAX_BYTES = 64 * 1024 * 1024
"""Read at most; what is larger is no rule text and is refused by the parser."""
STDIN = "-"
STDIN_NAME = "<stdin>"


def given_or_default(app: App, paths: Sequence[str]) -> Sequence[str]:
    """The paths, or the rules of the settings when none is named."""
    if paths:
        return paths
    rules = Path(app.settings.rules)
    if not rules.exists():
        raise UsageProblem(
            f"no path is given, and {shown(rules)} does not exist",
            next_step="name a file or folder, - for stdin, or write `rules: <path>` into sentinel.yaml",
        )
    return (shown(rules),)


def shown(path: Path) -> str:
    """Relative to the working directory where that is shorter to read."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def read_revisions(path: str, kind: Kind | None) -> list[tuple[Revision, tuple[Kind, ...]]]:
    """What one argument holds, with the kinds each part may hold: all its YAML as one revision, each JSON list as
    one of its own. Raises UsageProblem for what cannot be read."""
    texts = read_texts(path)
    documents = tuple(text for text in texts if text.format != "json")
    parts = [(documents, (kind,) if kind else KINDS)] if documents else []
    parts += [((text,), (kind or _kind_of_list(text),)) for text in texts if text.format == "json"]
    return [(Revision(texts=part, source=path, version="", observed=True), kinds) for part, kinds in parts]


def _kind_of_list(text: SourceText) -> Kind:
    """The kind of a JSON list, which its file name tells (`sentinel-flow-rules.json`)."""
    kind = kind_of(text.name)
    if kind in KINDS:
        return kind
    raise UsageProblem(
        f"{text.name} is a JSON list, and its name does not say of which kind",
        next_step=f"add --kind with one of {', '.join(KINDS)}",
    )


def read_texts(path: str) -> tuple[SourceText, ...]:
    """A file, every rule file of a folder in order of name, or stdin."""
    if path == STDIN:
        content = _stdin()
        return (SourceText(STDIN_NAME, content, "json" if content.lstrip()[:1] == b"[" else "yaml"),)
    if not path:
        raise UsageProblem("an empty path is given", next_step="name a file or folder, or - for stdin")
    try:
        if Path(path).is_dir():
            return _folder(Path(path))
        return (SourceText(path, _file(path), format_of(path)),)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageProblem(
            f"{path}: cannot be read: {reason}", next_step="check the path and its permissions"
        ) from error


def _folder(folder: Path) -> tuple[SourceText, ...]:
    names = sorted(each for each in folder.iterdir() if is_rule_file(each.name) and each.is_file())
    if not names:
        raise UsageProblem(f"{folder}: no .yaml, .yml or .json file is in this folder", next_step="name the files")
    return tuple(SourceText(str(name), _file(str(name)), format_of(name.name)) for name in names)


def _file(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 -- a name as it was typed, `/dev/fd/63` included
        mode = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise ValueError("it is neither a file nor a pipe")
        return file.read(MAX_BYTES)


def _stdin() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise UsageProblem("stdin is closed", next_step="pipe the rules in, or name a file")
    try:
        content: bytes = stream.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        raise UsageProblem(f"stdin cannot be read: {error}", next_step="pipe the rules in, or name a file") from error
    return content

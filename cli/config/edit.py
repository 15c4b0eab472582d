"""Changing a settings file: what is not meant to change stays, byte by byte where that is possible."""

from __future__ import annotations

import io
import stat
import tempfile
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from sentinel_core.cli.exits import CommandError
from sentinel_core.cli.rules.inputs import shown
from sentinel_core.datasources.atomic import exclusive, replace_file
from sentinel_core.settings import SettingsError
from sentinel_core.settings_sources import parse_settings_text

INDENTS = ((2, 2, 0), (2, 4, 2), (4, 4, 2), (4, 2, 0), (4, 6, 4))
"""Of mappings, of lists and of the dashes of lists: what people write."""
NEW_FILE = 0o600
"""Settings of a user are nobody else's business; a file that is there keeps its permissions."""


def edited(path: Path, change: Callable[[Any], None], *, check: Callable[[Path], None] | None = None) -> None:
    """Applies `change` to the tree of the file, which need not exist, and replaces the file whole or not at all;
    one edit after another, however many begin at once. `check` is given a file with the new text in the same folder.
    Raises SettingsError, CommandError."""
    _check_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()  # where it is a link, what it leads to is replaced
        with exclusive(target.parent):  # what somebody else writes meanwhile would be lost
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else NEW_FILE
            content = target.read_bytes() if target.exists() else b""
            text = _changed(content, str(path), change)
            if check is not None:
                _check(target, text, check)
            replace_file(target, text, mode=mode)
    except OSError as error:
        raise CommandError(
            f"{shown(path)} cannot be written: {error.strerror}", next_step="write into another file with --config"
        ) from error


def difference(path: Path, change: Callable[[Any], None], *, check: Callable[[Path], None] | None = None) -> list[str]:
    """What `edited` would change, as the lines of a unified diff; nothing is written that stays. Raises as it does."""
    _check_file(path)
    try:
        content = path.read_bytes() if path.exists() else b""
        text = _changed(content, str(path), change)
        if check is not None and path.parent.is_dir():
            _check(path.resolve(), text, check)
        elif check is not None:
            with tempfile.TemporaryDirectory() as folder:
                _check(Path(folder) / path.name, text, check)
    except OSError as error:
        raise CommandError(
            f"{shown(path)} cannot be read: {error.strerror}", next_step="name another file with --config"
        ) from error
    before, after = (each.decode("utf-8-sig").splitlines() for each in (content, text))
    return list(unified_diff(before, after, shown(path), f"{shown(path)} (changed)", lineterm=""))


def _check_file(path: Path) -> None:
    if path.exists() and not path.is_file():  # /dev/null, a pipe, a folder: nothing that may be replaced
        raise CommandError(f"{shown(path)} is no file", next_step="name another file with --config")


def _changed(content: bytes, name: str, change: Callable[[Any], None]) -> bytes:
    try:
        parse_settings_text(content, name)
    except ValueError as error:
        raise SettingsError([str(error)]) from error
    text = content.decode("utf-8-sig")
    yaml = _writer(text)
    tree = yaml.load(text)
    tree = CommentedMap() if tree is None else tree
    change(tree)
    if text and not yaml.load(text):  # comments alone are no tree that could carry them
        return (text if text.endswith("\n") else f"{text}\n").encode() + _dumped(yaml, tree)
    return _dumped(yaml, tree) if tree else b""


def _writer(text: str) -> YAML:
    """Set up as the file is laid out, as far as that can be found out by writing it again."""
    for indents in INDENTS:
        yaml = _yaml(*indents)
        if _dumped(yaml, yaml.load(text)) == text.encode():
            return yaml
    return _yaml(*INDENTS[0])


def _yaml(mapping: int, sequence: int, offset: int) -> YAML:
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = 100_000
    yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
    return yaml


def _dumped(yaml: YAML, tree: Any) -> bytes:
    stream = io.BytesIO()
    yaml.dump(tree, stream)
    text = stream.getvalue()
    return text if text.endswith(b"\n") else text + b"\n"


def _check(path: Path, text: bytes, check: Callable[[Path], None]) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp") as file:
        file.write(text)
        file.flush()
        try:
            check(Path(file.name))
        except SettingsError as error:
            raise SettingsError([problem.replace(file.name, str(path)) for problem in error.problems]) from error

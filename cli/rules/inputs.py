"""Rule texts named on the command line: files, folders and `-`."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import UsageProblem
from sentinel_core.datasources.contract import SourceMisconfigured
from sentinel_core.datasources.layout import documents, one_overlay, overlay_names
from sentinel_core.datasources.names import YAML_SUFFIXES, format_of, is_rule_file, kind_of
from sentinel_core.rules import KINDS, Kind, Revision, SourceText
from sentinel_core.rules.overlay import FOLDER as OVERLAYS

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


Part = tuple[Revision, tuple[Kind, ...]]
"""A revision, and the kinds that it may hold."""


def read_revisions(path: str, kind: Kind | None, environment: str) -> list[Part]:
    """What one argument holds: a document, with the overlay of the environment where it is a folder, or each JSON list
    by itself. Raises UsageProblem for what cannot be read."""
    wanted = {str(Path(path) / name) for name in overlay_names(environment)}
    overlays = tuple(text for text in _overlays(path) if text.name in wanted)
    return _parts(path, (*_read_base(path), *overlays), kind)


def read_variants(path: str, kind: Kind | None) -> list[Part]:
    """The same for every environment: the base, then the base with each overlay. A path that is itself an overlay is
    read with its base."""
    base = _base_of_overlay(path)
    if base is not None:
        return _parts(f"{base} with {path}", (*_read_base(str(base)), *_read_base(path)), kind)
    texts = _read_base(path)
    parts = _parts(path, texts, kind)
    for overlay in _overlays(path):
        parts += _parts(f"{path} with {overlay.name}", (*texts, overlay), kind)
    return parts


def _parts(name: str, texts: tuple[SourceText, ...], kind: Kind | None) -> list[Part]:
    documents = tuple(text for text in texts if text.format != "json")
    parts = [(documents, (kind,) if kind else KINDS)] if documents else []
    parts += [((text,), (kind or _kind_of_list(text),)) for text in texts if text.format == "json"]
    return [(Revision(texts=part, source=name, version="", observed=True), kinds) for part, kinds in parts]


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
    """A file, every rule file of a folder in order of name and then the overlays in it, or stdin."""
    return (*_read_base(path), *_overlays(path))


def _read_base(path: str) -> tuple[SourceText, ...]:
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
        raise _unreadable(path, error) from error


def _folder(folder: Path) -> tuple[SourceText, ...]:
    """Its documents, as a source reads them; or its JSON lists, where there is nothing else."""
    files = _rule_files(folder)
    if not files:
        raise UsageProblem(f"{folder}: no .yaml, .yml or .json file is in this folder", next_step="name the files")
    if len({format_of(file.name) for file in files}) > 1:
        try:
            documents([file.name for file in files], str(folder))
        except SourceMisconfigured as error:
            raise UsageProblem(str(error), next_step="name the files one by one, or part them") from error
    return tuple(SourceText(str(file), _file(str(file)), format_of(file.name)) for file in files)


def _overlays(path: str) -> tuple[SourceText, ...]:
    """Of every environment, where the path is a folder of documents."""
    folder = Path(path) / OVERLAYS if path not in ("", STDIN) else Path(os.devnull)
    try:
        if not folder.is_dir() or any(format_of(file.name) == "json" for file in _rule_files(Path(path))):
            return ()
        files = [file for file in _rule_files(folder) if file.suffix in YAML_SUFFIXES]
        for stem in {file.stem for file in files}:
            one_overlay([str(file) for file in files if file.stem == stem], path)
        return tuple(SourceText(str(file), _file(str(file))) for file in files)
    except SourceMisconfigured as error:
        raise UsageProblem(str(error), next_step="remove one of them") from error
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from error


def _base_of_overlay(path: str) -> Path | None:
    folder = Path(path).parent.parent
    is_one = path != STDIN and Path(path).parent.name == OVERLAYS and Path(path).is_file()
    return folder if is_one and format_of(path) == "yaml" and _rule_files(folder) else None


def _rule_files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if is_rule_file(each.name) and each.is_file())


def _unreadable(path: str | Path, error: Exception) -> UsageProblem:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return UsageProblem(f"{path}: cannot be read: {reason}", next_step="check the path and its permissions")


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

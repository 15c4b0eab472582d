"""Contexts: settings under a name, of which one is in use at a time, as `kubectl` has them.

A context is written below `contexts:` in a settings file and holds any settings: where it is in use, what it sets
stands above the file and above the environment. Services use the one that `SENTINEL_CONTEXT` names; `sentinelctl` also
the one of `--context`, and the one that was chosen with `sentinelctl config use-context`. The choice is kept beside the
project file, so that it never reaches another project.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel_core.masking import MASK
from sentinel_core.settings_sources import CONTEXTS, is_context_name, parse_settings_text, settings_file, user_file

VARIABLE = "SENTINEL_CONTEXT"
MAX_BYTES = 1024
"""Of the file that holds the choice."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which context is in use, and what says so; `name` is empty where none is."""

    name: str = ""
    origin: str = ""

    @property
    def shown(self) -> str:
        """The name, unless it cannot be one: then it is whatever somebody typed."""
        return self.name if not self.name or is_context_name(self.name) else MASK


@dataclass(frozen=True, slots=True)
class Context:
    """A context as it is written; nothing of it is checked."""

    name: str
    file: Path
    data: Mapping[str, Any]


def chosen_context(config: Path | None, flag: str | None = None) -> Chosen:
    """The one of the flag, else of the environment, else the one that was chosen. An empty name says: none. Raises
    OSError where the choice is there and cannot be read: without it, something else would be written to."""
    if flag is not None:
        return Chosen(flag, "--context")
    if (named := os.environ.get(VARIABLE)) is not None:
        return Chosen(named, VARIABLE)
    path = choice_file(config)
    try:
        with path.open("rb") as file:
            name = file.read(MAX_BYTES).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return Chosen()
    return Chosen(name, str(path)) if name else Chosen()


def choice_file(config: Path | None) -> Path:
    """Where the choice is kept: of the project, or of this user where there is none (or settings come from a pipe)."""
    project = settings_file(config)
    if project is None or not project.is_file():
        return user_file().with_name("context")
    return project.absolute().parent / ".sentinel" / "context"


def settings_files(config: Path | None) -> list[Path]:
    """The files that may hold contexts, the one with the last word last."""
    project = settings_file(config)
    return [path for path in (user_file(), project) if path is not None and path.is_file()]


def contexts(config: Path | None) -> dict[str, Context]:
    """Every context, in order of name. Raises OSError and ValueError, which names the file and the position."""
    found = {}
    for path in settings_files(config):
        data, _ = parse_settings_text(path.read_bytes(), str(path))
        written = data.get(CONTEXTS)
        for name, settings in (written if isinstance(written, dict) else {}).items():
            found[name] = Context(name, path, settings if isinstance(settings, dict) else {})
    return dict(sorted(found.items()))

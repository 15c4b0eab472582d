"""Replacing a file so that a crash or a reader finds the old text or the new one, whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Writes beside `path`, forces it to disk, renames it over `path` and forces the folder to disk. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, path)  # noqa: PTH105 - `name` is text from mkstemp
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - as above
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Forces a folder's entries to disk, so that a rename or removal survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

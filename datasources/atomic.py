"""Replacing a file so that a crash or a reader finds the old text or the new one, whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MARK, _SUFFIX = "sentinel-", ".tmp"
_ALIVE = "alive"
"""A file that is locked for as long as the owner of its folder lives."""


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Writes beside `path`, forces it to disk, renames it over `path` and forces the folder to disk. What writers that
    were killed have left of the same file is removed. Raises OSError."""
    _remove_leftovers(path)
    descriptor, name = _temporary(path)
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


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keeps other writers of this kind out of a folder while one reads, compares and replaces. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _temporary(path: Path) -> tuple[int, str]:
    """A new file beside `path` that is locked for as long as its writer lives."""
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.{_MARK}", suffix=_SUFFIX, dir=path.parent)
        with contextlib.suppress(OSError):  # a file system without locks: nobody can tell then who is dead
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # taken for a dead one's before it was locked


def _remove_leftovers(path: Path) -> None:
    ours = re.compile(rf"\.{re.escape(path.name)}\.{_MARK}[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")
    with contextlib.suppress(OSError):
        for entry in os.scandir(path.parent):
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_if_dead(entry.path)


def _remove_if_dead(name: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its writer holds it until it has renamed it
            os.unlink(name)  # noqa: PTH108 - as it was listed
        finally:
            os.close(descriptor)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder for one use. Those of the same prefix that processes of this user have left, which were killed, are
    removed. Raises OSError."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_folder_if_dead(left)
    with tempfile.TemporaryDirectory(prefix=prefix) as name, (Path(name) / _ALIVE).open("wb") as alive:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(alive, fcntl.LOCK_EX)
        yield Path(name)


def _remove_folder_if_dead(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if folder.lstat().st_uid != os.getuid():
            return
        descriptor = os.open(folder / _ALIVE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Forces a folder's entries to disk, so that a rename or removal survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

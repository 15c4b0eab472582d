"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to that stands at `path`, durable, once the block was left without an exception: a reader never
    sees half of it, and what stood there before stays until then. What is no file (a pipe, `/dev/null`) is written to
    and never replaced; a symbolic link stays one, its target is what is replaced. Raises OSError or ValueError."""
    if not _is_replaceable(path):
        with path.open("wb") as there:
            yield there
        return
    real = Path(os.path.realpath(path))
    part = real.with_name(f".{real.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(real)
    except BaseException:
        with suppress(OSError, ValueError):
            part.unlink(missing_ok=True)
        raise


def _is_replaceable(path: Path) -> bool:
    """Whether nothing stands there, or a regular file, at the end of all links. Raises OSError where that cannot be
    told."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True

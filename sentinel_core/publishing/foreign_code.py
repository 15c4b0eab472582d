"""What code of somebody else, called in this process, is kept from: writing into our data, and ending us quietly."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import NoReturn


@contextmanager
def talk_on_stderr() -> Iterator[None]:
    """Whatever is written to standard output meanwhile, by `print` or straight to its descriptor, goes to stderr. Of
    the whole process: the caller sees to it that nobody else is in here."""
    _flush()  # ours, to where it belongs
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        with redirect_stdout(sys.stderr):
            yield
        return
    try:
        with suppress(OSError):
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush()  # theirs
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def kept_alive(is_theirs: Callable[[], bool]) -> Iterator[None]:
    """`os._exit` raises SystemExit where `is_theirs()` and does what it does elsewhere, children included: whoever
    asked would read its 0 as success."""
    real, process = os._exit, os.getpid()

    def ended(status: int) -> NoReturn:
        if os.getpid() == process and is_theirs():
            raise SystemExit(status)
        real(status)

    os._exit = ended
    try:
        yield
    finally:
        os._exit = real


def _flush() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        with suppress(OSError, ValueError, AttributeError):  # closed, its reader gone, or none
            stream.flush()  # type: ignore[union-attr]  # None is an AttributeError

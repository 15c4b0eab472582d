"""Which threads are inside a decision, where nothing may be read from outside.

Marked by the debug mode of an engine (`sentinel_core.debug`) and by `sentinel_core.testing.no_io`; asked by whatever is
about to read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class IoInDecision(AssertionError):
    """Code that may only look at what stands in memory was about to do I/O."""


class _Inside(threading.local):
    marks: tuple[list[str], ...] = ()
    """What was tried, one list for each mark of this thread, innermost last."""


_inside = _Inside()


@contextmanager
def inside() -> Iterator[list[str]]:
    """Marks this thread; gives the list of what was tried there."""
    before, tried = _inside.marks, list[str]()
    _inside.marks = (*before, tried)
    try:
        yield tried
    finally:
        _inside.marks = before


def refuse_inside(what: str) -> None:
    """Raises IoInDecision on a marked thread."""
    if not _inside.marks:
        return
    for tried in _inside.marks:
        tried.append(what)
    raise IoInDecision(
        f"{what} inside a decision, where every call would wait for it; have it read beside the calls "
        "(engine.collectors.register) and look at the gauge"
    )

"""Changing a note beside an item, which several may do at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sentinel_core.datasources.contract import HasNotes, Item, SourceConflict

_TRIES = 5
Content = TypeVar("Content", bound=bytes | None)


def change_note(
    source: HasNotes, item: Item, name: str, change: Callable[[bytes | None], Content], why: str
) -> Content:
    """Writes what `change` makes of the note that stands (None: there is none), by compare-and-set, and again of what
    stands then where somebody was faster. Gives what was written; None where `change` gave None and nothing was.

    Raises what `change` raises, SourceConflict where others were faster five times, DatasourceError.
    """
    for tries_left in reversed(range(_TRIES)):
        stands = source.note(item, name)
        content = change(stands)
        if content is None:
            return content
        try:
            source.write_note(item, name, content, expected=stands, why=why)
        except SourceConflict:
            if not tries_left:
                raise
        else:
            return content
    raise AssertionError  # the last try has raised

"""NDJSON and CSV, as pieces of UTF-8 with many lines each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from sentinel_core.audit.export.paging import COLUMNS, FLAGS, Tally, events, pages, values
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.store.contract import ArrivalStore, Query

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_SPECIAL = re.compile(r'[",\r\n]')


def ndjson(store: ArrivalStore, query: Query, tally: Tally) -> Iterator[bytes]:
    """Each event whole, as structured CloudEvents, a line each."""
    for event in events(store, query, tally.unread):
        tally.written += 1
        yield event.to_json() + b"\n"


def comma_separated(store: ArrivalStore, query: Query, tally: Tally) -> Iterator[bytes]:
    """A row a change, after a line of names. Lines end with `\\n`, whatever machine this is."""
    yield _line(COLUMNS)
    for rows in pages(store, query):
        tally.written += len(rows)
        yield b"".join(_line(map(_cell, _KINDS, values(row))) for row in rows)


def _cell(kind: Callable[[Any], str], value: Any) -> str:
    return "" if value is None else kind(value)


def _line(cells: Iterable[str]) -> bytes:
    return f"{','.join(cells)}\n".encode()


def _quoted(text: str) -> str:
    """By RFC 4180. Python's own writer leaves a carriage return without quotes where lines end with `\\n`."""
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


@lru_cache(maxsize=4096)  # sources, authors and applications come again and again
def _text(text: str) -> str:
    """What a spreadsheet would take for a formula begins with an apostrophe, which it does not show."""
    return _quoted(f"'{text}" if text.startswith(_FORMULA) else text)


def _flag(value: bool) -> str:
    return "true" if value else "false"


_KINDS: tuple[Callable[[Any], str], ...] = tuple(
    rfc3339 if name == "time"
    else _quoted if name in {"old", "new"}  # JSON: begins with none of them but the minus of a number, which stays one
    else _flag if name in FLAGS
    else _text
    for name in COLUMNS
)  # fmt: skip
"""How a cell of each column is written."""

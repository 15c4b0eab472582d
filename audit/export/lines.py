"""NDJSON and CSV, as pieces of UTF-8 with many lines each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sentinel_core.audit.export.paging import COLUMNS, events, pages, values
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.store.contract import AuditStore, Query

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_SPECIAL = re.compile(r'[",\r\n]')
_JSON = frozenset(index for index, name in enumerate(COLUMNS) if name in {"old", "new"})


def ndjson(store: AuditStore, query: Query) -> Iterator[bytes]:
    """Each event whole, as structured CloudEvents, a line each."""
    for event in events(store, query):
        yield event.to_json() + b"\n"


def comma_separated(store: AuditStore, query: Query) -> Iterator[bytes]:
    """A row a change, after a line of names. Lines end with `\\n`, whatever machine this is."""
    yield _lines([COLUMNS])
    for rows in pages(store, query):
        yield _lines([_cells(values(row)) for row in rows])


def _cells(row: list[Any]) -> list[str]:
    return [_cell(value, is_json=index in _JSON) for index, value in enumerate(row)]


def _cell(value: Any, *, is_json: bool) -> str:
    """A text that a spreadsheet would take for a formula begins with an apostrophe, which it does not show. JSON begins
    with none of them but the minus of a number, which stays a number."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return f"'{text}" if not is_json and text.startswith(_FORMULA) else text


def _lines(rows: Iterable[Iterable[str]]) -> bytes:
    """By RFC 4180. Python's own writer leaves a carriage return without quotes where lines end with `\\n`."""
    return "".join(f"{','.join(map(_quoted, row))}\n" for row in rows).encode()


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell

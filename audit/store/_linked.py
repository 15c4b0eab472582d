"""Events of the SQLite store with their links."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any

from sentinel_core.audit.chain import Linked
from sentinel_core.audit.store._layout import COLUMNS_SQL, ROW_SQL, grouped
from sentinel_core.audit.store._packing import unpack
from sentinel_core.audit.store._reading import fetched
from sentinel_core.audit.store.contract import EventHead

_EVENTS = f"""
    SELECT e.seq, e.number, e.previous, e.hash, b.data, {COLUMNS_SQL} FROM json_each(?) asked
    CROSS JOIN events e ON e.seq = asked.value LEFT JOIN bodies b ON b.event = e.seq ORDER BY asked.key
"""  # noqa: S608  own names
_ROWS = f"""
    SELECT c.event, {ROW_SQL} FROM json_each(?) asked CROSS JOIN changes c ON c.event = asked.value
    ORDER BY c.event, c.place
"""  # noqa: S608  own names
_SIGHTINGS = """
    SELECT s.event, s.instance, s.time FROM json_each(?) asked CROSS JOIN sightings s ON s.event = asked.value
    ORDER BY s.event, s.time, s.instance
"""
_SIZES = """
    SELECT e.seq, coalesce(length(b.data), 0) FROM json_each(?) asked
    CROSS JOIN events e ON e.id = asked.value ->> 0 AND e.source = asked.value ->> 1
    LEFT JOIN bodies b ON b.event = e.seq ORDER BY asked.key
"""


def read_linked(connection: sqlite3.Connection, places: Sequence[int], *, sightings: bool) -> list[Linked]:
    """The events with these numbers of rows, in that order."""
    asked = (json.dumps(places),)
    rows = grouped(fetched(connection, _ROWS, asked))
    seen: dict[Any, list[Any]] = grouped(fetched(connection, _SIGHTINGS, asked)) if sightings else {}
    return [
        Linked(
            number, previous, made, tuple(columns), tuple(rows.get(seq, ())), _data(body), tuple(seen.get(seq, ()))
        )
        for seq, number, previous, made, body, *columns in fetched(connection, _EVENTS, asked)
    ]  # fmt: skip


def _data(body: Any) -> bytes:
    """Nothing where the body is damaged: then the hash tells."""
    try:
        return unpack(body)
    except zlib.error:
        return b""


def links(connection: sqlite3.Connection, heads: Sequence[EventHead], most_bytes: int) -> list[Linked]:
    """See `LinkedStore`."""
    places: list[int] = []
    for seq, size in connection.execute(_SIZES, (json.dumps([(head.id, head.source) for head in heads]),)):
        most_bytes -= size
        if places and most_bytes < 0:
            break
        places.append(seq)
    return read_linked(connection, places, sightings=False)

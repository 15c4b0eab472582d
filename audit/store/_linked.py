"""Events of the SQLite store with their links."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from sentinel_core.audit.chain import Linked, Named, Place, Stretch
from sentinel_core.audit.store._layout import COLUMNS_SQL, ROW_SQL, grouped
from sentinel_core.audit.store._packing import unpack
from sentinel_core.audit.store._reading import fetched

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


def links(connection: sqlite3.Connection, heads: Sequence[Named], most_bytes: int) -> list[Linked]:
    """See `LinkedStore`."""
    places: list[int] = []
    for seq, size in connection.execute(_SIZES, (json.dumps([(head.id, head.source) for head in heads]),)):
        most_bytes -= size
        if places and most_bytes < 0:
            break
        places.append(seq)
    return read_linked(connection, places, sightings=False)


_LOOKED_AT = 20_000
"""Rows that are looked through for a checkpoint, or beside events: some ten milliseconds."""
_NEWEST = f"""
    SELECT source, hash FROM (SELECT source, number, hash FROM events ORDER BY seq DESC LIMIT {_LOOKED_AT})
    WHERE (source, number) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
"""  # noqa: S608  own number
_OF_CHAIN = f"""
    SELECT hash FROM (SELECT number, hash FROM events WHERE source = ? LIMIT {_LOOKED_AT}) WHERE number = ?
"""  # noqa: S608  own number
_SOUGHT = 10
"""Chains that are looked through whole."""
_END = "SELECT number FROM chains WHERE source = ?"
_SPAN = "SELECT min(seq), max(seq) FROM events WHERE (id = ? AND source = ?) OR (id = ? AND source = ?)"
_ENDS = "SELECT coalesce((SELECT min(seq) FROM events), 0), coalesce((SELECT max(seq) FROM events), -1)"
"""Each by itself: SQLite reads every row for both at once."""
_PLACES = "SELECT id, source, number, time FROM events WHERE seq BETWEEN ? AND ? "
_OF_SOURCE = f"{_PLACES} AND +source = ? ORDER BY seq"
"""With `+`, by the rows: by the index of sources SQLite reads the whole chain."""
_OF_OTHERS = f"{_PLACES} AND +source IN (SELECT value FROM json_each(?)) ORDER BY seq"  # noqa: S608  own names


def hashes_at(connection: sqlite3.Connection, numbers: Mapping[str, int]) -> dict[str, list[bytes]]:
    """See `LinkedStore`. Checkpoints are made often, so what they saw is among the newest; else the chain may be a
    short one."""
    told: dict[str, list[bytes]] = {}
    for source, made in fetched(connection, _NEWEST, (json.dumps([*numbers.items()]),)):
        told.setdefault(source, []).append(made if isinstance(made, bytes) else b"")
    for source in [source for source in numbers if source not in told][:_SOUGHT]:
        (end,) = next(iter(fetched(connection, _END, (source,))), (0,))
        if not isinstance(end, int) or end < max(numbers[source], _LOOKED_AT):
            found = fetched(connection, _OF_CHAIN, (source, numbers[source]))
            told[source] = [made if isinstance(made, bytes) else b"" for (made,) in found]
    return told


def stretches(connection: sqlite3.Connection, spans: Mapping[str, Sequence[Linked]]) -> dict[str, Stretch]:
    """See `LinkedStore`. Events of all chains lie together, in the order in which they arrived."""
    ((start, end),) = connection.execute(_ENDS).fetchall()
    told: dict[str, Stretch] = {}
    for source, events in [(source, events) for source, events in spans.items() if events][:_SOUGHT]:
        ((first, last),) = connection.execute(_SPAN, [*events[0].columns[:2], *events[-1].columns[:2]]).fetchall()
        if first is None or (room := _LOOKED_AT - (last - first)) < 0:
            continue
        high = min(end, last + room // 2)
        low = max(start, first - (room - (high - last)))
        found = fetched(connection, _OF_SOURCE, (low, high, source))
        told[source] = Stretch([*map(Place._make, found)], low == start, high == end)
    others = [source for source, events in spans.items() if not events]
    low = max(start, end - _LOOKED_AT)
    places: dict[str, list[Place]] = {source: [] for source in others}
    for place in map(Place._make, fetched(connection, _OF_OTHERS, (low, end, json.dumps(others))) if others else ()):
        places[place.source].append(place)
    return told | {source: Stretch(found, low == start, to_end=True) for source, found in places.items()}

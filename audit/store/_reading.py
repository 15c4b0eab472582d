"""What a store gives back, with types checked: whoever can write it may put any value anywhere.

Nothing here raises for a value. What is none that an event has is shown as a text and named in `EventHead.damaged`, so
that one row blinds no other; whether the rest is as it was written, the hash tells.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sentinel_core.audit.chain import COLUMNS, ROW, START, About, Head
from sentinel_core.audit.errors import EventDamaged, StoreMisconfigured
from sentinel_core.audit.event import Event, restore_event, storable
from sentinel_core.audit.instants import from_milliseconds, rfc3339
from sentinel_core.audit.store._packing import unpack
from sentinel_core.audit.store.contract import HEAD, EventHead, Row, Sighting

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Of an event whose time is none."""
MOST = 2**53
"""Numbers that the store itself gives stay far below."""
_TIME = HEAD.index("time")
_FLAGS = range(HEAD.index("initial"), len(HEAD))
_NEEDED = {HEAD.index(name) for name in ("id", "source", "type", "subject", "time")}


def fetched(connection: sqlite3.Connection, statement: str, values: Any) -> list[Any]:
    """All rows; bytes that are no text, where a text should be, come as bytes."""
    try:
        return connection.execute(statement, values).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    connection.text_factory = _text_or_bytes
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.text_factory = str


def _text_or_bytes(text: bytes) -> str | bytes:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def moment(value: Any) -> datetime | None:
    """Of milliseconds; None for what is no time."""
    try:
        return from_milliseconds(value) if type(value) is int else None
    except (ValueError, OverflowError, OSError):
        return None


def head_of(values: Sequence[Any], time: datetime | None) -> EventHead:
    """`values`: those of HEAD; `time` as it was understood."""
    told = list(values)
    damaged = tuple(HEAD[place] for place, value in enumerate(values) if not _is_well(place, value, time))
    for name in damaged:
        place = HEAD.index(name)
        told[place] = text_of(values[place]) or ("" if place in _NEEDED else None)
    told[_TIME] = time or NO_TIME
    told[_FLAGS.start :] = [bool(values[place]) for place in _FLAGS]
    return EventHead(**dict(zip(HEAD, told, strict=True)), damaged=damaged)


def _is_well(place: int, value: Any, time: datetime | None) -> bool:
    if place == _TIME:
        return time is not None
    if place in _FLAGS:
        return value in (0, 1)
    return isinstance(value, str) or (value is None and place not in _NEEDED)


def text_of(value: Any) -> str | None:
    """Any value as a text that can be shown."""
    if value is None or isinstance(value, str):
        return value and storable(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def row_of(head: EventHead, values: Sequence[Any]) -> Row:
    """`values`: action, kind, resource, rule, field, old, new."""
    action, kind, resource, rule, field = map(text_of, values[:5])
    return Row(head, action or "", kind, resource, rule, field, value_of(values[5]), value_of(values[6]))


def value_of(text: Any) -> Any:
    """Of a JSON text; what is none is shown as it is."""
    try:
        return text and json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return text_of(text)


def event_of(identity: Any, source: Any, kind_of_event: Any, subject: Any, time: Any, packed: Any) -> Event:
    """Raises EventDamaged where the body is none any more."""
    texts = [text_of(value) or "" for value in (identity, source, kind_of_event, subject)]
    try:
        data = unpack(packed)
    except zlib.error:
        data = b""
    if not (data.startswith(b"{") and data.endswith(b"}")):
        raise EventDamaged(f"event {texts[0]}: its data is damaged; sentinelctl audit verify tells more")
    return restore_event(texts[0], texts[1], texts[2], texts[3], moment(time) or NO_TIME, data)


def place_in(value: Any) -> int:
    """Of a column that orders rows, whatever it holds; SQLite puts nothing before numbers, and texts behind them."""
    if value is None:
        return -_FARTHEST
    if isinstance(value, (int, float)):
        return int(max(-_FARTHEST, min(_FARTHEST, value)))
    return _FARTHEST


_FARTHEST = 10**18 - 1
"""What a cursor can hold."""


def sighting_of(instance: Any, time: Any) -> Sighting | None:
    """None for what is none: nothing covers it."""
    at = moment(time)
    return Sighting(instance, at) if at is not None and isinstance(instance, str) else None


def chain_head(source: Any, number: Any, made: Any, adopted: Any) -> Head | None:
    """None for a record that no chain has."""
    is_well = isinstance(source, str) and is_link(number, made) and type(adopted) is int and 0 <= adopted <= number
    return Head(source, number, made, adopted) if is_well else None


def about(columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> About:
    """Of the values of `chain.COLUMNS` and `chain.ROW`."""
    at = moment(_at(columns, _CHAINED_TIME))
    resource = text_of(_at(rows[0], _RESOURCE)) if rows else None
    return About(text_of(_at(columns, 0)) or "", rfc3339(at) if at else None, resource)


_CHAINED_TIME, _RESOURCE = COLUMNS.index("time"), ROW.index("resource")


def _at(values: Sequence[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def is_link(number: Any, made: Any) -> bool:
    """Whether these are a number and a hash."""
    return type(number) is int and 0 < number < MOST and isinstance(made, bytes) and len(made) == len(START)


def chain_ends(found: Sequence[Sequence[Any]]) -> dict[str, tuple[int, bytes]]:
    """Where a writer goes on, by source. Raises StoreMisconfigured where the store does not tell any more."""
    for source, number, made in found:
        if not is_link(number, made):
            raise StoreMisconfigured(
                f"the store's record of the chain of {text_of(source)} is damaged, so nothing can be written behind "
                "it; sentinelctl audit verify tells more"
            )
    return {source: (number, made) for source, number, made in found}


def last_place(number: Any) -> int:
    """The number of the last row. Raises StoreMisconfigured for one that no store of ours comes to."""
    if type(number) is not int or not -MOST < number < MOST:
        raise StoreMisconfigured(
            f"somebody put an event at row {text_of(number)}, so nothing can be written behind it; "
            "sentinelctl audit verify tells more"
        )
    return number

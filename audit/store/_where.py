"""A `Query` as SQL for the layout of the SQLite store. Values are always bound, names come from the tables below."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.event import storable
from sentinel_core.audit.instants import milliseconds
from sentinel_core.audit.store._case import lower
from sentinel_core.audit.store.contract import Condition, Query

MAX_LIMIT = 10_000
LOWER = "lower_of_any_letter"
"""The function of the connection that is `lower`."""

_OF_CHANGE = {"resource": "c.resource", "field": "c.field", "action": "c.action", "rule": "c.rule"}
_OF_EVENT = {
    "type": "e.type",
    "source": "e.source",
    "environment": "e.environment",
    "app": "e.app",
    "instance": "e.instance",
    "channel": "e.channel",
    "author": "e.author",
    "commit": 'e."commit"',
    "revision": "e.revision",
    "reason": "e.reason",
    "message": "e.message",
    "plan": "e.plan",
    "digest": "e.new_digest",
}
_MAYBE_ALONE = {*_OF_EVENT, "kind"}
"""What an event without changes can meet too."""
_KIND = "coalesce(c.kind, e.subject)"
_FIELD = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_PLACE = ("row_time", "row_event", "row_place")
_MOST_PAIRS = 32
_NUMERIC = {"=", "<", "<=", ">", ">="}


def select(query: Query, columns: str, *, by_arrival: bool = False) -> tuple[str, list[Any]]:
    """Statement and values; rows come newest first or as they arrived, one more than `limit`: the caller sees whether
    more follow."""
    if not 1 <= query.limit <= MAX_LIMIT:
        raise QueryInvalid(f"limit is {query.limit}; a number from 1 to {MAX_LIMIT} is needed")
    parts: list[str] = []
    values: list[Any] = []
    for conditions in [query.conditions] if by_arrival else _by_source(query.conditions):
        part, bound = _select(replace(query, conditions=conditions), columns, by_arrival=by_arrival)
        parts.append(part)
        values += bound
    order = "e.seq, c.place" if by_arrival else "row_time DESC, row_event DESC, row_place DESC"
    return f"{' UNION ALL '.join(parts)} ORDER BY {order} LIMIT {query.limit + 1}", values


def _by_source(conditions: Sequence[Condition]) -> list[tuple[Condition, ...]]:
    """The conditions once for each source and type that they name: an index has the events of each in the order of
    time, and SQLite joins them so. Together they would be sorted, or looked for among all events."""
    named = {each.column: each for each in conditions if each.test == "is" and not each.negated}
    if not {"source", "type"} <= named.keys() or "resource" in named:
        return [tuple(conditions)]
    source, kind_of_event = named["source"], named["type"]
    rest = [each for each in conditions if each is not source and each is not kind_of_event]
    pairs = dict.fromkeys(product(map(_bindable, source.values), map(_bindable, kind_of_event.values)))
    if not 1 <= len(pairs) <= _MOST_PAIRS:
        return [tuple(conditions)]
    return [(Condition("source", "is", (one,)), Condition("type", "is", (other,)), *rest) for one, other in pairs]


def _select(query: Query, columns: str, *, by_arrival: bool) -> tuple[str, list[Any]]:
    tables, place = _tables(query.conditions, by_arrival=by_arrival)
    clauses: list[str] = []
    values: list[Any] = []
    for condition in query.conditions:
        clause, bound = _clause(condition)
        clauses.append(clause)
        values += bound
    for bound_at, sign in ((query.start, ">="), (query.end, "<")):
        if bound_at is not None:
            clauses.append(f"{place[0]} {sign} ?")
            values.append(milliseconds(bound_at))
    if query.after is not None:
        time, event, number = _cursor(query.after)
        if by_arrival:
            clauses += ["e.seq >= ?", f"({', '.join(place[1:])}) > (?, ?)"]
            values += [event, event, number]
        else:
            clauses += [f"{place[0]} <= ?", f"({', '.join(place)}) < (?, ?, ?)"]
            values += [time, time, event, number]
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    told = ", ".join(f"{column} AS {name}" for column, name in zip(place, _PLACE, strict=True))
    return f"SELECT {columns}, {told} FROM {tables}{where}", values  # noqa: S608  names come from this module alone


def _tables(conditions: Sequence[Condition], *, by_arrival: bool) -> tuple[str, tuple[str, str, str]]:
    """Which table leads, and the columns of the order. The lead's index gives the order, so a page reads no more rows
    than it must; CROSS JOIN is how SQLite is told to keep it so. In the order of arrival all pages together are one
    walk through the events."""
    of_change = [
        condition for condition in conditions if not condition.negated and condition.column not in _MAYBE_ALONE
    ]
    if not by_arrival and any(condition.column == "resource" and condition.test == "is" for condition in of_change):
        return "changes c CROSS JOIN events e ON e.seq = c.event", ("c.time", "c.event", "c.place")
    join = "CROSS" if of_change else "LEFT"
    return f"events e {join} JOIN changes c ON c.event = e.seq", ("e.time", "e.seq", "coalesce(c.place, -1)")


MAX_NAMES = 64
_MAX_LOOKED_AT = 2000
_NAMES = f"""
    WITH RECURSIVE names (name, place) AS (
        SELECT min(resource), 1 FROM changes WHERE resource >= ?1 AND resource < ?2
        UNION ALL
        SELECT (SELECT min(resource) FROM changes WHERE resource > name AND resource < ?2), place + 1 FROM names
        WHERE name IS NOT NULL AND place < {_MAX_LOOKED_AT}
    )
    SELECT name, place FROM names WHERE name GLOB ?3 OR (name IS NOT NULL AND place = {_MAX_LOOKED_AT})
    LIMIT {MAX_NAMES + 1}
"""  # noqa: S608  own numbers


def narrowed(query: Query, ask: Callable[[str, list[Any]], list[Any]]) -> Query:
    """The query with resource patterns that few names match replaced by those names: an index leads straight to them,
    while a pattern that many match is best met by walking back in time. Jumps from name to name in the index."""
    return replace(query, conditions=tuple(_by_name(condition, ask) for condition in query.conditions))


def _by_name(condition: Condition, ask: Callable[[str, list[Any]], list[Any]]) -> Condition:
    if condition.column != "resource" or condition.test != "like" or condition.negated:
        return condition
    names: list[str] = []
    for value in condition.values:
        prefix, glob = _pattern(storable(str(value)))
        found = ask(_NAMES, [prefix, f"{prefix}\U0010ffff", glob])
        names += [name for name, _ in found]
        if len(names) > MAX_NAMES or (found and found[-1][1] == _MAX_LOOKED_AT):
            return condition
    return Condition("resource", "is", tuple(names) or ("",))


def _pattern(text: str) -> tuple[str, str]:
    """What a match begins with, and the text as GLOB, in which `*` alone is special."""
    return text.partition("*")[0], "".join(f"[{letter}]" if letter in "[?" else letter for letter in text)


def cursor(time: int, event: int, place: int) -> str:
    """The position of a row, as `Page.next` carries it."""
    return f"{time}.{event}.{place}"


def place_of(after: str) -> int:
    """The event that a position stands at, as the store counts them. Raises QueryInvalid."""
    return _cursor(after)[1]


def mark_of(after: str) -> int:
    """What a position in the order of arrival has in place of a time: the mark of its event. Raises QueryInvalid."""
    return _cursor(after)[0]


def behind(event: int, mark: int) -> str:
    """The position in the order of arrival that all of an event is before."""
    return cursor(mark, event, BEHIND_ALL)


BEHIND_ALL = 10**17
_CURSOR = re.compile(r"(-?\d{1,18})\.(-?\d{1,18})\.(-?\d{1,18})")


def _cursor(text: str) -> tuple[int, int, int]:
    found = _CURSOR.fullmatch(text)
    if not found:
        raise QueryInvalid(f"{text[:40]!r} is not a place in a listing; use the one the page before gave")
    return int(found[1]), int(found[2]), int(found[3])


def _clause(condition: Condition) -> tuple[str, list[Any]]:
    """Any value passes, or with `negated` none does; an absent value passes no test."""
    parts: list[str] = []
    values: list[Any] = []
    for value in condition.values:
        clause, bound = _one(condition, value)
        parts.append(clause)
        values += bound
    joined = f"({' OR '.join(parts)})"
    return (f"NOT coalesce({joined}, 0)" if condition.negated else joined), values


def _one(condition: Condition, value: str | float) -> tuple[str, list[Any]]:
    if condition.test in _NUMERIC:
        return _number(condition.column, condition.test, float(value))
    column = _KIND if condition.column == "kind" else (_OF_CHANGE | _OF_EVENT).get(condition.column)
    if column is None:
        raise QueryInvalid(f"{condition.column!r} cannot be compared with a text")
    text = _bindable(value)
    match condition.test:
        case "is":
            return f"{column} = ?", [text]
        case "starts":
            return f"({column} >= ? AND {column} < ?)", [text, f"{text}\U0010ffff"]
        case "contains":
            function = "lower" if text.isascii() else LOWER  # SQL's own is faster, and knows ASCII
            return f"instr({function}({column}), ?) > 0", [lower(text)]
        case _:
            prefix, glob = _pattern(text)
            return f"({column} >= ? AND {column} < ? AND {column} GLOB ?)", [prefix, f"{prefix}\U0010ffff", glob]


def _bindable(value: str | float) -> str:
    return storable(str(value))


def _number(field: str, test: str, value: float) -> tuple[str, list[Any]]:
    """The field was set to such a number: by a change of it, or within a rule that was added or first seen."""
    if not _FIELD.fullmatch(field):
        raise QueryInvalid(f"{field[:40]!r} is not the name of a field", suggestions=("count>300",))
    is_number = "json_type(c.new{0}) IN ('integer', 'real') AND json_extract(c.new{0}) " + test + " ?"
    whole, inside = is_number.format(", '$'"), is_number.format(", '$.' || ?")
    clause = f"((c.field = ? AND {whole}) OR (c.field IS NULL AND c.action IN ('add', 'seen') AND {inside}))"
    return clause, [field, value, field, field, value]

"""A `Query` for OpenSearch. The server finds events that may hold a row that is asked for, by lists drawn from their
rows; which rows these are is decided here, row by row, with the meaning that conditions have in every store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.event import storable
from sentinel_core.audit.instants import from_milliseconds, milliseconds, rfc3339
from sentinel_core.audit.store._case import lower, pattern
from sentinel_core.audit.store._os_layout import (
    FIELDS,
    HASH,
    LISTS,
    LONG,
    LONGEST,
    NUMBER,
    NUMBERS,
    NUMERIC,
    PLACES,
    finite,
)
from sentinel_core.audit.store._where import MAX_LIMIT
from sentinel_core.audit.store.contract import COLUMNS, Condition, EventHead, Query

_OF_EVENT = {"digest": "new_digest"} | {name: name for name in COLUMNS if name in FIELDS}
"""Columns that one event has one value of; the others are lists."""
_FIELD = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_NUMERIC_TESTS: dict[str, Callable[[float, float], bool]] = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
_RANGES = {"<": "lte", "<=": "lte", ">": "gte", ">=": "gte"}
_LONGEST_PATTERN = 200
ORDER = ("@timestamp", NUMBER, HASH)
_CURSOR = re.compile(r"(-?\d{1,18})\.(\d{1,18})\.([0-9a-f]{64})\.(-?\d{1,9})")

_FIRST_MS, _LAST_MS = map(milliseconds, (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)))

Place = tuple[int, int, str, int]
"""Of a row: time in ms, number and hash of the event, place within it (-1 for an event alone)."""
Matches = Callable[[EventHead, Sequence[Any] | None], bool]


def question(query: Query) -> dict[str, Any]:
    """What the server is asked: events, newest first. Raises QueryInvalid."""
    if not 1 <= query.limit <= MAX_LIMIT:
        raise QueryInvalid(f"limit is {query.limit}; a number from 1 to {MAX_LIMIT} is needed")
    must: list[dict[str, Any]] = []
    must_not: list[dict[str, Any]] = []
    for condition in query.conditions:
        if condition.negated:
            must_not += _excluded(condition)
        elif (clauses := _met(condition)) is not None:
            must.append({"bool": {"should": clauses}})
    last = None if query.after is None else from_milliseconds(place_of(query.after)[0])
    for bound, at in (("gte", query.start), ("lt", query.end), ("lte", last)):
        if at is not None:
            must.append({"range": {"@timestamp": {bound: rfc3339(at)}}})
    return {"bool": {"filter": must, "must_not": must_not}}


def _met(condition: Condition) -> list[dict[str, Any]] | None:
    """Clauses of which an event meets one if any row of it meets the condition; None where all must be looked at."""
    if condition.test in _NUMERIC_TESTS:
        return _numbers(condition)
    name = _name(condition)
    texts = [storable(str(value)) for value in condition.values]
    clauses: list[dict[str, Any]] = [{"term": {LONG: name}}]
    if condition.test == "is":
        return [*clauses, {"terms": {name: texts}}]
    for text in texts:
        if condition.test == "starts":
            clauses.append({"prefix": {name: text[:LONGEST]}})
        elif condition.test == "contains":
            wild = "".join("*" if not letter.isascii() else _literal(letter) for letter in text[:_LONGEST_PATTERN])
            clauses.append({"wildcard": {name: {"value": f"*{wild}*", "case_insensitive": True}}})
        else:
            parts = text[:_LONGEST_PATTERN].split("*")
            more = "*" if len(text) > _LONGEST_PATTERN else ""
            clauses.append({"wildcard": {name: {"value": "*".join(map(_literal, parts)) + more}}})
    return clauses


def _excluded(condition: Condition) -> list[dict[str, Any]]:
    """Only what has one value an event can be left out, and only by a test that the server makes exactly."""
    if condition.column not in _OF_EVENT or condition.test not in {"is", "starts"}:
        matcher(condition)  # raises QueryInvalid for what is none
        return []
    name = _name(condition)
    texts = [storable(str(value)) for value in condition.values]
    if condition.test == "is":
        return [{"terms": {name: texts}}]
    return [{"prefix": {name: text}} for text in texts if len(text) <= LONGEST]


def _numbers(condition: Condition) -> list[dict[str, Any]]:
    field = _field(condition.column)
    if field not in NUMERIC:
        # A change of it, or whole rules that may have it.
        return [{"term": {LISTS["field"]: field}}, {"terms": {LISTS["action"]: ["add", "seen"]}}]
    clauses: list[dict[str, Any]] = []
    for value in condition.values:
        number = finite(float(value))
        bound = _RANGES.get(condition.test)
        if number is None:
            clauses.append({"exists": {"field": f"{NUMBERS}.{field}"}})
        else:
            span = {"gte": number, "lte": number} if bound is None else {bound: number}
            clauses.append({"range": {f"{NUMBERS}.{field}": span}})
    return clauses


def _literal(text: str) -> str:
    return re.sub(r"([*?\\])", r"\\\1", text)


def _name(condition: Condition) -> str:
    column = condition.column
    if column in LISTS:
        return LISTS[column]
    if column not in _OF_EVENT:
        raise QueryInvalid(f"{column!r} cannot be compared with a text")
    return FIELDS[_OF_EVENT[column]]


def _field(name: str) -> str:
    if not _FIELD.fullmatch(name):
        raise QueryInvalid(f"{name[:40]!r} is not the name of a field", suggestions=("count>300",))
    return name


# -- rows --------------------------------------------------------------------------------------------------------------


def matcher(condition: Condition) -> Matches:
    """Any value passes, or with `negated` none does; an absent value passes no test. Raises QueryInvalid."""
    passes = _number_test(condition) if condition.test in _NUMERIC_TESTS else _text_test(condition)
    if condition.negated:
        return lambda head, row: not passes(head, row)
    return passes


def _text_test(condition: Condition) -> Matches:
    _name(condition)
    test = _compared(condition)
    column = condition.column
    if column in _OF_EVENT:
        attribute = _OF_EVENT[column]
        return lambda head, _: test(getattr(head, attribute))
    place = PLACES[column]
    if column == "kind":
        return lambda head, row: test(head.subject if row is None or row[place] is None else row[place])
    return lambda _, row: row is not None and test(row[place])


def _compared(condition: Condition) -> Callable[[str | None], bool]:
    texts = [storable(str(value)) for value in condition.values]
    if condition.test == "is":
        wanted = frozenset(texts)
        return lambda value: value in wanted
    if condition.test == "starts":
        begun = tuple(texts)
        return lambda value: value is not None and value.startswith(begun)
    if condition.test == "contains":
        parts = [lower(text) for text in texts]
        return lambda value: value is not None and any(part in lower(value) for part in parts)
    patterns = [pattern(text) for text in texts]
    return lambda value: value is not None and any(matches(value) for matches in patterns)


def _number_test(condition: Condition) -> Matches:
    field, compare = _field(condition.column), _NUMERIC_TESTS[condition.test]
    wanted = [float(value) for value in condition.values]

    def passes(_: EventHead, row: Sequence[Any] | None) -> bool:
        if row is None or row[8] is None or (row[6] is None and row[2] not in {"add", "seen"}):
            return False
        if row[6] not in (field, None):
            return False
        value = json.loads(row[8])
        for part in field.split(".") if row[6] is None else ():
            value = value.get(part) if isinstance(value, dict) else None
        return type(value) in (int, float) and any(compare(value, number) for number in wanted)

    return passes


# -- places ------------------------------------------------------------------------------------------------------------


def place_of(text: str) -> Place:
    """What `cursor` wrote. Raises QueryInvalid."""
    found = _CURSOR.fullmatch(text)
    if found is None or not _FIRST_MS <= int(found[1]) <= _LAST_MS:
        raise QueryInvalid(f"{text[:40]!r} is not a place in a listing; use the one the page before gave")
    return int(found[1]), int(found[2]), found[3], int(found[4])


def cursor(place: Place) -> str:
    """The position of a row, as `Page.next` carries it."""
    return ".".join(map(str, place))


def event_place(held: Mapping[str, Any], before: tuple[int, int, str]) -> tuple[int, int, str]:
    """Of an event that somebody changed so that it has none, that of the one before it."""
    number, made = held.get(NUMBER), held.get(HASH)
    try:
        time = milliseconds(datetime.fromisoformat(held["@timestamp"]))
    except (ValueError, TypeError, KeyError):
        return before
    return (time, number, made) if type(number) is int and isinstance(made, str) else before


def after(place: Place | None) -> list[Any] | None:
    """From where the server goes on: with the event itself, of which some rows may be left."""
    return [place[0], place[1], f"{place[2]}~"] if place else None


def met_rows(rows: Sequence[Sequence[Any]], head: EventHead, tests: Sequence[Matches]) -> Iterator[tuple[int, Any]]:
    """Rows of one event that meet all conditions, with their places, the last one first."""
    for row in reversed(rows or (None,)):
        if all(test(head, row) for test in tests):
            yield (row[0] if row is not None else -1), row

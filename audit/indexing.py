"""What of an event can be asked for: the same rows in every store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sentinel_core.audit.breaker import BREAKER
from sentinel_core.audit.canonical import read_canonical
from sentinel_core.audit.errors import EventInvalid, EventRefused
from sentinel_core.audit.event import Event, RuleRejected, name_problem, storable
from sentinel_core.audit.instants import milliseconds
from sentinel_core.audit.retention.contract import PURGED


class Indexed(NamedTuple):
    """One row about one rule or field; `old` and `new` are JSON values."""

    action: str
    kind: str | None
    resource: str | None
    rule: str | None
    field: str | None
    old: Any
    new: Any


def row_texts(rows: Iterable[Indexed]) -> list[tuple[str | None, ...]]:
    """Rows as stores keep them, with `old` and `new` as JSON texts."""
    return [
        (action, kind, resource, rule, field, _json(old), _json(new))
        for action, kind, resource, rule, field, old, new in rows
    ]


_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _json(value: Any) -> str | None:
    if value is None:
        return None
    return str(value) if type(value) is int else _JSON(value)


class Columns(NamedTuple):
    """The head of an event as stores keep it: the values of `chain.COLUMNS`."""

    id: str
    source: str
    type: str
    subject: str
    environment: str | None
    app: str | None
    instance: str | None
    channel: str | None
    author: str | None
    commit: str | None
    reason: str | None
    message: str | None
    plan: str | None
    document: str | None
    revision: str | None
    old_digest: str | None
    new_digest: str | None
    rollback_of: str | None
    time: int
    """ms since the epoch."""
    initial: int
    late: int
    observed: int


def read_columns(event: Event) -> tuple[Columns, list[Indexed], bytes]:
    """Columns, rows and canonical data of an event. Raises EventRefused for data that is not what its type promises."""
    if problem := name_problem(event.id, event.source, event.type, event.subject):
        raise EventRefused(event.id, problem)
    try:
        read = event.taken()
        data, canonical = read_canonical(event.data) if read is None else (read, event.data)
        return _columns(event, data), list(_rows(event, data)), canonical
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, EventInvalid) as error:
        raise EventRefused(event.id, f"its data cannot be read: {type(error).__name__}: {error}") from error


_TEXTS = (
    "environment", "app", "instance", "channel", "author", "commitHash", "reason", "message", "planId",
    "revisionSource", "revision", "oldDigest",
)  # fmt: skip
"""Members of the data, in the order in which the columns have them."""
_NAMES = ("kind", "resource", "rule", "field")
"""Those of a change."""
_AUTHOR = _TEXTS.index("author")


def _columns(event: Event, data: dict[str, Any]) -> Columns:
    get = data.get
    texts = [
        value if value is None or (type(value) is str and value.isascii()) else _text(value)
        for value in map(get, _TEXTS)
    ]
    texts[_AUTHOR] = texts[_AUTHOR] or _text(get("publishedBy"))
    texts.append(_text(get("newDigest") or get("contentDigest") or get("digest")))
    texts.append(_text(get("rollbackOf")))
    flags = [int(get(name) is True) for name in ("initial", "late", "observed")]
    return Columns._make((event.id, event.source, event.type, event.subject, *texts, milliseconds(event.time), *flags))


def _rows(event: Event, data: dict[str, Any]) -> Iterator[Indexed]:
    kind = _text(data.get("kind"))
    for change in data.get("changes") or ():
        get = change.get
        texts = [
            value if value is None or (type(value) is str and value.isascii()) else _text(value)
            for value in map(get, _NAMES)
        ]
        texts[0] = texts[0] or kind
        yield Indexed._make((_text(change["action"]) or "", *texts, get("old"), get("new")))
    if data.get("initial") is True:
        for rule in data.get("newRules") or ():
            resource = _text(rule.get("resource"))
            path = f"{kind}/{resource}/{rule.get('bizMetricType') or rule.get('limitApp', 'default')}"
            yield Indexed("seen", kind, resource, storable(path), None, None, rule)
    if event.type.startswith(BREAKER):
        moved = (_text(data.get("resource")), _text(data.get("rule")))
        yield Indexed("moved", kind, *moved, "state", data.get("before"), data.get("after"))
    if event.type == PURGED:
        yield Indexed("purged", None, None, None, "events", None, data.get("events"))
    if event.type == RuleRejected.TYPE:
        for problem in data.get("problems") or ():
            if problem.get("severity") == "error":
                told = {name: problem.get(name) for name in ("code", "message", "file", "line", "column")}
                where = (_text(problem.get("kind")), _text(problem.get("resource")))
                yield Indexed("rejected", *where, _text(problem.get("path")), _text(problem.get("field")), None, told)


def _text(value: Any) -> str | None:
    """As a text that any store can hold; another type as its JSON."""
    if value is None or (type(value) is str and value.isascii()):
        return value
    return storable(value if isinstance(value, str) else json.dumps(value))

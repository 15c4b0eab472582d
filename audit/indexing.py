"""What of an event can be asked for: the same rows in every store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sentinel_core.audit.breaker import BREAKER
from sentinel_core.audit.canonical import read_canonical
from sentinel_core.audit.errors import EventInvalid, EventRefused
from sentinel_core.audit.events import Event, RuleRejected, storable
from sentinel_core.audit.retention.record import PURGED
from sentinel_core.audit.store.contract import EventHead


class Indexed(NamedTuple):
    """One row about one rule or field; `old` and `new` are JSON values."""

    action: str
    kind: str | None
    resource: str | None
    rule: str | None
    field: str | None
    old: Any
    new: Any


def read_event(event: Event) -> tuple[EventHead, list[Indexed], bytes]:
    """Head, rows and canonical data of an event. Raises EventRefused where its data is not what its type promises."""
    try:
        data, canonical = read_canonical(event.data)
        return _head(event, data), list(_rows(event, data)), canonical
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, EventInvalid) as error:
        raise EventRefused(event.id, f"its data cannot be read: {type(error).__name__}: {error}") from error


_TEXTS = (
    "environment", "app", "instance", "channel", "author", "commitHash", "reason", "message", "planId",
    "revisionSource", "revision", "oldDigest",
)  # fmt: skip
"""Members of the data, in the order in which a head has them."""
_AUTHOR = _TEXTS.index("author")


def _head(event: Event, data: dict[str, Any]) -> EventHead:
    values: list[Any] = [
        value if value is None or (type(value) is str and value.isascii()) else _text(value)
        for value in map(data.get, _TEXTS)
    ]
    values[_AUTHOR] = values[_AUTHOR] or _text(data.get("publishedBy"))
    values.append(_text(data.get("newDigest") or data.get("contentDigest") or data.get("digest")))
    values.append(_text(data.get("rollbackOf")))
    values += [data.get(name) is True for name in ("initial", "late", "observed")]
    return EventHead(event.id, event.source, event.type, event.subject, event.time, *values)


def _rows(event: Event, data: dict[str, Any]) -> Iterator[Indexed]:
    kind = _text(data.get("kind"))
    for change in data.get("changes") or ():
        yield Indexed(
            str(change["action"]),
            _text(change.get("kind")) or kind,
            _text(change.get("resource")),
            _text(change.get("rule")),
            _text(change.get("field")),
            change.get("old"),
            change.get("new"),
        )
    if data.get("initial") is True:
        for rule in data.get("newRules") or ():
            resource = _text(rule.get("resource"))
            path = f"{kind}/{resource}/{rule.get('bizMetricType') or rule.get('limitApp', 'default')}"
            yield Indexed("seen", kind, resource, path, None, None, rule)
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

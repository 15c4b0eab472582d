"""What was probably meant, where a resource or a field of a question is not known to the store."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sentinel_core.audit.query.grammar import resource_condition
from sentinel_core.audit.store.contract import AuditStore, Condition, Query, Row

MOST_ROWS = 2000
"""Newest rows that are looked at, with the beginning of the name and then with any; an older name is not found."""
_BEGINNING = 3
_HINTS = 3


@dataclass(frozen=True, slots=True)
class Near:
    """Known names close to one that is not known; empty where none is close."""

    what: Literal["resource", "field"]
    asked: str
    known: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "asked": self.asked, "known": list(self.known)}


def near(
    store: AuditStore, resource: str, field: str | None = None, conditions: tuple[Condition, ...] = ()
) -> Near | None:
    """None where the store knows the resource, and the field of it that was asked for. Raises StoreUnavailable.

    At most three queries of MOST_ROWS rows.
    """
    rows = _newest(store, resource_condition(resource), *conditions)
    if not rows:
        begun = Condition("resource", "like", (f"{resource.replace('*', '')[:_BEGINNING]}*",))
        seen = [*_newest(store, begun, *conditions), *_newest(store, *conditions)]
        return Near("resource", resource, _close(resource, (row.resource for row in seen if row.resource)))
    if field is None:
        return None
    fields = {name for row in rows for name in _fields_of(row)}
    if any(name == field or name.startswith(f"{field}.") for name in fields):
        return None
    return Near("field", field, _close(field, fields))


def has_field(row: Row, field: str) -> bool:
    """Whether a whole rule that came, went or stood there had a field; True where the rule is not told."""
    rules = [rule for rule in (row.old, row.new) if isinstance(rule, dict)]
    return not rules or any(field.partition(".")[0] in rule for rule in rules)


def _fields_of(row: Row) -> Iterable[str]:
    if row.field is not None:
        return (row.field,)
    return [name for rule in (row.old, row.new) if isinstance(rule, dict) for name in rule]


def _newest(store: AuditStore, *conditions: Condition) -> tuple[Row, ...]:
    return store.query(Query(conditions, None, None, MOST_ROWS)).rows


def _close(name: str, known: Iterable[str]) -> tuple[str, ...]:
    spelled = {each.lower(): each for each in known}
    return tuple(spelled[each] for each in difflib.get_close_matches(name.lower(), spelled, n=_HINTS))

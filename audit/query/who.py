"""Who changed this resource, when, how, why, and what else came with it: the question the whole plane exists for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.query.grammar import resource_condition
from sentinel_core.audit.query.interval import Interval
from sentinel_core.audit.query.near import Near, has_field, near
from sentinel_core.audit.store.contract import AuditStore, Condition, EventHead, Query, Row

FORMAT_VERSION = 1
MAX_CHANGES = 200
MAX_RELATED = 50
_PAGE = 500
_FEW = 10


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of one rule, or a whole rule that came or went."""

    action: str
    kind: str | None
    resource: str | None
    rule: str | None
    field: str | None
    old: Any
    new: Any

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Seen:
    """Which instances told of a change."""

    instances: tuple[str, ...]
    first: datetime | None
    last: datetime | None

    @property
    def spread(self) -> timedelta:
        """From the first instance to the last."""
        return self.last - self.first if self.first and self.last else timedelta()

    def to_json(self) -> dict[str, Any]:
        return {
            "instances": list(self.instances),
            "first": self.first and rfc3339(self.first),
            "last": self.last and rfc3339(self.last),
        }


@dataclass(frozen=True, slots=True)
class Blame:
    """What one event did to the resource."""

    event: EventHead
    """When, who, channel, commit, reason, message, plan and revision."""
    changes: tuple[FieldChange, ...]
    together: tuple[FieldChange, ...]
    """What else the same revision, commit or plan changed, of any kind; at most MAX_RELATED."""
    together_total: int
    """How many there are, as far as the store's `related` counts."""
    seen: Seen
    undoes: datetime | None
    """For a rollback: when the rules that it replaced took effect, if that is known."""
    beside: tuple[EventHead, ...] = ()
    """The events that `together` is of."""

    @property
    def time(self) -> datetime:
        return self.event.time

    @property
    def kind(self) -> str:
        """Of the rules that changed."""
        return self.changes[0].kind or "" if self.changes else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "event": self.event.to_json(),
            "changes": [change.to_json() for change in self.changes],
            "together": [change.to_json() for change in self.together],
            "togetherTotal": self.together_total,
            "seen": self.seen.to_json(),
            "undoes": self.undoes and rfc3339(self.undoes),
        }


@dataclass(frozen=True, slots=True)
class Rejection:
    """A revision that was refused because of a rule of the resource; it changed nothing."""

    event: EventHead
    problem: FieldChange

    @property
    def kind(self) -> str:
        """Of the rule that was refused."""
        return self.problem.kind or ""

    def to_json(self) -> dict[str, Any]:
        return {"event": self.event.to_json(), "problem": self.problem.to_json()}


@dataclass(frozen=True, slots=True)
class Answer:
    """The story of a resource in a window, oldest first."""

    resource: str
    field: str | None
    interval: Interval
    changes: tuple[Blame, ...]
    rejections: tuple[Rejection, ...]
    baseline: tuple[Blame, ...]
    """Rules that stood there when an instance first looked: nobody is known to have made them in the window."""
    before: Blame | None
    """Where nothing changed: the last change, or first sight, before the window."""
    truncated: bool
    """There is more than MAX_CHANGES; narrow the window."""
    unknown: Near | None = None
    """Where nothing at all is told: the resource or field that no event of any time names, and what is near it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "formatVersion": FORMAT_VERSION,
            "resource": self.resource,
            "field": self.field,
            "interval": self.interval.to_json(),
            "changes": [blame.to_json() for blame in self.changes],
            "rejections": [rejection.to_json() for rejection in self.rejections],
            "baseline": [blame.to_json() for blame in self.baseline],
            "before": self.before and self.before.to_json(),
            "truncated": self.truncated,
            "unknown": self.unknown and self.unknown.to_json(),
        }


def who(
    store: AuditStore,
    resource: str,
    *,
    interval: Interval,
    field: str | None = None,
    conditions: tuple[Condition, ...] = (),
) -> Answer:
    """`resource` may hold `*`; with `field`, whole rules that came or went count too, as the field went with them.

    `conditions` narrow further (environment, app). Raises StoreUnavailable, QueryInvalid.
    """
    all_conditions = (resource_condition(resource), *conditions)
    rows: list[Row] = []
    truncated = False
    for row in _rows(store, Query(all_conditions, interval.start, interval.end, _PAGE)):
        if not _is_about(row, field):
            continue
        if len(rows) == MAX_CHANGES:
            truncated = True
            break
        rows.append(row)
    rows.reverse()
    changed = [row for row in rows if row.action not in {"seen", "rejected"}]
    answer = Answer(
        resource=resource,
        field=field,
        interval=interval,
        changes=_blames(store, changed),
        rejections=tuple(Rejection(row.event, _field_change(row)) for row in rows if row.action == "rejected"),
        baseline=_blames(store, [row for row in rows if row.action == "seen"]),
        before=None if changed else _before(store, all_conditions, interval, field),
        truncated=truncated,
    )
    if rows or answer.before:
        return answer
    return replace(answer, unknown=near(store, resource, field, conditions))


def blame_of(store: AuditStore, head: EventHead, changes: Sequence[FieldChange]) -> Blame:
    """What one event did, by its own changes. Raises StoreUnavailable."""
    whole = changes or (FieldChange("", None, None, None, None, None, None),)
    return _blame(store, [Row(head, *(getattr(each, name) for name in each.__slots__)) for each in whole])


def _rows(store: AuditStore, query: Query) -> Iterator[Row]:
    while True:
        page = store.query(query)
        yield from page.rows
        if page.next is None:
            return
        query = Query(query.conditions, query.start, query.end, query.limit, page.next)


def _is_about(row: Row, field: str | None) -> bool:
    if field is None:
        return True
    if row.field is None:
        return row.action == "rejected" or has_field(row, field)
    return row.field == field or row.field.startswith(f"{field}.")


def _before(
    store: AuditStore, conditions: tuple[Condition, ...], interval: Interval, field: str | None
) -> Blame | None:
    not_rejected = Condition("action", "is", ("rejected",), negated=True)
    rows = _rows(store, Query((*conditions, not_rejected), None, interval.start, _FEW))
    last = next((row for row in islice(rows, _PAGE) if _is_about(row, field)), None)
    return _blame(store, [last]) if last else None


def _blames(store: AuditStore, rows: list[Row]) -> tuple[Blame, ...]:
    by_event: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_event.setdefault((row.event.id, row.event.source), []).append(row)
    return tuple(_blame(store, group) for group in by_event.values())


def _blame(store: AuditStore, rows: list[Row]) -> Blame:
    head = rows[0].event
    own = tuple(_field_change(row) for row in rows)
    rows_beside = [] if head.initial else [row for row in store.related(head) if _is_beside(row, head)]
    rows_beside = [row for row in rows_beside if _field_change(row) not in own]
    others = [_field_change(row) for row in rows_beside]
    beside = tuple({(row.event.id, row.event.source): row.event for row in rows_beside[:MAX_RELATED]}.values())
    sightings = store.sightings(head)
    seen = Seen(
        tuple(sighting.instance for sighting in sightings),
        sightings[0].time if sightings else None,
        sightings[-1].time if sightings else None,
    )
    return Blame(head, own, tuple(others[:MAX_RELATED]), len(others), seen, _undone(store, head), beside)


def _is_beside(row: Row, head: EventHead) -> bool:
    """Of another kind or store: what the same commit did to this one at another time, as when it was published again
    over an edit, did not come with it."""
    return row.event.id == head.id or row.event.source != head.source


def _undone(store: AuditStore, head: EventHead) -> datetime | None:
    """When the rules that a rollback replaced were activated: what it undoes in effect, whatever was refused since."""
    if head.rollback_of is None or head.old_digest is None:
        return None
    wanted = {"type": head.type, "source": head.source, "digest": head.old_digest}
    conditions = tuple(Condition(column, "is", (value,)) for column, value in wanted.items())
    page = store.query(Query(conditions, None, head.time, 1))
    return page.rows[0].event.time if page.rows else None


def _field_change(row: Row) -> FieldChange:
    return FieldChange(row.action, row.kind, row.resource, row.rule, row.field, row.old, row.new)

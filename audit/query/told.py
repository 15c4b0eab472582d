"""The revisions of a source as events tell them: also of a time that the source itself remembers no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sentinel_core.audit.event import RuleApplied, RuleChanged, RuleRejected
from sentinel_core.audit.store.contract import AuditStore, Condition, EventHead, Page, Query
from sentinel_core.rules import Kind

MOST_ROWS = 500_000
"""Rows of changes that are walked through, newest first; what is older is not told."""
_PAGE = 5000


@dataclass(frozen=True, slots=True)
class Told:
    """One revision in which rules changed, with an event for each kind that did."""

    version: str
    time: datetime
    """When the first instance told of it, by its clock."""
    heads: Mapping[Kind, EventHead]


@dataclass(frozen=True, slots=True)
class Ran:
    """Who ran a revision, and who refused it."""

    instances: tuple[str, ...] = ()
    first: datetime | None = None
    """When the first of them had it active, by its clock."""
    last: datetime | None = None
    """When the last one had."""
    rejected: tuple[str, ...] = ()
    rejected_at: datetime | None = None
    """When the first of those refused it."""


def told(store: AuditStore, sources: Sequence[str]) -> list[Told]:
    """Oldest first. `sources`: those that change events of one item may carry. Raises StoreUnavailable."""
    found: dict[str, list[EventHead]] = {}
    for page in _pages(store, _conditions(type=(RuleChanged.TYPE,), source=sources), MOST_ROWS):
        for head in {(row.event.id, row.event.source): row.event for row in page.rows}.values():
            if head.revision:
                found.setdefault(head.revision, []).append(head)
    in_time = sorted(found.items(), key=lambda each: min(head.time for head in each[1]))
    stands: dict[Kind, str | None] = {}
    result = []
    for version, heads in in_time:
        chosen = _chosen(heads, stands)
        stands |= {kind: head.new_digest for kind, head in chosen.items()}
        result.append(Told(version, min(head.time for head in heads), chosen))
    return result


def _chosen(heads: Sequence[EventHead], stands: Mapping[Kind, str | None]) -> dict[Kind, EventHead]:
    """Of each kind the event that starts from what stood before: others are of instances that were away meanwhile, or
    looked for the first time."""

    def worth(head: EventHead) -> tuple[bool, bool]:
        return head.old_digest == stands.get(head.subject) and not head.initial, not head.initial

    by_kind: dict[Kind, EventHead] = {}
    for head in sorted(heads, key=lambda head: head.time):
        before = by_kind.get(head.subject)
        if before is None or worth(head) > worth(before):
            by_kind[head.subject] = head
    return by_kind


def ran(store: AuditStore, item: str, sources: Sequence[str], versions: Sequence[str]) -> dict[str, Ran]:
    """Of each version that somebody ran or refused. `item`: the source of the item without a kind. Raises
    StoreUnavailable."""
    if not versions:
        return {}
    applied: dict[str, dict[str, datetime]] = {}
    asked = _conditions(type=(RuleApplied.TYPE,), source=sources, revision=versions)
    for page in _pages(store, asked, MOST_ROWS):
        for head in (row.event for row in page.rows):
            if head.revision and head.instance:
                applied.setdefault(head.revision, {})[head.instance] = head.time  # newest first: the earliest stays
    rejected: dict[str, dict[str, datetime]] = {}
    asked = _conditions(type=(RuleRejected.TYPE,), source=(item,), revision=versions)
    for page in _pages(store, asked, MOST_ROWS):
        for head in {row.event.id: row.event for row in page.rows}.values():
            refused = rejected.setdefault(head.revision or "", {})
            for sighting in store.sightings(head):
                refused[sighting.instance] = min(sighting.time, refused.get(sighting.instance, sighting.time))
    return {version: _ran(applied.get(version, {}), rejected.get(version, {})) for version in applied.keys() | rejected}


def _ran(applied: Mapping[str, datetime], rejected: Mapping[str, datetime]) -> Ran:
    times = applied.values()
    return Ran(
        tuple(sorted(applied)),
        min(times, default=None),
        max(times, default=None),
        tuple(sorted(rejected)),
        min(rejected.values(), default=None),
    )


def _conditions(**wanted: Sequence[str]) -> tuple[Condition, ...]:
    return tuple(Condition(column, "is", tuple(values)) for column, values in wanted.items())


def _pages(store: AuditStore, conditions: tuple[Condition, ...], most: int) -> Iterable[Page]:
    after, left = None, most
    while left > 0:
        page = store.query(Query(conditions, None, None, min(_PAGE, left), after))
        yield page
        after, left = page.next, left - _PAGE
        if after is None:
            return

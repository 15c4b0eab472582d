"""Changes that a question up to now leaves out for their time: of a clock that is wrong, or made so by somebody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sentinel_core.audit.query.grammar import resource_condition
from sentinel_core.audit.query.interval import Interval
from sentinel_core.audit.store.contract import AuditStore, Condition, EventHead, Query

MOST = 100
_SOON = timedelta(seconds=2)
"""What happens while somebody asks, and clocks that are nearly right."""


def outside(
    store: AuditStore, resource: str, interval: Interval, *, now: datetime, first: datetime,
    conditions: tuple[Condition, ...] = (),
) -> tuple[Sequence[EventHead], Sequence[EventHead]]:  # fmt: skip
    """Events of the resource dated before `first`, if the window reaches back to it, and after now, if it reaches up to
    it: the newest MOST of each. Raises StoreUnavailable, QueryInvalid."""
    asked = Query((resource_condition(resource), *conditions), limit=MOST)
    past = _events(store, replace(asked, end=interval.start)) if interval.start <= first else ()
    future = _events(store, replace(asked, start=interval.end + _SOON)) if interval.end >= now else ()
    return past, future


def _events(store: AuditStore, query: Query) -> Sequence[EventHead]:
    return list({(row.event.id, row.event.source): row.event for row in store.query(query).rows}.values())

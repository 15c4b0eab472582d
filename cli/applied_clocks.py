"""Clocks of instances, on whatever machine, from what they told the audit store: who ran a revision before it was
published, by the times of both, has a clock that is behind the publisher's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from sentinel_core.audit.errors import AuditError
from sentinel_core.audit.event import RuleApplied
from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import ArrivalStore, Condition, Query
from sentinel_core.cli.bounded import Bounded
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.moments import age, utc_now
from sentinel_core.cli.troubles.clocks import MOST_SKEW_S, MOVES, UNAFFECTED
from sentinel_core.settings import Settings

NEWEST: Final = 200
"""Words of instances that are looked at."""
MOST_NAMES: Final = 5
LATELY: Final = timedelta(days=1)
_APPLIED: Final = (Condition("type", "is", (RuleApplied.TYPE,)),)


def checks(settings: Settings, limit_s: float) -> Iterator[Check]:
    """A warning where clocks differ by more than matters; nothing where none does, or the store does not answer."""
    found = Bounded(lambda: _asked(settings.audit.store)).result(time.monotonic() + limit_s, {})
    if not found:
        return
    worst = sorted(found, key=lambda name: (-abs(found[name]), name))
    said = [f"{name} is at least {age(abs(found[name]))} {'ahead' if found[name] > 0 else 'behind'}" for name in worst]
    more = [f"and {len(said) - MOST_NAMES} more"] if len(said) > MOST_NAMES else []
    text = f"by their events {', '.join([*said[:MOST_NAMES], *more])}; {UNAFFECTED}; {MOVES}"
    step = "keep the clocks of these instances, and of who publishes, with NTP (chrony)"
    yield Check("clocks", "warn", text, step, facts={"skewSeconds": found, "boundSeconds": MOST_SKEW_S})


def _asked(uri: str) -> dict[str, float]:
    try:
        store = open_store(uri, read_only=True)
        try:
            return differences(store) if isinstance(store, ArrivalStore) else {}
        finally:
            store.close()
    except AuditError:
        return {}  # told with the store


def differences(store: ArrivalStore) -> dict[str, float]:
    """Instance → seconds that its clock is ahead of this machine (negative: behind a publisher), the least that it can
    be, where it is beyond the bound. Raises StoreUnavailable."""
    now, found = utc_now(), dict[str, float]()
    newest = store.query(Query(_APPLIED, start=now - LATELY, limit=NEWEST))
    heads = {row.event.id: row.event for row in newest.rows}
    for event in store.events(list(heads.values())):
        name = str(heads[event.id].instance)
        published = _published(event.data)
        ahead_s = (event.time - now).total_seconds()
        behind_s = (published - event.time).total_seconds() if published is not None else 0.0
        least_s = ahead_s if ahead_s > 0 else -behind_s
        if max(ahead_s, behind_s) > MOST_SKEW_S and abs(least_s) > abs(found.get(name, 0.0)):
            found[name] = round(least_s, 3)
    return found


def _published(data: bytes) -> datetime | None:
    """When the revision was published, or committed; None where that is not told, or is no time."""
    try:
        told = json.loads(data)
        return datetime.fromisoformat(told.get("publishedAt") or told["committedAt"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None

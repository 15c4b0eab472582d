"""How far an answer can be relied on, told in milliseconds: the hashes of the events that it shows, what a checkpoint
says of them, and whether older ones have left the store. The whole chain is walked by `verify.py` alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sentinel_core.audit.chain import LinkedStore
from sentinel_core.audit.errors import EventInvalid
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.retention.contract import PurgingStore
from sentinel_core.audit.store.contract import AuditStore, EventHead

if TYPE_CHECKING:
    from sentinel_core.audit.verify import Promise

MOST_EVENTS = 100
MOST_BYTES = 512 * 1024
"""Of bodies as they lie in the store: what can be hashed within some 30 ms."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Of the events that an answer shows."""

    shown: int
    checked: int
    """The newest of them, whose hashes were computed anew."""
    broken: tuple[str, ...]
    """Ids of those that are not as they were written."""
    covered: int
    """Of the checked ones, those that stand before a checkpoint of their chain."""
    checkpoint: str | None
    """When the oldest of those checkpoints was made, RFC 3339. Its signature was not verified."""
    purged_before: datetime | None
    """Older events have left the store."""

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return {
            "shown": self.shown,
            "checked": self.checked,
            "broken": list(self.broken),
            "covered": self.covered,
            "checkpoint": self.checkpoint,
            "purgedBefore": self.purged_before and rfc3339(self.purged_before),
        }


def standing(store: AuditStore, shown: Iterable[EventHead], checkpoints: Mapping[str, Promise]) -> Standing | None:
    """None for a store that keeps no chains. `checkpoints`: the newest of each source. Raises StoreUnavailable."""
    if not isinstance(store, LinkedStore):
        return None
    heads = sorted({(head.id, head.source): head for head in shown}.values(), key=lambda head: head.time, reverse=True)
    links = store.links(heads[:MOST_EVENTS], most_bytes=MOST_BYTES)
    broken: list[str] = []
    covering: list[str] = []
    for event in links:
        promise = checkpoints.get(event.source)
        same = promise is None or promise.number != event.number or promise.hash == event.hash
        if not (event.is_whole() and same):
            broken.append(str(event.columns[0]))
        elif promise is not None and promise.number >= event.number:
            covering.append(promise.time)
    gone = _purged_before(store)
    return Standing(len(heads), len(links), tuple(broken), len(covering), min(covering) if covering else None, gone)


def _purged_before(store: AuditStore) -> datetime | None:
    event = store.last_purge() if isinstance(store, PurgingStore) else None
    if event is None:
        return None
    from sentinel_core.audit.retention.record import read_record

    with suppress(EventInvalid):  # `verify` tells of it
        return read_record(event).before
    return None

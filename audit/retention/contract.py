"""What a store must do so that old events can leave it. Only stores that keep chains can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from sentinel_core.audit.chain import ChainedStore, Linked
from sentinel_core.audit.event import Event
from sentinel_core.audit.store.contract import AuditStore

PURGED = "sentinel.audit.purged.v1"
"""The type of the event that tells of a purge."""
Ends = Mapping[str, int]
"""The number of the last event that is meant, by source."""


OVERTAKEN = "another purge of this store has been recorded meanwhile; this one removed nothing"
"""What `record_purge` says of the second of two."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The first event of a chain that is too young to leave, where older ones stand behind it and so must wait."""

    source: str
    number: int
    time: datetime
    waiting: int
    """How many those are."""


@dataclass(frozen=True, slots=True)
class Expired:
    """What is old enough to leave a store."""

    ends: Ends
    """How far each chain consists of old events alone."""
    holders: Sequence[Holder]
    """Where that is not as far as there are old events."""


@runtime_checkable
class PurgingStore(AuditStore, ChainedStore, Protocol):
    """Methods block and raise StoreUnavailable."""

    def last_purge(self) -> Event | None:
        """The newest event that `record_purge` took, at once."""

    def record_purge(self, event: Event, *, after: Event | None) -> None:
        """Takes an event of type PURGED as the record that counts. Raises PurgeFailed where `after` is not the last
        one any more."""

    def expired(self, before: datetime, *, future: datetime | None = None) -> Expired:
        """How far each chain consists of events of before that time. Those of `future` or later hold nothing back
        where that is given: they count as old where an old one stands behind them."""

    def linked(self, ends: Ends) -> Iterator[Linked]:
        """The events up to those ends, those of a source in the order of their numbers, read page by page."""

    def remove(self, ends: Ends) -> Iterator[int]:
        """Takes the same events away, in short steps, and tells after each how many those were. At any moment the rest
        of a source has no gap. Their ids stay known: an event that comes again is no new one."""

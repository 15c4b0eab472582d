"""What a store must do so that old events can leave it. Only stores that keep chains can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

from sentinel_core.audit.chain import ChainedStore, Linked
from sentinel_core.audit.event import Event
from sentinel_core.audit.store.contract import AuditStore

Ends = Mapping[str, int]
"""The number of the last event that is meant, by source."""


@runtime_checkable
class PurgingStore(AuditStore, ChainedStore, Protocol):
    """Methods block and raise StoreUnavailable."""

    def last_purge(self) -> Event | None:
        """The newest event that `record_purge` took, at once."""

    def record_purge(self, event: Event, *, after: Event | None) -> None:
        """Takes an event of type PURGED as the record that counts. Raises PurgeFailed where `after` is not the last
        one any more."""

    def expired(self, before: datetime) -> Ends:
        """How far each chain consists of events of before that time alone."""

    def linked(self, ends: Ends) -> Iterator[Linked]:
        """The events up to those ends, in the order of arrival; each page is a transaction of its own."""

    def remove(self, ends: Ends) -> Iterator[int]:
        """Takes the same events away, in short transactions, and tells after each how many those were. Their ids stay
        known: an event that comes again is no new one."""

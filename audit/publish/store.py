"""The embedded default: events go from the outbox straight into the audit store of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from sentinel_core.audit.each import ingest_each
from sentinel_core.audit.errors import EventRefused, PublisherUnavailable, StoreUnavailable
from sentinel_core.audit.event import Event
from sentinel_core.audit.store.contract import AuditStore


class StorePublisher:
    """A batch is one ingest; acknowledged when the store's transaction is durable. Of a batch with an event that is
    refused, those before it are acknowledged; the others come again and are known."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
        try:
            done = ingest_each(self._store, batch)
        except StoreUnavailable as error:
            raise PublisherUnavailable(str(error)) from error
        if not done.refused:
            return batch
        first = min(done.refused, key=attrgetter("place"))
        if first.place:
            return batch[: first.place]
        raise EventRefused(batch[0].id, first.reason, source=batch[0].source)

    def flush(self, timeout_s: float) -> None:
        """An ingest is durable when it returns."""

    def close(self) -> None:
        self._store.close()

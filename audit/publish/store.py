"""The embedded default: events go from the outbox straight into the audit store of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from sentinel_core.audit.errors import PublisherUnavailable, StoreUnavailable
from sentinel_core.audit.event import Event
from sentinel_core.audit.store.contract import AuditStore


class StorePublisher:
    """A batch is one ingest; acknowledged when the store's transaction is durable."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    def publish(self, batch: Sequence[Event]) -> Sequence[str]:
        try:
            self._store.ingest(batch)
        except StoreUnavailable as error:
            raise PublisherUnavailable(str(error)) from error
        return [event.id for event in batch]

    def flush(self, timeout_s: float) -> None:
        """An ingest is durable when it returns."""

    def close(self) -> None:
        self._store.close()

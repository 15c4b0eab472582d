"""What carries events from the outbox to where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sentinel_core.audit.event import Event


class Publisher(Protocol):
    """Three methods, called from one thread at a time. Delivery is at least once; receivers know repeats by
    id and source."""

    def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
        """Those that the receiver has made durable, in any number: the others are sent again, in order.

        Events of one source must arrive in the order of the batch. Bounded by a time-out of the publisher's own.
        Raises PublisherUnavailable (the way is down, try again) or EventRefused (this one will never be taken; with
        its source).
        """

    def flush(self, timeout_s: float) -> None:
        """Waits until nothing is in flight, at most so long."""

    def close(self) -> None:
        """Releases what is held. Idempotent."""

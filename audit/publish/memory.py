"""A publisher that keeps events in a list: for tests and for programs that bring their own delivery."""

from __future__ import annotations

from collections.abc import Sequence

from sentinel_core.audit.errors import EventRefused, PublisherUnavailable
from sentinel_core.audit.event import Event


class MemoryPublisher:
    """Holds each event once; can be told to be down, or to refuse ids."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        """What arrived, repeats left out."""
        self.down = False
        self.refused: set[str] = set()

    def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
        if self.down:
            raise PublisherUnavailable("the receiver is down")
        acknowledged: list[Event] = []
        for event in batch:
            if event.id in self.refused:
                if acknowledged:
                    break
                raise EventRefused(event.id, "told to refuse it", source=event.source)
            if event not in self.events:
                self.events.append(event)
            acknowledged.append(event)
        return acknowledged

    def flush(self, timeout_s: float) -> None:
        """Nothing is ever in flight."""

    def close(self) -> None:
        """Nothing is held."""

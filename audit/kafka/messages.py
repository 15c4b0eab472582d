"""An event as a Kafka message: the CloudEvents binding in structured mode, in one of two topics.

Changes of rules have their source as key and states of instances the instance, so that what belongs together stays in
order. Partitions are found by murmur2 of the key, as Java's client finds them, whoever publishes.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel_core.audit.breaker import BREAKER
from sentinel_core.audit.event import Event, RuleApplied

CONTENT_TYPE = b"application/cloudevents+json; charset=UTF-8"
HEADERS = [("content-type", CONTENT_TYPE)]


@dataclass(frozen=True, slots=True)
class Topics:
    """Names."""

    changes: str = "sentinel.rule-changes"
    """Changed, rejected, rollout."""
    status: str = "sentinel.rule-status"
    """Applied, breakers: much, and of use for days."""

    @property
    def dead_letters(self) -> str:
        """What no store takes, from both, with the reason in a header."""
        return f"{self.changes}.dead-letters"

    def of(self, event: Event) -> str:
        """Where an event goes; one of a type that this version does not know goes to the changes."""
        return self.status if is_status(event) else self.changes


def is_status(event: Event) -> bool:
    """Whether it tells of one instance, and not of rules."""
    return event.type == RuleApplied.TYPE or event.type.startswith(BREAKER)


def key_of(event: Event) -> bytes:
    """What an event stays in order with."""
    if is_status(event):
        instance = event.payload.get("instance")
        if isinstance(instance, str) and instance:
            return instance.encode()
    return event.source.encode()

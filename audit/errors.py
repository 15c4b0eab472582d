"""What the evidence plane raises.

AuditError
├── SinkUnavailable       an event could not be made durable here (disk full, file locked or damaged)
├── PublisherUnavailable  the way to the store is down; the same batch is tried again
│   ├── PublisherDenied         it is there and does not let this user
│   └── PublisherMisconfigured  it can never be reached as the settings stand
├── EventRefused          this one event will never be taken; it is parked and the line goes on
├── StoreUnavailable      the audit store cannot be opened, read or written now
│   ├── StoreMissing            there is none yet; the first event makes it
│   ├── EventDamaged            this one event cannot be read any more; others can
│   ├── StoreDamaged            it is not what this program wrote: nothing is read or written
│   ├── StoreDenied             it is there and does not let this user
│   └── StoreMisconfigured      it can never be reached as the settings stand
├── EventInvalid          bytes that are not one of our events
├── KeyUnusable           a key to sign or to mask with is none, or its library is not installed
├── LibraryMissing        what was asked for needs an extra that is not installed
├── PurgeFailed           events could not be sealed, so nothing was removed
├── CheckpointsUnusable   the file of checkpoints cannot be read or written
└── QueryInvalid          a question that cannot be understood; says what can be written instead
"""

from __future__ import annotations

from sentinel_core.masking import mask_text


class AuditError(Exception):
    """Root of what this package raises. Messages say where and what to do next, and carry no credentials, even where
    they repeat what somebody sent."""

    def __init__(self, message: str) -> None:
        super().__init__(mask_text(message))


class SinkUnavailable(AuditError):
    """The events are not durable. The caller keeps them, marks them late and tries again."""


class PublisherUnavailable(AuditError):
    """Nothing is wrong with the events: try the same batch again later."""


class PublisherDenied(PublisherUnavailable):
    """The receiver is there, and does not let this user do this."""


class PublisherMisconfigured(PublisherUnavailable):
    """Nothing is tried: a library, a file or a password is missing, or the receiver is not to be trusted."""


class EventRefused(AuditError):
    """The receiver understood and will never take this event."""

    def __init__(self, event_id: str, reason: str, *, source: str | None = None) -> None:
        self.event_id = event_id
        self.source = source
        """Of the event, where another may have the same id."""
        self.reason = mask_text(reason)
        super().__init__(f"event {event_id} is refused: {reason}")


class StoreUnavailable(AuditError):
    """The store cannot answer or take events now."""


class StoreMissing(StoreUnavailable):
    """No event has arrived yet."""


class EventDamaged(StoreUnavailable):
    """Somebody changed what is kept of an event, or a disk did."""


class StoreDamaged(StoreUnavailable):
    """The file is no database any more, or says of itself what is not true: somebody changed it, or a disk did."""


class StoreDenied(StoreUnavailable):
    """The store is there, and does not let this user do this."""


class StoreMisconfigured(StoreUnavailable):
    """The address cannot be meant like this, a file is missing, or what answers is no store or is not to be trusted."""


class EventInvalid(AuditError):
    """Not a CloudEvents 1.0 document of ours."""


class KeyUnusable(AuditError):
    """Messages hold nothing of the key."""


class LibraryMissing(AuditError):
    """The message says what to install."""


class PurgeFailed(AuditError):
    """The store is as it was. What to do next is told by itself."""

    def __init__(self, message: str, *, next_step: str) -> None:
        self.next_step = next_step
        super().__init__(message)


class CheckpointsUnusable(AuditError):
    """The file cannot be read or written."""


class QueryInvalid(AuditError):
    """The text of a question is not understood."""

    def __init__(self, message: str, *, suggestions: tuple[str, ...] = (), next_step: str | None = None) -> None:
        self.next_step = next_step
        """What to type next, where the help on queries does not say it."""
        self.suggestions = suggestions
        """Complete texts that would be understood."""
        hint = f"; write {' or '.join(repr(text) for text in suggestions)}" if suggestions else ""
        super().__init__(message + hint)

"""What an audit store must do. One contract, several back ends; all of them pass the same tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from sentinel_core.audit.event import Event
from sentinel_core.audit.instants import rfc3339

Test = Literal["is", "like", "contains", "starts", "=", "<", "<=", ">", ">="]
"""`is`: equal; `like`: `*` stands for any text; `contains`: anywhere, letter case ignored; the rest compare numbers."""

COLUMNS = (
    "resource", "field", "action", "rule", "kind", "type", "source", "environment", "app", "instance", "channel",
    "author", "commit", "revision", "reason", "message", "plan", "digest",
)  # fmt: skip
"""What can be asked for, besides the numeric value of a rule's field; `digest` is that of the new rules."""

END = "end"
"""As `Query.after` of `ArrivalStore.arrived`: nothing of what is there, all that arrives from now on."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must hold: any of `values` passes `test`, or none does where `negated`."""

    column: str
    """One of COLUMNS, or the field of a rule for the numeric tests (`count > 300`: a change that set it so)."""
    test: Test
    values: tuple[str | float, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class StoreCondition:
    """What a store says of itself when somebody looks. None: it does not tell."""

    server: str | None = None
    """Product and version."""
    clock: datetime | None = None
    """Its own time, aware, as the answer was made."""
    may_write: bool | None = None
    """Whether this caller could write; found out without writing."""
    altered: tuple[str, ...] = ()
    """What of its layout somebody else made or took away, in words."""


@dataclass(frozen=True, slots=True)
class Query:
    """All conditions hold, and `start <= time < end`. Newest first, where nothing else is said."""

    conditions: tuple[Condition, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    limit: int = 50
    """1 to 10,000."""
    after: str | None = None
    """`Page.next` of the page before."""


@dataclass(frozen=True, slots=True)
class EventHead:
    """An event without its rules. Times are aware UTC."""

    id: str
    source: str
    type: str
    subject: str
    time: datetime
    environment: str | None
    app: str | None
    instance: str | None
    channel: str | None
    author: str | None
    commit: str | None
    reason: str | None
    message: str | None
    plan: str | None
    document: str | None
    """The source without a kind: what a revision is counted in."""
    revision: str | None
    old_digest: str | None
    new_digest: str | None
    rollback_of: str | None
    initial: bool
    late: bool
    observed: bool
    damaged: tuple[str, ...] = ()
    """Those of these columns that hold nothing an event can hold, as somebody changed them; they are shown as texts."""

    def to_json(self) -> dict[str, Any]:
        """Every field, times as RFC 3339."""
        return {name: getattr(self, name) for name in self.__slots__} | {
            "time": rfc3339(self.time),
            "damaged": list(self.damaged),
        }


HEAD = tuple(field.name for field in fields(EventHead) if field.name != "damaged")
"""The columns of an event."""


@dataclass(frozen=True, slots=True)
class Row:
    """One change of one field of one rule, or one refused rule, within its event."""

    event: EventHead
    action: str
    """`add`, `remove`, `change`; `seen`: stood there when first looked at; `rejected`; empty for an event alone."""
    kind: str | None
    resource: str | None
    rule: str | None
    field: str | None
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first, and where the next page begins (None at the end)."""

    rows: tuple[Row, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """An event that the store will never take."""

    place: int
    """In its batch, from 0: an id may be that of another event too."""
    reason: str


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a batch."""

    new: int
    duplicate: int
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Sighting:
    """An instance that told of an event, and when it did."""

    instance: str
    time: datetime


class AuditStore(Protocol):
    """All methods are safe from any thread, block, and raise StoreUnavailable."""

    def ingest(self, events: Sequence[Event]) -> Ingested:
        """Durable when it returns; where it raises, none of the batch is, or a repeat stores the rest. An event known
        by (source, id) counts as duplicate and adds only a sighting. Each is judged by itself: one that can never be
        taken is told in `refused` and leaves the others alone."""

    def query(self, query: Query) -> Page:
        """Rows in falling order of (time, arrival). Raises QueryInvalid for a cursor that is none."""

    def get(self, event_id: str, source: str | None = None) -> Event | None:
        """The whole event, by its id or a beginning of it that is unique (8 characters or more); an id that is whole
        goes before those that begin with it. With `source` only the event of this very id."""

    def related(self, head: EventHead, *, limit: int = 200) -> Sequence[Row]:
        """Changes of all kinds by the same revision, commit or plan, the event's own included, oldest first."""

    def sightings(self, head: EventHead) -> Sequence[Sighting]:
        """Which instances told of this event, in order of time."""

    def count(self) -> int:
        """How many events there are, as quick with ten million as with ten; for people, so it may be off by those that
        were taken out in the middle."""

    def close(self) -> None:
        """Idempotent."""


@runtime_checkable
class InspectableStore(Protocol):
    """A store that tells more of itself than its events; asked by `sentinelctl doctor`."""

    def inspect(self) -> StoreCondition:
        """Changes nothing; bounded. Raises StoreUnavailable."""


@runtime_checkable
class ArrivalStore(AuditStore, Protocol):
    """A store that knows in which order events came to it, at least those of each source, so that they can be exported
    whole and followed."""

    def arrived(self, query: Query) -> Page:
        """Rows in rising order of arrival, or source by source where that is known of each alone; those of an event
        stand together. `Page.next` is always given, as what arrives later follows; a page of fewer rows than `limit`
        ends with what is there now."""

    def events(self, heads: Sequence[EventHead]) -> Sequence[Event]:
        """The whole events of these heads, in their order; those that are gone or cannot be read are left out."""

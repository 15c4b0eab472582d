"""A fact as it is carried and kept: CloudEvents 1.0, structured JSON. Knows nothing of rules, so that whoever only asks
for evidence loads nothing that reads rules. `sentinel_core.audit.events` makes events of what happened.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Protocol

from sentinel_core.audit.encode import compact_sorted
from sentinel_core.audit.errors import EventInvalid
from sentinel_core.audit.instants import rfc3339, whole_ms

NAMESPACE = uuid.UUID("63eba109-e877-4492-b73b-d0a2ccd1d9c3")
"""Of computed ids."""


@dataclass(frozen=True, slots=True)
class Event:
    """One fact. Unknown types are kept as they are, so that an older reader never loses a newer writer's events."""

    id: str
    source: str
    type: str
    subject: str
    time: datetime
    """Aware UTC, whole milliseconds."""
    data: bytes = field(repr=False)
    """The JSON object of the `data` member; kept as text because 10,000 rules are written once and read rarely."""
    _read: Any = field(default=None, init=False, repr=False, compare=False)

    def taken(self) -> Any:
        """What `parse_event` has read of a small event, for whoever asks first, so that nobody holds on to it: the
        value of `data`, which then is in canonical form. Else None."""
        read = self._read
        object.__setattr__(self, "_read", None)
        return read

    @property
    def payload(self) -> dict[str, Any]:
        """`data`, parsed anew at each call."""
        payload = json.loads(self.data)
        if not isinstance(payload, dict):
            raise EventInvalid(f"event {self.id}: data is not a JSON object")
        return payload

    def to_json(self) -> bytes:
        """The structured CloudEvents document, UTF-8."""
        envelope = {
            "specversion": "1.0",
            "type": self.type,
            "id": self.id,
            "source": self.source,
            "subject": self.subject,
            "time": rfc3339(self.time),
            "datacontenttype": "application/json",
        }
        return splice(envelope, {"data": self.data})

    def as_late(self) -> Event:
        """The same fact, told after it took effect because the outbox could not be written before."""
        return replace(self, data=self.data.replace(b'"late":false', b'"late":true', 1))


@dataclass(frozen=True, slots=True)
class RuleChanged(Event):
    """The rules of one kind became others."""

    TYPE: ClassVar[str] = "sentinel.rules.changed.v1"


@dataclass(frozen=True, slots=True)
class RuleRejected(Event):
    """A revision was refused whole; the rules that were active stay."""

    TYPE: ClassVar[str] = "sentinel.rules.rejected.v1"


@dataclass(frozen=True, slots=True)
class RuleApplied(Event):
    """One instance runs one digest."""

    TYPE: ClassVar[str] = "sentinel.rules.applied.v1"


class EventSink(Protocol):
    """Where the engine puts events before a swap is acknowledged."""

    def append(self, events: Sequence[Event]) -> None:
        """Returns when all of them are durable, in this order; known ids are left alone.

        Called from subscription threads, never from the path of an entry. Raises SinkUnavailable and nothing else;
        none of the events may then be counted as kept.
        """


def parse_event(content: bytes | str) -> Event:
    """Reads a structured CloudEvents document; data comes in canonical form where that is cheap.

    Raises EventInvalid, and so for all that a store cannot tell apart or hold.
    """
    if len(content) > MAX_BYTES:
        raise EventInvalid(f"longer than {MAX_BYTES >> 20} MiB, which no event is")
    try:
        document, is_plain = _document(content.encode(errors="surrogatepass") if isinstance(content, str) else content)
    except (ValueError, RecursionError) as error:
        raise EventInvalid(f"not a CloudEvents document: {error}") from error
    if not isinstance(document, dict) or document.get("specversion") != "1.0":
        raise EventInvalid('not a CloudEvents document: a JSON object with "specversion": "1.0" is needed')
    attributes = [document.get(name) for name in ("id", "source", "type", "subject", "time")]
    data = document.get("data")
    if not all(isinstance(attribute, str) and attribute for attribute in attributes) or not isinstance(data, dict):
        raise EventInvalid("id, source, type, subject and time must be texts, data an object")
    identity, source, kind_of_event, subject, time = map(str, attributes)
    if problem := name_problem(identity, source, kind_of_event, subject):
        raise EventInvalid(problem)
    try:
        at = whole_ms(datetime.fromisoformat(time))
    except (ValueError, OverflowError) as error:
        raise EventInvalid(f"time is {time[:40]!r}; RFC 3339 with an offset is needed") from error
    try:
        written = compact_sorted(data) if is_plain else dumps(data)
    except (ValueError, RecursionError) as error:
        raise EventInvalid(f"data cannot be kept: {error}") from error
    event = restore_event(identity, source, kind_of_event, subject, at, written)
    if is_plain and len(content) <= _MOST_KEPT:
        object.__setattr__(event, "_read", data)
    return event


MAX_BYTES = 64 * 2**20
"""Of one event as JSON; one of 10,000 rules with both lists has 4 MiB."""
_MOST_KEPT = 16 * 1024
"""Characters: a batch holds a thousand events."""


def _document(content: bytes) -> tuple[Any, bool]:
    """A JSON text as read, and whether the quick encoder writes it in canonical form."""
    from sentinel_core.audit.canonical import Uncommon, read_plain  # whoever only makes events does without it

    try:
        return read_plain(content), True
    except (Uncommon, UnicodeError):
        return json.loads(content), False


def restore_event(identity: str, source: str, kind_of_event: str, subject: str, at: datetime, data: bytes) -> Event:
    """An event from its parts, as the class of its type."""
    return _CLASSES.get(kind_of_event, Event)(identity, source, kind_of_event, subject, whole_ms(at), data)


def name_problem(*names: str) -> str | None:
    """Why texts cannot be what an event is known by; None where they can. Databases cut a text at NUL, and have no
    other way to write half a surrogate pair than one that is the same for all."""
    for name in names:
        if "\0" in name:
            return f"id, source, type and subject must not hold NUL, as {name[:40]!a} does"
        if not name.isascii() and storable(name) != name:
            return f"id, source, type and subject must be whole Unicode, which {name[:40]!a} is not"
    return None


def storable(text: str) -> str:
    """A text that any store can hold: a lone surrogate (bytes of a path that are no UTF-8) becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode()


_CLASSES: dict[str, type[Event]] = {cls.TYPE: cls for cls in (RuleChanged, RuleRejected, RuleApplied)}


def splice(head: dict[str, Any], members: dict[str, bytes]) -> bytes:
    """A JSON object of `head` and members that are JSON already."""
    tail = b"".join(b',"' + name.encode() + b'":' + text for name, text in members.items())
    return dumps(head)[:-1] + tail + b"}"


def dumps(value: Any) -> bytes:
    """JSON in UTF-8, as short as it can be."""
    # A lone surrogate (undecodable author, `\ud800` in a rule) is written as the JSON escape that it is.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", errors="backslashreplace")

"""What happened to rules, as facts: CloudEvents 1.0 (structured JSON) whose ids are computed and not drawn.

The same change seen by every instance of a fleet, or sent again after a crash, has the same id everywhere, so whoever
stores events by (source, id) holds each change once. Nothing here does I/O.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Protocol

from sentinel_core.audit.errors import EventInvalid, SinkUnavailable
from sentinel_core.audit.excerpts import Excerpts
from sentinel_core.audit.instants import milliseconds, rfc3339, whole_ms
from sentinel_core.audit.redact import Masker, mask_problem, needs_masking
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.rules import Problem, Revision, RuleSet, diff_rules
from sentinel_core.rules import RuleRejected as Rejection
from sentinel_core.rules.secrets import mask_text

__all__ = [
    "Event",
    "EventSink",
    "RuleApplied",
    "RuleChanged",
    "RuleRejected",
    "SinkUnavailable",
    "event_source",
    "parse_event",
    "rule_applied",
    "rule_changed",
    "rule_rejected",
]

FORMAT_VERSION = 1
MAX_PROBLEMS = 100
"""Problems that one rejection carries in full; `problemCount` tells how many there were."""
NAMESPACE = uuid.UUID("63eba109-e877-4492-b73b-d0a2ccd1d9c3")


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
        return _splice(envelope, {"data": self.data})

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


def rule_changed(
    *,
    environment: str,
    app: str,
    source: str | None = None,
    old: RuleSet,
    new: RuleSet,
    revision: Revision,
    at: datetime,
    instance: str,
    late: bool = False,
    initial: bool | None = None,
    occurrence: int = 0,
    redaction: Redaction = NONE,
) -> RuleChanged:
    """The change from `old` to `new` that `revision` made, `revision` as delivered (with its texts).

    `source` defaults to `revision.source`; see `event_source`. `initial`: this is the first look at a source, so nobody
    is known to have changed anything; `oldDigest` is null and `changes` empty. By default that is so where `old` is the
    empty set that no source gave; pass False for a kind that is new in a document known before. `occurrence`:
    how often the same step was made before (a branch reset back and forth); each is an event of its own.
    `redaction`: which fields are hidden.
    """
    kind = new.kind
    if initial is None:
        initial = old.revision is None and not old.rules
    old_digest = None if initial else old.digest
    event_from = event_source(revision, kind, source)
    again = (str(occurrence),) if occurrence else ()
    identity = _identity(RuleChanged.TYPE, event_from, kind, old_digest, new.digest, revision.version, *again)
    old_text, new_text, changes, masker = _sides(old, new, Masker(redaction), redaction, initial=initial)
    head = _head(environment, app, instance, revision, at, late=late)
    head |= {
        "ruleId": identity,
        "kind": kind,
        "initial": initial,
        "masked": masker.masked,
        "redacted": sorted(masker.redacted),
        "oldDigest": old_digest,
        "newDigest": new.digest,
        "rollbackOf": _masked(revision.provenance.rollback_of),
    }
    data = _splice(head, {"oldRules": old_text, "newRules": new_text, "changes": changes})
    return RuleChanged(identity, event_from, RuleChanged.TYPE, kind, whole_ms(at), data)


def rule_rejected(
    *,
    environment: str,
    app: str,
    kind_or_subject: str,
    revision: Revision,
    rejection: Rejection,
    at: datetime,
    instance: str,
    late: bool = False,
    redaction: Redaction = NONE,
) -> RuleRejected:
    """The refusal of `revision`; `kind_or_subject` is the kind, or what the document is called."""
    digest = revision.content_digest
    identity = _identity(RuleRejected.TYPE, revision.source, kind_or_subject, digest, revision.version)
    excerpts = Excerpts(revision, redaction)
    problems = [_problem(problem, excerpts, redaction) for problem in rejection.problems[:MAX_PROBLEMS]]
    first = next((problem for problem in problems if problem["severity"] == "error"), problems[0] if problems else {})
    head = _head(environment, app, instance, revision, at, late=late)
    head |= {
        "ruleId": identity,
        "contentDigest": digest,
        "index": first.get("index"),
        "field": first.get("field"),
        "reason": first.get("message"),
        "excerpt": first.get("excerpt"),
        "ruleCount": rejection.total,
        "problemCount": len(rejection.problems),
        "problems": problems,
    }
    source, subject = storable(mask_text(revision.source)), storable(mask_text(kind_or_subject))
    return RuleRejected(identity, source, RuleRejected.TYPE, subject, whole_ms(at), _dumps(head))


def rule_applied(
    *,
    environment: str,
    app: str,
    ruleset: RuleSet,
    revision: Revision,
    at: datetime,
    instance: str,
    activation_ms: float,
) -> RuleApplied:
    """`instance` runs `ruleset`; `activation_ms` is from bytes in hand to the swap."""
    event_from = event_source(revision, ruleset.kind)
    identity = _identity(RuleApplied.TYPE, event_from, ruleset.kind, ruleset.digest, revision.version, instance)
    head = _head(environment, app, instance, revision, at, late=False)
    head |= {"kind": ruleset.kind, "digest": ruleset.digest, "activationMs": activation_ms}
    return RuleApplied(identity, event_from, RuleApplied.TYPE, ruleset.kind, whole_ms(at), _dumps(head))


def event_source(revision: Revision, kind: str, source: str | None = None) -> str:
    """A store's key holds one kind and is the source itself; a document holds several, so each gets `/<kind>`."""
    base = storable(mask_text(source or revision.source))
    is_one_kind = bool(revision.texts) and all(text.format == "json" for text in revision.texts)
    return base if is_one_kind or base.endswith(f"/{kind}") else f"{base}/{kind}"


def parse_event(content: bytes | str) -> Event:
    """Reads a structured CloudEvents document. Raises EventInvalid."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EventInvalid(f"not a CloudEvents document: {error}") from error
    if not isinstance(document, dict) or document.get("specversion") != "1.0":
        raise EventInvalid('not a CloudEvents document: a JSON object with "specversion": "1.0" is needed')
    attributes = [document.get(name) for name in ("id", "source", "type", "subject", "time")]
    data = document.get("data")
    if not all(isinstance(attribute, str) and attribute for attribute in attributes) or not isinstance(data, dict):
        raise EventInvalid("id, source, type, subject and time must be texts, data an object")
    identity, source, kind_of_event, subject, time = (storable(str(attribute)) for attribute in attributes)
    try:
        at = whole_ms(datetime.fromisoformat(time))
    except (ValueError, OverflowError) as error:
        raise EventInvalid(f"time is {time[:40]!r}; RFC 3339 with an offset is needed") from error
    return restore_event(identity, source, kind_of_event, subject, at, _dumps(data))


def restore_event(identity: str, source: str, kind_of_event: str, subject: str, at: datetime, data: bytes) -> Event:
    """An event from its parts, as the class of its type."""
    return _CLASSES.get(kind_of_event, Event)(identity, source, kind_of_event, subject, whole_ms(at), data)


def storable(text: str) -> str:
    """A text that any store can hold: a lone surrogate (bytes of a path that are no UTF-8) becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode()


_CLASSES: dict[str, type[Event]] = {cls.TYPE: cls for cls in (RuleChanged, RuleRejected, RuleApplied)}


def _identity(*parts: str | None) -> str:
    # A JSON array cannot be read in two ways, whatever characters the parts hold.
    return str(uuid.uuid5(NAMESPACE, json.dumps(parts)))


def _head(environment: str, app: str, instance: str, revision: Revision, at: datetime, *, late: bool) -> dict[str, Any]:
    made_by = revision.provenance
    head = {
        "formatVersion": FORMAT_VERSION,
        # First, so that `as_late` never meets a text that only looks like this member.
        "late": late,
        "environment": environment,
        "app": app,
        "instance": instance,
        "timestamp": milliseconds(at),
        "commitHash": made_by.commit_hash,
        "author": made_by.author,
        "committedAt": made_by.committed_at and rfc3339(made_by.committed_at),
        "message": made_by.message,
        "channel": made_by.channel,
        "reason": made_by.reason,
        "planId": made_by.plan_id,
        "publishedBy": made_by.published_by,
        "publishedAt": made_by.published_at and rfc3339(made_by.published_at),
        "revisionSource": revision.source,
        "revision": revision.version,
        "observed": revision.observed,
    }
    return {name: mask_text(value) if isinstance(value, str) else value for name, value in head.items()}


def _sides(
    old: RuleSet, new: RuleSet, masker: Masker, redaction: Redaction, *, initial: bool
) -> tuple[bytes, bytes, bytes, Masker]:
    """Old list, new list and field changes as JSON, and what masked them."""
    changes = [] if initial else [change.to_json() for change in diff_rules(old, new)]
    if not (redaction.chosen or needs_masking(old.rules) or needs_masking(new.rules)):
        return old.canonical, new.canonical, _dumps(changes), masker
    sides = [_dumps(masker.value(json.loads(side.canonical))) for side in (old, new)]
    return sides[0], sides[1], _dumps([masker.change(change, new.kind) for change in changes]), masker


def _problem(problem: Problem, excerpts: Excerpts, redaction: Redaction) -> dict[str, Any]:
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": mask_problem(problem, redaction).message,
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "kind": problem.kind,
        "index": problem.index,
        "resource": _masked(problem.resource),
        "field": problem.field,
        "excerpt": excerpts.of(problem),
    }


def _masked(text: str | None) -> str | None:
    return None if text is None else mask_text(text)


def _splice(head: dict[str, Any], members: dict[str, bytes]) -> bytes:
    """A JSON object of `head` and members that are JSON already."""
    tail = b"".join(b',"' + name.encode() + b'":' + text for name, text in members.items())
    return _dumps(head)[:-1] + tail + b"}"


def _dumps(value: Any) -> bytes:
    # A lone surrogate (undecodable author, `\ud800` in a rule) is written as the JSON escape that it is.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", errors="backslashreplace")

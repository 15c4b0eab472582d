"""What happened to rules, as facts: CloudEvents 1.0 (structured JSON) whose ids are computed and not drawn.

The same change seen by every instance of a fleet, or sent again after a crash, has the same id everywhere, so whoever
stores events by (source, id) holds each change once. Nothing here does I/O.
"""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

from sentinel_core.audit.errors import SinkUnavailable
from sentinel_core.audit.event import (
    NAMESPACE,
    Event,
    EventSink,
    RuleApplied,
    RuleChanged,
    RuleRejected,
    dumps,
    parse_event,
    restore_event,
    splice,
    storable,
)
from sentinel_core.audit.excerpts import Excerpts
from sentinel_core.audit.instants import milliseconds, rfc3339, whole_ms
from sentinel_core.audit.redact import Masker, mask_problem, needs_masking
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.masking import mask_text
from sentinel_core.rules import Problem, Revision, RuleSet, diff_rules
from sentinel_core.rules import RuleRejected as Rejection

__all__ = [
    "Event",
    "EventSink",
    "RuleApplied",
    "RuleChanged",
    "RuleRejected",
    "SinkUnavailable",
    "event_source",
    "parse_event",
    "restore_event",
    "rule_applied",
    "rule_changed",
    "rule_rejected",
    "storable",
]

FORMAT_VERSION = 1
MAX_PROBLEMS = 100
"""Problems that one rejection carries in full; `problemCount` tells how many there were."""


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
    data = splice(head, {"oldRules": old_text, "newRules": new_text, "changes": changes})
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
    return RuleRejected(identity, source, RuleRejected.TYPE, subject, whole_ms(at), dumps(head))


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
    return RuleApplied(identity, event_from, RuleApplied.TYPE, ruleset.kind, whole_ms(at), dumps(head))


def event_source(revision: Revision, kind: str, source: str | None = None) -> str:
    """A store's key holds one kind and is the source itself; a document holds several, so each gets `/<kind>`."""
    base = storable(mask_text(source or revision.source))
    is_one_kind = bool(revision.texts) and all(text.format == "json" for text in revision.texts)
    return base if is_one_kind or base.endswith(f"/{kind}") else f"{base}/{kind}"


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
        return old.canonical, new.canonical, dumps(changes), masker
    sides = [dumps(masker.value(json.loads(side.canonical))) for side in (old, new)]
    return sides[0], sides[1], dumps([masker.change(change, new.kind) for change in changes]), masker


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

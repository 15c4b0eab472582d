"""Provenance as stores keep it beside a content, for those that have no commits: one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sentinel_core.rules import Kind, Provenance, Revision, RuleRejected, SourceText, parse_revision

FORMAT_VERSION = 1
_TEXTS = {
    "commitHash": "commit_hash",
    "author": "author",
    "message": "message",
    "environment": "environment",
    "channel": "channel",
    "reason": "reason",
    "planId": "plan_id",
    "publishedBy": "published_by",
    "previousDigest": "previous_digest",
    "rollbackOf": "rollback_of",
}
_TIMES = {"committedAt": "committed_at", "publishedAt": "published_at"}
_LONGEST = 16 * 1024
"""Characters of a text: what is longer would go into each event and each status."""


def rules_digest(texts: Sequence[SourceText], kind: Kind) -> str | None:
    """SHA-256 (hex) of the canonical rules of one kind; None for a text that holds no valid ones."""
    try:
        found = parse_revision(Revision(tuple(texts), "", ""), (kind,)).get(kind)
    except RuleRejected:
        return None
    return found.digest if found is not None else None


def encode(provenance: Provenance, digest: str | None) -> bytes:
    """`digest` is that of the content beside it (`rules_digest`)."""
    document: dict[str, Any] = {"formatVersion": FORMAT_VERSION, "digest": digest}
    document |= {name: getattr(provenance, field) for name, field in _TEXTS.items()}
    for name, field in _TIMES.items():
        moment: datetime | None = getattr(provenance, field)
        document[name] = moment.isoformat() if moment else None
    # Half a surrogate pair (an argument that is not UTF-8) is written as the JSON escape that it is.
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace")


def decode(content: bytes) -> tuple[Provenance, str | None] | None:
    """The provenance, and the digest that the content beside it must have. None for what is none: whatever somebody
    wrote there, it must not keep rules from being read."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    fields = {field: text for name, field in _TEXTS.items() if (text := _text(document, name)) is not None}
    times = {field: moment for name, field in _TIMES.items() if (moment := _time(document, name)) is not None}
    return Provenance(**fields, **times), _text(document, "digest")  # type: ignore[arg-type]  # by names, each its type


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"


def _time(document: Mapping[str, Any], name: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(document, name) or "")
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # an hour before the year 1 or after 9999, too
        return None

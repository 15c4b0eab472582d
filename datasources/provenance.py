"""Provenance as stores keep it beside a content, for those that have no commits: one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sentinel_core.rules import Kind, Provenance, Revision, RuleRejected, SourceText, parse_revision

FORMAT_VERSION = 1
NAME = "provenance"
"""Of the note that it is, in stores that keep it in one."""
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
_MOST_KINDS = 100


def rules_digest(texts: Sequence[SourceText], kind: Kind) -> str | None:
    """SHA-256 (hex) of the canonical rules of one kind; None for a text that holds no valid ones."""
    return rules_digests(texts, (kind,)).get(kind)


def rules_digests(texts: Sequence[SourceText], kinds: Sequence[Kind]) -> dict[Kind, str]:
    """The same by kind, of those that the texts carry; nothing where they are not valid."""
    try:
        found = parse_revision(Revision(tuple(texts), "", ""), kinds)
    except RuleRejected:
        return {}
    return {kind: rules.digest for kind, rules in found.items()}


def encode(provenance: Provenance, digest: str | None, rules: Mapping[Kind, str] | None = None) -> bytes:
    """`digest` is that of the content beside it (`rules_digest`, for a list); `rules` are those of the rules that it
    holds, for a store that remembers nothing else of them. Texts that are too long are cut."""
    document: dict[str, Any] = {"formatVersion": FORMAT_VERSION, "digest": digest}
    document |= {} if rules is None else {"rules": dict(rules)}
    document |= {name: _cut(getattr(provenance, field)) for name, field in _TEXTS.items()}
    for name, field in _TIMES.items():
        moment: datetime | None = getattr(provenance, field)
        document[name] = moment.isoformat() if moment else None
    # Half a surrogate pair (an argument that is not UTF-8) is written as the JSON escape that it is.
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace")


def decode(content: bytes) -> tuple[Provenance, str | None] | None:
    """The provenance, and the digest that the content beside it must have. None for what is none: whatever somebody
    wrote there, it must not keep rules from being read."""
    document = _document(content)
    if document is None:
        return None
    fields = {field: text for name, field in _TEXTS.items() if (text := _text(document, name)) is not None}
    times = {field: moment for name, field in _TIMES.items() if (moment := _time(document, name)) is not None}
    return Provenance(**fields, **times), _text(document, "digest")  # type: ignore[arg-type]  # by names, each its type


def rules_of(content: bytes) -> dict[Kind, str]:
    """The digests of the rules that were written with it; nothing where it does not tell."""
    rules = (_document(content) or {}).get("rules")
    if not isinstance(rules, dict) or len(rules) > _MOST_KINDS:
        return {}
    return {kind: digest for kind, digest in rules.items() if isinstance(digest, str)}


def _document(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return _cut(value) if isinstance(value, str) and value else None


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _time(document: Mapping[str, Any], name: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(document, name) or "")
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # an hour before the year 1 or after 9999, too
        return None

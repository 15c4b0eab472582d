"""What a source delivered and who made it: the values every plane speaks of. Nothing here parses anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

Kind = str
"""One of `sentinel_core.rules.KINDS`; a plain string, because a new kind is a new file and not an edit of this one."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who made a revision, when and why. All times are aware UTC. Unknown is None, never a guess."""

    commit_hash: str | None = None
    author: str | None = None
    """As Git writes it: `Name <address>`; the operator's name for a console edit."""
    committed_at: datetime | None = None
    message: str | None = field(default=None, repr=False)
    channel: str = "unknown"
    """git, console, cli, api, file or unknown."""
    environment: str | None = None
    reason: str | None = field(default=None, repr=False)
    plan_id: str | None = None
    published_by: str | None = None
    published_at: datetime | None = None
    previous_digest: str | None = None
    rollback_of: str | None = None
    """The revision that this one undoes, in the words of its store (for Git: the full hash)."""
    problem: str | None = field(default=None, repr=False)
    """Why the rest is unknown, where what should tell it cannot be read. Never written beside rules."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """One text of a revision: a file of a folder, or the only value of a key."""

    name: str
    """As messages shall call it, e.g. `sentinel-rules.yaml` or `nacos public/SENTINEL_GROUP/sentinel-flow-rules`."""
    content: bytes = field(repr=False)
    format: str = "yaml"
    """`yaml` or `json`."""


@dataclass(frozen=True, slots=True)
class Revision:
    """Bytes as a source delivered them, plus where they came from."""

    texts: tuple[SourceText, ...]
    source: str
    """CloudEvents `source` without a kind, credentials masked, e.g. `/prod/git/file:///srv/rules.git@main/rules`."""
    version: str
    """The store's own revision: commit, mod revision, `mtime_ns`. Tells A→B today from A→B tomorrow."""
    provenance: Provenance = field(default_factory=Provenance)
    observed: bool = False
    """True where `version` is this host's observation (a file's mtime) and not the store's own number."""

    @property
    def content_digest(self) -> str:
        """SHA-256 (hex) of the raw bytes of all texts, for evidence; equality of rules is `RuleSet.digest`."""
        return content_digest(self.texts)

    def without_content(self) -> Revision:
        """The same identity without the bytes, so that a rule set in memory does not hold its source text."""
        return replace(self, texts=())


def content_digest(texts: Sequence[SourceText]) -> str:
    """SHA-256 (hex) over names and raw bytes, length-prefixed so that moved bytes never give the same digest."""
    hasher = hashlib.sha256()
    for text in texts:
        for part in (text.name.encode(), text.content):
            hasher.update(len(part).to_bytes(8, "big"))
            hasher.update(part)
    return hasher.hexdigest()

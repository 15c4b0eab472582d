"""What a subscription shows of itself: facts, for `status`, metrics and listeners."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sentinel_core.datasources.loop import State
from sentinel_core.rules import Kind


@dataclass(frozen=True, slots=True)
class Counters:
    """Since the start of the subscription."""

    reads: int = 0
    activated: int = 0
    unchanged: int = 0
    """Applied, and found to be the same rules in other bytes."""
    suppressed: int = 0
    """The same bytes again: not applied."""
    rejected: int = 0
    """Refused contents; the same bytes count once."""
    older: int = 0
    """Late deliveries of an older version: dropped."""
    errors: int = 0
    """Failed reads and failed applies."""
    channel_losses: int = 0
    listener_errors: int = 0


@dataclass(frozen=True, slots=True)
class ItemStatus:
    """One item, as it stands now. Times are aware UTC."""

    key: str
    source: str
    kinds: tuple[Kind, ...]
    state: State
    reason: str | None = None
    """Why the state is not READY."""
    version: str | None = None
    """The active revision."""
    content_digest: str | None = None
    commit_hash: str | None = None
    author: str | None = None
    restored: bool = False
    """What is active comes from the last run and was not confirmed by the source yet."""
    since: datetime | None = None
    """When the item came into its state."""
    last_read: datetime | None = None
    """The last time the source answered."""
    last_activation: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    last_good_problem: str | None = None
    """Why the copy on disk is not to be relied on."""
    counters: Counters = field(default_factory=Counters)

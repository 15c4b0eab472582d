"""What a subscription shows of itself: facts, for `status`, metrics and listeners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from sentinel_core.datasources.contract import Item
from sentinel_core.datasources.loop import LoopState, Outcome, State
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
    provenance_problem: str | None = None
    """Why it is not known whose the active revision is."""
    last_good_problem: str | None = None
    """Why the copy on disk is not to be relied on."""
    counters: Counters = field(default_factory=Counters)


class Record:
    """What a worker remembers for its status. Not thread-safe: used under the worker's lock."""

    def __init__(self, item: Item, now: Callable[[], datetime]) -> None:
        self._item = item
        self._now = now
        self._counts: Counter[str] = Counter()
        self._last_read: datetime | None = None
        self._last_activation: datetime | None = None
        self._last_error: tuple[str | None, datetime | None] = (None, None)
        self._since = now()
        self._told: tuple[State, str | None, str | None] = (State.INIT, None, None)
        self.restored = False

    def count(self, what: str, by: int = 1) -> None:
        """`what` is a field of `Counters`."""
        self._counts[what] += by

    def read(self) -> None:
        self._last_read = self._now()

    def applied(self, outcome: Outcome) -> None:
        self.count(outcome.value)
        if outcome is Outcome.ACTIVATED:
            self._last_activation = self._now()

    def error(self, why: str) -> None:
        self.count("errors")
        self._last_error = (why, self._now())

    def is_news(self, loop: LoopState) -> bool:
        """Whether state, reason or version differ from what was told last."""
        return _face(loop) != self._told

    def told(self, loop: LoopState) -> None:
        if loop.state is not self._told[0]:
            self._since = self._now()
        self._told = _face(loop)

    def status(self, loop: LoopState, last_good_problem: str | None) -> ItemStatus:
        cursor = loop.cursor
        return ItemStatus(
            key=self._item.key,
            source=self._item.source,
            kinds=self._item.kinds,
            state=loop.state,
            reason=loop.reason,
            version=cursor.version if cursor else None,
            content_digest=loop.cursor_digest,
            commit_hash=cursor.provenance.commit_hash if cursor else None,
            author=cursor.provenance.author if cursor else None,
            restored=self.restored,
            since=self._since,
            last_read=self._last_read,
            last_activation=self._last_activation,
            last_error=self._last_error[0],
            last_error_at=self._last_error[1],
            provenance_problem=cursor.provenance.problem if cursor else None,
            last_good_problem=last_good_problem,
            counters=Counters(**self._counts),
        )


def _face(loop: LoopState) -> tuple[State, str | None, str | None]:
    return loop.state, loop.reason, loop.cursor.version if loop.cursor else None

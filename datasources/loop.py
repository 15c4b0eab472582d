"""The decisions of the subscription loop, without threads, clocks or I/O.

`LoopState` says three things: when the next read is due, what is to be done with what was read, and what state the item
is in. Times are monotonic seconds and are handed in, so that every decision can be tested without waiting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sentinel_core.datasources.contract import Absent, Reading
from sentinel_core.datasources.names import has_blank
from sentinel_core.rules import Kind, Revision


class State(Enum):
    """How far what is active can be trusted to be what the source holds."""

    READY = "ready"
    INIT = "init"
    """Nothing is active: not read yet, or nothing stands there; waiting for it to be created."""
    STALE = "stale"
    """The last good rules are active; the source is unreachable, or holds something that is not taken."""
    ERROR = "error"
    """A person must act: refused access, a wrong URI, a rewound history, a failing apply, or no good rules at all."""


class Outcome(Enum):
    """What `apply` made of a revision."""

    ACTIVATED = "activated"
    UNCHANGED = "unchanged"
    """Other bytes, the same rules: nothing was swapped, reset or recorded."""


class Applied(NamedTuple):
    """What became of a revision, and the kinds it carried. Rules of other kinds stay on from an older revision."""

    outcome: Outcome
    kinds: frozenset[Kind]


class Verdict(Enum):
    """What is to be done with a reading."""

    APPLY = "apply"
    DUPLICATE = "duplicate"
    """The bytes that are active."""
    REFUSED_BEFORE = "refused-before"
    """The bytes that were refused, unchanged."""
    EMPTY = "empty"
    """Nothing stands there, or only blanks: never a reason to clear rules. `null` or comments alone are the same, but
    only whoever parses them knows."""


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """Timings of the loop, in seconds."""

    debounce_s: float = 0.01
    """From the first hint of a change to the read, so that a burst is read once. A `Prompt` source is read at the first
    hint, and then so much later for those that follow."""
    compare_s: float = 30.0
    """Longest time between two reads, whatever the watch says or does not say."""
    backoff_base_s: float = 0.2
    backoff_cap_s: float = 30.0

    def __post_init__(self) -> None:
        if not (self.debounce_s >= 0 and 0 < self.backoff_base_s <= self.backoff_cap_s and self.compare_s > 0):
            raise ValueError(f"debounce_s must be >= 0, compare_s > 0 and 0 < backoff_base_s <= backoff_cap_s: {self}")

    def backoff(self, failures: int, rng: Callable[[], float], cap_s: float = math.inf) -> float:
        """Doubles per failure up to the lower cap; jitter takes away up to half, so that a fleet does not return at
        once."""
        longest = min(self.backoff_cap_s, cap_s, self.backoff_base_s * 2.0 ** min(failures - 1, 32))
        return longest * (0.5 + 0.5 * rng())


class LoopState:
    """One item's cursor, schedule and state. Not thread-safe: the worker calls it under its lock."""

    def __init__(
        self, options: SubscriptionOptions, rng: Callable[[], float], now: float, retry_cap_s: float = math.inf
    ) -> None:
        """`retry_cap_s`: of a `Prompt` source, else infinite."""
        self._options = options
        self._retry_cap_s = retry_cap_s
        self._prompt = retry_cap_s < math.inf
        self._rng = rng
        self.due = now
        """When the next read is to begin."""
        self.cursor: Revision | None = None
        """The active revision, without content. Moves only after an apply has succeeded."""
        self.cursor_digest: str | None = None
        self.refused_digest: str | None = None
        self.trouble: str | None = None
        """Why the active rules are not what the source holds; None when they are."""
        self.severe = False
        """The trouble needs a person."""
        self.waiting = True
        """Nothing has been there to be applied so far."""
        self.absent = False
        """The source has said that nothing stands there, and nothing ever did."""
        self.channel_trouble: str | None = None
        self._began = now - options.backoff_cap_s
        self._failures = 0
        self._channel_failures = 0
        self._refused_why = ""
        self._refused_is_empty = False

    @property
    def state(self) -> State:
        if self.severe:
            return State.ERROR
        if self.cursor is None:
            return State.INIT if self.waiting else State.ERROR
        return State.STALE if self.trouble or self.channel_trouble else State.READY

    @property
    def reason(self) -> str | None:
        return self.trouble or self.channel_trouble

    # -- schedule ----------------------------------------------------------------------------------------------------

    def hint(self, now: float) -> None:
        """The watch says that something may have changed. While reads or applies fail, hints cannot cut the wait
        below the base delay: a source that hints without end must not make the loop spin."""
        debounce_s = self._options.debounce_s
        earliest = max(now, self._began + debounce_s) if self._prompt else now + debounce_s
        if self._failures:
            earliest = max(earliest, self._began + self._options.backoff_base_s)
        self.due = min(self.due, earliest)

    def force(self, now: float) -> None:
        self.due = min(self.due, now)

    def begin(self, now: float) -> None:
        """A read begins. A hint that comes while it runs makes the next one due."""
        self._began = now
        self.due = now + self._options.compare_s

    # -- judgment ----------------------------------------------------------------------------------------------------

    def judge(self, reading: Reading, digest: str | None) -> Verdict:
        if isinstance(reading, Absent) or digest is None or has_blank(reading.texts):
            return Verdict.EMPTY
        if digest == self.cursor_digest:
            return Verdict.DUPLICATE
        if digest == self.refused_digest:
            return Verdict.REFUSED_BEFORE
        return Verdict.APPLY

    # -- results -----------------------------------------------------------------------------------------------------

    def restored(self, revision: Revision, digest: str) -> None:
        """The last good revision is active; the source has not been asked yet."""
        self._move_cursor(revision, digest)
        self.trouble = "running the rules of the last run; the source has not been read yet"

    def in_sync(self, revision: Revision, digest: str) -> None:
        """What was read is what is active."""
        self._move_cursor(revision, digest)
        self.trouble, self.severe, self.refused_digest, self._failures = None, False, None, 0

    def _move_cursor(self, revision: Revision, digest: str) -> None:
        self.cursor, self.cursor_digest, self.waiting = revision.without_content(), digest, False
        self.absent = False

    def refused(self, digest: str, why: str, *, empty: bool = False) -> None:
        """`empty`: the content says nothing, so it is as if nothing stood there."""
        self.refused_digest, self._refused_why, self._refused_is_empty = digest, why, empty
        self.refused_before()

    def refused_before(self) -> None:
        self.waiting = self.absent = self._refused_is_empty and self.cursor is None
        self.kept(self._refused_why)

    def empty(self, why: str) -> None:
        self.waiting = self.absent = self.cursor is None
        self.kept(why)

    def kept(self, why: str) -> None:
        """The source answered; what it holds is not taken, and asking again sooner would not help."""
        self.trouble, self.severe, self._failures = why, False, 0

    def needs_person(self, why: str) -> None:
        """Asking again sooner would not help, and somebody must act."""
        self.kept(why)
        self.severe, self.waiting = True, False

    def failed(self, why: str, now: float, *, severe: bool = False) -> None:
        """The read or the apply failed and is tried again: the same bytes count as not seen. What the attempt took
        counts as waited, save for a first pause: a store that lets its callers wait is back as soon as any other."""
        self._failures += 1
        self.trouble, self.severe, self.waiting = why, severe, self.absent and not severe
        cap_s = math.inf if severe else self._retry_cap_s
        pause = self._options.backoff(1, self._rng)
        backoff = self._options.backoff(self._failures, self._rng, cap_s)
        self.due = min(self.due, max(now + pause, self._began + backoff))

    def channel_up(self) -> None:
        self.channel_trouble = None

    def channel_lost(self, why: str, now: float, lived_s: float) -> None:
        """The watch ended. Everything is read again before it is set up anew: changes of the gap are not told."""
        if lived_s > self._options.backoff_cap_s:
            self._channel_failures = 0
        self._channel_failures += 1
        self.channel_trouble = why
        self.due = min(self.due, now + self._options.backoff(self._channel_failures, self._rng, self._retry_cap_s))

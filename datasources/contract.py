"""What a datasource must do, and nothing more. The subscription loop does the rest, the same for every store.

    DatasourceError
    ├── SourceUnavailable     not reachable now; the loop backs off and tries again
    ├── SourceDenied          authentication or permission; retried, and shown as ERROR at once
    ├── SourceConflict        a compare-and-set found another revision than the one expected
    └── SourceMisconfigured   cannot work as it is written (bad URI, no such ref); only the periodic compare looks again
        └── SourceRewound     the store's history went back behind what is active; refused until it is allowed

A datasource is not trusted with keeping rules: it reads, it hints, it never decides.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from sentinel_core.rules import Kind, Provenance, Revision, SourceText


class DatasourceError(Exception):
    """Root of what datasources raise. Messages carry the masked source and the next step."""


class SourceUnavailable(DatasourceError):
    """The store cannot be reached or does not answer in time."""


class SourceDenied(DatasourceError):
    """The store refuses this caller."""


class SourceConflict(DatasourceError):
    """Compare-and-set failed: somebody else wrote in between."""


class SourceMisconfigured(DatasourceError):
    """The URI or the store's state cannot work whatever is tried again."""


class SourceRewound(SourceMisconfigured):
    """The store's history no longer holds the active revision (force push, moved tag, reset, restored backup)."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is read and watched as a whole: a document with every kind, or a key that holds one kind."""

    key: str
    """Path, dataId or etcd key."""
    source: str
    """The id that revisions and events carry (see `Revision.source`); masked."""
    kinds: tuple[Kind, ...]
    """The kinds this item may carry."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing stands there: never created, or deleted. Never means "clear the rules"."""

    reason: str
    """`missing` or `deleted`, with the store's words."""
    version: str = ""
    next_step: str = ""
    """What to do about it, where the store knows."""


def note_conflict(item: Item, name: str) -> SourceConflict:
    """Somebody else has written that note."""
    return SourceConflict(f"{item.source}: its note {name} was changed meanwhile; read it again and repeat")


Reading = Revision | Absent


def is_at(reading: Reading, expected: str | None) -> bool:
    """Whether what stands there is the revision that somebody has seen (None: nothing). An observed version is a time
    and, after the last `-`, the beginning of the content's digest: what only looks newer, as after a chmod or a
    touch, is the same."""
    if isinstance(reading, Absent):
        return expected is None
    if reading.observed and expected is not None and "-" in reading.version:
        return reading.version.rpartition("-")[2] == expected.rpartition("-")[2]
    return reading.version == expected


Wake = Callable[[], None]


class StopSignal(threading.Event):
    """Told to a watch that it must end. A watch that blocks elsewhere than in `wait` hands over what ends its wait."""

    def __init__(self) -> None:
        super().__init__()
        self._wakers_lock = threading.Lock()
        self._wakers: list[Wake] = []

    @contextmanager
    def wakes(self, waker: Wake) -> Iterator[None]:
        """Within the block, `set` calls `waker`, from the thread that sets; at once if it is set already."""
        with self._wakers_lock:
            self._wakers.append(waker)
        try:
            if self.is_set():
                waker()
            yield
        finally:
            with self._wakers_lock:
                self._wakers.remove(waker)

    def set(self) -> None:
        super().set()
        with self._wakers_lock:
            for waker in self._wakers:
                waker()


@runtime_checkable
class Readable(Protocol):
    """The methods of every datasource. `items`, `read` and `watch` may be called from several threads at once:
    one source may carry several items and several subscriptions."""

    @property
    def uri(self) -> str:
        """Where this reads from, credentials masked; what people see."""

    def items(self, kinds: Sequence[Kind]) -> Sequence[Item]:
        """What must be read and watched for these kinds. No I/O."""

    def read(self, item: Item) -> Reading:
        """What stands there now, whole, with provenance. Blocks, bounded by the datasource's time-out.

        A half-written text must never be returned. Raises DatasourceError.
        """

    def watch(self, item: Item, seen: Reading | None, wake: Wake, stop: StopSignal) -> None:
        """Calls `wake()` whenever the item may differ from `seen`, until `stop` is set; then returns soon (1 s).

        Runs on a thread of its own. Spurious wakes are harmless, a missed one is repaired by the periodic compare.
        Raises DatasourceError when the channel is lost: the loop reads again and watches anew.
        """

    def close(self) -> None:
        """Releases what is held. Idempotent; may be called from another thread while `read` or `watch` runs."""


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was made and read back."""

    version: str
    texts: tuple[SourceText, ...]


@runtime_checkable
class Prompt(Protocol):
    """A store that costs little to try and whose items change whole: it is read at the first hint, and one that cannot
    be reached is tried more often than `backoff_cap_s` says, so that its changes are active soon after it is back."""

    retry_cap_s: float
    """Longest wait in seconds, after read or watch failed; not after SourceDenied."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a store says of itself when somebody looks. None: it does not tell."""

    server: str | None = None
    """Product and version, e.g. `etcd 3.5.21`."""
    clock: datetime | None = None
    """Its own time, aware, as the answer was made."""
    may_write: bool | None = None
    """Whether this caller could write; found out without writing."""


@runtime_checkable
class Inspectable(Protocol):
    """A store that tells more of itself than its rules; asked by `sentinelctl doctor`."""

    def inspect(self, item: Item) -> Condition:
        """Changes nothing. Blocks, bounded as `read`. Raises DatasourceError."""


@runtime_checkable
class Ordered(Protocol):
    """A store whose own versions tell which of two is the later one."""

    def admit(self, item: Item, seen: Revision, new: Revision) -> Revision | None:
        """`new` as it shall be applied after `seen` (which carries no content); None: `new` is the older one, to be
        dropped and counted. Raises SourceRewound when the store itself went back."""


@runtime_checkable
class Writable(Protocol):
    """A store that can be written with compare-and-set."""

    def write(
        self, item: Item, texts: Sequence[SourceText], *, expected: str | None, provenance: Provenance
    ) -> Written:
        """Replaces the item's texts as one new revision; `expected` is the version that must stand there now
        (None: the item must be absent). Raises SourceConflict, DatasourceError."""


@runtime_checkable
class HasNotes(Protocol):
    """A store that keeps what belongs to an item beside it, for everybody who may write there. No rules are read from
    a note, and no engine follows it."""

    def note(self, item: Item, name: str) -> bytes | None:
        """None where there is none. `name` is a word of small letters. Raises DatasourceError."""

    def write_note(self, item: Item, name: str, content: bytes, *, expected: bytes | None, why: str) -> None:
        """Replaces it, if it is `expected` (None: absent). `why` is one line, for stores that keep such. Raises
        SourceConflict, DatasourceError."""


@runtime_checkable
class NotesInHistory(Protocol):
    """A store that keeps every state of a note for ever, and shows it to people beside the changes of rules. What
    lives for seconds is not written there."""

    notes_in_history: bool
    """True."""


@runtime_checkable
class HasHistory(Protocol):
    """A store that remembers."""

    def history(self, item: Item, *, limit: int = 50) -> Sequence[Revision]:
        """Newest first, only revisions in which the item changed, with provenance and content."""

    def at(self, item: Item, version: str) -> Reading:
        """The item as it stood at a revision, written as the store's users write it (for Git: any rev)."""


@runtime_checkable
class LooseVersions(Protocol):
    """A store whose history names versions a little differently than its reads do."""

    def same_version(self, one: str, other: str) -> bool:
        """Whether both name one revision. No I/O."""

"""One round of the loop: read, judge, apply, save, advance. Runs on the worker's thread; nothing here waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sentinel_core.datasources.contract import (
    Absent,
    HasHistory,
    Item,
    Ordered,
    Readable,
    Reading,
    SourceDenied,
    SourceMisconfigured,
)
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.datasources.loop import Applied, LoopState, Verdict
from sentinel_core.datasources.names import has_blank, is_blank
from sentinel_core.datasources.quoting import quoted
from sentinel_core.datasources.status import Record
from sentinel_core.datasources.uri import mask_uri
from sentinel_core.rules import Kind, Revision, RuleRejected

Apply = Callable[[Revision, bool], Applied]
"""(revision, restored from the last run) → what became of it. Raises RuleRejected to refuse the content for good;
anything else means that it could not be applied now and is tried again."""
Recorded = Callable[[], bool]
"""Whether the evidence of all that was applied is safe. While it is not, the last good copy stays behind: a restart
then finds the change anew and tells of it again."""

_log = logging.getLogger("sentinel.datasources")
_HISTORY_DEPTH = 20
"""How far back a service without rules looks for a valid revision."""
_LONGEST_REASON = 1500
"""Characters. Masking takes the square of a text's length at worst; of what is cut in the middle of a password, that is
never shown."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Time and chance, injected."""

    monotonic: Callable[[], float]
    """Seconds; decides."""
    now: Callable[[], datetime]
    """Aware UTC; labels."""
    rng: Callable[[], float]
    """0 ≤ x < 1."""


class ItemRounds:
    """What is done with what an item's source says. `lock` guards `loop` and `record`; user code runs outside it."""

    def __init__(
        self,
        source: Readable,
        item: Item,
        apply: Apply,
        *,
        last_good: LastGood | None,
        recorded: Recorded,
        loop: LoopState,
        record: Record,
        lock: threading.Condition,
        clocks: Clocks,
        stopped: Callable[[], bool],
    ) -> None:
        self._source = source
        self._item = item
        self._apply = apply
        self._last_good = last_good
        self._recorded = recorded
        self._unsaved: tuple[Revision, frozenset[Kind]] | None = None
        """Active, but not saved yet, because its evidence is not safe."""
        self._loop = loop
        self._record = record
        self._lock = lock
        self._clocks = clocks
        self._stopped = stopped

    def restore(self) -> None:
        """Applies the last good revisions, on the caller's thread. Whatever goes wrong is shown and passed over."""
        for revision in self._last_good.load(self._item) if self._last_good else ():
            try:
                self._apply(revision, True)  # noqa: FBT003 - the order is the contract of `Apply`
            except Exception as error:  # noqa: BLE001 - a bad copy must not keep the service from starting
                self._note_error(f"the rules of the last run are not taken: {words(error)}")
                continue
            with self._lock:
                self._record.restored = True
                self._loop.restored(revision, revision.content_digest)

    def run(self) -> tuple[bool, Reading | None]:
        """One round. Whether the source answered, and what it said; None where it said that it is set up wrongly."""
        try:
            reading = self._source.read(self._item)
            digest = None if isinstance(reading, Absent) else reading.content_digest
        except Exception as error:  # noqa: BLE001 - no source is trusted to raise only what it should
            self._read_failed(error)
            return isinstance(error, SourceMisconfigured), None
        with self._lock:
            self._record.read()
        self._settle(reading, digest)
        return True, reading

    def _read_failed(self, error: Exception) -> None:
        why = words(error)
        self._note_error(why)
        with self._lock:
            if isinstance(error, SourceMisconfigured):
                self._loop.needs_person(why)
            else:
                self._loop.failed(why, self._clocks.monotonic(), severe=isinstance(error, SourceDenied))

    def _settle(self, reading: Reading, digest: str | None) -> None:
        with self._lock:
            verdict = self._loop.judge(reading, digest)
            if verdict is Verdict.EMPTY:
                self._loop.empty(_kept(_emptiness(reading), self._loop))
            elif verdict is Verdict.REFUSED_BEFORE:
                self._loop.refused_before()
            elif verdict is Verdict.DUPLICATE:
                self._record.count("suppressed")
        if isinstance(reading, Revision) and digest is not None:
            if verdict is Verdict.DUPLICATE:
                self._confirm(reading, digest)
            elif verdict is Verdict.APPLY:
                self._take(reading, digest)

    def _admitted(self, revision: Revision) -> Revision | None:
        """The revision as the source's own order lets it follow the active one; None when it must not."""
        seen = self._loop.cursor
        if seen is None or seen.version == revision.version or not isinstance(self._source, Ordered):
            return revision
        try:
            admitted = self._source.admit(self._item, seen, revision)
        except Exception as error:  # noqa: BLE001 - as for read
            self._read_failed(error)
            return None
        if admitted is None:
            with self._lock:
                self._record.count("older")
                self._loop.kept(f"version {revision.version} was delivered after {seen.version} and is older; dropped")
        return admitted

    def _confirm(self, revision: Revision, digest: str) -> None:
        if (admitted := self._admitted(revision)) is not None:
            if self._unsaved is not None:
                self._save(*self._unsaved)
            with self._lock:
                self._record.restored = False
                self._loop.in_sync(admitted, digest)

    def _take(self, revision: Revision, digest: str) -> None:
        admitted = self._admitted(revision)
        if admitted is None or self._stopped():
            return
        try:
            self._activate(admitted, digest)
        except RuleRejected as rejection:
            self._refuse(admitted, digest, rejection)
        except Exception as error:  # noqa: BLE001 - apply is not ours; what it raises is shown and tried again
            _log.exception("%s: revision %s could not be applied", self._item.source, admitted.version)
            why = f"revision {admitted.version} could not be applied: {words(error)}"
            self._note_error(why)
            with self._lock:
                self._loop.failed(why, self._clocks.monotonic(), severe=True)

    def _activate(self, revision: Revision, digest: str) -> None:
        outcome, kinds = self._apply(revision, False)  # noqa: FBT003 - the order is the contract of `Apply`
        self._save(revision, kinds)
        with self._lock:
            self._record.applied(outcome)
            self._record.restored = False
            self._loop.in_sync(revision, digest)

    def _save(self, revision: Revision, kinds: frozenset[Kind]) -> None:
        if self._last_good is None:
            return
        if self._recorded():
            self._last_good.save(self._item, revision, kinds)
            self._unsaved = None
        else:
            self._unsaved = (revision, kinds)

    def _refuse(self, revision: Revision, digest: str, rejection: RuleRejected) -> None:
        if rejection.says_nothing:
            name = rejection.errors[0].file or "the content"
            with self._lock:
                self._loop.refused(digest, _kept(f"{name} says nothing", self._loop), empty=True)
            return
        first = rejection.errors[0] if rejection.errors else rejection
        more = f" (and {len(rejection.errors) - 1} more)" if len(rejection.errors) > 1 else ""
        why = f"revision {revision.version} is refused: {first}{more}"
        with self._lock:
            self._record.count("rejected")
            self._loop.refused(digest, why)
            bare = self._loop.cursor is None
        if bare:
            self._look_back(revision, why)

    def _look_back(self, refused: Revision, why: str) -> None:
        """A service that starts at a bad revision takes the newest valid one before it, where the store remembers."""
        if not isinstance(self._source, HasHistory):
            return
        try:
            for older in self._source.history(self._item, limit=_HISTORY_DEPTH):
                usable = older.version != refused.version and not has_blank(older.texts)
                if self._stopped() or (usable and self._try(older)):
                    break
        except Exception as error:  # noqa: BLE001 - as for read
            self._note_error(words(error))
        with self._lock:
            self._loop.refused(refused.content_digest, why)

    def _try(self, revision: Revision) -> bool:
        try:
            self._activate(revision, revision.content_digest)
        except RuleRejected:
            return False
        return True

    def _note_error(self, why: str) -> None:
        with self._lock:
            self._record.error(why)


def words(error: BaseException) -> str:
    """An error as people shall read it: its message, masked, or its type when it has none."""
    return quoted(mask_uri(str(error)[: 2 * _LONGEST_REASON]), _LONGEST_REASON) or type(error).__name__


def _emptiness(reading: Reading) -> str:
    if isinstance(reading, Absent):
        return f"nothing stands there ({'; '.join(filter(None, (reading.reason, reading.next_step)))})"
    blank = next((text.name for text in reading.texts if is_blank(text.content)), "the content")
    return f"{blank} is blank"


def _kept(what: str, loop: LoopState) -> str:
    if loop.cursor is not None:
        return f"{what}; the last good rules stay (write [] to clear them)"
    return f"{what}; waiting for it, no rules are active"

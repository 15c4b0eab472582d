"""The thread shell around `LoopState`: one worker per item.

Two daemon threads per item. The *worker* reads, applies, saves and tells listeners; the *watcher* sits in the source's
`watch` and does nothing but wake the worker. User code (apply, listeners) runs on the worker, never under a lock.
"""

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
    StopSignal,
)
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.datasources.loop import LoopState, Outcome, State, SubscriptionOptions, Verdict
from sentinel_core.datasources.names import is_blank
from sentinel_core.datasources.status import ItemStatus, Record
from sentinel_core.datasources.uri import mask_uri
from sentinel_core.rules import Revision, RuleRejected

Apply = Callable[[Revision, bool], Outcome]
"""(revision, restored from the last run) → what became of it. Raises RuleRejected to refuse the content for good;
anything else means that it could not be applied now and is tried again."""

_log = logging.getLogger("sentinel.datasources")
_HISTORY_DEPTH = 20
"""How far back a service without rules looks for a valid revision."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Time and chance, injected."""

    monotonic: Callable[[], float]
    """Seconds; decides."""
    now: Callable[[], datetime]
    """Aware UTC; labels."""
    rng: Callable[[], float]
    """0 ≤ x < 1."""


class ItemWorker:
    """Keeps one item's rules up to date."""

    def __init__(
        self,
        source: Readable,
        item: Item,
        apply: Apply,
        *,
        last_good: LastGood | None,
        options: SubscriptionOptions,
        clocks: Clocks,
        announce: Callable[[ItemStatus], int],
    ) -> None:
        self.item = item
        self._source = source
        self._apply = apply
        self._last_good = last_good
        self._clocks = clocks
        self._announce = announce
        self._lock = threading.Condition()
        self._loop = LoopState(options, clocks.rng, clocks.monotonic())
        self._stop = StopSignal()
        self._threads: list[threading.Thread] = []
        self._record = Record(item, clocks.now)
        self._channel_era = 0
        """Counts losses of the watch; a reading counts for a new watch only if it began after the loss."""
        self._fresh = False
        """The source has answered since the last loss, and `_seen` is what it said."""
        self._seen: Reading | None = None
        self._rounds_begun = 0
        self._rounds_ended = 0

    # -- life --------------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Applies the last good revision, on the caller's thread. Whatever goes wrong is shown and passed over."""
        revision = self._last_good.load(self.item) if self._last_good else None
        if revision is None:
            return
        try:
            self._apply(revision, True)  # noqa: FBT003 - the order is the contract of `Apply`
        except Exception as error:  # noqa: BLE001 - a bad copy must not keep the service from starting
            self._note_error(f"the rules of the last run are not taken: {_words(error)}")
            return
        with self._lock:
            self._record.restored = True
            self._loop.restored(revision, revision.content_digest)

    def start(self) -> None:
        for name, run in (("worker", self._work), ("watcher", self._watch)):
            self._threads.append(threading.Thread(target=run, name=f"sentinel-{name}-{self.item.key}", daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        with self._lock:
            self._lock.notify_all()

    def join(self, deadline: float) -> bool:
        """Waits for both threads until `deadline` (monotonic); False if one still runs. Safe on the worker itself."""
        me = threading.current_thread()
        # A listener of the worker may close before the watcher was started; it then ends as soon as it begins.
        others = [thread for thread in self._threads if thread is not me and thread.ident is not None]
        for thread in others:
            thread.join(max(0.0, deadline - self._clocks.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def refresh(self) -> int:
        """Makes a read due now; returns the number of the round that will have seen all that stands there now."""
        with self._lock:
            self._loop.force(self._clocks.monotonic())
            self._lock.notify_all()
            return self._rounds_begun + 1

    def await_round(self, number: int, deadline: float) -> bool:
        """Waits until that round has ended. On the worker itself, which cannot wait for itself, False."""
        if threading.current_thread() in self._threads:
            return False
        with self._lock:
            while self._rounds_ended < number and not self._stop.is_set():
                left = deadline - self._clocks.monotonic()
                if left <= 0:
                    break
                self._lock.wait(left)
            return self._rounds_ended >= number

    # -- worker thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._stop.is_set():
            self.announce()
            with self._lock:
                wait = self._loop.due - self._clocks.monotonic()
                if wait > 0 and not self._record.is_news(self._loop):
                    self._lock.wait(wait)
                due = self._loop.due <= self._clocks.monotonic()
            if due and not self._stop.is_set():
                self._guarded_step()

    def _guarded_step(self) -> None:
        """A thread that ends without a word would leave old rules looking healthy; not even `sys.exit` does that."""
        try:
            self.step()
        except BaseException as error:  # noqa: BLE001 - nothing stands above this thread to hear of it
            self._note_error(_words(error))
            with self._lock:
                self._loop.failed(f"the round broke off: {_words(error)}", self._clocks.monotonic(), severe=True)

    def step(self) -> None:
        """One round: read, judge, apply, save, advance; then listeners. Never raises."""
        with self._lock:
            self._loop.begin(self._clocks.monotonic())
            self._rounds_begun += 1
            era = self._channel_era
        try:
            self._round(era)
            self.announce()
        finally:
            with self._lock:
                self._rounds_ended += 1
                self._record.count("reads")
                self._lock.notify_all()

    def _round(self, era: int) -> None:
        try:
            reading = self._source.read(self.item)
            digest = None if isinstance(reading, Absent) else reading.content_digest
        except Exception as error:  # noqa: BLE001 - no source is trusted to raise only what it should
            self._read_failed(error)
            if isinstance(error, SourceMisconfigured):
                self._answered(None, era)  # it was reached, and somebody may put it right
            return
        with self._lock:
            self._record.read()
        self._settle(reading, digest)
        self._answered(reading, era)

    def _answered(self, reading: Reading | None, era: int) -> None:
        """Lets the watcher begin, if its last watch was lost before this read began."""
        with self._lock:
            if era == self._channel_era:
                self._fresh, self._seen = True, reading
                self._lock.notify_all()

    def _read_failed(self, error: Exception) -> None:
        why = _words(error)
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
                self._loop.empty(_emptiness(reading, active=self._loop.cursor is not None))
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
            admitted = self._source.admit(self.item, seen, revision)
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
            with self._lock:
                self._record.restored = False
                self._loop.in_sync(admitted, digest)

    def _take(self, revision: Revision, digest: str) -> None:
        admitted = self._admitted(revision)
        if admitted is None or self._stop.is_set():
            return
        try:
            self._activate(admitted, digest)
        except RuleRejected as rejection:
            self._refuse(admitted, digest, rejection)
        except Exception as error:  # noqa: BLE001 - apply is not ours; what it raises is shown and tried again
            _log.exception("%s: revision %s could not be applied", self.item.source, admitted.version)
            why = f"revision {admitted.version} could not be applied: {_words(error)}"
            self._note_error(why)
            with self._lock:
                self._loop.failed(why, self._clocks.monotonic(), severe=True)

    def _activate(self, revision: Revision, digest: str) -> None:
        outcome = self._apply(revision, False)  # noqa: FBT003 - the order is the contract of `Apply`
        if self._last_good:
            self._last_good.save(self.item, revision)
        with self._lock:
            self._record.applied(outcome)
            self._record.restored = False
            self._loop.in_sync(revision, digest)

    def _refuse(self, revision: Revision, digest: str, rejection: RuleRejected) -> None:
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
            for older in self._source.history(self.item, limit=_HISTORY_DEPTH):
                usable = older.version != refused.version and not any(is_blank(text.content) for text in older.texts)
                if self._stop.is_set() or (usable and self._try(older)):
                    break
        except Exception as error:  # noqa: BLE001 - as for read
            self._note_error(_words(error))
        with self._lock:
            self._loop.refused(refused.content_digest, why)

    def _try(self, revision: Revision) -> bool:
        try:
            self._activate(revision, revision.content_digest)
        except RuleRejected:
            return False
        return True

    # -- watcher thread ----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while self._await_fresh():
            began = self._clocks.monotonic()
            why = "the watch ended by itself"
            try:
                self._source.watch(self.item, self._seen, self._hint, self._stop)
            except BaseException as error:  # noqa: BLE001 - a watcher that dies without a word is the worst of faults
                why = _words(error)
            if not self._stop.is_set():
                self._channel_lost(why, began)

    def _await_fresh(self) -> bool:
        """Blocks until a read that began after the last loss was answered; False when the worker stops."""
        with self._lock:
            while not self._fresh and not self._stop.is_set():
                self._lock.wait()
            if self._stop.is_set():
                return False
            self._loop.channel_up()
            self._lock.notify_all()
            return True

    def _channel_lost(self, why: str, began: float) -> None:
        with self._lock:
            now = self._clocks.monotonic()
            self._record.count("channel_losses")
            self._channel_era += 1
            self._fresh = False
            self._loop.channel_lost(f"the watch was lost: {why}", now, now - began)
            self._lock.notify_all()

    def _hint(self) -> None:
        with self._lock:
            before = self._loop.due
            self._loop.hint(self._clocks.monotonic())
            if self._loop.due != before:
                self._lock.notify_all()

    # -- status ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        with self._lock:
            return self._loop.state

    def status(self) -> ItemStatus:
        with self._lock:
            return self._status_locked()

    def _status_locked(self) -> ItemStatus:
        return self._record.status(self._loop, self._last_good.problem(self.item) if self._last_good else None)

    def announce(self) -> None:
        """Tells listeners and the log, on the worker's thread, when state, reason or version differ from last time."""
        with self._lock:
            if not self._record.is_news(self._loop):
                return
            self._record.told(self._loop)
            status = self._status_locked()
        level = logging.INFO if status.state is State.READY else logging.WARNING
        _log.log(level, "%s: %s%s", status.source, status.state.value, f": {status.reason}" if status.reason else "")
        failures = self._announce(status)
        with self._lock:
            self._record.count("listener_errors", failures)

    def _note_error(self, why: str) -> None:
        with self._lock:
            self._record.error(why)


def _words(error: BaseException) -> str:
    """An error as people shall read it: its message, masked, or its type when it has none."""
    return mask_uri(str(error)) or type(error).__name__


def _emptiness(reading: Reading, *, active: bool) -> str:
    if isinstance(reading, Absent):
        what = f"nothing stands there ({reading.reason})"
    else:
        blank = next((text.name for text in reading.texts if is_blank(text.content)), "the content")
        what = f"{blank} is blank"
    if active:
        return f"{what}; the last good rules stay (write [] to clear them)"
    return f"{what}; waiting for it, no rules are active"

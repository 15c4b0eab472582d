"""The thread shell around `LoopState`: one worker per item.

Two daemon threads per item. The *worker* reads, applies, saves and tells listeners; the *watcher* sits in the source's
`watch` and does nothing but wake the worker. User code (apply, listeners) runs on the worker, never under a lock.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from sentinel_core.datasources.contract import (
    Item,
    Prompt,
    Readable,
    Reading,
    StopSignal,
)
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.datasources.loop import LoopState, State, SubscriptionOptions
from sentinel_core.datasources.patched import let_cooperate
from sentinel_core.datasources.rounds import Apply, Clocks, ItemRounds, Recorded, words
from sentinel_core.datasources.status import ItemStatus, Record

_log = logging.getLogger("sentinel.datasources")


class ItemWorker:
    """Keeps one item's rules up to date."""

    def __init__(
        self,
        source: Readable,
        item: Item,
        apply: Apply,
        *,
        last_good: LastGood | None,
        recorded: Recorded,
        options: SubscriptionOptions,
        clocks: Clocks,
        announce: Callable[[ItemStatus], int],
    ) -> None:
        self.item = item
        self._source = source
        self._last_good = last_good
        self._clocks = clocks
        self._announce = announce
        self._lock = threading.Condition()
        retry_cap_s = source.retry_cap_s if isinstance(source, Prompt) else math.inf
        self._loop = LoopState(options, clocks.rng, clocks.monotonic(), retry_cap_s)
        self._stop = StopSignal()
        self._threads: list[threading.Thread] = []
        self._record = Record(item, clocks.now)
        self._rounds = ItemRounds(
            source,
            item,
            apply,
            last_good=last_good,
            recorded=recorded,
            loop=self._loop,
            record=self._record,
            lock=self._lock,
            clocks=clocks,
            stopped=self._stop.is_set,
        )
        self._channel_era = 0
        """Counts losses of the watch; a reading counts for a new watch only if it began after the loss."""
        self._fresh = False
        """The source has answered since the last loss, and `_seen` is what it said."""
        self._seen: Reading | None = None
        self._rounds_begun = 0
        self._rounds_ended = 0

    # -- life --------------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Applies the last good revision, on the caller's thread."""
        self._rounds.restore()

    def start(self) -> None:
        """Raises SourceMisconfigured where the source cannot be used in this process."""
        let_cooperate(self._source.uri)
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
                    self._lock.wait(min(wait, threading.TIMEOUT_MAX))  # `compare_s` may be infinite
                due = self._loop.due <= self._clocks.monotonic()
            if due and not self._stop.is_set():
                self._guarded_step()

    def _guarded_step(self) -> None:
        """A thread that ends without a word would leave old rules looking healthy; not even `sys.exit` does that."""
        try:
            self.step()
        except BaseException as error:  # noqa: BLE001 - nothing stands above this thread to hear of it
            with self._lock:
                self._record.error(words(error))
                self._loop.failed(f"the round broke off: {words(error)}", self._clocks.monotonic(), severe=True)

    def step(self) -> None:
        """One round: read, judge, apply, save, advance; then listeners."""
        with self._lock:
            self._loop.begin(self._clocks.monotonic())
            self._rounds_begun += 1
            era = self._channel_era
        try:
            answered, reading = self._rounds.run()
            if answered:
                self._answered(reading, era)
            self.announce()
        finally:
            with self._lock:
                self._rounds_ended += 1
                self._record.count("reads")
                self._lock.notify_all()

    def _answered(self, reading: Reading | None, era: int) -> None:
        """Lets the watcher begin, if its last watch was lost before this read began."""
        with self._lock:
            if era == self._channel_era:
                self._fresh, self._seen = True, reading
                self._lock.notify_all()

    # -- watcher thread ----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while self._await_fresh():
            began = self._clocks.monotonic()
            why = "the watch ended by itself"
            try:
                self._source.watch(self.item, self._seen, self._hint, self._stop)
            except BaseException as error:  # noqa: BLE001 - a watcher that dies without a word is the worst of faults
                why = words(error)
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

    @property
    def absent(self) -> bool:
        """Whether the source has said that nothing stands there, and nothing ever did."""
        with self._lock:
            return self._loop.state is State.INIT and self._loop.absent

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

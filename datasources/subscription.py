"""Keeping an engine's rules equal to what a source holds: the one loop, the same for every store.

Per item: read → apply (the engine makes the event durable, then swaps) → save as last good → advance the cursor. A
crash between any two steps repeats the later ones, never skips them.
"""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sentinel_core.datasources.contract import Readable
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.datasources.loop import State, SubscriptionOptions
from sentinel_core.datasources.rounds import Apply, Clocks, Recorded
from sentinel_core.datasources.status import ItemStatus
from sentinel_core.datasources.worker import ItemWorker
from sentinel_core.rules import Kind

StateListener = Callable[[ItemStatus], None]
"""Called on the item's worker thread, outside all locks, after state, reason or version changed. May subscribe,
refresh, close, add and remove listeners. One that raises is counted; the others are still called."""

_WORST_FIRST = (State.ERROR, State.STALE, State.INIT, State.READY)


class Subscription:
    """Some kinds of one source, kept up to date until closed. All methods may be called from any thread.

    `apply` is called on worker threads, for different items at the same time; it must do its own locking. The source
    stays open when the subscription is closed: whoever opened it closes it.
    """

    def __init__(
        self,
        source: Readable,
        kinds: Sequence[Kind],
        apply: Apply,
        *,
        role: str = "store",
        last_good: LastGood | None = None,
        recorded: Recorded = lambda: True,
        options: SubscriptionOptions | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.source = source
        self.kinds = tuple(kinds)
        self.role = role
        """What the source is to whoever subscribed; shown in `status`."""
        self._clocks = Clocks(monotonic, now, rng)
        self._lock = threading.Condition()
        self._listeners: list[StateListener] = []
        self._restored = False
        self._started = False
        self._closed = False
        self._worker = functools.partial(
            ItemWorker,
            apply=apply,
            last_good=last_good,
            recorded=recorded,
            options=options or SubscriptionOptions(),
            clocks=self._clocks,
            announce=self._announce,
        )
        self._workers = tuple(self._worker(source, item) for item in source.items(self.kinds))

    def restore(self) -> None:
        """Applies the last good revisions on this thread. Does nothing the second time."""
        with self._lock:
            if self._restored or self._closed:
                return
            self._restored = True
        for worker in self._workers:
            worker.restore()

    def start(self) -> Subscription:
        """Restores, if nobody did, then starts the loop. Does nothing the second time."""
        self.restore()
        with self._lock:
            if self._started or self._closed:
                return self
            self._started = True
        for worker in self._workers:
            worker.start()
        return self

    def renew_after_fork(self) -> None:
        """For a forked child, where the threads are gone: a lock and workers of its own, which read the source anew.
        What is active stays active until then."""
        self._lock = threading.Condition()
        self._workers = tuple(self._worker(self.source, worker.item) for worker in self._workers)
        if self._started and not self._closed:
            for worker in self._workers:
                worker.start()

    @property
    def state(self) -> State:
        """The worst of all items: ERROR, STALE, INIT, READY. Kinds that a store never had do not count where it has
        others; a store that never had any is INIT."""
        states = [worker.state for worker in self._workers if not worker.absent] or [State.INIT] * len(self._workers)
        return next((state for state in _WORST_FIRST if state in states), State.READY)

    @property
    def closed(self) -> bool:
        """Whether `close` was called: its kinds are free for another subscription."""
        return self._closed

    def status(self) -> tuple[ItemStatus, ...]:
        return tuple(worker.status() for worker in self._workers)

    def wait_ready(self, timeout_s: float) -> bool:
        """Blocks until the state is READY: every item was read, and what was there is active. False when that took
        longer. Not to be called from a listener."""
        deadline = self._clocks.monotonic() + timeout_s
        with self._lock:
            while self.state is not State.READY:
                left = deadline - self._clocks.monotonic()
                if left <= 0 or self._closed:
                    return False
                self._lock.wait(left)
        return True

    def refresh(self, timeout_s: float | None = None) -> bool:
        """Has every item read and compared now, back-off or not. Returns at once, or, with a time-out, when all that
        stood in the source at the call has been dealt with; False when that was not reached (never, on a worker)."""
        rounds = [(worker, worker.refresh()) for worker in self._workers]
        if timeout_s is None:
            return False
        deadline = self._clocks.monotonic() + timeout_s
        return all(worker.await_round(number, deadline) for worker, number in rounds)

    def await_first_round(self, timeout_s: float) -> bool:
        """Waits until every item was asked for once; False when that took longer, or on a worker."""
        if not self._started:
            return True
        deadline = self._clocks.monotonic() + timeout_s
        return all(worker.await_round(1, deadline) for worker in self._workers)

    def on_state(self, listener: StateListener) -> Callable[[], None]:
        """Adds a listener; returns what removes it again."""
        with self._lock:
            self._listeners = [*self._listeners, listener]

        def remove() -> None:
            with self._lock:
                self._listeners = [each for each in self._listeners if each is not listener]

        return remove

    def close(self, timeout_s: float = 5) -> bool:
        """Stops the loop; nothing is applied that had not begun. False when a thread is still busy in the source or
        in `apply` after `timeout_s`; it ends with its call. Idempotent."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        deadline = self._clocks.monotonic() + timeout_s
        for worker in self._workers:
            worker.stop()
        ended = [worker.join(deadline) for worker in self._workers]
        return all(ended)

    def _announce(self, status: ItemStatus) -> int:
        with self._lock:
            listeners = self._listeners
            self._lock.notify_all()
        failures = 0
        for listener in listeners:
            try:
                listener(status)
            except BaseException:  # noqa: BLE001 - no listener is trusted, not even not to call `sys.exit`
                failures += 1
        return failures

"""When collectors are read: each at its own pace, by a few threads, none of them in the way of another.

The threads share one queue of what is due. There is always one more than collectors that are being read just now, up to
`READERS`: a source that hangs keeps one thread, until its time-out, and delays nobody. Threads start with the first
collector.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from sentinel_core.collectors.contract import Collector
from sentinel_core.collectors.task import Task, pause

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

logger = logging.getLogger("sentinel_core")

READERS: Final = 8
"""Threads, and so collectors that may hang at the same time while all others are read as ever."""
SHORTEST_S: Final = 0.01
EVERY_S: Final = 1.0
CLOSE_S: Final = 1.0
"""How long `close` waits for reads that are under way, all together."""


class Collectors:
    """The collectors of an engine."""

    def __init__(self, engine: Engine, rng: Callable[[], float] | None = None) -> None:
        self._engine = engine
        self._rng = rng or random.SystemRandom().random  # children of a fork draw different numbers
        self._tasks: list[Task] = []
        self._ensured: set[Callable[[], Collector]] = set()
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._queue: list[tuple[float, int, Task]] = []
        self._order = itertools.count()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    @property
    def failures(self) -> int:
        """Reads that raised, of all collectors that are registered now."""
        return sum(task.failures for task in self._tasks)

    def register(self, collector: Collector, *, every_s: float | None = None, thread: bool = True) -> None:
        """Reads `collector` now and then every `every_s` seconds; left out, its own `every_s`, else every second.
        `thread=False`: only when `refresh` is called. Raises ValueError."""
        every = getattr(collector, "every_s", EVERY_S) if every_s is None else every_s
        if not (math.isfinite(every) and every >= SHORTEST_S):
            raise ValueError(f"every_s is {every}; write seconds, at least {SHORTEST_S}")
        task = Task(collector, every, thread)
        with self._changed:
            self._tasks = [*self._tasks, task]
            if thread and not self._closed:
                self._push(task, time.monotonic())

    def remove(self, collector: Collector) -> None:
        """Reads it no more, and closes it if it has a `close`."""
        with self._changed:
            gone = [task for task in self._tasks if task.collector is collector]
            self._tasks = [task for task in self._tasks if task.collector is not collector]
        for task in gone:
            task.end()

    def ensure(self, make: Callable[[], Collector]) -> None:
        """Registers what `make` makes unless it was ensured before."""
        with self._lock:
            if make in self._ensured:
                return
            self._ensured.add(make)
        self.register(make())

    def refresh(self) -> None:
        """Reads every collector once, on this thread, whatever its pace."""
        for task in self._tasks:
            task.read(self._engine)

    def read(self, collector: Collector) -> None:
        """Reads one that is registered now, on this thread."""
        for task in self._tasks:
            if task.collector is collector:
                task.read(self._engine)

    def status(self) -> tuple[dict[str, Any], ...]:
        """Of every collector: metric, source, state (waiting, ok, empty, invalid, failing), age of its values, counts,
        last error, next read; plain JSON values, no secrets."""
        now, monotonic = self._engine.clock.monotonic_ns(), time.monotonic()
        return tuple(task.status(now, monotonic) for task in self._tasks)

    def close(self) -> None:
        """Ends the threads and closes the collectors. A read that hangs is not waited for longer than a second."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = self._threads
        until = time.monotonic() + CLOSE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        for task in self._tasks:
            task.end()

    def renew_after_fork(self) -> None:
        """For a forked child: locks of its own. Starts nothing."""
        closed = self._closed
        self._renew()
        self._closed = closed
        for task in self._tasks:
            task.lock = threading.Lock()

    def revive(self) -> None:
        """In a forked child: threads where there were some."""
        with self._changed:
            for task in self._tasks:
                if task.threaded and not self._closed:
                    self._push(task, time.monotonic())

    def _push(self, task: Task, due: float) -> None:
        """The lock is held."""
        task.due = due
        heapq.heappush(self._queue, (due, next(self._order), task))
        if self._idle:
            self._changed.notify_all()
        else:
            self._start_reader()

    def _start_reader(self) -> None:
        if len(self._threads) < READERS:
            thread = threading.Thread(target=self._run, name="sentinel-collectors", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                logger.warning("no further thread for collectors, they are read later: %s", error)
                return
            self._threads.append(thread)
            self._idle += 1  # it is on its way: nobody else need be started for what it finds

    def _run(self) -> None:
        while (task := self._next()) is not None:
            first = not task.reads
            task.read(self._engine)
            wait = pause(task.every_s, task.in_a_row, self._rng)
            if first and not task.in_a_row:
                wait *= self._rng()  # instances that start together part here
            with self._changed:
                if not (task.gone or self._closed):
                    task.due = time.monotonic() + wait
                    heapq.heappush(self._queue, (task.due, next(self._order), task))
                self._idle += 1
            if task.gone:
                task.end()

    def _next(self) -> Task | None:
        """Waits for what is due; None at the end. Called by a thread that counts as idle."""
        with self._changed:
            while not self._closed:
                wait = None
                if self._queue:
                    wait = self._queue[0][0] - time.monotonic()
                    if wait <= 0:
                        task = heapq.heappop(self._queue)[2]
                        if task.gone:
                            continue
                        task.due = None
                        self._idle -= 1
                        if self._queue and not self._idle:
                            self._start_reader()
                        return task
                self._changed.wait(wait)
            self._idle -= 1
            return None

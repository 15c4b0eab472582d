"""A thread that does one thing again and again, and whose failures are told once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

logger = logging.getLogger("sentinel_core")


class Ticker:
    """Calls `work` every `every_s` seconds from `start` on, and once more in `close`. Disks that fail stop nothing, and
    one that hangs holds up `close` no longer than its timeout."""

    def __init__(self, name: str, work: Callable[[], object], every_s: float) -> None:
        self._name = name
        self._work = work
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.error: str | None = None
        """Why the last run failed; None after a good one."""

    def start(self) -> None:
        """A second call does nothing; with `every_s` of 0 or less nothing runs but what `run` is called for."""
        if self._thread is None and self._every_s > 0:
            self._thread = threading.Thread(target=self._loop, name=f"sentinel-{self._name}", daemon=True)
            self._thread.start()

    def run(self) -> None:
        """Does it now. Never raises."""
        with self._lock:
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 (a full or read-only disk is no reason to end the thread)
                if self.error is None:
                    logger.warning("%s cannot be written and goes on trying: %s", self._name, error)
                self.error = f"{type(error).__name__}: {error}"
            else:
                if self.error is not None:
                    logger.warning("%s is written again", self._name)
                self.error = None

    def close(self, timeout_s: float = 5) -> bool:
        """Whether the last run is over; it is the thread's, where there is one."""
        self._stop.set()
        if self._thread is None:
            self.run()
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def renew_after_fork(self) -> None:
        """For a forked child: a thread where there was one."""
        running = self._thread is not None and not self._stop.is_set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = None
        if running:
            self.start()

    def _loop(self) -> None:
        while not self._stop.wait(self._every_s):
            self.run()
        self.run()


class Ticked:
    """Something that a ticker of its own writes: how it is started, written at once, and seen to fail."""

    _ticker: Ticker

    def start(self) -> Self:
        """Starts the thread; a second call does nothing."""
        self._ticker.start()
        return self

    def flush(self) -> None:
        """Writes now what there is, on this thread. Never raises: what cannot be written is tried again."""
        self._ticker.run()

    @property
    def error(self) -> str | None:
        """Why nothing can be written now."""
        return self._ticker.error

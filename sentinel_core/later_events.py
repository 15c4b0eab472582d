"""Events that nobody waits for: from whoever made them to the outbox, on a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sentinel_core.audit.events import Event, EventSink
from sentinel_core.metrics.ticker import Ticked, Ticker

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

EVERY_S: Final = 0.5
MOST: Final = 1000
"""Events that wait to be written; beyond it the oldest are lost, and counted."""


class LaterEvents(Ticked):
    """Writes events of one engine into a sink a little later. A sink that fails is tried again, told once. In a forked
    child it begins anew."""

    def __init__(self, engine: Engine, sink: EventSink, name: str, *, every_s: float = EVERY_S) -> None:
        self._engine = engine
        self._sink = sink
        self._lock = threading.Lock()
        self._waiting: deque[Event] = deque()
        self.lost = 0
        """Events that were not written because too many waited."""
        self._ticker = Ticker(name, self._write, every_s)
        self._forgets: list[Callable[[], None]] = [engine.on_fork(self._renew_after_fork)]

    def close(self, timeout_s: float = 5) -> None:
        """Writes what waits, and ends."""
        for forget in self._forgets:
            forget()
        self._ticker.close(timeout_s)

    def _add(self, event: Event) -> None:
        with self._lock:
            self._waiting.append(event)
            if len(self._waiting) > MOST:
                self._waiting.popleft()
                self.lost += 1

    def _write(self) -> None:
        with self._lock:
            taken = list(self._waiting)
        if not taken:
            return
        self._sink.append(taken)
        with self._lock:
            written = {event.id for event in taken}
            self._waiting = deque(event for event in self._waiting if event.id not in written)

    def _renew_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._waiting = deque()  # those of the parent, which writes them
        self._ticker.renew_after_fork()

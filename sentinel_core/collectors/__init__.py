"""Collectors: where gauges come from that nobody sets by hand.

A collector is read by one thread of the engine, never by a call: what the hot path sees is the gauge it left.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

logger = logging.getLogger("sentinel_core")

ENTRY_POINTS = "sentinel.collectors"


class Collector(Protocol):
    """Reads one business metric."""

    metric: str
    """The `bizMetricType` it serves."""

    def collect(self) -> Mapping[str, float]:
        """resource → value now, "" for all resources. Runs on the collectors' thread; may do I/O, must end in time.

        What it raises is counted and logged; the gauge keeps its value and grows stale.
        """


@cache
def installed(metric: str) -> tuple[Callable[[], Collector], ...]:
    """The collectors that packages offer for a metric: entry points of the group `sentinel.collectors` named like the
    `bizMetricType`, each a class (or a function) that makes one."""
    return tuple(point.load() for point in entry_points(group=ENTRY_POINTS, name=metric))


class Collectors:
    """The collectors of an engine. The thread starts with the first one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._collectors: list[tuple[Collector, float]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ensured: set[Callable[[], Collector]] = set()
        self._said: dict[int, str] = {}
        self.failures = 0

    def register(self, collector: Collector, *, every_s: float = 1.0, thread: bool = True) -> None:
        """Reads `collector` every `every_s` seconds from now on; `thread=False`: only when `refresh` is called."""
        with self._lock:
            self._collectors = [*self._collectors, (collector, every_s)]
            if thread and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sentinel-collectors", daemon=True)
                self._thread.start()

    def remove(self, collector: Collector) -> None:
        """Reads it no more."""
        with self._lock:
            self._collectors = [each for each in self._collectors if each[0] is not collector]

    def ensure(self, make: Callable[[], Collector]) -> None:
        """Registers what `make` makes unless it was ensured before."""
        with self._lock:
            if make in self._ensured:
                return
            self._ensured.add(make)
        self.register(make())

    def refresh(self) -> None:
        """Reads every collector once, on this thread."""
        for collector, _ in self._collectors:
            self.read(collector)

    def close(self) -> None:
        """Ends the thread; one read that hangs is not waited for longer than a second."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1)

    def renew_after_fork(self) -> None:
        """For a forked child: a lock, and a thread where there was one."""
        stopped, had_thread = self._stop.is_set(), self._thread is not None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = None
        if had_thread and not stopped:
            self._thread = threading.Thread(target=self._run, name="sentinel-collectors", daemon=True)
            self._thread.start()

    def read(self, collector: Collector) -> None:
        """Reads one now, on this thread. The same failure again is counted, and told once."""
        try:
            for resource, value in collector.collect().items():
                self._engine.gauge(collector.metric, value, resource=resource or None)
            self._said.pop(id(collector), None)
        except Exception as error:  # noqa: BLE001 (a collector is user code: its gauge grows stale, nothing else)
            self.failures += 1
            words = f"{type(error).__name__}: {error}"
            if self._said.get(id(collector)) != words:
                self._said[id(collector)] = words
                logger.warning("collector of %s failed: %s", collector.metric, words)

    def _run(self) -> None:
        elapsed = 0.0
        while not self._stop.wait(self._pause()):
            elapsed += self._pause()
            for collector, every in self._collectors:
                if int(elapsed / every) != int((elapsed - self._pause()) / every):
                    self.read(collector)

    def _pause(self) -> float:
        return min((every for _, every in self._collectors), default=1.0)

"""One collector as the engine reads it: when again, and how its reads went."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sentinel_core.clock import MS, SECOND
from sentinel_core.collectors.contract import MAX_VALUES, Collector, CollectorError, SourceLost, number_of, parts_of
from sentinel_core.collectors.guarded import refuse_inside
from sentinel_core.datasources.uri import mask_uri

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

logger = logging.getLogger("sentinel_core")

JITTER: Final = 0.1
"""Share of an interval by which each pause is longer or shorter, so that a fleet does not read in step."""
RETRY_S: Final = 0.1
"""Shortest pause after a failure."""
RETRY_CAP_S: Final = 5.0
"""Longest pause after failures, or the collector's interval where that is longer."""
TOLD: Final = 5
"""Different troubles of one outage that are logged."""
QUIET_NS: Final = 60 * SECOND
"""The same trouble is logged again after so long at the soonest, however often it comes and goes."""

INVALID: Final = "invalid"


def pause(every_s: float, failures: int, rng: Callable[[], float]) -> float:
    """Seconds until the next read. After failures in a row: doubled with each; jitter takes away up to half."""
    if not failures:
        return every_s * (1 + JITTER * (2 * rng() - 1))
    longest = min(max(every_s, RETRY_CAP_S), max(every_s, RETRY_S) * 2.0 ** min(failures - 1, 32))
    return longest * (1 - rng() / 2)


class Task:
    """One registered collector. Its fields change under `lock`, which a read holds."""

    def __init__(self, collector: Collector, every_s: float, threaded: bool) -> None:
        self.collector = collector
        self.every_s = every_s
        self.threaded = threaded
        self.lock = threading.Lock()
        self.due: float | None = None
        """`time.monotonic()` of the next read; None while it is read, and where only `refresh` reads it."""
        self.gone = False
        """Not to be read again."""
        self._ended = False
        self.reads = 0
        self.failures = 0
        self.in_a_row = 0
        self.invalid = 0
        self.bad = 0
        """Values of the last read that succeeded which were no numbers."""
        self.last_error: str | None = None
        self.values: int | None = None
        """How many the last read that succeeded gave."""
        self.value_at: int | None = None
        self._trouble: dict[str, None] = {}
        """What is wrong now, in the order it was told."""
        self._told_at: dict[str, int] = {}

    def read(self, engine: Engine) -> None:
        """Reads once, on this thread, and leaves the values in the engine's gauges. Raises nothing but IoInDecision."""
        refuse_inside(f"the collector of {self.collector.metric} is read")
        with self.lock:
            self.reads += 1
            try:
                self._take(engine, self.collector.collect())
            except BaseException as error:
                self._failed(engine.clock.monotonic_ns(), error)
                if isinstance(error, KeyboardInterrupt):
                    raise

    def _take(self, engine: Engine, given: object) -> None:
        if not isinstance(given, Mapping):
            raise CollectorError(f"collect() gave a {type(given).__name__}; give a mapping of resource to number")
        if len(given) > MAX_VALUES:
            raise CollectorError(f"{len(given)} values in one read; at most {MAX_VALUES} are taken: read fewer of them")
        values = [(*parts_of(target), value) for target, value in given.items()]
        bad: list[str] = []
        taken = 0
        for resource, dimension, value in values:
            if value is None:
                continue
            number = number_of(value)
            engine.gauge(self.collector.metric, number, resource=resource or None, dimension=dimension or None)
            if math.isfinite(number):
                taken += 1
            else:
                bad.append(f"{type(value).__name__} for {dimension or resource or 'all resources'}")
        self._succeeded(engine.clock.monotonic_ns(), taken, bad)

    def _succeeded(self, now: int, taken: int, bad: list[str]) -> None:
        self.values = taken
        self.bad = len(bad)
        self.in_a_row = 0
        if taken:
            self.value_at = now
        if bad:
            self.invalid += len(bad)
            self.last_error = f"no finite number: {bad[0]}" + (f", and {len(bad) - 1} more" if len(bad) > 1 else "")
            self._tell(now, INVALID, f"gave what is no number and is not used: {self.last_error}")
        elif self._trouble:
            self._trouble.clear()
            logger.warning("collector of %s%s is read again", self.collector.metric, self._where())

    def _failed(self, now: int, error: BaseException) -> None:
        self.failures += 1
        self.in_a_row += 1
        words = mask_uri(f"{type(error).__name__}: {error}")
        self.last_error = words
        self._tell(now, type(error).__name__ if isinstance(error, SourceLost) else words, f"failed: {words}")

    def _tell(self, now: int, trouble: str, words: str) -> None:
        """Logs a trouble that is not known yet of this outage, and was not logged of another one just now."""
        if trouble in self._trouble or len(self._trouble) >= TOLD:
            return
        told = self._told_at.get(trouble)
        if told is not None and now - told < QUIET_NS:
            return
        if len(self._told_at) >= TOLD:
            del self._told_at[next(iter(self._told_at))]
        self._trouble[trouble] = None
        self._told_at[trouble] = now
        logger.warning("collector of %s%s %s", self.collector.metric, self._where(), words)

    def _where(self) -> str:
        source = self.source
        return f" ({source})" if source else ""

    @property
    def source(self) -> str | None:
        """Where it reads, without secrets; None for a collector that does not say."""
        source = getattr(self.collector, "source", None)
        return mask_uri(source) if isinstance(source, str) else None

    @property
    def state(self) -> str:
        """waiting (never read), failing, invalid, empty (no value at the last read), ok."""
        if not self.reads:
            return "waiting"
        if self.in_a_row:
            return "failing"
        if self.bad:
            return INVALID
        return "ok" if self.values else "empty"

    def status(self, now: int, monotonic_s: float) -> dict[str, Any]:
        """Plain JSON values; `now` of the engine's clock, for ages, `monotonic_s` of the threads'."""
        return {
            "metric": self.collector.metric,
            "source": self.source,
            "state": self.state,
            "everyMs": round(self.every_s * 1000),
            "ageMs": (now - self.value_at) // MS if self.value_at is not None else None,
            "values": self.values,
            "reads": self.reads,
            "failures": self.failures,
            "invalid": self.invalid,
            "lastError": self.last_error,
            "nextReadMs": max(0, round((self.due - monotonic_s) * 1000)) if self.due is not None else None,
        }

    def end(self) -> None:
        """Closes the collector unless it is being read: whoever reads it does so then."""
        self.gone = True
        if not self.lock.acquire(blocking=False):
            return
        try:
            if not self._ended:
                self._ended = True
                getattr(self.collector, "close", lambda: None)()
        except Exception as error:  # noqa: BLE001 (user code; it is gone either way)
            logger.warning("collector of %s could not be closed: %s", self.collector.metric, mask_uri(str(error)))
        finally:
            self.lock.release()

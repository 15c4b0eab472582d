"""Sentinel's metric log: one line for each resource and second in which anything happened.

    engine = Engine(app="order-service", statistics=Statistics(minutes=True))
    log = MetricLog(engine, Path("/var/log/sentinel")).start()

Seconds are those of the engine's monotonic clock under the nearest second of wall time, so that a step of the wall
clock neither splits nor doubles one; seconds that it would put behind what is written are left out, as Java does.
"""

from __future__ import annotations

import os
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel_core.clock import MS, SECOND
from sentinel_core.metrics.metric_file import Line, MetricFiles, base_name
from sentinel_core.metrics.ticker import Ticked, Ticker
from sentinel_core.window import Bucket

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

STEP = 0.75
"""Seconds by which wall time must have left its place before the seconds are labelled anew."""


class MetricLog(Ticked):
    """Writes the metric log of one engine.

    folder            Sentinel's is `~/logs/csp`
    use_pid           the process id in the files' names (`csp.sentinel.log.use.pid`), for several processes on a host
    every_s           how often what is new is written (`csp.sentinel.metric.flush.interval`); 0: only by `flush`
    max_bytes, keep   as in `MetricFiles`
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        use_pid: bool = False,
        every_s: float = 1.0,
        max_bytes: int = 50 * 2**20,
        keep: int = 6,
        zone: tzinfo | None = None,
    ) -> None:
        from sentinel_core.engine import INBOUND

        inbound = engine.node(INBOUND)
        if inbound is None or inbound.minute is None:
            raise ValueError("this engine keeps no seconds; make it with statistics=Statistics(minutes=True)")
        self._engine = engine
        self._inbound = INBOUND
        base = base_name(engine.app, os.getpid() if use_pid else None)
        self._files = MetricFiles(folder, base, max_bytes=max_bytes, keep=keep, zone=zone)
        self._ticker = Ticker("metric log", self._write, every_s)
        self._forget = engine.on_fork(self._renew_after_fork)
        now = engine.clock.monotonic_ns()
        self._written = now - now % SECOND - SECOND
        """Beginning of the newest second that is written, monotonic ns."""
        self._offset: int | None = None
        self._last_label = 0

    def close(self) -> None:
        """Writes the seconds that are over and ends the thread."""
        self._forget()
        self._ticker.close()
        self._files.close()

    def _renew_after_fork(self) -> None:
        self._files.close()  # the next write begins a file of this process
        self._ticker.renew_after_fork()

    def _write(self) -> None:
        seconds: dict[int, list[tuple[str, Bucket]]] = {}
        for resource in (*self._engine.resources(), self._inbound):
            for bucket in self._engine.seconds(resource, self._written):
                if bucket.passed or bucket.blocked or bucket.success or bucket.errors:
                    seconds.setdefault(bucket.start, []).append((resource, bucket))
        offset = self._wall_offset()
        for start in sorted(seconds):
            label = start // SECOND + offset
            if label > self._last_label:
                self._files.write(label, [_line(label, *each) for each in seconds[start]])
                self._last_label = label
            self._written = start

    def _wall_offset(self) -> int:
        """Whole seconds from monotonic to wall time."""
        clock = self._engine.clock
        exact = clock.wall().timestamp() - clock.monotonic_ns() / SECOND
        if self._offset is None or abs(exact - self._offset) > STEP:
            self._offset = round(exact)
        return self._offset


def _line(second: int, resource: str, bucket: Bucket) -> Line:
    rt = bucket.rt // bucket.success // MS if bucket.success else 0
    return Line(second, resource, bucket.passed, bucket.blocked, bucket.success, bucket.errors, rt, bucket.occupied)

"""Load and CPU of the machine, for system rules. Read once a second by the collectors' thread, never by a call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sentinel_core.collectors.cgroup import CgroupCpu

LOAD: Final = "system.load"
CPU: Final = "system.cpu"
STAT = Path("/proc/stat")


class LoadAverage:
    """The load average of the last minute."""

    metric = LOAD

    def collect(self) -> Mapping[str, float]:
        return {"": os.getloadavg()[0]}


class CpuUsage:
    """The share (0-1) of the CPU time that was there since the last reading and was used: of the machine's, or of what
    this process's control groups allow where that is more. Linux only: elsewhere there is no reading, and a CPU limit
    does not hold."""

    metric = CPU

    def __init__(self, stat: Path = STAT, container: CgroupCpu | None = None) -> None:
        self._stat = stat
        self._container = container or CgroupCpu()
        self._before: tuple[int, int] | None = None

    def collect(self) -> Mapping[str, float]:
        shares = [share for share in (self._machine(), self._container.share()) if share is not None]
        return {"": min(max(shares), 1.0)} if shares else {}

    def _machine(self) -> float | None:
        if not self._stat.exists():
            return None
        fields = [int(field) for field in self._stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        idle, total = fields[3] + fields[4], sum(fields)
        before, self._before = self._before, (idle, total)
        if before is None or total == before[1]:
            return None
        return 1 - (idle - before[0]) / (total - before[1])

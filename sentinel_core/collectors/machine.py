"""Load and CPU of the machine, for system rules. Read once a second by the collectors' thread, never by a call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOAD: Final = "system.load"
CPU: Final = "system.cpu"
STAT = Path("/proc/stat")


class LoadAverage:
    """The load average of the last minute."""

    metric = LOAD

    def collect(self) -> Mapping[str, float]:
        return {"": os.getloadavg()[0]}


class CpuUsage:
    """The share (0-1) of the machine's CPU time since the last reading that was not idle. Linux only: elsewhere there
    is no reading, and a CPU limit does not hold."""

    metric = CPU

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self._before: tuple[int, int] | None = None

    def collect(self) -> Mapping[str, float]:
        if not self._stat.exists():
            return {}
        fields = [int(field) for field in self._stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        idle, total = fields[3] + fields[4], sum(fields)
        before, self._before = self._before, (idle, total)
        if before is None or total == before[1]:
            return {}
        return {"": 1 - (idle - before[0]) / (total - before[1])}

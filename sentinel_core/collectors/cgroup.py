"""The CPU that a container may use, and how much of it is used: cgroup v2, and v1 with `cpu` and `cpuacct`.

A group without a quota says nothing: then the machine's own share holds. Quotas nest, so every group from the
process's own up to the root of the mount is looked at, and the one that is used most counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc/self")


class Group(NamedTuple):
    """One level of the hierarchy that has a quota."""

    quota: Path
    """`cpu.max` (v2), or `cpu.cfs_quota_us` (v1)."""
    usage: Path
    """`cpu.stat` (v2), or `cpuacct.usage` (v1)."""


class CgroupCpu:
    """How much of their quota this process's control groups use between two readings."""

    def __init__(self, proc: Path = PROC, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._proc = proc
        self._monotonic_ns = monotonic_ns
        self._before: dict[Path, tuple[int, int]] = {}

    def share(self) -> float | None:
        """Used CPU time by allowed CPU time (0-1, a little more in a burst) since the last reading. None at the first
        reading, and where nothing is limited."""
        shares: list[float] = []
        for group in groups(self._proc):
            cpus, used, now = allowed(group), used_ns(group), self._monotonic_ns()
            if cpus is None or used is None:
                continue
            before = self._before.get(group.usage)
            self._before[group.usage] = (used, now)
            if before is not None and now > before[1]:
                shares.append((used - before[0]) / (now - before[1]) / cpus)
        return max(shares, default=None)


def groups(proc: Path = PROC) -> Iterator[Group]:
    """The control groups of this process that can have a CPU quota, its own first."""
    mounts, places = _mounts(proc), _places(proc)
    for folder in _upwards(mounts.get(""), places.get("")):
        yield Group(folder / "cpu.max", folder / "cpu.stat")
    quotas = _upwards(mounts.get("cpu"), places.get("cpu"))
    usages = _upwards(mounts.get("cpuacct"), places.get("cpuacct"))
    for quota, usage in zip(quotas, usages, strict=False):
        yield Group(quota / "cpu.cfs_quota_us", usage / "cpuacct.usage")


def allowed(group: Group) -> float | None:
    """How many CPUs a group may use, None without a quota."""
    words = _text(group.quota).split()
    if group.quota.name != "cpu.max":
        words += _text(group.quota.with_name("cpu.cfs_period_us")).split()
    quota, period = map(_number, words) if len(words) == 2 else (None, None)
    return quota / period if quota is not None and period and quota > 0 else None


def used_ns(group: Group) -> int | None:
    """CPU time a group has used since it was made, None where that cannot be read."""
    text = _text(group.usage)
    if group.usage.name == "cpuacct.usage":
        return _number(text.strip())
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec":
            used = _number(value)
            return None if used is None else used * 1000
    return None


def _mounts(proc: Path) -> dict[str, Path]:
    """Where each controller is mounted; "" is the one hierarchy of v2."""
    found: dict[str, Path] = {}
    for line in _text(proc / "mounts").splitlines():
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        if fields[2] == "cgroup2":
            found.setdefault("", Path(fields[1]))
        elif fields[2] == "cgroup":
            for option in fields[3].split(","):
                found.setdefault(option, Path(fields[1]))
    return found


def _places(proc: Path) -> dict[str, str]:
    """The path of this process's group under each controller."""
    found: dict[str, str] = {}
    for line in _text(proc / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _upwards(mount: Path | None, place: str | None) -> list[Path]:
    """A group and those around it, up to the mount. In a container the mount itself is the group."""
    if mount is None or place is None:
        return []
    folder = mount / place.lstrip("/")
    if ".." in folder.parts or not folder.is_dir():
        return [mount]
    inside = [folder, *folder.parents]
    return inside[: inside.index(mount) + 1]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None

"""CPU in containers: the files as kernels write them, and a real group where this machine lets us make one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sentinel_core.collectors.cgroup import CgroupCpu, allowed, groups
from sentinel_core.collectors.machine import CpuUsage

SECOND = 1_000_000_000


class Machine:
    """A /proc/self and a mounted hierarchy in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.now = 0
        self.cpu = CgroupCpu(self.proc, lambda: self.now)

    def v2(self, place: str) -> None:
        (self.proc / "mounts").write_text(f"cgroup2 {self.folder}/v2 cgroup2 rw,nosuid 0 0\n")
        (self.proc / "cgroup").write_text(f"0::{place}\n")

    def v1(self, place: str) -> None:
        (self.proc / "mounts").write_text(
            f"tmpfs {self.folder} tmpfs rw 0 0\ncgroup {self.folder}/cpu cgroup rw,cpu 0 0\n"
            f"cgroup {self.folder}/acct cgroup rw,cpuacct 0 0\n"
        )
        (self.proc / "cgroup").write_text(f"4:memory:/other\n2:cpuacct:{place}\n1:cpu:{place}\n0::/\n")

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_v2_share_of_the_quota(machine: Machine) -> None:
    machine.v2("/kube/pod")
    machine.write("v2/kube/pod/cpu.max", "50000 100000\n")
    machine.write("v2/kube/pod/cpu.stat", "usage_usec 1000000\nuser_usec 7\n")
    assert machine.cpu.share() is None, "nothing to compare with"
    machine.now = 2 * SECOND
    machine.write("v2/kube/pod/cpu.stat", "usage_usec 1800000\nuser_usec 7\n")
    assert machine.cpu.share() == pytest.approx(0.8), "0.8 s of the 1 s that half a CPU is in two"


def test_the_group_around_that_is_used_most_counts(machine: Machine) -> None:
    machine.v2("/slice/unit")
    machine.write("v2/slice/unit/cpu.max", "max 100000\n")
    machine.write("v2/slice/cpu.max", "200000 100000\n")
    for used, at in ((0, 0), (1_500_000, SECOND)):
        machine.now = at
        for place in ("slice/unit", "slice"):
            machine.write(f"v2/{place}/cpu.stat", f"usage_usec {used}\n")
        share = machine.cpu.share()
    assert share == pytest.approx(0.75)


def test_v1_with_two_mounts(machine: Machine) -> None:
    machine.v1("/docker/abc")
    machine.write("cpu/docker/abc/cpu.cfs_quota_us", "150000\n")
    machine.write("cpu/docker/abc/cpu.cfs_period_us", "100000\n")
    for used, at in ((10 * SECOND, 0), (13 * SECOND, 4 * SECOND)):
        machine.now = at
        machine.write("acct/docker/abc/cpuacct.usage", f"{used}\n")
        share = machine.cpu.share()
    assert share == pytest.approx(0.5)


def test_in_a_container_the_mount_is_the_group(machine: Machine) -> None:
    """The path is the host's; nothing of it is to be seen from inside."""
    machine.v2("/kube/pod")
    machine.write("v2/cpu.max", "100000 100000\n")
    (group,) = groups(machine.proc)
    assert allowed(group) == 1.0


@pytest.mark.parametrize("quota", ["max 100000\n", "-1\n", "0 0\n", "", "x y\n", "100000 0\n"])
def test_without_a_readable_quota_nothing_is_said(machine: Machine, quota: str) -> None:
    machine.v2("/")
    machine.write("v2/cpu.max", quota)
    machine.write("v2/cpu.stat", "usage_usec 1\n")
    assert machine.cpu.share() is None
    machine.now = SECOND
    assert machine.cpu.share() is None


def test_a_machine_without_control_groups(tmp_path: Path) -> None:
    assert CgroupCpu(tmp_path).share() is None


def test_the_larger_share_is_the_one_that_limits(machine: Machine, tmp_path: Path) -> None:
    machine.v2("/")
    machine.write("v2/cpu.max", "10000 100000\n")
    stat = tmp_path / "stat"
    usage = CpuUsage(stat, machine.cpu)
    for idle, used, at in ((0, 0, 0), (900, 95_000, SECOND)):
        machine.now = at
        stat.write_text(f"cpu  {idle // 9} 0 0 {idle} 0 0 0 0 0 0\n")
        machine.write("v2/cpu.stat", f"usage_usec {used}\n")
        reading = usage.collect()
    assert reading[""] == pytest.approx(0.95), "the machine is idle, the container is not"


BURN = """
import sys, time
sys.stdin.readline()
from sentinel_core.collectors.cgroup import CgroupCpu
cpu = CgroupCpu()
cpu.share()
end = time.monotonic() + 0.6
while time.monotonic() < end:
    pass
print(cpu.share())
"""


def own_group() -> Path | None:
    """A new group with a fifth of a CPU under v1 or v2, None where this machine does not let us."""
    for group in groups():
        folder = group.quota.parent / f"sentinel-test-{os.getpid()}"
        try:
            folder.mkdir()
            if group.quota.name == "cpu.max":
                (folder / "cpu.max").write_text("20000 100000")
            else:
                (folder / "cpu.cfs_period_us").write_text("100000")
                (folder / "cpu.cfs_quota_us").write_text("20000")
                (group.usage.parent / folder.name).mkdir(exist_ok=True)
        except OSError:
            if folder.is_dir():
                folder.rmdir()
            continue
        return folder
    return None


def test_a_real_group_that_is_used_up() -> None:
    folder = own_group()
    if folder is None:
        pytest.skip("this user may not make control groups here")
    places = {folder, *(group.usage.parent / folder.name for group in groups())}
    burning = subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        for place in places:
            if place.is_dir():
                (place / "cgroup.procs").write_text(str(burning.pid))
        out, _ = burning.communicate("\n", timeout=30)
    finally:
        burning.kill()
        burning.wait()
        deadline = time.monotonic() + 5
        for place in places:
            while place.is_dir() and time.monotonic() < deadline:
                try:
                    place.rmdir()
                except OSError:  # the kernel needs a moment to see that nobody is inside any more
                    time.sleep(0.01)
    assert float(out) > 0.7

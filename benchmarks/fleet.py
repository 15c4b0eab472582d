"""How long one put takes to a thousand engines on one machine.

Run: python benchmarks/fleet.py [--engines 1000] [--processes 8] [--puts 20]

A service is a process with an engine; a thousand of them do not fit a test host, so each process holds many, which
share one source: one connection, one watch, and one read for all who ask at once. The clock starts before the put and
stops, for each engine, when its subscription tells its listeners of the new version.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, cast

from sentinel_core import Engine, datasources
from sentinel_core.datasources import ItemStatus, State

ROOT = Path(__file__).resolve().parents[1]
BAR_S = 1.0
RULES = 20
WAIT_S = 120.0
KEY = b"/sentinel/fleet/g/sentinel-flow-rules"


def content(number: int) -> bytes:
    return json.dumps([{"resource": f"r{each}", "grade": 1, "count": number + 1} for each in range(RULES)]).encode()


class Share:
    """The engines of one process."""

    def __init__(self, uri: str, engines: int) -> None:
        self._source = datasources.open(uri)
        self._told = threading.Condition()
        self._times: dict[str, list[float]] = {}
        """Of each version, when the engines had it (monotonic seconds, one clock for the whole machine)."""
        self._engines = [Engine(f"app-{number}") for number in range(engines)]
        self.subscriptions = [engine.subscribe("flow", self._source) for engine in self._engines]
        self.ready = all(each.wait_ready(WAIT_S) for each in self.subscriptions)
        for each in self.subscriptions:
            each.on_state(self._note)

    def _note(self, status: ItemStatus) -> None:
        if status.state is State.READY and status.version is not None:
            with self._told:
                self._times.setdefault(status.version, []).append(time.monotonic())
                self._told.notify_all()

    def wait(self, version: str) -> list[float]:
        """When each had it, sorted; fewer than there are engines where some did not get it in time."""
        with self._told:
            self._told.wait_for(lambda: len(self._times.get(version, ())) == len(self._engines), WAIT_S)
            return sorted(self._times.get(version, ()))

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        self._source.close()


class Host:
    """A process with a share of the fleet; asked on its standard input for the times of a version."""

    def __init__(self, uri: str, engines: int) -> None:
        command = [sys.executable, __file__, "--share", uri, str(engines)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def answer(self) -> Any:
        return json.loads(cast("IO[str]", self._process.stdout).readline())

    def ask(self, version: str) -> None:
        print(version, file=cast("IO[str]", self._process.stdin), flush=True)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)


def host(uri: str, engines: int) -> None:
    share = Share(uri, engines)
    usage = time.process_time()
    time.sleep(2)
    idle = (time.process_time() - usage) / 2
    print(json.dumps({"ready": share.ready, "threads": threading.active_count(), "idle": idle}), flush=True)
    for line in sys.stdin:
        print(json.dumps(share.wait(line.strip())), flush=True)


def main() -> int:
    if sys.argv[1:2] == ["--share"]:
        host(sys.argv[2], int(sys.argv[3]))
        os._exit(0)
    parser = argparse.ArgumentParser()
    parser.add_argument("--engines", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--puts", type=int, default=20)
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from sentinel_core.datasources.etcd.client import Client
    from sentinel_core.datasources.etcd.store import Store
    from sentinel_core.datasources.etcd.target import Target
    from tests.services.etcd import EtcdServer

    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        server = EtcdServer(Path(folder)).start()
        hosts: list[Host] = []
        try:
            writer = Store(Client(Target((server.address,)), time.monotonic), time.monotonic)
            _put(writer, 0)
            uri = server.uri("/fleet/g", kind="flow")
            hosts += [Host(uri, asked.engines // asked.processes) for _ in range(asked.processes)]
            states = [each.answer() for each in hosts]
            engines = asked.engines // asked.processes * asked.processes
            took = [_converged(writer, hosts, number, engines) for number in range(1, asked.puts + 1)]
        finally:
            for each in hosts:
                each.close()
            server.kill()
    every = sorted(seconds for times in took for seconds in times)
    worst = max(times[int(len(times) * 0.99)] for times in took)
    p50, p99 = every[len(every) // 2], every[int(len(every) * 0.99)]
    print(
        f"{engines} engines in {len(hosts)} processes ({states[0]['threads']} threads each, idle "
        f"{states[0]['idle']:.1%} of a core each), {asked.puts} puts: p50 {p50 * 1000:.0f} ms, "
        f"p99 {p99 * 1000:.0f} ms, worst p99 of a put {worst * 1000:.0f} ms, last engine {every[-1] * 1000:.0f} ms "
        f"(bar: p99 {BAR_S:g} s)"
    )
    return 0 if p99 <= BAR_S else 1


def _put(writer: Any, number: int) -> str:
    """The version that it made."""
    (stands,) = writer.read([KEY])
    return str(writer.replace([(KEY, content(number))], stands.revision if stands else 0))


def _converged(writer: Any, hosts: list[Host], number: int, engines: int) -> list[float]:
    """Seconds from before the put, sorted."""
    time.sleep(0.2)
    began = time.monotonic()
    version = _put(writer, number)
    for each in hosts:
        each.ask(version)
    times = sorted(at - began for each in hosts for at in each.answer())
    if len(times) != engines:
        raise TimeoutError(f"{engines - len(times)} engines did not get change {number}")
    return times


if __name__ == "__main__":
    sys.exit(main())

"""Real servers that fork workers or patch threads: every worker follows the store, and a change is one event."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import Query
from sentinel_core.status_file import read
from tests.services import etcd

HERE = Path(__file__).parent
KEY = "/sentinel/public/SENTINEL_GROUP/sentinel-flow-rules"
SOON_S = 20.0


def flow(**counts: int) -> bytes:
    rules: list[dict[str, Any]] = [{"resource": name, "grade": 1, "count": count} for name, count in counts.items()]
    queue = {"resource": "queue", "grade": 1, "count": 20, "controlBehavior": 2, "maxQueueingTimeMs": 5000}
    return json.dumps([*rules, queue]).encode()


class Store:
    """Where the rules of a served application stand: a file, or a real etcd."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.server: etcd.EtcdServer | None = None
        self._file = folder / "sentinel-flow-rules.json"
        self.uri = f"{self._file.as_uri()}?kind=flow"
        if kind == "etcd":
            etcd.needed()
            (folder / "etcd").mkdir()
            self.server = etcd.EtcdServer(folder / "etcd").start()
            self.uri = self.server.uri(kind="flow")

    def put(self, content: bytes) -> None:
        if self.server is not None:
            self.server.put(KEY, content)
        else:
            self._file.write_bytes(content)

    def stop(self) -> None:
        if self.server is not None:
            self.server.kill()


class Served:
    """gunicorn with two workers."""

    def __init__(self, folder: Path, store: Store, *options: str, patch: bool = False) -> None:
        self.folder = folder
        (folder / "sentinel.yaml").write_text(
            f"app: shop\nstores: ['{store.uri}']\naudit: {{store: 'sqlite:///{folder}/.sentinel/audit.db'}}\n",
            encoding="utf-8",
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.log = folder / "gunicorn.log"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
        environment |= {"SERVED": str(folder / "sentinel.yaml"), "PYTHONPATH": str(HERE.parents[1])}
        environment |= {"PATCH": "1"} if patch else {}
        hook = folder / "gunicorn.conf.py"
        hook.write_text(
            "def worker_exit(server, worker):\n    import served\n    served.engine.close()\n", encoding="utf-8"
        )
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "gunicorn", "--workers=2", f"--bind=127.0.0.1:{self.port}"),
                    *(f"--chdir={HERE}", f"--config={hook}", "--graceful-timeout=5", *options, "served:app"),
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def get(self, path: str = "/") -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            told: dict[str, Any] = json.loads(answer.read())
            return told

    def workers(self, condition: Callable[[dict[str, Any]], bool]) -> dict[int, dict[str, Any]]:
        """What both workers say, once it is as it should be in both."""
        seen: dict[int, dict[str, Any]] = {}
        deadline = time.monotonic() + SOON_S
        while time.monotonic() < deadline and len(seen) < 2:
            assert self.process.poll() is None, self.log.read_text()
            try:
                told = self.get()
            except (OSError, urllib.error.URLError):
                time.sleep(0.05)
                continue
            if condition(told):
                seen[told["pid"]] = told
            time.sleep(0.01)
        assert len(seen) == 2, (seen, self.log.read_text()[-3000:])
        return seen

    def await_status_of(self, workers: Iterable[int]) -> None:
        """Each tells `sentinelctl instances` of itself."""
        deadline = time.monotonic() + SOON_S
        told: set[int] = set()
        while not told >= set(workers) and time.monotonic() < deadline:
            told = {status.document["pid"] for status in read(self.folder / ".sentinel" / "status")}
            time.sleep(0.05)
        assert told >= set(workers)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
            raise


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[Store, Served]]]:
    stops: list[Callable[[], object]] = []

    def run(kind: str, *options: str, patch: bool = False) -> tuple[Store, Served]:
        pytest.importorskip("gunicorn", reason="the extra dev is not installed")
        store = Store(kind, tmp_path)
        stops.append(store.stop)
        store.put(flow(a=1))
        served = Served(tmp_path, store, *options, patch=patch)
        stops.append(served.stop)
        return store, served

    yield run
    for stop in reversed(stops):
        stop()


GEVENT = ("--worker-class=gevent",)
WAYS = [
    pytest.param("file", (), False, id="sync"),
    pytest.param("file", ("--preload",), False, id="sync, preload"),
    pytest.param("etcd", ("--worker-class=gthread", "--threads=4", "--preload"), False, id="gthread, preload, etcd"),
    pytest.param("etcd", GEVENT, False, id="gevent, etcd"),
    pytest.param("etcd", (*GEVENT, "--preload"), True, id="gevent, preload, etcd"),
]


@pytest.mark.parametrize(("kind", "options", "patch"), WAYS)
def test_every_worker_follows_the_store_and_a_change_is_one_event(
    serve: Callable[..., tuple[Store, Served]], kind: str, options: tuple[str, ...], patch: bool
) -> None:
    store, served = serve(kind, *options, patch=patch)
    served.workers(lambda told: told["rules"].get("a") == 1 and told["states"] == ["ready"])
    store.put(flow(a=7))
    workers = served.workers(lambda told: told["rules"].get("a") == 7 and told["states"] == ["ready"])
    served.await_status_of(workers)
    assert served.stop() == 0, served.log.read_text()
    assert changes(served.folder) == 2, "rules that were there at first, and one change; not one a worker"
    log = served.log.read_text()
    late = patch and "--preload" in options  # greenlets outlive a fork, and threading is at odds with those that end
    assert ("Traceback" in log and "start the engine in the worker instead" in log) if late else "Traceback" not in log


def changes(folder: Path) -> int:
    """Change events in the audit store, once what waits has been delivered."""
    store = open_store(f"sqlite:///{folder}/.sentinel/audit.db", read_only=True)
    found = {row.event.id: row.event.type for row in store.query(Query()).rows}
    store.close()
    return list(found.values()).count("sentinel.rules.changed.v1")


@pytest.mark.parametrize("patch", [False, True], ids=["patched by the worker", "patched before all"])
def test_a_queueing_wait_lets_other_greenlets_go_on(serve: Callable[..., tuple[Store, Served]], patch: bool) -> None:
    """20 a second for each worker; one that held up its process would let nobody else in meanwhile."""
    _, served = serve("file", *GEVENT, patch=patch)
    served.workers(lambda told: told["rules"].get("a") == 1)
    with ThreadPoolExecutor(16) as pool:
        queued = [pool.submit(served.get, "/queue") for _ in range(16)]
        time.sleep(0.05)
        began = time.monotonic()
        served.get()
        meanwhile_s = time.monotonic() - began
        answers = [each.result() for each in queued]
    assert all(each["passed"] for each in answers)
    assert max(each["tookMs"] for each in answers) > 200, "somebody waited"
    assert meanwhile_s < 0.2 + max(each["tookMs"] for each in answers) / 1000 / 2


PATCHED = """\
from gevent import monkey
monkey.patch_all()
import sys, time
import gevent
from sentinel_core import Engine, datasources
engine = Engine()
beats = []
gevent.spawn(lambda: [beats.append(gevent.sleep(0.005)) for _ in range(100_000)])
subscription = engine.subscribe("flow", datasources.open(sys.argv[1]))
assert subscription.wait_ready(10), subscription.status()
print("ready", flush=True)
deadline = time.monotonic() + 20
while engine.rules("flow").rules[0].count != 7 and time.monotonic() < deadline:
    gevent.sleep(0.005)
before, busy = len(beats), time.process_time()
gevent.sleep(1)
print(engine.rules("flow").rules[0].count, len(beats) - before > 50, time.process_time() - busy < 0.5, flush=True)
engine.close()
"""


@pytest.mark.parametrize("kind", ["file", "etcd"])
def test_a_patched_process_follows_its_store_while_other_greenlets_run(tmp_path: Path, kind: str) -> None:
    """Without a word to gRPC the first watch of etcd would hold it up for ever."""
    pytest.importorskip("gevent", reason="the extra dev is not installed")
    store = Store(kind, tmp_path)
    store.put(flow(a=1))
    command = [sys.executable, "-c", PATCHED, store.uri]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "ready\n"
                store.put(flow(a=7))
                assert process.communicate(timeout=30)[0].split() == ["7.0", "True", "True"]
            finally:
                process.kill()
    finally:
        store.stop()


GREENLETS = """\
from gevent import monkey
monkey.patch_all()
import gevent
from sentinel_core import Engine, context
from sentinel_core.context import current
engine = Engine()
engine.load_rules("flow", [{"resource": "two", "grade": 0, "count": 2}])

def call(name):
    with context("web", origin=name):
        entered = engine.try_entry("two")
        gevent.sleep(0.05)
        if entered:
            entered.exit()
        return bool(entered), current().origin == name

jobs = [gevent.spawn(call, f"caller{number}") for number in range(10)]
gevent.joinall(jobs)
print(sum(job.value[0] for job in jobs), all(job.value[1] for job in jobs), engine.stats("two").threads)
"""


def test_greenlets_are_calls_of_their_own_with_a_context_each() -> None:
    pytest.importorskip("gevent", reason="the extra dev is not installed")
    done = subprocess.run([sys.executable, "-c", GREENLETS], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["2", "True", "0"], done.stderr

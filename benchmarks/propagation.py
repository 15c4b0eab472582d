"""How long a change takes from its store to active rules, and what a subscription costs while nothing happens.

Run: python benchmarks/propagation.py [number of changes]

The clock starts before the write (for Git: before the command that moves the branch is started) and stops when the
subscription tells its listeners of the new version: a figure holds the writer's own time as well.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Queue

from sentinel_core import Engine
from sentinel_core.datasources import (
    Applied,
    EtcdSource,
    FileSource,
    GitSource,
    Outcome,
    Readable,
    StopSignal,
    Subscription,
)
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.keys import pair
from sentinel_core.datasources.etcd.store import Store
from sentinel_core.datasources.etcd.target import Target
from sentinel_core.rules import KINDS

RULES_PER_FILE = 20
PAUSE_S = 0.03
"""Between two changes: those that come closer are read together, every 10 ms, which is not what is asked here."""
BARS_MS = {"file": 50.0, "git": 1000.0, "etcd": 1000.0}
Change = Callable[[int], float]
"""Makes the numbered change; returns when it began (`perf_counter`)."""
World = tuple[Readable, Change]


def document(number: int) -> bytes:
    rules = "".join(f"  - {{resource: r{each}, count: {number + 1}}}\n" for each in range(RULES_PER_FILE))
    return f"flowRules:\n{rules}".encode()


def file_in_place(folder: Path) -> World:
    path = folder / "sentinel-rules.yaml"

    def change(number: int) -> float:
        began = time.perf_counter()
        path.write_bytes(document(number))
        return began

    return FileSource(path), change


def file_renamed(folder: Path) -> World:
    path = folder / "sentinel-rules.yaml"

    def change(number: int) -> float:
        (folder / "aside").write_bytes(document(number))
        began = time.perf_counter()
        (folder / "aside").replace(path)
        return began

    return FileSource(path), change


def git_repository(folder: Path, *, clone: bool = False) -> World:
    """The commit is made beforehand as an object; the change is the one command that moves the branch to it."""
    git(folder, "init", "-q", "--bare", "-b", "main", ".")
    identity = ("-c", "user.name=Ada Example", "-c", "user.email=ada@example.com")
    parent: list[str] = []

    def change(number: int) -> float:
        blob = git(folder, "hash-object", "-w", "--stdin", stdin=document(number))
        tree = git(folder, "mktree", stdin=f"100644 blob {blob}\tsentinel-rules.yaml\n".encode())
        commit = git(folder, *identity, "commit-tree", tree, "-m", f"change {number}", *parent)
        parent[:] = ["-p", commit]
        began = time.perf_counter()
        git(folder, "update-ref", "refs/heads/main", commit)
        return began

    cache = folder.parent / "cache"
    return GitSource(folder, ref="main", path="sentinel-rules.yaml", clone=clone, cache=cache, interval_s=0.5), change


def etcd_key(folder: Path) -> tuple[EtcdSource, Change]:
    """A server of its own; the change is one transaction over a connection that stands, content and provenance."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.services.etcd import EtcdServer

    server = EtcdServer(folder).start()
    source = EtcdSource(Target.of(server.uri()), environment="benchmark", kind="flow")
    writer = Store(Client(Target.of(server.uri()), time.monotonic), time.monotonic)
    keys = pair(source.items(["flow"])[0].key)

    def change(number: int) -> float:
        values = (json.dumps(rule_list(number)).encode(), b"{}")
        stands, _ = writer.look(keys[0])
        began = time.perf_counter()
        writer.replace(list(zip(keys, values, strict=True)), stands)
        return began

    atexit.register(server.kill)
    return source, change


def raw_watch(folder: Path, rounds: int) -> list[float]:
    """The store's own time: from the same write to the word of a bare watch of its key, in milliseconds, sorted."""
    source, change = etcd_key(folder)
    target, (item,) = source._target, source.items(["flow"])
    watcher, stop, told = Store(Client(target, time.monotonic), time.monotonic), StopSignal(), Queue[float]()
    _, revision = watcher.look(item.key.encode())

    def watch() -> None:
        for _ in watcher.watch(item.key.encode(), revision + 1, stop):
            told.put(time.perf_counter())

    thread = threading.Thread(target=watch)
    thread.start()
    change(0)
    told.get(timeout=10)
    times = []
    for number in range(1, rounds + 1):
        time.sleep(PAUSE_S)
        began = change(number)
        times.append((told.get(timeout=10) - began) * 1000)
    stop.set()
    thread.join()
    return sorted(times)


def rule_list(number: int) -> list[dict[str, object]]:
    return [{"resource": f"r{each}", "count": number + 1} for each in range(RULES_PER_FILE)]


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, input=stdin, check=True, capture_output=True)
    return done.stdout.decode().strip()


def measure(subscription: Subscription, change: Change, rounds: int) -> list[float]:
    """Milliseconds per change, sorted."""
    told: Queue[tuple[str | None, float]] = Queue()
    subscription.on_state(lambda status: told.put((status.version, time.perf_counter())))
    version = subscription.status()[0].version
    times = []
    for number in range(1, rounds + 1):
        time.sleep(PAUSE_S)
        began, before = change(number), version
        while version == before:
            version, at = told.get(timeout=10)
        times.append((at - began) * 1000)
    return sorted(times)


def idle_share(seconds: float = 1.0) -> float:
    """Share of one core that this process uses while nothing changes."""
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / seconds


def nothing(source: Readable) -> Subscription:
    kinds = kinds_of(source)
    return Subscription(
        source, kinds, lambda _revision, _restored: Applied(Outcome.ACTIVATED, frozenset(kinds))
    ).start()


def engine(source: Readable) -> Subscription:
    return Engine(app="benchmark").subscribe(kinds_of(source), source)


def kinds_of(source: Readable) -> tuple[str, ...]:
    return tuple(kind for item in source.items(KINDS) for kind in item.kinds)


def quantile(times: Sequence[float], share: float) -> float:
    return times[min(len(times) - 1, int(len(times) * share))]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    worlds: list[tuple[str, Callable[[Path], World], int]] = [
        ("file, written in place", file_in_place, rounds),
        ("file, renamed", file_renamed, rounds),
        ("git, on this machine", git_repository, rounds),
        ("etcd, on this machine", etcd_key, rounds),
        ("git, by URL asked every 0.5 s", lambda folder: git_repository(folder, clone=True), min(rounds, 20)),
    ]
    if shutil.which("etcd") is None or shutil.which("etcdctl") is None:
        print("etcd is left out: it is not installed (apt-get install etcd-server etcd-client)")
        worlds = [world for world in worlds if world[1] is not etcd_key]
    print(f"{'change → active, ms':32}{'applied by':11}{'n':>5}{'p50':>8}{'p99':>8}{'max':>8}{'bar p99':>9}{'idle':>8}")
    for title, make, count in worlds:
        bar = BARS_MS[title.partition(",")[0]]
        for subscribe in (nothing, engine):
            with tempfile.TemporaryDirectory() as folder:
                (store := Path(folder) / "store").mkdir()
                source, change = make(store)
                change(0)
                subscription = subscribe(source)
                subscription.wait_ready(10)
                times = measure(subscription, change, count)
                share = idle_share()
                subscription.close()
            figures = f"{quantile(times, 0.5):8.1f}{quantile(times, 0.99):8.1f}{times[-1]:8.1f}{bar:9.0f}{share:8.2%}"
            print(f"{title:32}{subscribe.__name__:11}{count:5}{figures}")
        if make is etcd_key:
            with tempfile.TemporaryDirectory() as folder:
                times = raw_watch(Path(folder), count)
            figures = f"{quantile(times, 0.5):8.1f}{quantile(times, 0.99):8.1f}{times[-1]:8.1f}"
            print(f"{'  its own put → watch':32}{'':11}{count:5}{figures}")


if __name__ == "__main__":
    main()

"""Changes without end, and kills at random points: each change must become active and be told of once.

Run: python benchmarks/endurance.py [file etcd] [--changes 1000] [--kills 60] [--seed 1]

A client of its own process follows a store; its outbox and last good copy lie on disk. Each change is waited for. Some,
drawn by the seed, are struck: within a few milliseconds around the change the client is killed and started again, or
something befalls the store (see its ground). At the end the events in the outbox must be the changes, in their order.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, cast

from sentinel_core import Engine, datasources
from sentinel_core.audit.outbox import Outbox
from sentinel_core.datasources import Absent, DatasourceError, ItemStatus
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.rules import Revision, SourceText, parse_revision

ROOT = Path(__file__).resolve().parents[1]
AROUND_S = 0.03
"""A strike falls so long after its change begins, at most; a change takes a few milliseconds."""
WAIT_S = 60.0


class Ground(Protocol):
    """A store, how it is changed from outside, and what may befall it."""

    uri: str
    """What the client follows."""

    @property
    def strikes(self) -> Mapping[str, Callable[[], None]]:
        """By name; each returns when it is over and the store can be reached again."""

    def put(self, content: bytes) -> None:
        """Returns when it stands, however often that must be tried; does not write again what stands already."""

    def close(self) -> None: ...


class FileGround:
    """A file, written in place and replaced by turns; nothing befalls it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sentinel-flow-rules.json"
        self.uri = f"file://{self._path}?kind=flow"
        self.strikes: Mapping[str, Callable[[], None]] = {}
        self._turn = 0

    def put(self, content: bytes) -> None:
        self._turn += 1
        if self._turn % 2:
            self._path.write_bytes(content)
        else:
            aside = self._path.with_suffix(".aside")
            aside.write_bytes(content)
            aside.replace(self._path)

    def close(self) -> None:
        pass


class EtcdGround:
    """A server that is killed, and a link to it that is cut."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(ROOT))
        from sentinel_core.datasources.etcd.client import Client
        from sentinel_core.datasources.etcd.store import Store
        from sentinel_core.datasources.etcd.target import Target
        from tests.services.etcd import EtcdServer
        from tests.services.proxy import Proxy

        (folder / "server").mkdir()
        self._server = EtcdServer(folder / "server").start()
        self._link = Proxy(self._server.port)
        self.uri = f"etcd://127.0.0.1:{self._link.port}/endurance/g?kind=flow"
        self.strikes = {"server": self._restart, "link": self._link.cut, "outage": self._outage}
        self._key = b"/sentinel/endurance/g/sentinel-flow-rules"
        self._store = Store(Client(Target((self._server.address,)), time.monotonic), time.monotonic)

    def _restart(self) -> None:
        self._server.kill()
        self._server.start()

    def _outage(self) -> None:
        self._link.refuse()
        time.sleep(0.5)
        self._link.restore()

    def put(self, content: bytes) -> None:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                (stands,) = self._store.read([self._key])
                if stands is not None and stands.content == content:
                    return
                self._store.replace([(self._key, content)], stands.revision if stands else 0)
            except DatasourceError:
                time.sleep(0.05)
        raise TimeoutError("etcd took no write")

    def close(self) -> None:
        self._store.close()
        self._link.close()
        self._server.kill()


GROUNDS: dict[str, Callable[[Path], Ground]] = {"file": FileGround, "etcd": EtcdGround}
"""One line per store."""


def content(number: int) -> bytes:
    return json.dumps([{"resource": "pay", "grade": 1, "count": number + 1}]).encode()


def digest(number: int) -> str:
    revision = Revision((SourceText("flow.json", content(number), "json"),), "made", "1")
    return parse_revision(revision, ["flow"])["flow"].digest


# -- the client --------------------------------------------------------------------------------------------------------


def follow(uri: str, folder: str) -> None:
    """Says of each state what is active, and of each reading that is empty; until it is killed."""
    source: Any = datasources.open(uri)
    read = source.read

    def watched(item: Any) -> Any:
        found = read(item)
        if isinstance(found, Absent) or not all(text.content.strip() for text in found.texts):
            _say("empty -")
        return found

    source.read = watched
    outbox, last_good = Outbox(Path(folder) / "outbox.db"), LastGood(Path(folder) / "last-good")
    engine = Engine("endurance", instance="i", audit=outbox, last_good=last_good)

    def tell(status: ItemStatus) -> None:
        rules = engine.rules("flow").rules
        _say(f"{status.state.value} {int(rules[0].count) - 1 if rules else 'none'}")

    subscription = engine.subscribe("flow", source)
    subscription.on_state(tell)
    for status in subscription.status():
        tell(status)
    threading.Event().wait()


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # whole, from whatever thread


class Client:
    """The process that follows, over all its lives."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._command = [sys.executable, __file__, "--follow", uri, str(folder)]
        self._log = folder / "client.log"
        self._told = threading.Condition()
        self._last = ""
        self.empty = 0
        """Readings without content, and states without rules after there were some."""
        self.start()

    def start(self) -> None:
        self._last = ""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env={**os.environ}
            )
        threading.Thread(target=self._hear, args=(self._process,), daemon=True).start()

    def _hear(self, process: subprocess.Popen[str]) -> None:
        with cast("IO[str]", process.stdout) as lines:
            for line in lines:
                with self._told:
                    state, active = line.split()
                    self.empty += state == "empty" or (active == "none" and state != "init")
                    self._last = line.strip() if process is self._process else self._last
                    self._told.notify_all()

    def wait(self, number: int) -> bool:
        with self._told:
            return self._told.wait_for(lambda: self._last == f"ready {number}", WAIT_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def restart(self) -> None:
        self.kill()
        self.start()

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]


# -- the test ----------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came of it."""

    changes: int
    strikes: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    """Digests of the events, in the order of the outbox."""
    empty: int = 0
    quiet_s: list[float] = field(default_factory=list)
    """From the change to READY, where nothing befell it."""
    struck_s: dict[str, list[float]] = field(default_factory=dict)

    @property
    def made(self) -> list[str]:
        return [digest(number) for number in range(self.changes + 1)]

    @property
    def lost(self) -> int:
        return len(set(self.made) - set(self.told))

    @property
    def repeated(self) -> int:
        return len(self.told) - len(set(self.told))

    @property
    def good(self) -> bool:
        return self.told == self.made and not self.empty


def endure(make: Callable[[Path], Ground], folder: Path, changes: int, kills: int, seed: int) -> Tally:
    """Raises TimeoutError where a change does not become active at all."""
    rng, tally = random.Random(seed), Tally(changes)
    struck = set(rng.sample(range(1, changes + 1), kills))
    with ExitStack() as undo:
        ground = make(folder)
        undo.callback(ground.close)
        ground.put(content(0))
        client = Client(ground.uri, folder)
        undo.callback(client.kill)
        strikes = {"client": client.restart, **ground.strikes}
        turns = itertools.cycle(rng.sample(list(strikes), len(strikes)))
        _expect(client, 0)
        for number in range(1, changes + 1):
            name = next(turns) if number in struck else None
            began = time.monotonic()
            if name is None:
                ground.put(content(number))
            else:
                timer = threading.Timer(rng.uniform(0, AROUND_S), strikes[name])
                timer.start()
                ground.put(content(number))
                timer.join()
                tally.strikes[name] += 1
            _expect(client, number)
            times = tally.quiet_s if name is None else tally.struck_s.setdefault(name, [])
            times.append(time.monotonic() - began)
        tally.empty = client.empty
    outbox = Outbox(folder / "outbox.db")
    tally.told = [event.payload["newDigest"] for event in outbox.pending(2 * changes)]
    outbox.close()
    return tally


def _expect(client: Client, number: int) -> None:
    if not client.wait(number):
        raise TimeoutError(f"change {number} did not become active; the client says: {client.log}")


def _report(name: str, tally: Tally, took_s: float) -> None:
    quiet = sorted(tally.quiet_s)
    figures = [f"p50 {quiet[len(quiet) // 2] * 1000:.1f} ms, p99 {quiet[int(len(quiet) * 0.99)] * 1000:.1f} ms"]
    for what, times in sorted(tally.struck_s.items()):
        figures.append(f"{what} struck {len(times)} times, active after at most {max(times):.2f} s")
    print(
        f"{name}: {tally.changes} changes, {sum(tally.strikes.values())} strikes, {took_s:.0f} s: "
        f"{tally.lost} lost, {tally.repeated} repeated, {tally.empty} empty reads; {'; '.join(figures)}"
    )


def main() -> int:
    if sys.argv[1:2] == ["--follow"]:
        follow(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("grounds", nargs="*", default=list(GROUNDS))
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    good = True
    for name in asked.grounds:
        with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
            began = time.monotonic()
            tally = endure(GROUNDS[name], Path(folder), asked.changes, asked.kills, asked.seed)
            _report(name, tally, time.monotonic() - began)
            good = good and tally.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

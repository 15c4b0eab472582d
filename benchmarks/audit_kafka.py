"""Evidence through a real Kafka: outages and kills, fleets, and how soon an event can be asked for.

Run: python benchmarks/audit_kafka.py [chaos fleet latency] [--changes 1000] [--outage 60] [--kills 40] [--seed 1]

chaos    A service of its own process follows a file; `sentinelctl audit ingest` takes what it tells into a store. In
         the middle Kafka is killed for a while; service and ingester, which alone writes the store, are killed at
         points that the seed draws. Each change is waited for. At the end the store must have each once, in order per
         source.
fleet    Engines with outboxes of their own see the same changes: one event for each change, one for each activation.
latency  From the outbox, durable, to the answer of the store; then how fast what waits in Kafka is taken.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, cast

from sentinel_core import Engine, start
from sentinel_core.applied_events import AppliedEvents
from sentinel_core.audit.events import Event, RuleApplied, RuleChanged, rule_changed
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.ingest import Ingest
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target
from sentinel_core.audit.kafka.topics import make_topics
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.kafka import KafkaPublisher
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import verify
from sentinel_core.datasources import ItemStatus
from sentinel_core.datasources.memory import MemorySource
from sentinel_core.rules import Provenance, Revision, SourceText, parse_rules
from sentinel_core.settings import load_settings

ROOT = Path(__file__).resolve().parents[1]
SENTINELCTL = Path(sys.executable).with_name("sentinelctl")
AROUND_S = 0.03
"""A kill falls so long after its change begins, at most; a change takes a few milliseconds."""
WAIT_S = 60.0
BAR_MS = 1000


def kafka(folder: Path) -> Any:
    """A broker, started; `tests` must be importable."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tests.services.kafka import Kafka

    folder.mkdir()
    server = Kafka(folder)
    server.format()
    server.start()
    return server


def percentile(seconds: Sequence[float], part: float) -> float:
    """In ms; of none, 0."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * part))] * 1000 if seconds else 0.0


# -- chaos -------------------------------------------------------------------------------------------------------------


def rules(number: int) -> dict[str, list[dict[str, Any]]]:
    """The document after `number` changes, which are of the two kinds in turn."""
    return {
        "flow": [{"resource": "pay", "grade": 1, "count": 1 + (number + 1) // 2}],
        "degrade": [{"resource": "pay", "grade": 2, "count": 5, "timeWindow": 1 + number // 2}],
    }


def content(number: int) -> bytes:
    return json.dumps({f"{kind}Rules": each for kind, each in rules(number).items()}).encode()


def serve() -> None:
    """A service of the settings of the working directory; says which change is active, until it is killed."""
    engine = start(load_settings())

    def tell(_: ItemStatus | None = None) -> None:
        flow, degrade = engine.rules("flow").rules, engine.rules("degrade").rules
        active = int(flow[0].count) + int(degrade[0].time_window) - 2 if flow and degrade else -1
        os.write(1, f"{active}\n".encode())  # whole, from whatever thread

    for each in engine.subscriptions:
        each.on_state(tell)
    tell()
    threading.Event().wait()


class Child:
    """A process, over all its lives."""

    def __init__(self, command: Sequence[str], folder: Path, name: str) -> None:
        self._command, self._folder = list(command), folder
        self.log = folder / f"{name}.log"
        self._told = threading.Condition()
        self._last = ""
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self._folder
            )
        threading.Thread(target=self._hear, args=(self._process,), daemon=True).start()

    def _hear(self, process: subprocess.Popen[str]) -> None:
        with cast("IO[str]", process.stdout) as lines:
            for line in lines:
                with self._told:
                    self._last = line.strip() if process is self._process else self._last
                    self._told.notify_all()

    def wait(self, line: str) -> bool:
        with self._told:
            return self._told.wait_for(lambda: self._last == line, WAIT_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def restart(self) -> None:
        self.kill()
        self.start()


@dataclass
class Tally:
    """What came of it."""

    changes: int
    kills: Counter[str] = field(default_factory=Counter)
    told: dict[str, list[str]] = field(default_factory=dict)
    """By kind, the digests of what is in the store, in the order of their arrival."""
    findings: int = 0
    """Of `audit verify`."""
    with_kafka_s: list[float] = field(default_factory=list)
    """From the change to its being active, where nothing was killed."""
    without_kafka_s: list[float] = field(default_factory=list)
    caught_up_s: float = 0.0
    """From the last change, or Kafka's return where that came later, until the store had all."""

    @property
    def made(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {"flow": [], "degrade": []}
        for number in range(self.changes + 1):
            for kind, each in rules(number).items():
                digest = parse_rules(kind, each).digest
                if digest not in found[kind][-1:]:
                    found[kind].append(digest)
        return found

    @property
    def lost(self) -> int:
        return sum(len(set(digests) - set(self.told.get(kind, ()))) for kind, digests in self.made.items())

    @property
    def repeated(self) -> int:
        return sum(len(told) - len(set(told)) for told in self.told.values())

    @property
    def good(self) -> bool:
        return self.told == self.made and not self.findings


def endure(folder: Path, changes: int, outage_s: float, kills: int, seed: int) -> Tally:
    """Half of the changes are made while Kafka is away. Raises TimeoutError where one does not become active."""
    draw, tally = random.Random(seed), Tally(changes)
    struck = set(draw.sample(range(1, changes + 1), kills))
    with ExitStack() as undo:
        server = kafka(folder / "kafka")
        undo.callback(server.stop)
        make_topics(Target((server.bootstrap,)), Topics(), partitions=3)
        _settings(folder, server.bootstrap)
        (folder / "rules.yaml").write_bytes(content(0))
        service = Child([sys.executable, __file__, "--serve"], folder, "service")
        undo.callback(service.kill)
        ingester = Child([str(SENTINELCTL), "audit", "ingest"], folder, "ingester")
        undo.callback(ingester.kill)
        store = SqliteStore(folder / "audit.db")
        undo.callback(store.close)
        children = {"service": service, "ingester": ingester}
        _expect(service, 0)
        outage = _Outage(server, outage_s)
        undo.callback(outage.join)
        for number in range(1, changes + 1):
            if number == changes // 4:
                outage.begin()
            name = draw.choice(list(children)) if number in struck else None
            was_away, began = outage.is_on, time.monotonic()
            strike = threading.Timer(draw.uniform(0, AROUND_S), children[name].restart if name else lambda: None)
            strike.start()
            _put(folder, number)
            _expect(service, number)
            took = time.monotonic() - began
            strike.join()
            if name is not None:
                tally.kills[name] += 1
            elif was_away == outage.is_on:
                (tally.without_kafka_s if was_away else tally.with_kafka_s).append(took)
            time.sleep(max(0.0, 2 * outage_s / changes - took))
        outage.join()
        began = time.monotonic()
        _await_all(store, tally)
        tally.caught_up_s = time.monotonic() - began
        tally.told = _told(store)
        tally.findings = len(verify(store).findings)
    return tally


class _Outage:
    """Kafka is killed and comes back, on its own thread."""

    def __init__(self, server: Any, seconds: float) -> None:
        self._server = server
        self._thread = threading.Timer(seconds, self._end)
        self.is_on = False

    def begin(self) -> None:
        self._server.kill()
        self.is_on = True
        self._thread.start()

    def _end(self) -> None:
        self._server.start()
        self.is_on = False

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()


def _settings(folder: Path, bootstrap: str) -> None:
    settings = {
        "app": "order",
        "environment": "prod",
        "stores": [f"file://{folder / 'rules.yaml'}"],
        "lastKnownGood": str(folder / "last-good"),
        "audit": {
            "outbox": str(folder / "outbox.db"),
            "store": f"sqlite:///{folder / 'audit.db'}",
            "kafka": {"bootstrap": bootstrap},
        },
    }
    (folder / "sentinel.yaml").write_text(json.dumps(settings), encoding="utf-8")


def _put(folder: Path, number: int) -> None:
    aside = folder / "rules.aside"
    aside.write_bytes(content(number))
    aside.replace(folder / "rules.yaml")


def _expect(service: Child, number: int) -> None:
    if not service.wait(str(number)):
        log = service.log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise TimeoutError(f"change {number} did not become active; the service says: {log}")


def _await_all(store: SqliteStore, tally: Tally) -> None:
    """Until as many changes are stored as were made, or WAIT_S."""
    made, deadline = sum(map(len, tally.made.values())), time.monotonic() + WAIT_S
    while sum(map(len, _told(store).values())) < made and time.monotonic() < deadline:
        time.sleep(0.05)


def _told(store: SqliteStore) -> dict[str, list[str]]:
    with store._database.read() as connection:
        found = connection.execute(
            "SELECT subject, new_digest FROM events WHERE type = ? ORDER BY seq", (RuleChanged.TYPE,)
        ).fetchall()
    told: dict[str, list[str]] = {}
    for kind, digest in found:
        told.setdefault(kind, []).append(digest)
    return told


# -- fleet -------------------------------------------------------------------------------------------------------------


@contextmanager
def instances(number: int, folder: Path, target: Target) -> Iterator[list[Engine]]:
    """Engines of one service, each with an outbox and a way to Kafka of its own."""
    with ExitStack() as stack:
        made = []
        for name in range(number):
            outbox = Outbox(folder / f"{name}.db")
            stack.callback(outbox.close)
            forwarder = Forwarder(outbox, KafkaPublisher(target))
            forwarder.start()
            stack.callback(forwarder.close, WAIT_S)
            engine = stack.enter_context(Engine("order", environment="prod", instance=f"i-{name}", audit=outbox))
            applied = AppliedEvents(engine, outbox)
            applied.start()
            stack.callback(applied.close, WAIT_S)
            engine._activation.applied = applied.applied
            made.append(engine)
        yield made


def fleet(folder: Path, engines: int, changes: int) -> Counter[str]:
    """Events of each type in the store, after `changes` were seen by all."""
    with ExitStack() as undo:
        server = kafka(folder / "kafka")
        undo.callback(server.stop)
        target = Target((server.bootstrap,))
        make_topics(target, Topics(), partitions=6)
        store = SqliteStore(folder / "audit.db")
        undo.callback(store.close)
        source = MemorySource("rules")
        with instances(engines, folder, target) as made:
            followed = [engine.subscribe(("flow",), source) for engine in made]
            for number in range(changes):
                source.set("flow", json.dumps(rules(2 * number)["flow"]))
                if not all(each.refresh(WAIT_S) for each in followed):
                    raise TimeoutError(f"change {number} did not become active everywhere")
        Ingest(target, store).run(threading.Event(), until_idle=True)
        with store._database.read() as connection:
            return Counter(dict(connection.execute("SELECT type, count(*) FROM events GROUP BY type").fetchall()))


# -- latency -----------------------------------------------------------------------------------------------------------


def change(number: int) -> Event:
    revision = Revision((SourceText("rules.yaml", b""),), "/prod/git/rules", f"{number:040x}", Provenance(f"{number}"))
    old, new = (parse_rules("flow", rules(2 * each)["flow"]).with_revision(revision) for each in (number, number + 1))
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    return rule_changed(environment="prod", app="order", old=old, new=new, revision=revision, at=at, instance="i")


def latency(folder: Path, events: int, waiting: int) -> tuple[list[float], float]:
    """Seconds until each of `events` could be asked for; how many a second are taken of `waiting` more."""
    with ExitStack() as undo:
        server = kafka(folder / "kafka")
        undo.callback(server.stop)
        target = Target((server.bootstrap,))
        make_topics(target, Topics(), partitions=6)
        store = SqliteStore(folder / "audit.db")
        undo.callback(store.close)
        outbox = Outbox(folder / "outbox.db")
        undo.callback(outbox.close)
        forwarder = Forwarder(outbox, KafkaPublisher(target))
        forwarder.start()
        with _taking(target, store):
            times = [_seen_after(outbox, store, change(number)) for number in range(events + 5)][5:]
        outbox.append([change(events + 5 + number) for number in range(waiting)])
        if forwarder.close(WAIT_S):
            raise TimeoutError("Kafka took not all of them")
        before, began = store.count(), time.monotonic()
        Ingest(target, store).run(threading.Event(), until_idle=True)
        return times, (store.count() - before) / (time.monotonic() - began)


@contextmanager
def _taking(target: Target, store: SqliteStore) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=Ingest(target, store).run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT_S)


def _seen_after(outbox: Outbox, store: SqliteStore, event: Event) -> float:
    outbox.append([event])
    began = time.monotonic()
    while store.get(event.id) is None:
        if time.monotonic() - began > WAIT_S:
            raise TimeoutError("an event does not arrive")
        time.sleep(0.001)
    return time.monotonic() - began


# -- the command -------------------------------------------------------------------------------------------------------


def _chaos(folder: Path, asked: argparse.Namespace) -> bool:
    tally = endure(folder, asked.changes, asked.outage, asked.kills, asked.seed)
    kills = ", ".join(f"{name} killed {count} times" for name, count in sorted(tally.kills.items()))
    print(f"{asked.changes} changes, Kafka away for {asked.outage:g} s and its start, {kills}")
    print(
        f"  {tally.lost} lost, {tally.repeated} repeated, {tally.findings} findings of verify, in order: {tally.good}"
    )
    for name, times in (("with", tally.with_kafka_s), ("without", tally.without_kafka_s)):
        p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
        print(f"  change to active {name} Kafka: p50 {p50:.0f} ms, p99 {p99:.0f} ms, n={len(times)}")
    print(f"  the last change was stored {tally.caught_up_s:.1f} s after it, or after Kafka's return")
    return tally.good


def _fleet(folder: Path, asked: argparse.Namespace) -> bool:
    found = fleet(folder, asked.engines, asked.steps)
    wanted = {RuleChanged.TYPE: asked.steps, RuleApplied.TYPE: asked.steps * asked.engines}
    print(f"{asked.engines} engines, {asked.steps} changes: {dict(found)}")
    return dict(found) == wanted


def _latency(folder: Path, asked: argparse.Namespace) -> bool:
    times, rate = latency(folder, asked.events, asked.waiting)
    p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
    print(f"durable to found in the store: p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {max(times) * 1000:.0f} ms")
    print(f"of {asked.waiting} events that wait in Kafka {rate:,.0f} a second are taken")
    return p99 <= BAR_MS


PARTS = {"chaos": _chaos, "fleet": _fleet, "latency": _latency}


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        serve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--outage", type=float, default=60, help="seconds")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100, help="changes that the fleet sees")
    parser.add_argument("--events", type=int, default=300, help="events whose way is timed")
    parser.add_argument("--waiting", type=int, default=20_000, help="events that wait in Kafka")
    asked = parser.parse_args()
    logging.getLogger("sentinel_core").setLevel(logging.ERROR)
    good = True
    for name in asked.parts:
        with tempfile.TemporaryDirectory(prefix="audit-kafka-") as folder:
            good = PARTS[name](Path(folder), asked) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

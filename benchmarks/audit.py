"""How long evidence takes: telling a change of 10,000 rules, spooling it, ingesting and verifying history,
asking who.

    python benchmarks/audit.py [--events 100000] [--resources 2000] [--batch 1000] [--store PATH]

With a store that is named the history is kept there, and goes on where it ended: ten million events take half an hour
and 25 GB once, and are asked as often as you like. CPU time is that of this process, all threads.
Figures are of this machine and this moment; compare them within one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Self

from sentinel_core.audit.events import Event, RuleChanged, rule_changed
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.query.grammar import parse_query
from sentinel_core.audit.query.interval import Interval
from sentinel_core.audit.query.who import who
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import verify
from sentinel_core.rules import Provenance, Revision, RuleSet, SourceText, parse_rules

START = datetime(2026, 1, 1, tzinfo=UTC)
SENTINELCTL = Path(sys.executable).with_name("sentinelctl")
_HEAD = {
    "formatVersion": 1,
    "late": False,
    "environment": "prod",
    "app": "order-service",
    "channel": "git",
    "reason": None,
    "message": "a change",
    "planId": None,
    "revisionSource": "/prod/git/rules",
    "observed": False,
    "kind": "flow",
    "initial": False,
    "rollbackOf": None,
}


_COMMIT = "ed2a6abf7158809cf4f3c762e7160aaa"


def _digest(number: int) -> str:
    return sha256(number.to_bytes(8, "big")).hexdigest()


def history(count: int, resources: int, *, start: int = 0) -> Iterator[Event]:
    """Changes of about 1 KB, one every five minutes, of three rules each as a commit makes them."""
    rule = {"resource": "", "limitApp": "default", "grade": 1, "count": 20, "strategy": 0, "controlBehavior": 0}
    for number in range(start, count):
        at = START + timedelta(minutes=5 * number)
        names = [f"resource-{(number * 7 + step * 131) % resources}" for step in range(3)]
        changes = [
            {
                "action": "change",
                "resource": name,
                "rule": f"flow/{name}/default",
                "field": "count",
                "old": 20,
                "new": number % 500,
            }
            for name in names
        ]
        data = {
            **_HEAD,
            "instance": f"i-{number % 40}",
            "commitHash": f"{number:08x}{_COMMIT}",
            "revision": f"{number:08x}{_COMMIT}",
            "author": f"author-{number % 30} <a@example.com>",
            "oldDigest": _digest(number),
            "newDigest": _digest(number + 1),
            "oldRules": [rule],
            "newRules": [rule],
            "changes": changes,
        }
        body = json.dumps(data, separators=(",", ":")).encode()
        yield RuleChanged(f"{number:08x}-event", "/prod/git/rules/flow", RuleChanged.TYPE, "flow", at, body)


def report(name: str, seconds: Sequence[float]) -> None:
    ordered = sorted(seconds)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"{name:<58} p50 {p50 * 1000:8.2f} ms   p99 {p99 * 1000:8.2f} ms   n={len(ordered)}")


class Spent:
    """Wall and CPU time of what runs within `with`, added up."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> Self:
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._began[0]
        self.cpu += time.process_time() - self._began[1]

    def rate(self, count: int) -> str:
        return f"{count / self.wall:,.0f} events/s, {count / self.cpu:,.0f} by CPU time"


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def telling() -> None:
    """From two rule sets to the bytes on disk."""
    revision = Revision((SourceText("rules.yaml", b""),), "/prod/git/rules@main", "9f1c2ab", Provenance("9f1c2ab"))
    rules = [{"resource": f"r{number}", "grade": 1, "count": number} for number in range(10_000)]
    old = parse_rules("flow", rules).with_revision(revision)
    rules[5000]["count"] = 7
    new = parse_rules("flow", rules).with_revision(revision)

    def tell(before: RuleSet) -> Event:
        return rule_changed(environment="prod", app="a", old=before, new=new, revision=revision, at=START, instance="i")

    report("event, one change in 10,000 rules", [timed(partial(tell, old)) for _ in range(20)])
    report("event, first look at 10,000 rules", [timed(partial(tell, RuleSet.empty("flow"))) for _ in range(20)])
    with tempfile.TemporaryDirectory() as folder:
        outbox = Outbox(Path(folder) / "outbox.db")
        small = list(history(300, 100))
        report("outbox append, 1 KB, durable", [timed(partial(outbox.append, [event])) for event in small])
        large = tell(old)
        events = [Event(f"large-{n}", large.source, large.type, "flow", START, large.data) for n in range(10)]
        report(
            "outbox append, 10,000 rules twice, durable",
            [timed(partial(outbox.append, [event])) for event in events],
        )
        store = SqliteStore(Path(folder) / "audit.db")
        took = timed(lambda: Forwarder(outbox, StorePublisher(store)).drain(60))
        print(f"{'outbox → store, 300 small and 10 large events':<58} {took:.2f} s")


def fill(store: SqliteStore, count: int, resources: int, batch: int) -> None:
    """The history up to `count` events; what is there stays."""
    there, spent = store.count(), Spent()
    events = history(count, resources, start=there)
    while events_of_batch := list(islice(events, batch)):
        with spent:
            store.ingest(events_of_batch)
    if count > there:
        size = sum(file.stat().st_size for file in store.path.parent.glob(f"{store.path.name}*")) / count
        print(f"{f'ingest, batches of {batch}':<58} {spent.rate(count - there)}, {size:,.0f} bytes an event")


def walking(store: SqliteStore, count: int) -> None:
    """Where the walk has other processes do it, CPU time leaves those out."""
    with Spent() as spent:
        verdict = verify(store)
    if verdict.findings or verdict.events != count:
        raise RuntimeError(f"{verdict.events:,} of {count:,} events, {len(verdict.findings)} findings")
    print(f"{'verify':<58} {spent.rate(count)}")


def commands(path: Path, resources: int, end: datetime) -> None:
    """`sentinelctl audit who` as a process, from its start to its end."""
    pick = random.Random(11)
    environment = {**os.environ, "SENTINEL_AUDIT__STORE": f"sqlite:///{path}"}

    def ask() -> None:
        at = START + (end - START) * pick.random() * 0.9
        since, until = (f"{day:%Y-%m-%dT%H:%M:%SZ}" for day in (at, at + timedelta(days=30)))
        question = ["audit", "who", f"resource-{pick.randrange(resources)}", "--field", "count"]
        command = [str(SENTINELCTL), *question, "--between", since, until]
        subprocess.run(command, env=environment, check=True, capture_output=True)

    report("sentinelctl audit who, whole command, 30 days", [timed(ask) for _ in range(50)])


def asking(path: Path, count: int, resources: int, batch: int) -> None:
    """A store of `count` events: filling it, then questions about random resources and days."""
    with closing(SqliteStore(path)) as store:
        fill(store, count, resources, batch)
        walking(store, count)
        end = START + timedelta(minutes=5 * count)
        pick = random.Random(7)

        def window(days: float) -> Interval:
            start = START + (end - START) * pick.random()
            return Interval(start, start + timedelta(days=days), UTC)

        def ask(days: float) -> object:
            return who(store, f"resource-{pick.randrange(resources)}", field="count", interval=window(days))

        for days in (0.25, 7, 30):
            report(f"who, a window of {days:g} days", [timed(partial(ask, days)) for _ in range(300)])
        for text in (
            "resource:resource-7",
            "resource:resource-1* field:count",
            "author:author-7 count>300",
            "field:count -env:staging",
        ):
            question = parse_query(text, now=end, zone=UTC).query()
            report(
                f"query, newest 50 of {text}",
                [timed(partial(store.query, question)) for _ in range(30)],
            )
        report("event by id", [timed(lambda: store.get(f"{pick.randrange(count):08x}")) for _ in range(300)])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--events", type=int, default=100_000)
    arguments.add_argument("--resources", type=int, default=2000)
    arguments.add_argument("--batch", type=int, default=1000, help="as large as those that come from Kafka")
    arguments.add_argument("--store", type=Path, help="a file that stays")
    given = arguments.parse_args()
    telling()
    with tempfile.TemporaryDirectory() as folder:
        path = (given.store or Path(folder) / "audit.db").absolute()
        asking(path, given.events, given.resources, given.batch)
        commands(path, given.resources, START + timedelta(minutes=5 * given.events))

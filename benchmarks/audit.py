"""How long evidence takes: telling a change of 10,000 rules, spooling it, ingesting and verifying history,
asking who.

    python benchmarks/audit.py [--events 100000] [--resources 2000]

Figures are of this machine and this moment; compare them within one run only.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

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
BATCH = 200


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


def history(count: int, resources: int) -> Iterator[Event]:
    """Changes of about 1 KB, one every five minutes, of three rules each as a commit makes them."""
    rule = {"resource": "", "limitApp": "default", "grade": 1, "count": 20, "strategy": 0, "controlBehavior": 0}
    for number in range(count):
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
            "commitHash": f"{number:040x}",
            "revision": f"{number:040x}",
            "author": f"author-{number % 30} <a@example.com>",
            "oldDigest": f"{number:064x}",
            "newDigest": f"{number + 1:064x}",
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


def asking(count: int, resources: int) -> None:
    """A store of `count` events: filling it, then questions about random resources and days."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "audit.db")
        events, spent = history(count, resources), 0.0
        while batch := list(islice(events, BATCH)):
            began = time.perf_counter()
            store.ingest(batch)
            spent += time.perf_counter() - began
        size = store.path.stat().st_size / count
        print(f"{f'ingest, batches of {BATCH}':<58} {count / spent:,.0f} events/s, {size:,.0f} bytes an event")
        took = timed(lambda: verify(store))
        print(f"{'verify':<58} {count / took:,.0f} events/s")
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
    given = arguments.parse_args()
    telling()
    asking(given.events, given.resources)

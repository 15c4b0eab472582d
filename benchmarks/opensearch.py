"""The audit store in a real OpenSearch: ingest beside the server's own bulk rate in the same run, then questions.

    python benchmarks/opensearch.py [--events 80000] [--resources 2000]

Rounds of both take turns, so that what else the machine does meets both. One node, one shard an index; server and
client share the cores. The server compiles itself while it works, and is told of before (the first COLD events) and
after. Figures are of this machine and this moment; compare them within one run only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.audit import START, history, report, timed
from sentinel_core.audit.chain import START as FIRST
from sentinel_core.audit.events import Event
from sentinel_core.audit.indexing import read_columns
from sentinel_core.audit.query.grammar import parse_query
from sentinel_core.audit.query.interval import Interval
from sentinel_core.audit.query.who import who
from sentinel_core.audit.store._os_layout import document, key
from sentinel_core.audit.store._os_target import Target
from sentinel_core.audit.store.opensearch import OpenSearchStore
from sentinel_core.audit.verify import verify
from tests.services.opensearch import OpenSearch, missing

BATCH = 1000
ROUND = 5 * BATCH
COLD = 8 * ROUND


def prepared(events: Sequence[Event], index: str) -> list[list[str]]:
    """Bulk requests of the documents that events become, without their links."""
    actions = [f'{{"create":{{"_index":"{index}","_id":"{key(event.id, event.source)}"}}}}' for event in events]
    documents = [document(*read_columns(event), FIRST, number)[0] for number, event in enumerate(events, 1)]
    lines = [line for pair in zip(actions, documents, strict=True) for line in pair]
    return [lines[start : start + 2 * BATCH] for start in range(0, len(lines), 2 * BATCH)]


def bulk(store: OpenSearchStore, requests: Sequence[Sequence[str]]) -> float:
    """Seconds in which the server takes them, with nothing around them."""
    return timed(lambda: [store._client.made(store._client.begin(lines)) for lines in requests])


def ingest(store: OpenSearchStore, events: Sequence[Event]) -> float:
    batches = [events[start : start + BATCH] for start in range(0, len(events), BATCH)]
    return timed(lambda: [store.ingest(batch) for batch in batches])


def cpu(process: int) -> float:
    """Seconds that a process has computed so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Rounds:
    """What rounds of one kind took: events/s, and µs of CPU time an event of client and server."""

    def __init__(self, name: str, server: int) -> None:
        self.name = name
        self.rates: list[float] = []
        self._server = server
        self._spent: list[tuple[float, float]] = []

    def add(self, count: int, work: Callable[[], float]) -> None:
        before = time.process_time(), cpu(self._server)
        self.rates.append(count / work())
        spent = time.process_time() - before[0], cpu(self._server) - before[1]
        self._spent.append((spent[0] / count * 1e6, spent[1] / count * 1e6))

    def show(self, when: str, part: slice) -> None:
        rates = self.rates[part]
        client, server = (statistics.median(each) for each in zip(*self._spent[part], strict=True))
        print(
            f"{when:<5}{self.name:<7} median {statistics.median(rates):>8,.0f} events/s, best {max(rates):,.0f}; CPU: "
            f"client {client:>4.0f} µs an event, server {server:>4.0f}; {len(rates)} rounds of {ROUND}"
        )


def writing(store: OpenSearchStore, server: int, count: int, resources: int) -> None:
    """Fills the store."""
    events = history(count, resources)
    store.ingest([replace(event, id=f"first-{event.id}") for event in history(1, 1)])  # makes the templates
    own, all_of = Rounds("bulk", server), Rounds("ingest", server)
    beside = f"{store.target.index}-events-0000.00"
    while batch := list(islice(events, ROUND)):
        own.add(len(batch), partial(bulk, store, prepared(batch, beside)))
        all_of.add(len(batch), partial(ingest, store, batch))
        store._client.call("DELETE", f"/{beside}")
    for when, part in (("cold", slice(COLD // ROUND)), ("warm", slice(COLD // ROUND, None))):
        if all_of.rates[part]:
            own.show(when, part)
            all_of.show(when, part)
            ratios = [one / other for one, other in zip(all_of.rates[part], own.rates[part], strict=True)]
            print(f"{when:<5}ingest / bulk: median {statistics.median(ratios):.2f}, best {max(ratios):.2f}")
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")


def arriving(store: OpenSearchStore, events: Sequence[Event]) -> None:
    """From one event in hand to its answer in a question."""
    reader = OpenSearchStore(store.target, read_only=True)
    took: list[float] = []
    with closing(reader):
        for event in events:
            began = time.perf_counter()
            store.ingest([event])
            while reader.get(event.id) is None:
                time.sleep(0.005)
            took.append(time.perf_counter() - began)
    report("one event, durable and found by another", took)


def asking(store: OpenSearchStore, count: int, resources: int) -> None:
    end = START + timedelta(minutes=5 * count)

    def ask(number: int) -> object:
        start = START + (end - START) * (number / 100)
        return who(store, f"resource-{number * 17 % resources}", field="count", interval=Interval(start, end, UTC))

    report("who", [timed(partial(ask, number)) for number in range(100)])
    for text in (
        "resource:resource-7",
        "resource:resource-1* field:count",
        "author:author-7 count>300",
        "-env:staging",
    ):
        question = parse_query(text, now=end, zone=UTC).query()
        report(f"query, newest 50 of {text}", [timed(partial(store.query, question)) for _ in range(30)])
    report("event by id", [timed(partial(store.get, f"{number:08x}")) for number in range(50)])
    events = store.count()
    print(f"{'verify':<58} {events / timed(lambda: verify(store)):,.0f} events/s")


def main(count: int, resources: int) -> None:
    if why := missing():
        print(f"SKIPPED: {why}")
        return
    with tempfile.TemporaryDirectory(prefix="opensearch-") as folder:
        server = OpenSearch(Path(folder), lasting=True)
        server.start()
        try:
            store = OpenSearchStore(Target((server.address,), timeout_s=60))
            with closing(store):
                writing(store, server.pid, count, resources)
                single = [replace(event, id=f"late-{event.id}") for event in history(50, resources)]
                arriving(store, single)
                asking(store, count, resources)
        finally:
            server.stop()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--events", type=int, default=80_000)
    arguments.add_argument("--resources", type=int, default=2000)
    given = arguments.parse_args()
    main(given.events, given.resources)

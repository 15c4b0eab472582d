"""The audit store in a real OpenSearch: ingest beside the server's own bulk rate in the same run, then questions.

    python benchmarks/opensearch.py [--events 30000] [--resources 2000]

Rounds of both take turns, so that what else the machine does meets both. One node, one shard an index; server and
client share the cores. Figures are of this machine and this moment; compare them within one run only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
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


def bulk(store: OpenSearchStore, events: Sequence[Event], index: str) -> float:
    """Seconds in which the server takes the same documents, with nothing around them."""
    actions = [f'{{"create":{{"_index":"{index}","_id":"{key(event.id, event.source)}"}}}}' for event in events]
    documents = [document(*read_columns(event), FIRST, number)[0] for number, event in enumerate(events, 1)]
    spent = 0.0
    for start in range(0, len(events), BATCH):
        pairs = zip(actions[start : start + BATCH], documents[start : start + BATCH], strict=True)
        spent += timed(partial(store._client.made, [line for pair in pairs for line in pair]))
    return spent


def ingest(store: OpenSearchStore, events: Sequence[Event]) -> float:
    batches = [events[start : start + BATCH] for start in range(0, len(events), BATCH)]
    return timed(lambda: [store.ingest(batch) for batch in batches])


def writing(store: OpenSearchStore, count: int, resources: int) -> None:
    """Fills the store; the first rounds only warm up."""
    events = history(count, resources)
    store.ingest([replace(event, id=f"first-{event.id}") for event in history(1, 1)])  # makes the templates
    rates: dict[str, list[float]] = {"bulk": [], "ingest": []}
    busy = os.times()
    while batch := list(islice(events, ROUND)):
        rates["bulk"].append(len(batch) / bulk(store, batch, f"{store.target.index}-events-0000.00"))
        rates["ingest"].append(len(batch) / ingest(store, batch))
        store._client.call("DELETE", f"/{store.target.index}-events-0000.00")
    spent = os.times()
    for name, found in rates.items():
        median = statistics.median(found[2:] or found)
        print(f"{name:<8} median {median:>8,.0f} events/s, best {max(found):>8,.0f}   {len(found)} rounds of {ROUND}")
    ratios = [one / other for one, other in zip(rates["ingest"], rates["bulk"], strict=True)]
    print(f"ingest / bulk: median {statistics.median(ratios[2:] or ratios):.2f}, best {max(ratios):.2f}")
    print(
        f"of this process {(spent.user - busy.user + spent.system - busy.system) / count * 1e6:.0f} µs an event (both)"
    )
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
                writing(store, count, resources)
                single = [replace(event, id=f"late-{event.id}") for event in history(50, resources)]
                arriving(store, single)
                asking(store, count, resources)
        finally:
            server.stop()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--events", type=int, default=30_000)
    arguments.add_argument("--resources", type=int, default=2000)
    given = arguments.parse_args()
    main(given.events, given.resources)

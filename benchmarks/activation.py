"""From rule text to the active snapshot: how long a change of many rules takes, with and without evidence.

Run: python benchmarks/activation.py [number of rules]

`json.loads` of the same text stands beside it: quote the ratio. "one changed" is a push in which one rule differs.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sentinel_core import Engine
from sentinel_core.audit.outbox import Outbox
from sentinel_core.datasources.layers import Layers
from sentinel_core.rules import Revision, SourceText

ROUNDS = 7


def rules(number: int, changed: float = 0) -> str:
    """A list in Sentinel's full spelling; `changed` is the count of the first rule."""
    return json.dumps(
        [
            {
                "resource": f"resource:{index}",
                "limitApp": "default",
                "grade": 1,
                "count": changed if index == 0 and changed else 100 + index % 400,
                "strategy": 0,
                "controlBehavior": 0,
                "clusterMode": False,
            }
            for index in range(number)
        ]
    )


def yaml(number: int, changed: float = 0) -> str:
    entries = [
        f"  - resource: {rule['resource']}\n    grade: qps\n    count: {rule['count']}\n"
        for rule in json.loads(rules(number, changed))
    ]
    return "flowRules:\n" + "".join(entries)


def best(prepare: Callable[[int], Callable[[], object]]) -> float:
    """Milliseconds of the fastest round; every round gets fresh input."""
    times = []
    for number in range(ROUNDS):
        work = prepare(number)
        gc.collect()
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times) * 1000


def main(number: int) -> None:
    text = rules(number)
    loads = best(lambda _: lambda: json.loads(text))
    print(f"{number} flow rules, best of {ROUNDS}; json.loads {loads:.1f} ms")

    def show(what: str, milliseconds: float) -> None:
        print(f"  {what:<52} {milliseconds:8.1f} ms   {milliseconds / loads:5.1f} × json.loads")

    with tempfile.TemporaryDirectory() as folder:
        outbox = Outbox(Path(folder) / "outbox.db")
        for name, sink in (("without evidence", None), ("with a durable event", outbox)):

            def first(_: int, sink: Outbox | None = sink) -> Callable[[], object]:
                engine = Engine(audit=sink)
                return lambda: engine.load_rules("flow", text)

            engine = Engine(audit=sink)
            engine.load_rules("flow", text)

            def one(round_: int, engine: Engine = engine) -> Callable[[], object]:
                changed = rules(number, 7_000 + round_)
                return lambda: engine.load_rules("flow", changed)

            show(f"JSON → active, {name}", best(first))
            show(f"JSON → active, one changed, {name}", best(one))

        def document(round_: int) -> Callable[[], object]:
            engine = Engine()
            revision = Revision(
                (SourceText("rules.yaml", yaml(number, 7_000 + round_).encode()),), "bench", str(round_)
            )
            return lambda: engine._activation.apply(("flow",), revision, Layers().layer(), restored=False)

        show("YAML with positions → active, without evidence", best(document))
        outbox.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

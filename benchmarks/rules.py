"""How long rule text takes to become a rule set, as ratios within one run: figures of different machines compare badly.

Run: python benchmarks/rules.py [number of rules]
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable

from ruamel.yaml.events import StreamEndEvent

from sentinel_core.rules import KINDS, Revision, RuleSet, SourceText, diff_rules, parse_revision, parse_rules
from sentinel_core.rules.yaml_text import next_event

ROUNDS = 7


def best(work: Callable[[], object]) -> float:
    """Milliseconds of the fastest of several rounds."""
    times = []
    for _ in range(ROUNDS):
        gc.collect()
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times) * 1000


def flow_json(count: int) -> str:
    return json.dumps(
        [
            {
                "resource": f"service_{index:06d}",
                "grade": 1,
                "count": 20 + index % 100,
                "limitApp": "default",
                "strategy": 0,
                "controlBehavior": 0,
                "warmUpPeriodSec": 10,
                "maxQueueingTimeMs": 500,
                "clusterMode": False,
            }
            for index in range(count)
        ]
    )


def flow_yaml(count: int) -> str:
    rule = "  - resource: service_{:06d}\n    grade: qps\n    count: {}\n    strategy: direct\n    clusterMode: false\n"
    return "# generated\nflowRules:\n" + "".join(rule.format(index, 20 + index % 100) for index in range(count))


def drain_events(text: str) -> None:
    event = next_event(text)
    while not isinstance(event(), StreamEndEvent):
        pass


def document(text: str) -> RuleSet:
    revision = Revision((SourceText("rules.yaml", text.encode()),), source="benchmark", version="1")
    return parse_revision(revision, KINDS)["flow"]


def row(name: str, ms: float, base: float, base_name: str) -> None:
    print(f"{name:<44}{ms:9.1f} ms   {ms / base:6.2f} × {base_name}")


def main(count: int) -> None:
    json_text, yaml_text = flow_json(count), flow_yaml(count)
    loads = best(lambda: json.loads(json_text))
    print(f"{count} flow rules; best of {ROUNDS}")
    row("json.loads", loads, loads, "json.loads")
    row("JSON text → RuleSet", best(lambda: parse_rules("flow", json_text)), loads, "json.loads")
    objects = json.loads(json_text)
    row("objects → RuleSet", best(lambda: parse_rules("flow", objects)), loads, "json.loads")
    events = best(lambda: drain_events(yaml_text))
    row("YAML events alone", events, events, "YAML events")
    row("YAML text → RuleSet, with positions", best(lambda: document(yaml_text)), events, "YAML events")
    old = parse_rules("flow", json_text)
    objects[count // 2]["count"] += 1
    new = parse_rules("flow", objects)
    row("diff, one rule changed", best(lambda: diff_rules(old, new)), loads, "json.loads")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

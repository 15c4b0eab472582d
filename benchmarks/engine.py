"""What an entry costs: ns per call, median of many short rounds.

    .venv/bin/python benchmarks/engine.py                              this interpreter's build of the engine
    .venv/bin/python benchmarks/engine.py pure=. compiled=/path/to/tree   several trees, rounds interleaved

The machine is shared: only the ratios within one run mean anything. `baseline` is a Python call with a `with` block
over an object that does nothing, `clock` one reading of the clock: compare with them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    from sentinel_core import Engine

ROUNDS = 15
CALLS = 20_000
FLOW = [{"resource": "r", "grade": 1, "count": 1_000_000_000}]
DEGRADE = [{"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 10}]


class Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def baseline(calls: int) -> None:
    nothing = Nothing()
    for _ in range(calls):
        with nothing:
            pass


def clock(calls: int) -> None:
    now = time.monotonic_ns
    for _ in range(calls):
        now()


def with_block(calls: int) -> None:
    entry = engine().entry
    for _ in range(calls):
        with entry("r"):
            pass


def entry_and_exit(calls: int) -> None:
    entry = engine().entry
    for _ in range(calls):
        entry("r").exit()


def without_rules(calls: int) -> None:
    entry = engine().entry
    for _ in range(calls):
        entry("free").exit()


def blocked_result(calls: int) -> None:
    entry = engine().try_entry
    for _ in range(calls):
        entry("full")


def blocked_raise(calls: int) -> None:
    from sentinel_core import BlockException

    entry = engine().entry
    for _ in range(calls):
        try:  # noqa: SIM105 (what callers write)
            entry("full")
        except BlockException:
            pass


CASES = {
    case.__name__: case
    for case in (clock, baseline, with_block, entry_and_exit, without_rules, blocked_result, blocked_raise)
}


MEMORY = ("free", "ruled")


@cache
def engine() -> Engine:
    """One flow rule and one breaker on `r`, nothing passes on `full`."""
    from sentinel_core import Engine

    made = Engine()
    made.load_rules("flow", [*FLOW, {"resource": "full", "grade": 1, "count": 0}])
    made.load_rules("degrade", DEGRADE)
    return made


def memory_per_resource(rules: bool, resources: int = 10_000) -> float:
    """Bytes a resource costs after it was called in two windows: counters, plan, checkers. With `rules` it has a flow
    rule and a breaker; the rules themselves and their names are not in the figure."""
    from sentinel_core import Engine
    from sentinel_core.testing import FakeClock

    clock = FakeClock()
    engine = Engine(clock=clock, max_resources=resources)
    names = [f"resource-{number}" for number in range(resources)]
    if rules:
        engine.load_rules("flow", [{**FLOW[0], "resource": name} for name in names])
        engine.load_rules("degrade", [{**DEGRADE[0], "resource": name} for name in names])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(4):
        for name in names:
            engine.entry(name).exit()
        clock.advance(ms=400)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / resources


def round_of(case: Callable[[int], None]) -> float:
    began = time.perf_counter_ns()
    case(CALLS)
    return (time.perf_counter_ns() - began) / CALLS


def worker() -> None:
    """Serves rounds over stdin and stdout: the name of a case in, ns per call out."""
    for line in sys.stdin:
        name = line.strip()
        value = memory_per_resource(name == "ruled") if name in MEMORY else round_of(CASES[name])
        print(json.dumps(value), flush=True)


class Tree:
    """One build of the engine in a process of its own."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.requests = cast("IO[str]", self.process.stdin)
        self.answers = cast("IO[str]", self.process.stdout)

    def ask(self, case: str) -> float:
        self.requests.write(case + "\n")
        self.requests.flush()
        return float(json.loads(self.answers.readline()))

    def close(self) -> None:
        self.requests.close()
        self.process.wait()


def main(arguments: list[str]) -> None:
    named = [argument.split("=", 1) for argument in arguments] or [["here", "."]]
    trees = [Tree(name, path) for name, path in named]
    print(f"{'ns per call':16}" + "".join(f"{tree.name:>12}" for tree in trees))
    for name in CASES:
        samples: list[list[float]] = [[] for _ in trees]
        for _ in range(ROUNDS):
            for tree, taken in zip(trees, samples, strict=True):
                taken.append(tree.ask(name))
        print(f"{name:16}" + "".join(f"{statistics.median(taken):12.0f}" for taken in samples))
    for name in MEMORY:
        print(f"{'bytes, ' + name:16}" + "".join(f"{tree.ask(name):12.0f}" for tree in trees))
    for tree in trees:
        tree.close()


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["--worker"] else main(sys.argv[1:])

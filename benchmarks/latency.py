"""What callers feel: entry latency at rest and while rules are swapped, throughput by threads, memory by resource.

    .venv/bin/python benchmarks/latency.py pure=/path/to/tree compiled=/path/to/other

10,000 rules are swapped ten times a second by a thread of the same process, from JSON text, one rule different each
time: under the GIL it takes turns with the callers, so the longest entries are those that met a turn of the parser.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import truediv
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentinel_core import Engine

RULES = 10_000
SWAPS_A_SECOND = 10
ROUNDS = 3
ROUND_S = 2.0
THREADS_ROUNDS = 9
THREADS_ROUND_S = 0.5
PACED_PAUSE_S = 0.0005
FLOW = {"resource": "r", "grade": 1, "count": 1_000_000_000}
DEGRADE = [{"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 10}]


def rules(number: int, changed: int) -> str:
    flow = [{"resource": f"resource-{index}", "grade": 1, "count": 100} for index in range(number)]
    flow[0]["count"] = changed + 1
    return json.dumps([FLOW, *flow])


@contextmanager
def swapping(engine: Engine, texts: list[str]) -> Iterator[list[float]]:
    """Swaps rule sets until the block ends; gives the seconds that each swap took."""
    stop = threading.Event()
    took: list[float] = []

    def run() -> None:
        due = time.perf_counter()
        while not stop.wait(max(0.0, due - time.perf_counter())):
            due += 1 / SWAPS_A_SECOND
            began = time.perf_counter()
            engine.load_rules("flow", texts[len(took) % len(texts)])
            took.append(time.perf_counter() - began)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield took
    finally:
        stop.set()
        thread.join()


def latencies(engine: Engine, pause_s: float) -> list[int]:
    """ns of every entry and exit of a round, sorted."""
    entry, clock, taken = engine.entry, time.perf_counter_ns, []
    end = clock() + int(ROUND_S * 1e9)
    began = 0
    while began < end:
        if pause_s:
            time.sleep(pause_s)
        began = clock()
        entry("r").exit()
        taken.append(clock() - began)
    return sorted(taken)


def latency_table() -> dict[str, list[float]]:
    """Per case: entries a second and µs at p50, p99, p99.9 and the longest; each the best of the rounds."""
    from sentinel_core import Engine

    engine = Engine()
    texts = [rules(RULES, number) for number in range(4)]
    engine.load_rules("flow", texts[0])
    engine.load_rules("degrade", DEGRADE)
    gc.collect()
    gc.freeze()
    rows: dict[str, list[list[float]]] = {}
    swap_times: list[float] = []
    for _ in range(ROUNDS):
        for pace, pause in (("without pause", 0.0), ("paced", PACED_PAUSE_S)):
            rows.setdefault(f"at rest, {pace}", []).append(points(latencies(engine, pause)))
            with swapping(engine, texts) as took:
                rows.setdefault(f"swapping, {pace}", []).append(points(latencies(engine, pause)))
            swap_times += took
    table = {
        case: [max(column) if at == 0 else min(column) for at, column in enumerate(zip(*taken, strict=True))]
        for case, taken in rows.items()
    }
    swap_times.sort()
    table["swaps: number, ms p50, p99"] = [
        float(len(swap_times)),
        swap_times[len(swap_times) // 2] * 1e3,
        swap_times[int(len(swap_times) * 0.99)] * 1e3,
    ]
    return table


def points(taken: list[int]) -> list[float]:
    return [
        len(taken) / ROUND_S,
        *(taken[int(len(taken) * share)] / 1000 for share in (0.5, 0.99, 0.999)),
        taken[-1] / 1000,
    ]


def throughput() -> dict[str, dict[str, list[float]]]:
    """Calls a second of all threads together, each round's, by job and number of threads.

    The plain job is the interpreter's own share: threads take turns with its lock, whatever they do. The rounds of all
    cases take turns as well, so a ratio within a round compares what ran under the same load.
    """
    from sentinel_core import Engine

    engine = Engine()
    engine.load_rules("flow", [FLOW])
    engine.load_rules("degrade", DEGRADE)
    jobs: dict[str, Callable[[int], None]] = {"entries": _entries(engine), "plain calls": _plain}
    calls = {name: _calls_in(job, THREADS_ROUND_S) for name, job in jobs.items()}
    rates: dict[str, dict[str, list[float]]] = {name: {} for name in jobs}
    for _ in range(THREADS_ROUNDS):
        for name, job in jobs.items():
            for threads in (1, 2, 8):
                rates[name].setdefault(str(threads), []).append(_rate(job, calls[name], threads))
    return rates


def _entries(engine: Engine) -> Callable[[int], None]:
    def work(calls: int) -> None:
        entry = engine.entry
        for _ in range(calls):
            entry("r").exit()

    return work


def _plain(calls: int) -> None:
    def called(name: str) -> str:
        return name

    for _ in range(calls):
        called("r")


def _calls_in(job: Callable[[int], None], seconds: float) -> int:
    job(10_000)
    began = time.perf_counter()
    job(100_000)
    return int(100_000 * seconds / (time.perf_counter() - began))


def _rate(job: Callable[[int], None], calls: int, threads: int) -> float:
    each = calls // threads
    start = threading.Barrier(threads + 1)

    def run() -> None:
        start.wait()
        job(each)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in running:
        thread.join()
    return threads * each / (time.perf_counter() - began)


def _threads_lines(rates: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    for name, by_threads in rates.items():
        one = by_threads["1"]
        yield f"{name} a second, median of {len(one)} rounds: " + ", ".join(
            f"{threads} thread{'s' if threads != '1' else ''} {median(found):,.0f}"
            + (f" (× {median(map(truediv, found, one)):.3f} of one)" if threads != "1" else "")
            for threads, found in by_threads.items()
        )


def memory() -> tuple[float, float]:
    """Bytes by resource of the rules (a flow rule and a breaker each), and of what counts and decides for it."""
    from sentinel_core import Engine
    from sentinel_core.testing import FakeClock

    clock = FakeClock()
    engine = Engine(clock=clock, max_resources=2 * RULES)
    names = [f"resource-{index}" for index in range(RULES)]
    flow = json.dumps([{"resource": name, "grade": 1, "count": 100} for name in names])
    degrade = json.dumps([{"resource": name, "grade": 1, "count": 0.5, "timeWindow": 10} for name in names])
    tracemalloc.start()
    begun = tracemalloc.get_traced_memory()[0]
    engine.load_rules("flow", flow)
    engine.load_rules("degrade", degrade)
    gc.collect()
    loaded = tracemalloc.get_traced_memory()[0]
    for _ in range(4):
        for name in names:
            engine.entry(name).exit()
        clock.advance(ms=400)
    gc.collect()
    called = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (loaded - begun) / RULES, (called - loaded) / RULES


def worker() -> None:
    print(json.dumps([latency_table(), throughput(), memory()]))


def main(arguments: list[str]) -> None:
    for argument in arguments or ["here=."]:
        name, tree = argument.split("=", 1)
        done = subprocess.run(
            [sys.executable, __file__, "--worker"],
            env={**os.environ, "PYTHONPATH": tree},
            stdout=subprocess.PIPE,
            check=True,
        )
        table, threads, (rules_bytes, state_bytes) = json.loads(done.stdout)
        swaps = table.pop("swaps: number, ms p50, p99")
        print(f"\n{name}; best of {ROUNDS} rounds of {ROUND_S:g} s")
        print(f"{'entry + exit':28}{'a second':>10}{'p50 µs':>9}{'p99':>9}{'p99.9':>9}{'longest':>10}")
        for case, (rate, *values) in table.items():
            print(f"{case:28}{rate:10.0f}" + "".join(f"{value:9.2f}" for value in values))
        print(f"swaps of {RULES} rules: {swaps[0]:.0f}, p50 {swaps[1]:.0f} ms, p99 {swaps[2]:.0f} ms")
        print(*_threads_lines(threads), sep="\n")
        print(f"bytes by resource: rules {rules_bytes:.0f}, counters and checkers {state_bytes:.0f}")


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["--worker"] else main(sys.argv[1:])

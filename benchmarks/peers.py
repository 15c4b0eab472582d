"""Our engine beside others, in one run with interleaved rounds: ns per call and ratios.

    script/bench peers

prepares what is compared (a pure and a compiled copy of this tree, an environment with the Python libraries, Java
Sentinel) and calls this with it. What could not be prepared is told and left out. Each library does one of our jobs:
rate limiting or circuit breaking; Java Sentinel does both. Only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

ROUNDS = 15
CALLS = 10_000
JAVA_CALLS = 200_000
JOBS = {
    "circuitbreaker": "breaker", "pybreaker": "breaker", "aiobreaker": "breaker", "purgatory": "breaker",
    "ratelimit": "fixed window", "limits_fixed": "fixed window", "limits_sliding": "sliding window",
    "throttled": "sliding window", "pyrate_limiter": "sliding log",
}  # fmt: skip
OURS = {
    "entry": "flow + breaker", "with_block": "flow + breaker, with", "flow_only": "flow",
    "breaker_only": "breaker, guarded function",
}  # fmt: skip


class Worker:
    """One build or library in a process of its own."""

    def __init__(self, command: Sequence[str], cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._requests = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    def ask(self, name: str, threads: int, calls: int) -> float | str:
        """ns per call, or why it failed."""
        self._requests.write(f"{name} {threads} {calls}\n")
        self._requests.flush()
        line = self._answers.readline()
        answer: float | str = json.loads(line) if line else "its process ended"
        return answer

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


@dataclass
class Contender:
    name: str
    job: str
    worker: Worker
    case: str
    calls: int = CALLS
    samples: dict[int, list[float]] = field(default_factory=dict)
    failure: str | None = None

    def run(self, threads: int) -> None:
        answer = self.worker.ask(self.case, threads, self.calls) if self.failure is None else self.failure
        if isinstance(answer, str):
            self.failure = answer
        else:
            self.samples.setdefault(threads, []).append(answer)

    def median(self, threads: int) -> float:
        return statistics.median(self.samples[threads])


def contenders(options: argparse.Namespace) -> list[Contender]:
    found: list[Contender] = []
    for name in ("compiled", "pure"):
        if tree := getattr(options, name):
            worker = Worker([sys.executable, "-m", "benchmarks.ours"], Path(tree))
            found += [Contender(f"ours, {name}", job, worker, case) for case, job in OURS.items()]
        else:
            print(f"LEFT OUT: our engine, {name} (not built)")
    if options.java:
        folder = Path(options.java)
        classpath = f"{folder}:{folder}/*"
        command = ["java", "-Dproject.name=bench", f"-Dcsp.sentinel.log.dir={folder}/logs", "-cp", classpath]
        worker = Worker([*command, "SentinelBench"])
        found.append(Contender("Java Sentinel 1.8.9", "flow + breaker", worker, "entry", JAVA_CALLS))
    else:
        print("LEFT OUT: Java Sentinel (needs java, javac and mvn, and a Maven repository)")
    if options.peers:
        worker = Worker([options.peers, str(Path(__file__).with_name("peer_worker.py"))])
        found += [Contender(case, job, worker, case) for case, job in JOBS.items()]
    else:
        print("LEFT OUT: Python libraries (could not be installed)")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, what in (
        ("--compiled", "tree with a compiled engine"),
        ("--pure", "tree with an interpreted one"),
        ("--peers", "python with the libraries installed"),
        ("--java", "folder with the jar and SentinelBench.class"),
    ):
        parser.add_argument(option, help=what)
    running = contenders(parser.parse_args())
    for round_ in range(ROUNDS + 1):
        for threads in (1, 2):
            for each in running:
                each.run(threads)
                if round_ == 0:  # warming up
                    each.samples.clear()
    for each in running:
        if each.failure is not None:
            print(f"LEFT OUT: {each.name}: {each.failure}")
    report([each for each in running if each.failure is None])
    for worker in {id(each.worker): each.worker for each in running}.values():
        worker.close()


def report(running: list[Contender]) -> None:
    if not running:
        return
    unit = running[0].median(1)
    print(f"\nmedian of {ROUNDS} rounds; × is to {running[0].name}, {running[0].job}")
    print(f"{'':22}{'job':28}{'ns':>8}{'best':>8}{'×':>7}{'ns, 2 threads':>16}")
    for each in running:
        one, best, two = each.median(1), min(each.samples[1]), each.median(2)
        print(f"{each.name:22}{each.job:28}{one:8.0f}{best:8.0f}{one / unit:7.2f}{two:16.0f}")


if __name__ == "__main__":
    main()

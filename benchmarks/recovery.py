"""How breakers come through the recovery of a dependency: a simulation on the real engine and a clock of its own.

    .venv/bin/python benchmarks/recovery.py [--recoveries 100] [--seed 1]

A dependency fails every call for 6 to 12 s. Then it is back, but not well yet: a share of calls, `noise` at first and
half of it after every 5 s, still fails. 200 calls a second ask (exponential gaps), each takes 5 to 50 ms. All breakers
open beyond 20 % failures of 20 calls or more (of a second; of 10 s for the business metric, which must remember the
whole trial), for 5 s. They differ in how they try again:

    single        a degrade rule: one probe decides
    progressive   the same with `recovery: progressive`: 11 calls, in three cycles, must all come back well
    window        a biz_metric rule: for 2 s 5 % of the calls pass, and are judged as a whole

The three see the same calls at the same times with the same luck. Counted for 30 s from the moment it is back:

    re-trips   moves HALF_OPEN → OPEN, per 100 recoveries (moves to CLOSED): a trial that began when the dependency was
               back failed all the same
    reopened   moves CLOSED → OPEN, per 100 recoveries: it was let in too early
    closed     seconds until the breaker closed for good: median, and nine in ten
    refused    share of the calls that the breaker refused
    failed     share of the calls that passed and failed
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from statistics import median
from typing import Any

from sentinel_core import Engine, Entry
from sentinel_core.clock import MS, SECOND
from sentinel_core.plan import Transition
from sentinel_core.testing import FakeClock

CALLS_A_SECOND = 200
OUTAGE_S = (6.0, 12.0)
WATCHED_S = 30
HALF_LIFE_S = 5
TOOK_MS = (5.0, 50.0)
NOISES = (0.01, 0.03, 0.05, 0.10, 0.30)
METRIC = "PAY_FAIL_RATE"

DEGRADE = {
    "resource": "pay", "grade": 1, "count": 0.2, "timeWindow": 5, "minRequestAmount": 20, "statIntervalMs": 1000,
}  # fmt: skip
BIZ = {
    "resource": "pay", "bizMetricType": METRIC, "threshold": 20, "windowIntervalMs": 10_000, "minRequestAmount": 20,
    "stateWindowMs": 5000, "halfOpenMs": 2000, "halfOpenPercent": 5,
}  # fmt: skip
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": ("degrade", DEGRADE),
    "progressive": ("degrade", {**DEGRADE, "recovery": "progressive"}),
    "window": ("biz_metric", BIZ),
}
REFUSED = ConnectionError("the dependency failed")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One call: when it comes (ns since the outage began), how long it takes, and its luck (0-1)."""

    at: int
    took: int
    luck: float


@dataclass(slots=True)
class Counts:
    """What happened from the moment the dependency was back, over all recoveries."""

    retrips: int = 0
    reopened: int = 0
    recoveries: int = 0
    calls: int = 0
    refused: int = 0
    failed: int = 0
    closed_s: list[float] = field(default_factory=list)
    """Seconds until each recovery's last move to CLOSED; those that never closed count as the whole time."""

    def per_recovery(self, moves: int) -> float:
        return 100 * moves / self.recoveries if self.recoveries else 0.0


def arrivals(pick: random.Random, until_s: float) -> Iterator[Arrival]:
    at = 0.0
    while (at := at + pick.expovariate(CALLS_A_SECOND)) < until_s:
        yield Arrival(round(at * SECOND), round(pick.uniform(*TOOK_MS) * MS), pick.random())


def recover_once(way: str, calls: Sequence[Arrival], back: int, noise: float, counts: Counts) -> None:
    """One outage and one recovery of an engine of its own; `back` is when the dependency is back, ns."""
    clock = FakeClock(start_ms=0)
    engine = Engine(clock=clock)
    kind, rule = WAYS[way]
    engine.load_rules(kind, [rule])
    moves: list[Transition] = []
    engine.on_breaker(moves.append)
    inside: list[tuple[int, int, Entry, bool]] = []

    def end(until: int) -> None:
        while inside and inside[0][0] <= until:
            clock.now_ns, _, entry, fails = heappop(inside)
            if fails:
                entry.trace(REFUSED)
            entry.exit()
            if kind == "biz_metric":
                engine.report(METRIC, not fails, resource="pay")

    for number, call in enumerate(calls):
        end(call.at)
        clock.now_ns = call.at
        fails = call.luck < failing(call.at - back, noise)
        entry = engine.try_entry("pay")
        if isinstance(entry, Entry):
            heappush(inside, (call.at + call.took, number, entry, fails))
        if call.at >= back:
            counts.calls += 1
            counts.refused += not entry
            counts.failed += bool(entry) and fails
    end(calls[-1].at)
    count_moves(moves, back, counts)


def failing(since_back: int, noise: float) -> float:
    """The share of calls that fail so long (ns) after the dependency is back."""
    return 1.0 if since_back < 0 else noise * 0.5 ** (since_back / SECOND / HALF_LIFE_S)


def count_moves(moves: Sequence[Transition], back: int, counts: Counts) -> None:
    tried_since = -1
    for move in moves:
        if move.after == "HALF_OPEN":
            tried_since = move.at
        elif move.at >= back:
            counts.recoveries += move.after == "CLOSED"
            counts.reopened += move.before == "CLOSED"
            counts.retrips += (move.before, move.after) == ("HALF_OPEN", "OPEN") and tried_since >= back
    last = moves[-1]
    is_closed = last.after == "CLOSED" and last.at >= back
    counts.closed_s.append((last.at - back) / SECOND if is_closed else float(WATCHED_S))


def simulate(noise: float, recoveries: int, seed: int) -> dict[str, Counts]:
    """The counts of every way over so many outages; the same seed gives the same calls, whatever the noise."""
    pick = random.Random(seed)
    counts = {way: Counts() for way in WAYS}
    for _ in range(recoveries):
        outage = pick.uniform(*OUTAGE_S)
        calls = list(arrivals(pick, outage + WATCHED_S))
        for way, of_way in counts.items():
            recover_once(way, calls, round(outage * SECOND), noise, of_way)
    return counts


COLUMNS: dict[str, Callable[[Counts], str]] = {
    "re-trips": lambda each: f"{each.per_recovery(each.retrips):.1f}",
    "reopened": lambda each: f"{each.per_recovery(each.reopened):.1f}",
    "closed after, s": lambda each: f"{median(each.closed_s):.1f} / {nine_in_ten(each.closed_s):.1f}",
    "refused, %": lambda each: f"{100 * each.refused / each.calls:.1f}",
    "failed, %": lambda each: f"{100 * each.failed / each.calls:.2f}",
}


def nine_in_ten(values: Sequence[float]) -> float:
    return sorted(values)[len(values) * 9 // 10]


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulates breakers while a dependency recovers.")
    parser.add_argument("--recoveries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"seed {asked.seed}, {asked.recoveries} outages for each line")
    print("| noise | recovery | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for noise in NOISES:
        for way, counts in simulate(noise, asked.recoveries, asked.seed).items():
            print(f"| {noise:.0%} | {way} | " + " | ".join(show(counts) for show in COLUMNS.values()) + " |")


if __name__ == "__main__":
    main()

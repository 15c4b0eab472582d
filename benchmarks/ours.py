"""Our engine, doing all its jobs or one of them; serves rounds as `benchmarks/peer_worker.py` does.

Run from the root of the tree that is to be measured: python -m benchmarks.ours
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peer_worker import nothing, serve
from sentinel_core import Engine, guard

FLOW = [{"resource": "r", "grade": 1, "count": 1_000_000_000}]
DEGRADE = [{"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 10}]


def engine(*, flow: bool, degrade: bool) -> Engine:
    made = Engine()
    made.load_rules("flow", FLOW if flow else [])
    made.load_rules("degrade", DEGRADE if degrade else [])
    return made


def entry() -> Callable[[], object]:
    """One flow rule and one breaker, as in the Java harness."""
    enter = engine(flow=True, degrade=True).entry
    return lambda: enter("r").exit()


def with_block() -> Callable[[], object]:
    enter = engine(flow=True, degrade=True).entry

    def call() -> None:
        with enter("r"):
            pass

    return call


def flow_only() -> Callable[[], object]:
    enter = engine(flow=True, degrade=False).entry
    return lambda: enter("r").exit()


def breaker_only() -> Callable[[], object]:
    """A guarded function with a breaker, as the libraries of breakers offer it."""
    guarded: Callable[[], object] = guard("r", engine=engine(flow=False, degrade=True))(nothing)
    return guarded


CASES = {case.__name__: case for case in (entry, with_block, flow_only, breaker_only)}

if __name__ == "__main__":
    serve(CASES)

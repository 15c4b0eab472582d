"""A small order service under load, guarded by the engine: `python -m sentinel_core.examples.service sentinel.yaml`.

Its threads call three guarded resources at fixed rates, and standard output tells, one JSON object a line, what the
rules let through each second and when a revision became active. It ends when standard input is closed.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from pathlib import Path

from sentinel_core import BlockException, Engine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start

CALLS_PER_SECOND = {"payment_invoke": 80.0, "order_create": 40.0, "stock_query": 40.0}


class Caller:
    """Calls one resource at a fixed rate and counts what the rules let through."""

    def __init__(self, engine: Engine, resource: str, rate: float) -> None:
        self.engine = engine
        self.resource = resource
        self.rate = rate
        self.passed = 0
        self.blocked = 0

    def run(self, stop: threading.Event) -> None:
        """Until `stop`. Never drifts, because each call's time is counted from the beginning."""
        begin, calls = time.monotonic(), 0
        while not stop.wait(max(0.0, begin + calls / self.rate - time.monotonic())):
            calls += 1
            try:
                with self.engine.entry(self.resource, inbound=True):
                    self.passed += 1  # the real work of a real service
            except BlockException:
                self.blocked += 1  # a real service answers 429 here


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def report_activations(engine: Engine, stop: threading.Event) -> None:
    """Tells each revision of the flow rules as it becomes active; looks every 2 ms, so times are that much late."""
    seen = None
    while not stop.wait(0.002):
        active = engine.rules("flow")
        if active.digest != seen:
            at = time.monotonic_ns()
            seen = active.digest
            commit = active.revision.provenance.commit_hash if active.revision else None
            tell(event="activated", digest=active.digest, commit=commit, rules=len(active.rules), monotonic_ns=at)


def report_traffic(callers: list[Caller], stop: threading.Event) -> None:
    """Once a second: how many calls of each resource passed and were refused in that second."""
    last = [(0, 0)] * len(callers)
    while not stop.wait(1.0):
        now = [(caller.passed, caller.blocked) for caller in callers]
        for caller, (passed, blocked), (passed_before, blocked_before) in zip(callers, now, last, strict=True):
            tell(
                event="traffic",
                resource=caller.resource,
                passed=passed - passed_before,
                blocked=blocked - blocked_before,
            )
        last = now


def main(settings_file: str) -> None:
    engine = start(load_settings(Path(settings_file)))
    stop = threading.Event()
    callers = [Caller(engine, name, rate) for name, rate in CALLS_PER_SECOND.items()]
    threads = [threading.Thread(target=caller.run, args=(stop,), daemon=True) for caller in callers]
    threads.append(threading.Thread(target=report_activations, args=(engine, stop), daemon=True))
    threads.append(threading.Thread(target=report_traffic, args=(callers, stop), daemon=True))
    for thread in threads:
        thread.start()
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join(timeout=2)
    engine.close()


if __name__ == "__main__":
    main(sys.argv[1])

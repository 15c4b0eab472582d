"""The stock depth in Redis: read by every request, or by a collector beside them.

Run: script/bench collectors, or python benchmarks/collectors.py [name=tree ...]

Requests come at 500 a second. They enter, in turns so that both see the same machine, a resource with a flow rule
("plain") and one with the same rule and a business breaker on the stock's gauge ("cached"); or each reads Redis and
then enters ("per request"). Redis is a real one on the loopback, where a round trip is as cheap as it can be; near
the end it stops answering for a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RATE = 500
ROUND_S = 4.0
ROUNDS = 3
EVERY_S = 0.03
"""As the article refreshed its cache."""
BARS = {
    "added µs, after each other": 2.0,
    "added µs, after a pause": 2.0,
    "reads a second": 40.0,
    "oldest value, refreshes": 2.0,
}
STOCK = {"resource": "stock", "bizMetricType": "STOCK_DEPTH", "threshold": 10, "direction": "below"}


def ticks(seconds: float) -> Iterator[None]:
    """One every 1/RATE s; those that are missed are made up for."""
    due = time.perf_counter()
    for _ in range(int(seconds * RATE)):
        time.sleep(max(0.0, due - time.perf_counter()))
        yield
        due += 1 / RATE


def timed(call: Callable[[], object], into: list[float]) -> None:
    began = time.perf_counter()
    call()
    into.append((time.perf_counter() - began) * 1e6)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class Shop:
    """An engine that follows the stock, and a client that reads it for every request."""

    def __init__(self, url: str) -> None:
        import redis

        from sentinel_core import Engine
        from sentinel_core.collectors.redis import RedisCollector

        self.redis: Any = redis.Redis.from_url(url, socket_timeout=0.25)
        self.redis.set("stock", 50)
        self.engine = Engine()
        self.engine.load_rules("flow", [{"resource": name, "count": 1e9} for name in ("plain", "stock")])
        self.engine.load_rules("biz_metric", [STOCK])
        collector = RedisCollector("STOCK_DEPTH", url, keys="stock", resource="stock", every_s=EVERY_S, timeout_s=0.25)
        self.engine.collectors.register(collector)
        while not self.engine.collectors.status()[0]["values"]:
            time.sleep(0.01)
        self.plain: list[float] = []
        self.cached: list[float] = []
        self.ages: list[float] = []

    def enter(self, resource: str) -> Callable[[], object]:
        entry = self.engine.entry
        return lambda: entry(resource).exit()

    def age_ms(self) -> float:
        gauge: Any = self.engine.metrics.gauge("STOCK_DEPTH", "stock", "")  # there is one by now
        return float(time.monotonic_ns() - gauge.at) / 1e6

    def reads(self) -> int:
        return int(self.redis.info("commandstats")["cmdstat_getrange"]["calls"])

    def beside(self, seconds: float) -> None:
        """Requests that look at the gauge."""
        plain, cached = self.enter("plain"), self.enter("stock")
        for number, _ in enumerate(ticks(seconds)):
            if number % 2:
                timed(plain, self.plain)
            else:
                timed(cached, self.cached)
            self.ages.append(self.age_ms())

    def per_request(self, seconds: float) -> list[float]:
        """Requests that read Redis."""
        plain, durations = self.enter("plain"), list[float]()

        def request() -> None:
            try:
                if float(self.redis.get("stock")) >= 10:
                    plain()
            except Exception:  # noqa: BLE001 (nobody answers: the wait is what is measured)
                return

        for _ in ticks(seconds):
            timed(request, durations)
        return durations

    def tight_us(self) -> float:
        """What "cached" takes longer than "plain" when calls follow each other; best of rounds in turns."""
        enter, number = self.engine.entry, 5_000
        best = dict.fromkeys(("plain", "stock"), float("inf"))
        for _ in range(25):
            for resource in best:
                began = time.perf_counter()
                for _ in range(number):
                    enter(resource).exit()
                best[resource] = min(best[resource], (time.perf_counter() - began) / number * 1e6)
        return best["stock"] - best["plain"]


def worker(url: str) -> None:
    """Measures the tree that is on the path; one line of JSON for each part, `frozen` after the word that Redis is."""
    shop = Shop(url)
    shop.beside(0.5)
    for into in (shop.plain, shop.cached, shop.ages):
        into.clear()
    before, began = shop.reads(), time.monotonic()
    each = []
    for _ in range(ROUNDS):
        shop.beside(ROUND_S)
        each += shop.per_request(ROUND_S)
    reads = (shop.reads() - before) / (time.monotonic() - began)
    tight = shop.tight_us()
    print(json.dumps([shop.plain, shop.cached, each, shop.ages, reads, tight]), flush=True)
    sys.stdin.readline()
    shop.cached.clear()
    shop.beside(0.5)
    print(json.dumps([shop.cached, shop.per_request(0.5)]), flush=True)
    shop.engine.close()


def measure(name: str, tree: str, server: Any) -> None:
    child: Any = subprocess.Popen(
        [sys.executable, __file__, "--worker", server.url],
        env={**os.environ, "PYTHONPATH": tree},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    plain, cached, each, ages, reads, tight = json.loads(child.stdout.readline())
    server.freeze()
    child.stdin.write("frozen\n")
    child.stdin.flush()
    frozen_cached, frozen_each = json.loads(child.stdout.readline())
    server.thaw()
    child.wait(10)
    print(f"\n{name}; {RATE} requests a second, {len(plain)} of each, a refresh every {EVERY_S * 1000:g} ms")
    print(f"{'µs a request':32}{'p50':>9}{'p99':>9}{'longest':>10}")
    for label, values in (
        ("plain", plain),
        ("cached", cached),
        ("per request", each),
        ("cached, Redis frozen", frozen_cached),
        ("per request, Redis frozen", frozen_each),
    ):
        print(f"{label:32}{quantile(values, 0.5):9.2f}{quantile(values, 0.99):9.2f}{max(values):10.0f}")
    results = {
        "added µs, after each other": tight,
        "added µs, after a pause": quantile(cached, 0.5) - quantile(plain, 0.5),
        "reads a second": reads,
        "oldest value, refreshes": max(ages) / 1000 / EVERY_S,
    }
    for what, value in results.items():
        print(f"{what:32}{value:9.2f}   bar {BARS[what]:g}: {'met' if value <= BARS[what] else 'MISSED'}")


def main(arguments: Sequence[str]) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.services.redis import Redis
    from tests.services.server import Unavailable

    with tempfile.TemporaryDirectory() as folder:
        try:
            server = Redis(Path(folder))
        except Unavailable as missing:
            print(f"LEFT OUT: {missing}")
            return
        server.start()
        try:
            for argument in arguments or [f"here={ROOT}"]:
                name, tree = argument.split("=", 1)
                measure(name, tree, server)
        finally:
            server.stop()


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else main(sys.argv[1:])

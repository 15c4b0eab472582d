"""How long a change takes from Nacos to active rules, next to the callback of the client library in the same run.

Run: python benchmarks/nacos.py [number of changes]

Each change is published over HTTP, as the console does, so its author is looked up in the history. The clock starts
before it; it stops when the library calls its listener, and when a subscription tells its listeners of the new version.
All follow the same dataId at the same time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sentinel_core import Engine, datasources
from tests.services import nacos

RULES = 20
OURS_MS = 20.0
"""What may be added to the library's own time."""
WAIT_S = 10
Told = Queue[float]
"""When the change was told (`perf_counter`)."""


def content(number: int) -> bytes:
    return json.dumps([{"resource": f"r{each}", "count": number + 1} for each in range(RULES)]).encode()


@contextmanager
def library(server: nacos.NacosServer, data_id: str, group: str) -> Iterator[Told]:
    """Its config service, with a listener that does nothing but look at the clock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from v2.nacos import ClientConfigBuilder, NacosConfigService

    told, loop = Told(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    with tempfile.TemporaryDirectory() as folder:
        config = ClientConfigBuilder().server_address(server.address).log_level(logging.ERROR)
        config = config.log_dir(f"{folder}/log").cache_dir(f"{folder}/cache")

        async def listen() -> Any:
            async def listener(*_: str) -> None:
                told.put(time.perf_counter())

            service = await NacosConfigService.create_config_service(config.build())
            await service.add_listener(data_id, group, listener)
            return service

        service = asyncio.run_coroutine_threadsafe(listen(), loop).result(30)
        try:
            yield told
        finally:
            asyncio.run_coroutine_threadsafe(service.shutdown(), loop).result(30)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


@contextmanager
def subscription(server: nacos.NacosServer, group: str, transport: str) -> Iterator[Told]:
    told, version = Told(), [""]
    source = datasources.open(server.uri(group=group, transport=transport, kind="flow"))
    following = Engine(app="benchmark").subscribe(["flow"], source)
    following.wait_ready(WAIT_S)
    version[0] = following.status()[0].version or ""

    def listener(status: datasources.ItemStatus) -> None:
        if status.version != version[0]:
            version[0] = status.version or ""
            told.put(time.perf_counter())

    following.on_state(listener)
    try:
        yield told
    finally:
        following.close()
        source.close()


def measure(major: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds per change, sorted, by who was told."""
    server, group = nacos.shared(major), "benchmark"
    (item,) = datasources.open(server.uri(group=group, kind="flow")).items(["flow"])

    def publish(number: int) -> float:
        began = time.perf_counter()
        server.put(item.key, content(number), group=group)
        return began

    publish(0)
    while server.read(item.key, group=group) != content(0):
        time.sleep(0.05)
    times: dict[str, list[float]] = {"library's callback": [], "active, grpc": [], "active, http": []}
    with (
        library(server, item.key, group) as callback,
        subscription(server, group, "grpc") as grpc,
        subscription(server, group, "http") as http,
    ):
        everybody = dict(zip(times, (callback, grpc, http), strict=True))
        callback.get(timeout=WAIT_S)  # it tells what stands there, within 5 s
        for number in range(1, rounds + 1):
            began = publish(number)
            for who, told in everybody.items():
                times[who].append((told.get(timeout=WAIT_S) - began) * 1000)
    return {who: sorted(each) for who, each in times.items()}


def quantile(times: Sequence[float], share: float) -> float:
    return times[min(len(times) - 1, int(len(times) * share))]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for major in nacos.MAJORS:
        if why := nacos.missing(major):
            print(f"Nacos {major} is left out: {why}")
            continue
        print(f"{f'Nacos {major}, change → told, ms':32}{'n':>5}{'p50':>8}{'p99':>8}{'max':>8}{'bar p99':>9}")
        found = measure(major, rounds)
        bar = quantile(found["library's callback"], 0.99) + OURS_MS
        for who, times in found.items():
            figures = f"{quantile(times, 0.5):8.1f}{quantile(times, 0.99):8.1f}{times[-1]:8.1f}"
            print(f"  {who:30}{len(times):5}{figures}" + (f"{bar:9.1f}" if who == "active, grpc" else ""))


if __name__ == "__main__":
    main()

"""Fifty engines of one process on one source, as `script/bench fleet` has a thousand of several."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.loading import benchmark
from tests.services import etcd
from tests.services.proxy import Proxy

fleet = benchmark("fleet")
ENGINES = 50


@pytest.fixture
def link() -> Iterator[Proxy]:
    etcd.needed()
    with Proxy(etcd.shared().port) as proxy:
        yield proxy


def test_one_put_is_active_in_every_engine_within_a_second_over_one_connection(link: Proxy, tmp_path: Path) -> None:
    server, key = etcd.shared(), f"/sentinel/fleet/{tmp_path.name}/sentinel-flow-rules"
    server.put(key, fleet.content(0))
    share: Any = fleet.Share(f"etcd://127.0.0.1:{link.port}/fleet/{tmp_path.name}?kind=flow", ENGINES)
    try:
        assert share.ready
        for number in (1, 2, 3):
            before = [each.status()[0].counters for each in share.subscriptions]
            began = time.monotonic()
            server.put(key, fleet.content(number))
            times = share.wait(str(server.revision()))
            assert len(times) == ENGINES
            assert times[-1] - began <= 1
            after = [each.status()[0].counters for each in share.subscriptions]
            assert {one.activated - other.activated for one, other in zip(after, before, strict=True)} == {1}
        assert link.accepted == 1
    finally:
        share.close()

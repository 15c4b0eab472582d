"""A real Prometheus that scrapes a gauge of this test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from sentinel_core.collectors import CollectorError
from sentinel_core.collectors.prometheus import PrometheusCollector
from tests.collectors.conftest import running
from tests.services.prometheus import Prometheus
from tests.services.server import free_port, wait_until

pytestmark = [pytest.mark.service("prometheus"), pytest.mark.slow]


def test_queries_are_answered(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("settle_lag", "Bills that wait", ["api", "channel"], registry=registry)
    gauge.labels("order:create", "alipay").set(12)
    gauge.labels("order:create", "wechat").set(float("nan"))
    port = free_port()
    target, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        with running(lambda: Prometheus(tmp_path, f"127.0.0.1:{port}")) as server:

            def ask(query: str, **options: Any) -> Any:
                return PrometheusCollector("SETTLE_LAG", server.url, query, **options).collect()

            # A Prometheus looks for what to scrape five seconds after its start at the soonest.
            assert wait_until(lambda: bool(ask("sum(settle_lag)")), 20)
            assert ask("settle_lag", resource_label="api", dimension_label="channel") == {
                ("order:create", "alipay"): "12",
                ("order:create", "wechat"): "NaN",
            }
            assert ask("sum(settle_lag{channel='alipay'})", resource="r") == {"r": "12"}
            assert ask("scalar(sum(settle_lag{channel='alipay'}))") == {"": "12"}
            assert ask("nothing_of_this_name") == {}
            with pytest.raises(CollectorError, match="parse error"):
                ask("sum(")
            with pytest.raises(CollectorError, match="gives a matrix"):
                ask("settle_lag[1m]")
    finally:
        target.shutdown()
        target.server_close()
        thread.join()

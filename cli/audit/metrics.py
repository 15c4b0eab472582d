"""How `sentinelctl audit ingest` goes, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sentinel_core.audit.ingest import Ingest
from sentinel_core.cli.exits import BadSettings, UsageProblem


def serve(line: Ingest, address: str) -> Callable[[], None]:
    """Answers scrapes at `host:port`, or `:port` for this machine alone; gives what ends that.

    Raises UsageProblem for an address that is none or taken, BadSettings without the extra `prometheus`.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageProblem(f"--metrics {address}: HOST:PORT is needed", next_step="for example: --metrics :9465")
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    except ModuleNotFoundError as error:
        step = "pip install 'sentinel-control-plane[prometheus]'"
        raise BadSettings("--metrics needs prometheus_client", next_step=step) from error

    class Families:
        """Read when they are scraped."""

        def collect(self) -> Iterator[Metric]:
            status = line.status()
            name = "sentinel_audit_ingest_"
            yield CounterMetricFamily(f"{name}stored", "Events that were new to the store", status.stored)
            yield CounterMetricFamily(f"{name}duplicates", "Events that the store had already", status.duplicates)
            yield CounterMetricFamily(f"{name}dead_letters", "Messages that no store takes", status.dead)
            if status.lag is not None:
                yield GaugeMetricFamily(f"{name}lag", "Messages that are not stored yet", status.lag)
            yield GaugeMetricFamily(
                f"{name}behind_seconds", "Age of what was stored last, 0 at the end", status.behind_s
            )
            yield GaugeMetricFamily(
                f"{name}up", "1: events are taken; 0: something is in the way", not status.last_error
            )

    registry = CollectorRegistry()
    registry.register(Families())
    try:
        server, thread = start_http_server(int(port), addr=host or "127.0.0.1", registry=registry)
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageProblem(f"--metrics {address}: {problem}", next_step="give another port") from error

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join(1.0)

    return end

"""What an engine shows to monitoring. Everything is read when it is asked for; a call pays for none of it.

    families      every metric once: name, labels, how it is read
    prometheus    the families as a collector of `prometheus_client`
    otel          the families as observable instruments of OpenTelemetry
    metric_log    Sentinel's `metric.log` with its index
    block_log     Sentinel's `sentinel-block.log`

Each is imported by whoever uses it, so that no library is loaded for nothing.
"""

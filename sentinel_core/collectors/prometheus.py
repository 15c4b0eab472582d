"""Numbers from Prometheus, or whatever answers its instant queries (Thanos, Mimir, VictoriaMetrics)."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from sentinel_core.collectors.contract import CollectorError, Target, Values
from sentinel_core.collectors.http import JsonAddress
from sentinel_core.collectors.source import TIMEOUT_S, Source
from sentinel_core.datasources.uri import mask_uri


class PrometheusCollector(Source[None]):
    """Asks one PromQL query.

    url               of the server, http://prometheus:9090; a path before /api/v1 is kept
    query             gives a scalar or one series, for `resource`; or a series for each value of `resource_label`
    resource_label    the label that names the resource of a series
    dimension_label   the label that names its dimension
    headers, context  as for HttpJsonCollector
    """

    def __init__(
        self,
        metric: str,
        url: str,
        query: str,
        *,
        resource: str = "",
        resource_label: str | None = None,
        dimension_label: str | None = None,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        every_s: float = 5.0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(metric, mask_uri(url), every_s=every_s, timeout_s=timeout_s)
        if not query:
            raise ValueError("query is empty; write PromQL that gives a number, such as sum(settle_lag)")
        self._resource = resource
        self._resource_label = resource_label
        self._dimension_label = dimension_label
        asked = urlencode({"query": query, "timeout": f"{max(1, round(timeout_s * 1000))}ms"})
        self._address = JsonAddress(f"{url.rstrip('/')}/api/v1/query?{asked}", headers or {}, context, timeout_s)

    def read(self) -> Values:
        answer = self._address.get()
        try:
            data = answer["data"]
            kind, result = data["resultType"], data["result"]
            if kind == "scalar":
                return {self._resource: result[1]}
            if kind == "vector":
                return self._vector(result)
        except (KeyError, IndexError, TypeError) as error:
            raise CollectorError("the answer is none of Prometheus' query API; is the url right?") from error
        raise CollectorError(f"the query gives a {kind}; write one that gives a scalar or an instant vector")

    def _vector(self, series: list[Any]) -> Values:
        if len(series) > 1 and self._resource_label is None and self._dimension_label is None:
            raise CollectorError(
                f"the query gives {len(series)} series; aggregate them, sum(…) or max(…), or name the resource_label"
            )
        values: dict[Target, object] = {}
        for each in series:
            target = self._target(each["metric"])
            if target in values:
                raise CollectorError(f"the query gives two series for {target}; aggregate them, sum by (…)")
            values[target] = each["value"][1]
        return values

    def _target(self, labels: Mapping[str, str]) -> Target:
        resource = labels.get(self._resource_label, "") if self._resource_label else self._resource
        return (resource, labels.get(self._dimension_label, "")) if self._dimension_label else resource

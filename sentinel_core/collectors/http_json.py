"""Numbers in a JSON document that an HTTP server gives."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from sentinel_core.collectors.contract import Values
from sentinel_core.collectors.http import JsonAddress
from sentinel_core.collectors.json_path import find, steps_of
from sentinel_core.collectors.source import TIMEOUT_S, Source, targets
from sentinel_core.datasources.uri import mask_uri


class HttpJsonCollector(Source[None]):
    """GETs a document and takes numbers out of it.

    url         http:// or https://; user:password@ is sent as Basic authentication
    paths       where the number stands, `$.data.items[0].depth`, for `resource`; or target → path
    headers     such as Authorization
    context     for TLS, such as ssl.create_default_context(cafile=…)
    timeout_s   for connecting, for each silence, and for the whole body
    """

    def __init__(
        self,
        metric: str,
        url: str,
        *,
        paths: str | Mapping[Any, str] = "$",
        resource: str = "",
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        every_s: float = 1.0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(metric, mask_uri(url), every_s=every_s, timeout_s=timeout_s)
        self._paths = {target: steps_of(path) for target, path in targets(paths, resource, "paths").items()}
        self._address = JsonAddress(url, headers or {}, context, timeout_s)

    def read(self) -> Values:
        document = self._address.get()
        return {target: find(document, steps) for target, steps in self._paths.items()}

"""One bounded GET of a JSON document, by the standard library."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from sentinel_core.collectors.contract import CollectorError, SourceLost
from sentinel_core.collectors.source import secretless

MAX_BYTES: Final = 1 << 20
"""Of one answer; a longer one is refused unread."""
_CHUNK: Final = 1 << 16


class JsonAddress:
    """Where to GET from, with credentials and TLS. User and password of the URL are sent as Basic authentication."""

    def __init__(self, url: str, headers: Mapping[str, str], context: ssl.SSLContext | None, timeout_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the url is not http:// or https:// with a host")
        self.headers = {"Accept": "application/json", "User-Agent": "sentinel-control-plane", **headers}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self.secrets = [value for name, value in self.headers.items() if name not in ("Accept", "User-Agent")]
        self.url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", parts.query, ""))
        self.timeout_s = timeout_s
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def get(self) -> Any:
        """The document. Raises SourceLost (nobody answers, or too slowly; 5xx), CollectorError (what a person must
        change); its `document` is then what a 4xx answer said, if that is JSON."""
        until = time.monotonic() + self.timeout_s
        request = urllib.request.Request(self.url, headers=self.headers)  # noqa: S310 (http or https, see above)
        try:
            with self._opener.open(request, timeout=self.timeout_s) as answer:
                return document_of(self._body(answer, until))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, until) from None
        except (OSError, HTTPException) as error:
            raise SourceLost(f"no answer: {secretless(error, *self.secrets)}") from error

    def _body(self, answer: Any, until: float) -> bytes:
        """All of it. A server that sends byte by byte is given up at the same time as one that is silent."""
        body = b""
        while chunk := answer.read1(_CHUNK):
            body += chunk
            if len(body) > MAX_BYTES:
                raise CollectorError(f"the answer is longer than {MAX_BYTES >> 20} MiB")
            if time.monotonic() > until:
                raise SourceLost(f"no answer: not complete after {self.timeout_s} s")
        return body

    def _refused(self, error: urllib.error.HTTPError, until: float) -> CollectorError:
        words = f"HTTP {error.code} {error.reason}"
        if error.code >= 500:
            return SourceLost(words)
        try:
            said = document_of(self._body(error, until))
        except (CollectorError, OSError, HTTPException):
            said = None
        if isinstance(said, dict) and isinstance(said.get("error"), str):
            words += f": {said['error']}"
        return CollectorError(secretless(Exception(words), *self.secrets))


def document_of(body: bytes) -> Any:
    """Parses JSON of nobody's making. Raises CollectorError."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CollectorError(f"the answer is no JSON: {secretless(error)}") from error

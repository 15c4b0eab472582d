"""The time of an etcd server: its calls tell none, but the HTTP of the same port dates its answers."""

from __future__ import annotations

import http.client
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from sentinel_core.datasources.etcd.target import Target


def server_clock(target: Target) -> datetime | None:
    """To the second, of the first endpoint that answers; None where none does, or serves calls alone. It needs no
    login, and none is sent. Bounded by the target's time-out."""
    for endpoint in target.endpoints:
        try:
            return _asked(target, endpoint, target.timeout_s / len(target.endpoints))
        except (OSError, ValueError, TypeError, http.client.HTTPException):
            continue
    return None


def _asked(target: Target, endpoint: str, timeout_s: float) -> datetime:
    host, _, port = endpoint.rpartition(":")
    host = host.strip("[]")
    connection = (
        http.client.HTTPSConnection(host, int(port), timeout=timeout_s, context=_context(target))
        if target.tls
        else http.client.HTTPConnection(host, int(port), timeout=timeout_s)
    )
    try:
        connection.request("GET", "/version")
        return parsedate_to_datetime(connection.getresponse().headers["date"]).astimezone(UTC)
    finally:
        connection.close()


def _context(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.ca)
    if target.cert is not None:
        context.load_cert_chain(target.cert, target.key)
    return context

"""One HTTP exchange with one node of OpenSearch: kept connections, TLS, an end to each wait, and what goes wrong."""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from sentinel_core.audit.errors import StoreDenied, StoreMisconfigured, StoreUnavailable
from sentinel_core.audit.store._os_target import Target

MAX_BYTES = 256 * 2**20
"""Of one answer."""
_CHUNK = 1 << 16
_MOST_IDLE = 4
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""What a kept connection ends with when the server has closed it meanwhile."""


@dataclass(frozen=True, slots=True)
class Answer:
    """As it came."""

    status: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """`path` carries the query. Whatever is asked here may be asked again: what was done is then told as done."""

    method: str
    path: str
    body: bytes | None = field(default=None, repr=False)
    type: str = "application/json"


class Wire:
    """Thread-safe: each kept connection is used by one thread at a time; a forked child makes its own."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._idle: list[tuple[int, str, http.client.HTTPConnection]] = []

    def exchange(self, host: str, request: Request, timeout_s: float) -> Answer:
        """Raises StoreUnavailable, StoreDenied, StoreMisconfigured."""
        until = time.monotonic() + timeout_s
        try:
            kept = self._kept(host)
            if kept is not None:
                try:
                    return self._send(kept, host, request, until)
                except _STALE:
                    pass
            return self._send(self._connect(host, timeout_s), host, request, until)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise explained(error, host, self._target, timeout_s) from error

    def _send(self, connection: http.client.HTTPConnection, host: str, request: Request, until: float) -> Answer:
        kept = False
        try:
            if connection.sock is not None:
                _limit(connection.sock, until)
            headers = {"User-Agent": "sentinel-control-plane", "Accept": "application/json", **self._target.login()}
            if request.body is not None:
                headers["Content-Type"] = request.type
            connection.request(request.method, request.path, request.body, headers)
            connection.response_class = partial(_Response, until=until)  # type: ignore[assignment]  # is called
            with connection.getresponse() as response:
                body = _whole(response)
            kept = not response.will_close
            return Answer(response.status, body)
        finally:
            self._put_back(host, connection) if kept else connection.close()

    def _connect(self, host: str, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(f"//{host}")
        context = self._target.context()
        if context is None:
            return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout_s, context=context)

    def _kept(self, host: str) -> http.client.HTTPConnection | None:
        with self._lock:
            mine = [each for each in self._idle if each[:2] == (os.getpid(), host)][-1:]
            self._idle = [each for each in self._idle if each not in mine]
        return mine[0][2] if mine else None

    def _put_back(self, host: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append((os.getpid(), host, connection))
                return
        connection.close()

    def close(self) -> None:
        """Idempotent; the next exchange connects again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, _, connection in idle:
            connection.close()

    def forget_after_fork(self) -> None:
        """In the child: the lock may have been held by a thread that is not there."""
        self._lock = threading.Lock()
        self.close()  # of this process's descriptors alone


class _Response(http.client.HTTPResponse):
    """Read until a point in time and no longer: a server that sends byte by byte is given up like one that is silent.
    Time-outs of sockets are those of a single read."""

    def __init__(self, sock: socket.socket, *, until: float, **how: Any) -> None:
        super().__init__(sock, **how)
        self.fp.close()
        self.fp = io.BufferedReader(_Bounded(sock, until), _CHUNK)


class _Bounded(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        _limit(self._sock, self._until)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _limit(sock: socket.socket, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


def _whole(response: http.client.HTTPResponse) -> bytes:
    parts, size = [], 0
    while chunk := response.read1(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise http.client.HTTPException(f"its answer is longer than {MAX_BYTES >> 20} MiB")
    if response.length:  # what `read` would tell, and `read1` does not
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def explained(error: Exception, host: str, target: Target, timeout_s: float) -> StoreUnavailable:
    """What to raise for what sockets and TLS say. It names no secret."""
    at = f"opensearch {host}"
    if isinstance(error, TimeoutError):
        return StoreUnavailable(
            f"{at} did not answer within {timeout_s:.2g} s; is it overloaded, or behind a firewall?"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in (62, 64):  # names of hosts and addresses
            return StoreMisconfigured(
                f"{at}: its certificate is for another name; use a host that the certificate names"
            )
        ca = target.ca or "the authorities of this system"
        return StoreMisconfigured(f"{at}: its certificate is not vouched for by {ca}; name its CA with &ca=FILE")
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "alert" in reason:
            return StoreDenied(
                f"{at} ends the TLS handshake ({reason}); if it wants a certificate: &cert=FILE&key=FILE"
            )
        return StoreMisconfigured(f"{at} cannot be reached by TLS ({reason}); if it speaks none, leave tls and ca out")
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    hint = "check the address, and that it runs"
    if isinstance(error, (http.client.HTTPException, ConnectionResetError)) and not target.tls:
        hint = "if it speaks TLS, write ?tls=true or ?ca=FILE"
    return StoreUnavailable(f"{at} cannot be reached: {reason[:200]}; {hint}")

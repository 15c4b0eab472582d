"""Connections over HTTP that are kept, and answers that are waited for until a point in time and no longer.

For stores that are spoken to by the standard library alone: Nacos, OpenSearch. What goes wrong is raised as sockets and
`http.client` do; whoever knows the store puts it into words.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from sentinel_core.locks import renew_lock_after_fork

STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""What a kept connection ends with when the server has closed it meanwhile."""
_CHUNK = 1 << 16

First = Callable[[socket.socket, Callable[[], int | None]], int]
"""Waits for the first bytes of an answer in its own way; the second argument reads what is there now, or gives None."""


class AnswerTooLong(Exception):
    """More bytes came than are taken."""


class Connections:
    """Thread-safe. Each is used by one thread at a time; a forked child makes its own."""

    def __init__(self, most_idle: int) -> None:
        self._most_idle = most_idle
        self._idle: list[tuple[int, str, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()
        renew_lock_after_fork(self)

    def take(self, server: str) -> http.client.HTTPConnection | None:
        """One that was kept and on which nothing came since: that would be taken for the next answer."""
        with self._lock:
            mine = [each for each in self._idle if each[:2] == (os.getpid(), server)][-1:]
            self._idle = [each for each in self._idle if each not in mine]
        for _, _, connection in mine:
            if _is_quiet(connection):
                return connection
            connection.close()
        return None

    def keep(self, server: str, connection: http.client.HTTPConnection) -> None:
        """For the next one who asks, or closed where there are enough."""
        with self._lock:
            if len(self._idle) < self._most_idle:
                self._idle.append((os.getpid(), server, connection))
                return
        connection.close()

    def drop(self, server: str | None = None) -> None:
        """Closes what is kept to `server` (None: to any), and what a parent of this process kept."""
        with self._lock:
            gone = [each for each in self._idle if server in (None, each[1]) or each[0] != os.getpid()]
            self._idle = [each for each in self._idle if each not in gone]
        for _, _, connection in gone:
            connection.close()


def connection_to(server: str, timeout_s: float, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    """A new one to `host:port`, connected with the first request; without a context it is not encrypted."""
    parts = urlsplit(f"//{server}")
    host, port = parts.hostname or "", parts.port
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)


def request(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: dict[str, str],
    *,
    until: float,
    most_bytes: int,
    first: First | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    """The answer (closed) and its body: `send`, then `receive`."""
    send(connection, method, path, body, headers, until=until)
    return receive(connection, until=until, most_bytes=most_bytes, first=first)


def send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: dict[str, str],
    *,
    until: float,
) -> None:
    """A request, whose answer is not waited for. `until` is of time.monotonic. Raises as `receive`."""
    if connection.sock is not None:
        _limit(connection.sock, until)
    connection.request(method, path, body, {"User-Agent": "sentinel-control-plane", **headers})


def receive(
    connection: http.client.HTTPConnection, *, until: float, most_bytes: int, first: First | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    """The answer (closed) and its body. `until` is of time.monotonic.

    A server that sends byte by byte is given up at the same time as one that is silent: time-outs of sockets are those
    of a single read. Raises AnswerTooLong, OSError (TimeoutError among it), http.client.HTTPException, ValueError.
    """
    connection.response_class = partial(_Response, until=until, first=first)  # type: ignore[assignment]  # is called
    with connection.getresponse() as response:
        return response, _whole(response, most_bytes)


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *, until: float, first: First | None, **how: Any) -> None:
        super().__init__(sock, **how)
        self.fp.close()
        self.fp = io.BufferedReader(_Bounded(sock, until, first), _CHUNK)


class _Bounded(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: float, first: First | None) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._until = until
        self._first = first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if (first := self._first) is not None:
            count = first(self._sock, partial(self._now, buffer))
            self._first = None
            return count
        _limit(self._sock, self._until)
        return self._raw.readinto(buffer)

    def _now(self, buffer: Any) -> int | None:
        self._sock.settimeout(0)
        try:
            return self._raw.readinto(buffer)
        except ssl.SSLWantReadError:  # what TLS says to itself can be read, too, and is no answer
            return None

    def close(self) -> None:
        self._raw.close()
        super().close()


def _limit(sock: socket.socket, until: float) -> None:
    """No wait on the socket goes beyond `until`."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


def _is_quiet(connection: http.client.HTTPConnection) -> bool:
    if connection.sock is None:
        return False
    connection.sock.settimeout(0)
    try:
        socket.socket.recv(connection.sock, 1, socket.MSG_PEEK)  # below TLS, which cannot peek
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _whole(response: http.client.HTTPResponse, most_bytes: int) -> bytes:
    parts, size = [], 0
    while chunk := response.read1(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > most_bytes:
            raise AnswerTooLong
    if response.length:  # what `read` would tell, and `read1` does not
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)

"""One HTTP exchange with one Nacos server: kept connections, TLS, time-outs, and what goes wrong, in words."""

from __future__ import annotations

import http.client
import io
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from sentinel_core.datasources import access
from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
)
from sentinel_core.datasources.forks import renew_lock_after_fork
from sentinel_core.datasources.layout import MAX_BYTES
from sentinel_core.datasources.nacos.target import Target

BEAT_S, ALIVE_S = 2.0, 2.5
"""How often a server that holds back its answer is asked for a sign of life, and how long that is waited for: a dead
one is noticed within 5 s."""
_CHUNK = 1 << 16
_MOST_BYTES = 2 * MAX_BYTES
"""Of one answer: a content in JSON, whose quotes are escaped."""
_MOST_IDLE = 8
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""What a kept connection ends with when the server has closed it meanwhile."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` comes after `/nacos` and carries the query."""

    method: str
    path: str
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent again where it was perhaps carried out."""
        return self.method == "GET"


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` may also be one of the two below. Names of headers are in small letters: proxies change them."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


NO_HTTP, STOPPED = 0, -1
"""The answer's first line was none: so does Nacos 2 refuse a password. And: what was held was stopped here."""


@dataclass(frozen=True, slots=True)
class Held:
    """For an answer that the server may hold back: the wait ends when `stop` is set, and `beat` is called now and then,
    which raises when the server is dead."""

    stop: StopSignal
    beat: Callable[[], None]


class Wire:
    """Thread-safe. Keeps a few connections, each used by one thread at a time; a forked child makes its own."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._idle: list[tuple[int, str, http.client.HTTPConnection]] = []
        self._closed = False

    def exchange(self, server: str, request: Request, timeout_s: float, held: Held | None = None) -> Answer:
        """Raises DatasourceError."""
        until = time.monotonic() + timeout_s
        try:
            connection = self._kept(server) if request.may_repeat else None
            if connection is not None:
                try:
                    return self._send(connection, server, request, until, held)
                except _STALE:
                    pass
            return self._send(self._connect(server, timeout_s), server, request, until, held)
        except DatasourceError:
            raise
        except http.client.RemoteDisconnected as error:  # a bad status line to Python, for there is none
            raise explain(error, server, self._target, timeout_s) from error
        except http.client.BadStatusLine:
            return Answer(NO_HTTP, b"")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise explain(error, server, self._target, timeout_s) from error

    def _send(
        self, connection: http.client.HTTPConnection, server: str, request: Request, until: float, held: Held | None
    ) -> Answer:
        kept = False
        try:
            if connection.sock is not None:
                _limit(connection.sock, until)
            headers = {"User-Agent": "sentinel-control-plane", **request.headers}
            connection.request(request.method, f"/nacos{request.path}", request.body, headers)
            connection.response_class = partial(_Response, until=until, held=held)  # type: ignore[assignment]  # is called
            with connection.getresponse() as response:
                body = _body(response)
            kept = not response.will_close
            return Answer(response.status, body, {name.lower(): value for name, value in response.getheaders()})
        except _Stopped:
            return Answer(STOPPED, b"")
        finally:
            self._put_back(server, connection) if kept else connection.close()

    # -- connections -------------------------------------------------------------------------------------------------

    def _connect(self, server: str, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(f"//{server}")
        host, port = parts.hostname or "", parts.port
        if not self._target.tls:
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        context = access.tls_context(self._target.ca, self._target.cert, self._target.key)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)

    def _kept(self, server: str) -> http.client.HTTPConnection | None:
        with self._lock:
            if self._closed:
                raise SourceUnavailable(f"nacos {server}: this source was closed")
            mine = [each for each in self._idle if each[0] == os.getpid() and each[1] == server]
            self._idle = [each for each in self._idle if each not in mine[:1]]
        for _, _, connection in mine[:1]:
            if _is_quiet(connection):
                return connection
            connection.close()
        return None

    def _put_back(self, server: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append((os.getpid(), server, connection))
                return
        connection.close()

    def drop(self, server: str) -> None:
        """Closes what is kept to a server that failed, and what a parent of this process kept."""
        with self._lock:
            gone = [each for each in self._idle if each[1] == server or each[0] != os.getpid()]
            self._idle = [each for each in self._idle if each not in gone]
        for _, _, connection in gone:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, _, connection in idle:
            connection.close()


class _Stopped(Exception):
    """Nothing went wrong."""


class _Response(http.client.HTTPResponse):
    """Read until a point in time and no longer. A server that sends byte by byte is given up at the same time as one
    that is silent: time-outs of sockets are those of a single read."""

    def __init__(self, sock: socket.socket, *, until: float, held: Held | None, **how: Any) -> None:
        super().__init__(sock, **how)
        self.fp.close()
        self.fp = io.BufferedReader(_Bounded(sock, until, held))


class _Bounded(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: float, held: Held | None) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._until = until
        self._held = held

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._held is not None:
            return self._first(buffer, self._held)
        _limit(self._sock, self._until)
        return self._raw.readinto(buffer)

    def _first(self, buffer: Any, held: Held) -> int | None:
        """Waits until an answer begins. What TLS says to itself can be read, too, and is none."""
        with selectors.DefaultSelector() as selector, _told(held.stop) as told:
            selector.register(self._sock, selectors.EVENT_READ)
            selector.register(told, selectors.EVENT_READ)
            while not held.stop.is_set():
                if (count := self._now(buffer)) is not None:
                    self._held = None
                    return count
                if selector.select(BEAT_S):
                    continue
                if time.monotonic() > self._until:
                    raise TimeoutError
                held.beat()
        raise _Stopped

    def _now(self, buffer: Any) -> int | None:
        """None where there is nothing yet."""
        self._sock.settimeout(0)
        try:
            return self._raw.readinto(buffer)
        except ssl.SSLWantReadError:
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
    """Whether nothing came on a kept connection since its last answer: that would be taken for the next one."""
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


def _body(response: http.client.HTTPResponse) -> bytes:
    """All of it."""
    parts, size = [], 0
    while chunk := response.read1(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > _MOST_BYTES:
            raise SourceMisconfigured(
                f"nacos holds more than {MAX_BYTES // 2**20} MiB under a dataId; is it the right one?"
            )
    if response.length:  # what `read` would tell, and `read1` does not
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


@contextmanager
def _told(stop: StopSignal) -> Iterator[socket.socket]:
    """A socket that can be read once `stop` is set."""
    here, there = socket.socketpair()

    def tell() -> None:
        there.send(b"x")

    with here, there, stop.wakes(tell):
        yield here


def explain(error: Exception, server: str, target: Target, timeout_s: float) -> DatasourceError:
    """The error to raise for what sockets and TLS say. It names no secret."""
    at = f"nacos {server}"
    if isinstance(error, TimeoutError):
        return SourceUnavailable(f"{at} did not answer in time ({timeout_s:.2g} s); is it overloaded?")
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in (62, 64):  # names of hosts and addresses
            return SourceDenied(
                f"{at}: the server's certificate is for another name; use a host name that stands in it, or have it "
                "made anew with this one"
            )
        ca = target.ca or "the authorities of this system"
        return SourceDenied(f"{at}: the server's certificate is not vouched for by {ca}; name its CA with &ca=FILE")
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "alert" in reason:
            return SourceDenied(
                f"{at} ends the TLS handshake ({reason}): probably a client's certificate is wanted; "
                "&cert=FILE&key=FILE"
            )
        return SourceUnavailable(
            f"{at} cannot be reached by TLS: {reason}; if it does not speak TLS, leave tls and ca out"
        )
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    hint = "check the address, and that it runs"
    if isinstance(error, (http.client.HTTPException, ConnectionResetError)) and not target.tls:
        hint = "if it speaks TLS, write &tls=true or &ca=FILE"
    return SourceUnavailable(f"{at} cannot be reached: {reason}; {hint}")

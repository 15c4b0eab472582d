"""One HTTP exchange with one Nacos server: kept connections, TLS, time-outs, and what goes wrong, in words."""

from __future__ import annotations

import http.client
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from sentinel_core.connections import STALE, AnswerTooLong, Connections, connection_to
from sentinel_core.connections import request as ask
from sentinel_core.datasources import access
from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
)
from sentinel_core.datasources.layout import MAX_BYTES
from sentinel_core.datasources.nacos.target import Target

BEAT_S, ALIVE_S = 2.0, 2.5
"""How often a server that holds back its answer is asked for a sign of life, and how long that is waited for: a dead
one is noticed within 5 s."""
_MOST_BYTES = 2 * MAX_BYTES
"""Of one answer: a content in JSON, whose quotes are escaped."""
_MOST_IDLE = 8


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
        self._connections = Connections(_MOST_IDLE)
        self._closed = False

    def exchange(self, server: str, request: Request, timeout_s: float, held: Held | None = None) -> Answer:
        """Raises DatasourceError."""
        if self._closed:
            raise SourceUnavailable(f"nacos {server}: this source was closed")
        until = time.monotonic() + timeout_s
        try:
            connection = self._connections.take(server) if request.may_repeat else None
            if connection is not None:
                try:
                    return self._send(connection, server, request, until, held)
                except STALE:
                    pass
            return self._send(self._connect(server, timeout_s), server, request, until, held)
        except DatasourceError:
            raise
        except AnswerTooLong:
            raise SourceMisconfigured(
                f"nacos holds more than {MAX_BYTES // 2**20} MiB under a dataId; is it the right one?"
            ) from None
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
            response, body = ask(
                connection,
                request.method,
                f"/nacos{request.path}",
                request.body,
                {**request.headers},
                until=until,
                most_bytes=_MOST_BYTES,
                first=None if held is None else partial(_first, held, until),
            )
            kept = not response.will_close and not self._closed
            return Answer(response.status, body, {name.lower(): value for name, value in response.getheaders()})
        except _Stopped:
            return Answer(STOPPED, b"")
        finally:
            self._connections.keep(server, connection) if kept else connection.close()

    def _connect(self, server: str, timeout_s: float) -> http.client.HTTPConnection:
        target = self._target
        context = access.tls_context(target.ca, target.cert, target.key) if target.tls else None
        return connection_to(server, timeout_s, context)

    def drop(self, server: str) -> None:
        """Closes what is kept to a server that failed."""
        self._connections.drop(server)

    def close(self) -> None:
        """For good."""
        self._closed = True
        self._connections.drop()


class _Stopped(Exception):
    """Nothing went wrong."""


def _first(held: Held, until: float, sock: socket.socket, now: Callable[[], int | None]) -> int:
    """Waits until an answer begins, and has a look at the server now and then."""
    with selectors.DefaultSelector() as selector, _told(held.stop) as told:
        selector.register(sock, selectors.EVENT_READ)
        selector.register(told, selectors.EVENT_READ)
        while not held.stop.is_set():
            if (count := now()) is not None:
                return count
            if selector.select(BEAT_S):
                continue
            if time.monotonic() > until:
                raise TimeoutError
            held.beat()
    raise _Stopped


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

"""One HTTP exchange with one node of OpenSearch: kept connections, TLS, an end to each wait, and what goes wrong."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sentinel_core.audit.errors import StoreDenied, StoreMisconfigured, StoreUnavailable
from sentinel_core.audit.store._os_target import Target
from sentinel_core.connections import STALE, AnswerTooLong, Connections, connection_to, receive, send

MAX_BYTES = 256 * 2**20
"""Of one answer."""
_MOST_IDLE = 4


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


@dataclass(frozen=True, slots=True)
class Sent:
    """A request whose answer nobody has waited for yet."""

    host: str
    request: Request
    connection: http.client.HTTPConnection
    was_kept: bool

    def drop(self) -> None:
        """For whoever does not wait. Idempotent."""
        self.connection.close()


class Wire:
    """Thread-safe: each kept connection is used by one thread at a time; a forked child makes its own."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connections = Connections(_MOST_IDLE)

    def exchange(self, host: str, request: Request, timeout_s: float) -> Answer:
        """Raises StoreUnavailable, StoreDenied, StoreMisconfigured."""
        until = time.monotonic() + timeout_s
        with self._explained(host, timeout_s):
            return self._answer(self._send(host, request, until), until)

    def send(self, host: str, request: Request, timeout_s: float) -> Sent:
        """The first half of an exchange. Raises the same errors."""
        with self._explained(host, timeout_s):
            return self._send(host, request, time.monotonic() + timeout_s)

    def answer(self, sent: Sent, timeout_s: float) -> Answer:
        """The second half, once. Raises the same errors."""
        with self._explained(sent.host, timeout_s):
            return self._answer(sent, time.monotonic() + timeout_s)

    def _send(self, host: str, request: Request, until: float) -> Sent:
        kept = self._connections.take(host)
        if kept is not None:
            try:
                return self._sent(Sent(host, request, kept, was_kept=True), until)
            except STALE:
                pass
        return self._sent(self._anew(host, request, until), until)

    def _anew(self, host: str, request: Request, until: float) -> Sent:
        connection = connection_to(host, max(0.001, until - time.monotonic()), self._target.context())
        return Sent(host, request, connection, was_kept=False)

    def _sent(self, sent: Sent, until: float) -> Sent:
        request, headers = sent.request, {"Accept": "application/json", **self._target.login()}
        if request.body is not None:
            headers["Content-Type"] = request.type
        try:
            send(sent.connection, request.method, request.path, request.body, headers, until=until)
        except BaseException:
            sent.drop()
            raise
        return sent

    def _answer(self, sent: Sent, until: float) -> Answer:
        try:
            return self._received(sent, until)
        except STALE:
            if not sent.was_kept:
                raise
        return self._received(self._sent(self._anew(sent.host, sent.request, until), until), until)

    def _received(self, sent: Sent, until: float) -> Answer:
        kept = False
        try:
            response, body = receive(sent.connection, until=until, most_bytes=MAX_BYTES)
            kept = not response.will_close
            return Answer(response.status, body)
        finally:
            self._connections.keep(sent.host, sent.connection) if kept else sent.drop()

    @contextmanager
    def _explained(self, host: str, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except AnswerTooLong:
            error = http.client.HTTPException(f"its answer is longer than {MAX_BYTES >> 20} MiB")
            raise explained(error, host, self._target, timeout_s) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise explained(error, host, self._target, timeout_s) from error

    def close(self) -> None:
        """Idempotent; the next exchange connects again."""
        self._connections.drop()


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

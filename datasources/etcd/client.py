"""Calls to etcd: one channel at a time, made when it is needed, given up at any error; login; failover.

gRPC does not live through a fork: what was made in a parent is left alone in its child, which makes its own.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from sentinel_core.datasources.contract import DatasourceError, SourceMisconfigured, SourceUnavailable, Wake
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.errors import closes_channel, explain, unreachable, wants_login
from sentinel_core.datasources.etcd.target import Target
from sentinel_core.datasources.layout import MAX_BYTES
from sentinel_core.locks import renew_lock_after_fork

_KEEPALIVE_MS = 6000
"""Not below the server's own limit, 5 s by default: it cuts off who pings more often."""
_PING_TIMEOUT_MS = 3000
_CONNECT_MS = 1500
"""Longest wait for a connection, up to the server's first word; a link that swallows everything accepts at once."""
_REST_S = 0.5
"""So long after an attempt began whose end was a failure, others are told the same, so that many items do not try one
dead server each."""
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_BYTES + 2**20),  # 4 MiB by default
    ("grpc.max_send_message_length", MAX_BYTES + 2**20),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),  # without it a frozen server is noticed after a minute
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # bounds an attempt, whatever its name says; 20 s by default
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection, without another one's back-off
    ("grpc.enable_http_proxy", 0),
)


_Response = TypeVar("_Response", bound=Message)


@dataclass(slots=True)
class _Session:
    """A connection to one server."""

    endpoint: str
    channel: grpc.Channel
    token: str | None = field(default=None, repr=False)
    pid: int = 0

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """A member that is cut off from the others would keep a call waiting and a watch quiet; so it says so."""
        leader = ("hasleader", "true")
        return (("token", self.token), leader) if self.token else (leader,)


class Client:
    """Thread-safe. Every call is bounded by the target's time-out and raises DatasourceError alone."""

    messages: Any = pb
    """A module with the types of etcd's messages."""

    def __init__(self, target: Target, monotonic: Callable[[], float]) -> None:
        self._target = target
        self.timeout_s = target.timeout_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._session: _Session | None = None
        self._turn = 0
        """Counts endpoints given up; the next one is tried."""
        self._closed = False
        self._rest: tuple[float, DatasourceError] | None = None
        """Until when nobody is tried, and why."""
        self._inherited: list[_Session] = []
        """Of a parent, kept from being collected: closing them in a child could wait for threads it does not have."""

    # -- calls -------------------------------------------------------------------------------------------------------

    def transact(self, request: Any, *, once: bool = False) -> Any:
        """One transaction. `once`: it writes, so it is not sent again where it may have been carried out."""
        answer = self.call("KV/Txn", request, self.messages.TxnResponse, once=once)
        made = request.success if answer.succeeded or not request.compare else request.failure
        if len(answer.responses) != len(made):
            where = ", ".join(self._target.endpoints)
            raise SourceMisconfigured(
                f"etcd {where} answers, but not as an etcd does; name the port of its clients (2379)"
            )
        return answer

    def call(self, method: str, request: Any, response: type[_Response], *, once: bool = False) -> _Response:
        """`method` is `Service/Method`. One request, one response."""

        def send(session: _Session, timeout_s: float) -> Any:
            return _unary(session, method, request, response, timeout_s)

        answer: _Response = self._attempt(send, once=once)
        return answer

    def first(self, method: str, request: Any, response: type[_Response]) -> _Response:
        """The first response of a method that is a stream both ways."""

        def send(session: _Session, timeout_s: float) -> Any:
            stream = session.channel.stream_stream(
                f"/etcdserverpb.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )
            call = _started(session, lambda: stream(iter((request,)), timeout=timeout_s, metadata=session.metadata))
            try:
                return next(call)
            except StopIteration:
                raise _wordless(session) from None
            finally:
                call.cancel()

        answer: _Response = self._attempt(send)
        return answer

    def _attempt(self, send: Callable[[_Session, float], Any], *, once: bool = False) -> Any:
        if self._rest is not None and self._monotonic() < self._rest[0]:
            raise type(self._rest[1])(str(self._rest[1]))
        began = self._monotonic()
        deadline = began + self._target.timeout_s
        endpoints = len(self._target.endpoints)
        tries, may_login = 1 if once else endpoints, True
        failures: list[DatasourceError] = []
        while True:
            left = max(0.05, deadline - self._monotonic())
            share = left / max(1, tries - len(failures))
            if (dead := self._knock(share)) is not None:
                failures.append(dead)
                self._check_another(failures, tries, began)
                continue
            session = self._connected()
            try:
                self._log_in(session, share)
                answer = send(session, share)
                self._rest = None
                return answer  # noqa: TRY300 - the loop ends here
            except grpc.RpcError as error:
                if self._target.user and may_login and wants_login(error):
                    may_login, session.token = False, None
                    continue
                failures.append(explain(error, session.endpoint, self._target))
                if closes_channel(error):
                    self._give_up(session)
                    self._check_another(failures, tries, began)
                    continue
                raise _joined(failures) from error

    def _check_another(self, failures: list[DatasourceError], tries: int, began: float) -> None:
        """Raises the failures where no other endpoint may be tried."""
        if len(failures) >= tries or self._closed:
            error = _joined(failures)
            self._rest = (began + _REST_S, error)
            raise error

    def _knock(self, timeout_s: float) -> DatasourceError | None:
        """While nobody could be reached, the next endpoint is tried by TCP alone: a channel for every try costs several
        times as much. Why it is passed over, or None."""
        with self._lock:
            if self._rest is None or self._session is not None:
                return None
            endpoint = self._target.endpoints[self._turn % len(self._target.endpoints)]
        host, _, port = endpoint.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), min(timeout_s, _CONNECT_MS / 1000)).close()
        except OSError as error:
            with self._lock:
                self._turn += 1
            return unreachable(endpoint, str(error.strerror or error))
        return None

    def _log_in(self, session: _Session, timeout_s: float) -> None:
        if self._target.user is None or session.token is not None:
            return
        request = pb.AuthenticateRequest(name=self._target.user, password=self._target.password())
        try:
            answer = _unary(session, "Auth/Authenticate", request, pb.AuthenticateResponse, timeout_s)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            session.token = ""  # the server asks nobody who he is
        else:
            session.token = answer.token

    @contextmanager
    def watching(self, requests: Iterator[pb.WatchRequest]) -> Iterator[tuple[Any, Wake]]:
        """A watch stream on the present connection: an iterable of responses that can be cancelled, and what gives the
        connection up, from any thread. What gRPC raises in the block is explained."""
        with self._streaming() as session:
            stream = session.channel.stream_stream(
                "/etcdserverpb.Watch/Watch",
                request_serializer=pb.WatchRequest.SerializeToString,
                response_deserializer=pb.WatchResponse.FromString,
            )
            call = _started(session, lambda: stream(requests, metadata=session.metadata))
            try:
                yield call, lambda: self._give_up(session)
            finally:
                call.cancel()

    @contextmanager
    def _streaming(self) -> Iterator[_Session]:
        session = self._connected()
        try:
            self._log_in(session, self._target.timeout_s)
            yield session
        except grpc.RpcError as error:
            if closes_channel(error) and error.code() is not grpc.StatusCode.CANCELLED:  # that was one of us
                self._give_up(session)
            raise explain(error, session.endpoint, self._target) from error

    # -- connection --------------------------------------------------------------------------------------------------

    def _connected(self) -> _Session:
        with self._lock:
            if self._closed:
                raise SourceUnavailable("etcd: this source was closed")
            if self._session is not None and self._session.pid != os.getpid():
                self._inherited.append(self._session)
                self._session = None
            if self._session is None:
                endpoint = self._target.endpoints[self._turn % len(self._target.endpoints)]
                self._session = _Session(endpoint, self._channel(endpoint), pid=os.getpid())
            return self._session

    def _channel(self, endpoint: str) -> grpc.Channel:
        if not self._target.tls:
            return grpc.insecure_channel(endpoint, OPTIONS)
        ca, key, cert = self._target.certificates()
        return grpc.secure_channel(endpoint, grpc.ssl_channel_credentials(ca, key, cert), OPTIONS)

    def _give_up(self, session: _Session) -> None:
        """Others may use the session at this moment: their calls end, too, and they come back on the next one."""
        with self._lock:
            if self._session is session:
                self._session = None
                self._turn += 1
        session.channel.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            session, self._session = self._session, None
        if session is not None and session.pid == os.getpid():
            session.channel.close()


def _unary(session: _Session, method: str, request: Any, response: Any, timeout_s: float) -> Any:
    call = session.channel.unary_unary(
        f"/etcdserverpb.{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )
    answer = _started(session, lambda: call(request, timeout=timeout_s, metadata=session.metadata))
    if answer is None:  # what gRPC makes of a call that ended well, with no message
        raise _wordless(session)
    return answer


def _wordless(session: _Session) -> SourceUnavailable:
    return SourceUnavailable(f"etcd {session.endpoint} ended a call without a word; is it one?")


def _started(session: _Session, start: Callable[[], Any]) -> Any:
    try:
        return start()
    except ValueError as error:  # what gRPC says of a channel that another thread has closed
        raise SourceUnavailable(f"etcd {session.endpoint}: the connection was given up by another thread") from error


def _joined(failures: list[DatasourceError]) -> DatasourceError:
    """One error for all endpoints that were tried, of the kind of the last."""
    texts = dict.fromkeys(map(str, failures))
    return type(failures[-1])("; ".join(texts))

"""One gRPC connection to one Nacos server: handshake, requests, and the stream on which the server tells changes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from sentinel_core.datasources import access
from sentinel_core.datasources.layout import MAX_BYTES
from sentinel_core.datasources.nacos import grpc_sdk as sdk
from sentinel_core.datasources.nacos.target import Target
from sentinel_core.datasources.quoting import quoted

_PORT_OFFSET = 1000
_OK = 200
_LOOK_S = 0.02
_OPTIONS = (
    # No keepalive: the server cuts off who pings more often than every five minutes.
    ("grpc.max_receive_message_length", 2 * MAX_BYTES),  # 4 MiB by default; JSON in JSON grows
    ("grpc.max_send_message_length", -1),  # the server's limit counts
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection, without another one's back-off
    ("grpc.enable_http_proxy", 0),
)


class Link:
    """Thread-safe. Opened once; when it has ended it is of no use any more. Raises what gRPC and the library raise."""

    def __init__(
        self,
        server: str,
        target: Target,
        monotonic: Callable[[], float],
        *,
        lost: Callable[[Link, str], None],
        notified: Callable[[str], None],
    ) -> None:
        """`server` is `host:port` of HTTP. `lost` and `notified` (with the dataId of each change that the server tells)
        are called from a thread of the link's."""
        self.server = server
        self.ended = False
        self._target = target
        self._lost = lost
        self._notified = notified
        self._monotonic = monotonic
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._channel = _channel(server, target)
        self._requests = sdk.RequestStub(self._channel)
        self._stream: Any = None

    def open(self, timeout_s: float) -> None:
        """Raises ConnectionError where the server says that it is not ready."""
        deadline = self._monotonic() + timeout_s
        check = self.ask(sdk.ServerCheckRequest(), None, timeout_s)
        if check.resultCode != _OK:
            raise ConnectionError(check.message or "the server is still starting")
        self._stream = sdk.BiRequestStreamStub(self._channel).requestBiStream(iter(self._outgoing.get, None))
        threading.Thread(target=self._listen, name="sentinel-nacos-pushes", daemon=True).start()
        self._outgoing.put(sdk.GrpcUtils.convert_request_to_payload(self._introduction()))
        # The server does not always say when it has taken that; until then it refuses everything.
        while (health := self.ask(sdk.HealthCheckRequest(), None, deadline - self._monotonic())).resultCode != _OK:
            if self.ended or self._monotonic() > deadline:
                raise ConnectionError(health.message or "the server takes no connection")
            time.sleep(_LOOK_S)

    def _introduction(self) -> Any:
        labels = {"source": "sdk", "module": "config", "AppName": "sentinel", "taskId": "0"}
        return sdk.ConnectionSetupRequest(
            clientVersion="Nacos-Python-Client:v3.2.0", tenant=self._target.tenant, labels=labels, abilityTable={}
        )

    def ask(self, request: Any, token: str | None, timeout_s: float) -> Any:
        """The server's answer, a refusal among them."""
        if token:
            request.put_header("accessToken", token)
        return sdk.GrpcUtils.parse(
            self._requests.request(sdk.GrpcUtils.convert_request_to_payload(request), timeout=timeout_s)
        )

    def close(self) -> None:
        """Ends whatever runs on it."""
        self.ended = True
        self._outgoing.put(None)
        if self._stream is not None:
            self._stream.cancel()
        self._channel.close()

    def _listen(self) -> None:
        why = "the server ended the connection"
        try:
            for payload in self._stream:
                for response in self._answers(payload):
                    self._outgoing.put(sdk.GrpcUtils.convert_response_to_payload(response))
        except grpc.RpcError as error:
            why = f"the connection broke off: {quoted(error.details() or 'no reason given')}"
        except Exception as error:  # noqa: BLE001 - whoever listens must hear of the end, whatever it was
            why = f"the server sent what cannot be read: {type(error).__name__}"
        self.ended = True
        self._outgoing.put(None)
        self._lost(self, why)

    def _answers(self, payload: Any) -> Iterator[Any]:
        """What the server is told; it repeats itself otherwise, or gives up a client that says nothing."""
        if payload.metadata.type not in sdk.GrpcUtils.remote_type:
            return  # of other services, or of a newer server
        request = sdk.GrpcUtils.parse(payload)
        answer = None
        if isinstance(request, sdk.ConfigChangeNotifyRequest):
            self._notified(request.dataId or "")
            answer = sdk.NotifySubscriberResponse()
        elif isinstance(request, sdk.ClientDetectionRequest):
            answer = sdk.ClientDetectionResponse()
        if answer is not None:
            answer.set_request_id(request.get_request_id())
            yield answer


def _channel(server: str, target: Target) -> grpc.Channel:
    """Raises SourceDenied, naming the file of TLS that is wrong."""
    host, _, port = server.rpartition(":")
    address = f"{host}:{int(port) + _PORT_OFFSET}"
    if not target.tls:
        return grpc.insecure_channel(address, _OPTIONS)
    credentials = grpc.ssl_channel_credentials(*access.certificates(target.ca, target.cert, target.key))
    return grpc.secure_channel(address, credentials, _OPTIONS)

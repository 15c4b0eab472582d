"""Nacos over gRPC, with the stubs and messages of nacos-sdk-python.

gRPC does not live through a fork: what was made in a parent is left alone in its child, which makes its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sentinel_core.datasources.contract import SourceMisconfigured, SourceUnavailable, StopSignal, Wake
from sentinel_core.datasources.nacos.target import Target
from sentinel_core.datasources.nacos.transport import Value
from sentinel_core.locks import renew_lock_after_fork

if TYPE_CHECKING:
    from sentinel_core.datasources.nacos.grpc_client import Client, Token


class GrpcTransport:
    """A `Transport`. The library is imported at once. Raises SourceMisconfigured where it cannot be used."""

    def __init__(self, target: Target, monotonic: Callable[[], float], token: Token) -> None:
        _check_usable()
        self._target = target
        self._monotonic = monotonic
        self._token = token
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._client: Client | None = None
        self._inherited: list[Client] = []
        """Of a parent, kept from being collected: closing them in a child could wait for threads it does not have."""
        self._closed = False

    def get(self, data_id: str) -> Value | None:
        return self._of_this_process().get(data_id)

    def publish(self, data_id: str, content: bytes, cas_md5: str | None) -> bool:
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise SourceMisconfigured(f"{data_id}: Nacos keeps text, and this is not UTF-8 ({error.reason})") from error
        return self._of_this_process().publish(data_id, text, cas_md5)

    def remove(self, data_id: str) -> None:
        self._of_this_process().remove(data_id)

    def watch(self, data_id: str, seen_md5: str | None, wake: Wake, stop: StopSignal) -> None:
        from sentinel_core.datasources.nacos.grpc_watch import Watched

        watched, watches = Watched(), self._of_this_process().watches
        watches.add(data_id, seen_md5 or "", watched)
        try:
            with stop.wakes(watched.told.set):
                while True:
                    watched.told.wait()
                    watched.told.clear()  # before the look at `stop`: the other way round could lose its wake
                    if stop.is_set():
                        return
                    if watched.error is not None:
                        raise watched.error
                    wake()
        finally:
            watches.remove(data_id, watched)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None and client.pid == os.getpid():
            client.close()

    def _of_this_process(self) -> Client:
        from sentinel_core.datasources.nacos.grpc_client import Client

        with self._lock:
            if self._closed:
                raise SourceUnavailable("nacos: this source was closed")
            if self._client is not None and self._client.pid != os.getpid():
                self._inherited.append(self._client)
                self._client = None
            if self._client is None:
                self._client = Client(self._target, self._monotonic, self._token)
            return self._client


def _check_usable() -> None:
    """Imports the library."""
    monkey: Any = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        raise SourceMisconfigured(
            "nacos: gRPC needs real threads, and gevent has replaced them in this process; write &transport=http"
        )
    # gRPC's core writes each failed handshake and each fork to stderr; what matters is in the errors that are raised.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        import sentinel_core.datasources.nacos.grpc_client  # noqa: F401
    except ImportError as error:
        raise SourceMisconfigured(
            f"nacos: transport=grpc needs nacos-sdk-python 3.2 ({error}); install it with: pip install "
            "'sentinel-control-plane[nacos]', or write &transport=http, which needs nothing"
        ) from error

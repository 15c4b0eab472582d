"""The same store through the library `etcd3` 0.12, for those who must have it (`?client=etcd3`).

Of the library are the channel, the messages and the watcher; failover, logins and errors stay ours. What its watcher
keeps to itself (a watch that was cancelled, a server that froze or denies it) is found by a look every few seconds.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from sentinel_core.datasources.contract import SourceMisconfigured, SourceUnavailable, StopSignal
from sentinel_core.datasources.etcd.client import OPTIONS, Client
from sentinel_core.datasources.etcd.store import Store
from sentinel_core.datasources.etcd.target import Target

_LOOK_S = 4.0


class Etcd3Client(Client):
    """Raises SourceMisconfigured where the library cannot be had."""

    def __init__(self, target: Target, monotonic: Callable[[], float]) -> None:
        self._library = _library()
        self.messages = self._library.etcdrpc
        super().__init__(target, monotonic)

    def _channel(self, endpoint: str) -> grpc.Channel:
        target = self._target
        if target.tls and not target.ca:
            raise SourceMisconfigured("client=etcd3 speaks TLS only with a CA of its own; name it with &ca=FILE")
        target.certificates()  # a bad file is told by name
        host, _, port = endpoint.rpartition(":")
        files = {"ca_cert": target.ca, "cert_cert": target.cert, "cert_key": target.key}
        client = self._library.client(host=host, port=port, timeout=target.timeout_s, grpc_options=OPTIONS, **files)
        channel: grpc.Channel = client.channel
        return channel

    @contextmanager
    def watcher(self, key: bytes, start: int, told: Callable[[object], None]) -> Iterator[None]:
        """`told` is called from a thread of the library's with each response, or with an exception; with None when the
        stream has ended. Raises DatasourceError where the watch is refused."""
        with self._streaming() as session:
            stub = _OneStream(self.messages.WatchStub(session.channel))
            watcher = self._library.watch.Watcher(stub, timeout=self.timeout_s, metadata=session.metadata)
            watcher._run = stub.ends(watcher._run, lambda: told(None))  # noqa: SLF001 - see `_OneStream`
            try:
                number = watcher.add_callback(key, told, start_revision=start)
                if number < 0:
                    raise SourceUnavailable(f"etcd cancelled the watch of {key.decode()}; may its role read it?")
                yield
            except self._library.exceptions.Etcd3Exception as error:
                raise SourceUnavailable(f"etcd3 cannot watch {key.decode()}: {error!r}") from error
            finally:
                watcher._request_queue.put(None)  # noqa: SLF001 - nothing else ends its thread and the watch


class Etcd3Store(Store):
    """A history ends at a deletion: the library can only be asked what stood at a revision."""

    _client: Etcd3Client

    def watch(self, key: bytes, start: int, stop: StopSignal) -> Iterator[None]:
        told = threading.Event()
        ends: list[Exception] = []

        def tell(response: object) -> None:
            if response is None or isinstance(response, Exception):
                ends.append(response or SourceUnavailable("etcd ended the watch"))
            told.set()

        known = -1
        with self._client.watcher(key, start, tell), stop.wakes(told.set):
            while not stop.is_set():
                if told.wait(_LOOK_S):
                    told.clear()
                    if ends:
                        raise ends[0]
                    yield
                else:
                    before, (known, _) = known, self.look(key)
                    if known != before:
                        yield

    def past(self, key: bytes, newest: int) -> list[int]:
        found: list[int] = []
        while newest:
            found.append(newest)
            try:
                value = self.read([key], newest - 1)[0] if newest > 1 else None
            except SourceMisconfigured:  # compacted
                break
            newest = value.revision if value else 0
        return found[::-1]


class _StreamEnded(Exception):
    pass


class _OneStream:
    """A stub for one stream: at the end of it the library's watcher would begin the next one at once, for ever."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._begun = False

    def Watch(self, requests: Any, **how: Any) -> Any:  # noqa: N802 - the library's name
        if self._begun:
            raise _StreamEnded
        self._begun = True
        return self._stub.Watch(requests, **how)

    @staticmethod
    def ends(run: Callable[[], None], ended: Callable[[], None]) -> Callable[[], None]:
        """What the watcher's thread runs: until the stream has ended, whatever of it."""

        def until_ended() -> None:
            try:
                run()
            except (_StreamEnded, ValueError):  # gRPC's word for a channel that was closed
                ended()

        return until_ended


def _library() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its generated code is of 2020
            import etcd3
    except (ImportError, TypeError) as error:
        reason = str(error).split("\n", 1)[0]
        raise SourceMisconfigured(
            f"client=etcd3 cannot be used: {reason.rstrip('.')}. Leave client out, which is better; or pip install "
            "etcd3, and set PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python before the process starts"
        ) from error
    return etcd3

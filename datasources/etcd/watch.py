"""Watches of keys, all on one stream, which notices by itself when nobody is there any more."""

from __future__ import annotations

import itertools
import math
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sentinel_core.datasources.contract import DatasourceError, SourceUnavailable, StopSignal, Wake
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.quoting import quoted
from sentinel_core.locks import renew_lock_after_fork

HEARTBEAT_S = 4.0
"""How often the server is asked for a word. One that does not give it before the next time is given up."""


class Watches:
    """Thread-safe. A stream of its own for each key would cost a thread that wakes ten times a second."""

    def __init__(self, client: Client, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._stream: _Stream | None = None
        self._inherited: list[_Stream] = []
        """Of a parent: as in `Client`."""

    def events(self, key: bytes, start: int, stop: StopSignal) -> Iterator[None]:
        """Yields when the key was written or removed, from the revision `start` on, until `stop` is set.

        Raises DatasourceError when the watch is lost, and for what a client library may take for a quiet watch:
        refused, cancelled, compacted.
        """
        with self._watching(key, start) as watched, stop.wakes(watched.told.set):
            while True:
                watched.told.wait()
                watched.told.clear()  # before the look at `stop`: the other way round could lose its wake
                if stop.is_set():
                    return
                if watched.error is not None:
                    raise watched.error
                yield

    @contextmanager
    def _watching(self, key: bytes, start: int) -> Iterator[_Watched]:
        watched = _Watched(key)
        with self._lock:
            if self._stream is not None and self._stream.pid != os.getpid():
                self._inherited.append(self._stream)
                self._stream = None
            stream = self._stream
            if stream is None or not stream.add(watched, start):
                stream = self._stream = _Stream(self._client, self._monotonic)
                stream.add(watched, start)
                stream.begin()
        try:
            yield watched
        finally:
            with self._lock:
                stream.remove(watched)


@dataclass(slots=True, eq=False)
class _Watched:
    key: bytes
    told: threading.Event = field(default_factory=threading.Event)
    error: DatasourceError | None = None

    def lost(self, error: DatasourceError) -> None:
        self.error = error
        self.told.set()


class _KeyWatch:
    """A watch of etcd's, and all who listen to it."""

    def __init__(self, number: int, key: bytes, start: int) -> None:
        self.number = number
        self.key = key
        self.start = start
        self.listeners: list[_Watched] = []
        self.told_of = 0
        """The revision of the last event that came."""


class _Stream:
    """One stream and those who listen on it; it ends with the last of them, or with an error for all."""

    def __init__(self, client: Client, monotonic: Callable[[], float]) -> None:
        self.pid = os.getpid()
        self._client = client
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[pb.WatchRequest | None] = queue.SimpleQueue()
        self._ids = itertools.count(1)
        self._by_number: dict[int, _KeyWatch] = {}
        self._by_key: dict[bytes, _KeyWatch] = {}
        self._over = False
        self._ended = threading.Event()
        self._heard_at = -math.inf
        self._give_up: Wake = lambda: None

    def begin(self) -> None:
        """Only with somebody who listens: a stream that breaks off at once would end before it could tell anybody."""
        for name, run in (("watches", self._run), ("heartbeat", self._beat)):
            threading.Thread(target=run, name=f"sentinel-etcd-{name}", daemon=True).start()

    def add(self, watched: _Watched, start: int) -> bool:
        """False where the stream is over."""
        with self._lock:
            if self._over:
                return False
            watch = self._by_key.get(watched.key)
            if watch is None:
                watch = self._created_locked(watched.key, start)
            elif watch.told_of >= start or watch.start > start:
                watched.told.set()  # something came, or may have come, before this listener, and will not come again
            watch.listeners.append(watched)
        return True

    def _created_locked(self, key: bytes, start: int) -> _KeyWatch:
        watch = _KeyWatch(next(self._ids), key, start)
        self._by_number[watch.number] = self._by_key[key] = watch
        create = pb.WatchCreateRequest(key=key, start_revision=start, watch_id=watch.number)
        self._requests.put(pb.WatchRequest(create_request=create))
        return watch

    def remove(self, watched: _Watched) -> None:
        with self._lock:
            watch = self._by_key.get(watched.key)
            if watch is None or watched not in watch.listeners:
                return
            watch.listeners.remove(watched)
            if not watch.listeners:
                self._forget_locked(watch)
            if not self._by_number and not self._over:
                self._over = True
                self._ended.set()
                self._requests.put(None)

    def _forget_locked(self, watch: _KeyWatch) -> None:
        del self._by_number[watch.number], self._by_key[watch.key]
        self._requests.put(pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=watch.number)))

    def _run(self) -> None:
        error: DatasourceError = SourceUnavailable("etcd ended the watch")
        try:
            with self._client.watching(self._outgoing()) as (call, give_up):
                self._give_up = give_up
                for response in call:
                    self._heard_at = self._monotonic()
                    self._dispatch(response)
        except DatasourceError as raised:
            error = raised
        except Exception as raised:  # noqa: BLE001 - whoever listens must hear of the end, whatever it was
            error = SourceUnavailable(f"the watch broke off: {raised!r}")
        self._end(error)

    def _end(self, error: DatasourceError) -> None:
        with self._lock:
            self._over = True
            left = [each for watch in self._by_number.values() for each in watch.listeners]
            self._by_number.clear()
            self._by_key.clear()
            self._ended.set()
            self._requests.put(None)
        for watched in left:
            watched.lost(error)

    def _outgoing(self) -> Iterator[pb.WatchRequest]:
        """Taken by a thread of gRPC's. Its end closes the stream."""
        while (request := self._requests.get()) is not None:
            yield request

    def _beat(self) -> None:
        """On a thread of its own: while a server does not take what is sent, gRPC asks for no more requests."""
        asked_at = self._monotonic()
        while not self._ended.wait(HEARTBEAT_S):
            if self._heard_at < asked_at:
                self._end(SourceUnavailable(f"etcd said nothing for {HEARTBEAT_S:g} s"))  # gRPC may never say it
                self._give_up()
                return
            asked_at = self._monotonic()
            self._requests.put(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))

    def _dispatch(self, response: pb.WatchResponse) -> None:
        """Raises DatasourceError for a refusal. It ends the whole stream: that carries the token of the login it began
        with, and a token that has expired would be refused for each watch to come. What comes for a watch that was
        removed here is the end that was asked for."""
        with self._lock:
            watch = self._by_number.get(response.watch_id)
            listeners = list(watch.listeners) if watch else []
            if watch is not None and response.events:
                watch.told_of = response.events[-1].kv.mod_revision
            elif watch is not None and response.compact_revision:
                self._forget_locked(watch)
        if watch is not None and response.compact_revision:
            for watched in listeners:
                watched.lost(compacted(response, watch.key))
        elif watch is not None or response.watch_id < 0:
            check(response, watch.key if watch else b"a key")
            if response.events:
                for watched in listeners:
                    watched.told.set()


def compacted(response: pb.WatchResponse, key: bytes) -> SourceUnavailable:
    return SourceUnavailable(
        f"etcd compacted the revisions from which {key.decode()} was watched (up to {response.compact_revision}); "
        "it is read anew"
    )


def check(response: pb.WatchResponse, key: bytes) -> None:
    """Raises SourceUnavailable for a response that ends the watch. A bare answer for progress has the id -1, too."""
    if response.compact_revision:
        raise compacted(response, key)
    if response.canceled or (response.created and response.watch_id < 0):
        why = quoted(response.cancel_reason) or "no reason"
        raise SourceUnavailable(f"etcd cancelled the watch of {key.decode()}: {why}")

"""A watch of one key that notices by itself when nobody is there any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from sentinel_core.datasources.contract import DatasourceError, SourceUnavailable, StopSignal, Wake
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.client import Client

HEARTBEAT_S = 4.0
"""How often the server is asked for a word, when it has none of its own."""
SILENCE_S = 8.0
"""A server that says nothing for so long is given up."""


class _Heartbeat:
    """The requests of one stream: the watch, then a question for progress every so often.

    gRPC takes them on a thread of its own. That thread gives the connection up when no answer has come for too long.
    """

    def __init__(self, create: pb.WatchRequest, monotonic: Callable[[], float]) -> None:
        self._create = create
        self._monotonic = monotonic
        self._ended = threading.Event()
        self._heard_at = monotonic()
        self.give_up: Wake = lambda: None
        self.gave_up = False

    def requests(self) -> Iterator[pb.WatchRequest]:
        yield self._create
        while not self._ended.wait(HEARTBEAT_S):
            if self._monotonic() - self._heard_at > SILENCE_S - HEARTBEAT_S:
                self.gave_up = True
                self.give_up()
                return
            yield pb.WatchRequest(progress_request=pb.WatchProgressRequest())

    def heard(self) -> None:
        self._heard_at = self._monotonic()

    def end(self) -> None:
        self._ended.set()


def events(client: Client, key: bytes, start: int, stop: StopSignal, monotonic: Callable[[], float]) -> Iterator[None]:
    """Yields for each response that carries events, from the revision `start` on, until `stop` is set.

    Raises DatasourceError when the watch is lost, and for what a client library may take for a quiet watch: refused,
    cancelled, compacted.
    """
    create = pb.WatchRequest(create_request=pb.WatchCreateRequest(key=key, start_revision=start))
    beat = _Heartbeat(create, monotonic)
    try:
        with client.watching(beat.requests()) as (call, give_up):
            beat.give_up = give_up
            with stop.wakes(call.cancel):
                for response in call:
                    beat.heard()
                    check(response, key)
                    if response.events:
                        yield
        if not stop.is_set():
            raise SourceUnavailable("etcd ended the watch")
    except DatasourceError as error:
        if stop.is_set():
            return
        if beat.gave_up:
            raise SourceUnavailable(f"etcd said nothing for {SILENCE_S:g} s ({error})") from error
        raise
    finally:
        beat.end()


def check(response: pb.WatchResponse, key: bytes) -> None:
    """Raises SourceUnavailable for a response that ends the watch. A bare answer for progress has the id -1, too."""
    if response.compact_revision:
        raise SourceUnavailable(
            f"etcd compacted the revisions from which {key.decode()} was watched (up to {response.compact_revision}); "
            "it is read anew"
        )
    if response.canceled or (response.created and response.watch_id < 0):
        raise SourceUnavailable(f"etcd cancelled the watch of {key.decode()}: {response.cancel_reason or 'no reason'}")

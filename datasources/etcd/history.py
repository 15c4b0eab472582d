"""The past of a key, as far as etcd has not compacted it: told by a watch that begins at the oldest revision."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sentinel_core.datasources.contract import DatasourceError
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.watch import check

_QUIET_S = 1.0
"""After so long without an event nothing more of the past will come. Only waited for where the key is deleted: no other
word of etcd tells that a past is complete."""


def put_revisions(client: Client, key: bytes, newest: int) -> list[int]:
    """The revisions at which `key` was written and which can still be read, oldest first. `newest` is the one that
    stands now; 0: it is absent. The first may stand for an older one that was compacted into it."""
    compacted, revisions = _from(client, key, 1, newest)
    if compacted:
        _, revisions = _from(client, key, compacted, newest)
        revisions = [compacted, *revisions]
    return revisions


def _from(client: Client, key: bytes, start: int, newest: int) -> tuple[int, list[int]]:
    """What is compacted away from `start` on, if so; the revisions of the writes since."""
    if 0 < newest < start:
        return 0, []
    ended = threading.Event()

    def requests() -> Iterator[pb.WatchRequest]:
        yield pb.WatchRequest(create_request=pb.WatchCreateRequest(key=key, start_revision=start))
        ended.wait()

    found: list[int] = []
    quiet = _Quiet(_QUIET_S if not newest else client.timeout_s)
    try:
        with client.watching(requests()) as (call, _), quiet.cancels(call):
            for response in call:
                quiet.heard()
                if response.compact_revision:
                    return response.compact_revision, []
                check(response, key)
                found += [event.kv.mod_revision for event in response.events if event.type == pb.Event.PUT]
                if newest and found and found[-1] >= newest:
                    return 0, found
    except DatasourceError:
        if not (quiet.came and not newest):
            raise
    finally:
        ended.set()
    return 0, found


class _Quiet:
    """Cancels a call on which nothing came for some time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._something = threading.Event()
        self._done = False
        self.came = False
        """Whether it was cancelled."""

    @contextmanager
    def cancels(self, call: Any) -> Iterator[None]:
        thread = threading.Thread(target=self._run, args=(call,), name="sentinel-etcd-history", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done = True
            self._something.set()
            thread.join()

    def heard(self) -> None:
        self._something.set()

    def _run(self, call: Any) -> None:
        while self._something.wait(self._seconds) and not self._done:
            self._something.clear()
        if not self._done:
            self.came = True
            call.cancel()

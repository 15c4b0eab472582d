"""Keys that stand as long as their holder lives: an instance that tells of itself. Imports gRPC."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Mapping

from sentinel_core.datasources.contract import DatasourceError
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.errors import LeaseGone

TTL_S = 10
"""After the holder's last word its keys stand so long; etcd takes no less than one and a half election time-outs."""
_RETRY_S = 0.5
_log = logging.getLogger("sentinel.datasources")


class Lease:
    """Thread-safe. Granted with the first key; a daemon thread keeps it alive until `close`. Where it was lost (expired
    while the server was out of reach, revoked, wiped), that grants it anew and writes the keys again.

    It belongs to the process that made it: a forked child makes one of its own, and closing an inherited one does
    nothing. Calls block, bounded by the client's time-out.
    """

    def __init__(self, client: Client, ttl_s: int = TTL_S, rng: Callable[[], float] = random.random) -> None:
        self._client = client
        self._ttl_s = ttl_s
        self._rng = rng
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._id = 0
        """0: none was granted yet, or it is gone."""
        self._values: dict[str, bytes] = {}
        self._trouble: str | None = None
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="sentinel-etcd-lease", daemon=True)

    @property
    def trouble(self) -> str | None:
        """Why the keys may be gone; None while they stand."""
        return self._trouble

    def put(self, key: str, value: bytes) -> None:
        """Raises DatasourceError where it could not be written; it then stands as soon as the server can be reached."""
        with self._lock:
            self._values[key] = value
            if self._keeper.ident is None:
                self._keeper.start()
            try:
                self._write({key: value})
            except LeaseGone:
                self._grant()

    def remove(self, key: str) -> None:
        """Raises DatasourceError where it could not be removed; it is then gone within the time to live."""
        with self._lock:
            if self._values.pop(key, None) is None:
                return
            removal = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key.encode()))
            try:
                self._client.transact(pb.TxnRequest(success=[removal]))
            except DatasourceError:
                self._id = 0  # the other keys go over to a new lease, and this one ends with the old
                raise

    def close(self) -> None:
        """Removes the keys, where the server can be reached; elsewhere they go with the lease. Idempotent."""
        if os.getpid() != self._pid:
            return
        self._stop.set()
        with self._lock:
            lease, self._id = self._id, 0
        if lease:
            try:
                self._client.call("Lease/LeaseRevoke", pb.LeaseRevokeRequest(id=lease), pb.LeaseRevokeResponse)
            except DatasourceError as error:
                _log.info("a lease of etcd was not revoked and ends by itself: %s", error)
        if self._keeper.ident is not None and self._keeper is not threading.current_thread():
            self._keeper.join(self._client.timeout_s)

    # -- under the lock ----------------------------------------------------------------------------------------------

    def _write(self, values: Mapping[str, bytes]) -> None:
        if not self._id:
            self._grant()
            return
        puts = [pb.PutRequest(key=key.encode(), value=value, lease=self._id) for key, value in values.items()]
        self._client.transact(pb.TxnRequest(success=[pb.RequestOp(request_put=put) for put in puts]))

    def _grant(self) -> None:
        """A new lease, with all keys under it."""
        self._id = 0
        granted = self._client.call("Lease/LeaseGrant", pb.LeaseGrantRequest(ttl=self._ttl_s), pb.LeaseGrantResponse)
        self._id = granted.id
        self._write(self._values)
        self._trouble = None

    def _renew(self) -> None:
        if self._id:
            asked = pb.LeaseKeepAliveRequest(id=self._id)
            if self._client.first("Lease/LeaseKeepAlive", asked, pb.LeaseKeepAliveResponse).ttl > 0:
                return
        self._grant()

    # -- keeper thread -----------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        pause = self._ttl_s / 3
        while not self._stop.wait(pause * (0.5 + 0.5 * self._rng())):
            try:
                with self._lock:
                    if not self._stop.is_set():
                        self._renew()
                        self._trouble = None
                pause = self._ttl_s / 3
            except DatasourceError as error:
                self._trouble = str(error)
                pause = min(_RETRY_S, pause)


def under(client: Client, prefix: str) -> dict[str, bytes]:
    """What stands now under keys that begin with `prefix`. Raises DatasourceError."""
    start = prefix.encode()
    after = start[:-1] + bytes((start[-1] + 1,))  # UTF-8 never ends with the byte 255
    asked = pb.RequestOp(request_range=pb.RangeRequest(key=start, range_end=after))
    answer = client.transact(pb.TxnRequest(success=[asked]))
    return {each.key.decode("utf-8", "replace"): each.value for each in answer.responses[0].response_range.kvs}

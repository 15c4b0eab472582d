"""What is asked of etcd: two keys at one moment, replaced in one transaction, watched, and their past. Imports gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sentinel_core.datasources.contract import StopSignal
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.history import put_revisions
from sentinel_core.datasources.etcd.target import Target
from sentinel_core.datasources.etcd.watch import Watches


class Value(NamedTuple):
    """What a key holds."""

    content: bytes
    revision: int
    """Of the store, at which it was written (mod revision)."""


class Store:
    """Thread-safe; every call raises DatasourceError alone and is bounded by the target's time-out, save `watch`."""

    def __init__(self, target: Target, monotonic: Callable[[], float]) -> None:
        self._client = Client(target, monotonic)
        self._watches = Watches(self._client, monotonic)

    def read(self, keys: Sequence[bytes], revision: int = 0) -> list[Value | None]:
        """What the keys hold, all at one moment: now, or at a revision of the store. Linearizable."""
        reads = [pb.RequestOp(request_range=pb.RangeRequest(key=key, revision=revision)) for key in keys]
        answer = self._client.transact(pb.TxnRequest(success=reads))
        return [_value(each.response_range.kvs) for each in answer.responses]

    def look(self, key: bytes) -> tuple[int, int]:
        """The revision at which the key was written (0: it is absent), and the store's own."""
        read = pb.RequestOp(request_range=pb.RangeRequest(key=key, keys_only=True))
        answer = self._client.transact(pb.TxnRequest(success=[read]))
        value = _value(answer.responses[0].response_range.kvs)
        return value.revision if value else 0, answer.header.revision

    def replace(self, values: Sequence[tuple[bytes, bytes | None]], expected: int) -> int | None:
        """Writes keys, or removes them (None), if the first one stands at the revision `expected` (0: is absent).
        The new revision; None where it stands at another one. It is sent once: where the answer is lost, it may have
        been carried out."""
        compare = pb.Compare(
            result=pb.Compare.EQUAL, target=pb.Compare.MOD, key=values[0][0], mod_revision=expected
        )  # fmt: skip
        request = pb.TxnRequest(compare=[compare], success=[_change(key, value) for key, value in values])
        answer = self._client.transact(request, once=True)
        return answer.header.revision if answer.succeeded else None

    def watch(self, key: bytes, start: int, stop: StopSignal) -> Iterator[None]:
        """Yields when the key was written or removed, from the revision `start` on, until `stop` is set."""
        return self._watches.events(key, start, stop)

    def past(self, key: bytes, newest: int) -> list[int]:
        """See `put_revisions`."""
        return put_revisions(self._client, key, newest)

    def close(self) -> None:
        self._client.close()


def _value(found: Sequence[pb.KeyValue]) -> Value | None:
    return Value(found[0].value, found[0].mod_revision) if found else None


def _change(key: bytes, value: bytes | None) -> pb.RequestOp:
    if value is None:
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))

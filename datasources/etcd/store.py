"""What is asked of etcd: two keys at one moment, replaced in one transaction, watched, and their past. Imports gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sentinel_core.datasources.contract import StopSignal
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.history import put_revisions
from sentinel_core.datasources.etcd.together import Together
from sentinel_core.datasources.etcd.watch import Watches


class Value(NamedTuple):
    """What a key holds."""

    content: bytes
    revision: int
    """Of the store, at which it was written (mod revision)."""


class Store:
    """Thread-safe; every call raises DatasourceError alone and is bounded by the target's time-out, save `watch`."""

    def __init__(self, client: Client, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._watches = Watches(client, monotonic)
        self._pb = client.messages
        self._reads = Together[list[Value | None]]()
        self._looks = Together[tuple[int, int]]()

    def read(self, keys: Sequence[bytes], revision: int = 0) -> list[Value | None]:
        """What the keys hold, all at one moment: now, or at a revision of the store. Linearizable."""
        return self._reads.ask((*keys, revision), lambda: self._read(keys, revision))

    def _read(self, keys: Sequence[bytes], revision: int) -> list[Value | None]:
        reads = [self._pb.RequestOp(request_range=self._pb.RangeRequest(key=key, revision=revision)) for key in keys]
        answer = self._client.transact(self._pb.TxnRequest(success=reads))
        return [_value(each.response_range.kvs) for each in answer.responses]

    def look(self, key: bytes) -> tuple[int, int]:
        """The revision at which the key was written (0: it is absent), and the store's own."""
        return self._looks.ask(key, lambda: self._look(key))

    def _look(self, key: bytes) -> tuple[int, int]:
        read = self._pb.RequestOp(request_range=self._pb.RangeRequest(key=key, keys_only=True))
        answer = self._client.transact(self._pb.TxnRequest(success=[read]))
        value = _value(answer.responses[0].response_range.kvs)
        return value.revision if value else 0, answer.header.revision

    def replace(self, values: Sequence[tuple[bytes, bytes | None]], expected: int) -> int | None:
        """Writes keys, or removes them (None), if the first one stands at the revision `expected` (0: is absent).
        The new revision; None where it stands at another one. It is sent once: where the answer is lost, it may have
        been carried out."""
        compare = self._pb.Compare(
            result=self._pb.Compare.EQUAL, target=self._pb.Compare.MOD, key=values[0][0], mod_revision=expected
        )  # fmt: skip
        request = self._pb.TxnRequest(compare=[compare], success=[self._change(key, value) for key, value in values])
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

    def _change(self, key: bytes, value: bytes | None) -> Any:
        if value is None:
            return self._pb.RequestOp(request_delete_range=self._pb.DeleteRangeRequest(key=key))
        return self._pb.RequestOp(request_put=self._pb.PutRequest(key=key, value=value))


def _value(found: Sequence[Any]) -> Value | None:
    return Value(found[0].value, found[0].mod_revision) if found else None

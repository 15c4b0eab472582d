"""What answers as no etcd would: each call ends in time, with an error in words, and no thread dies of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from sentinel_core import datasources
from sentinel_core.datasources import DatasourceError, SourceUnavailable, StopSignal
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.lease import Lease
from sentinel_core.datasources.etcd.target import Target
from tests.services.server import wait_until

FORGED = "\x1b]0;owned\x07\nINFO forged"


class Anything(grpc.GenericRpcHandler):
    """Answers each method with the raw messages that stand for it."""

    def __init__(self) -> None:
        self.says: dict[str, list[bytes]] = {}
        self.refuses: str | None = None
        self.asked: list[str] = []

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]

        def answers(_requests: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
            self.asked.append(method)
            if self.refuses is not None:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuses)
            yield from self.says.get(method, [])

        return grpc.stream_stream_rpc_method_handler(answers)


@pytest.fixture
def server() -> Anything:
    return Anything()


@pytest.fixture
def address(server: Anything) -> Iterator[str]:
    with ThreadPoolExecutor(4) as threads:
        serving = grpc.server(threads, handlers=[server])
        port = serving.add_insecure_port("127.0.0.1:0")
        serving.start()
        yield f"127.0.0.1:{port}"
        serving.stop(0).wait()


@pytest.fixture
def source(address: str) -> Iterator[Any]:
    source = datasources.open(f"etcd://{address}/a/b?timeout=2s")
    yield source
    source.close()


@pytest.mark.parametrize(
    "said",
    [
        [],
        [b"\xff\xff"],
        [b""],
        [pb.TxnResponse(succeeded=True, responses=[pb.ResponseOp()] * 3).SerializeToString()],
    ],
    ids=["nothing", "garbage", "empty", "too-many"],
)
def test_an_answer_of_another_shape_is_an_error_in_words(server: Anything, source: Any, said: list[bytes]) -> None:
    server.says["Txn"] = said
    (item,) = source.items(["flow"])
    with pytest.raises(DatasourceError):
        source.read(item)
    with pytest.raises(DatasourceError):
        source.watch(item, None, lambda: None, StopSignal())


def test_the_servers_words_cannot_speak_to_a_terminal(server: Anything, source: Any) -> None:
    server.refuses = FORGED
    (item,) = source.items(["flow"])
    with pytest.raises(DatasourceError, match="forged") as caught:
        source.read(item)
    assert str(caught.value).isprintable()


def test_a_cancelled_watch_says_why_in_printable_words(server: Anything, source: Any) -> None:
    (item,) = source.items(["flow"])
    server.says["Txn"] = [pb.TxnResponse(succeeded=True, responses=[_nothing()]).SerializeToString()]
    server.says["Watch"] = [pb.WatchResponse(watch_id=1, canceled=True, cancel_reason=FORGED).SerializeToString()]
    with pytest.raises(SourceUnavailable, match="forged") as caught:
        source.watch(item, None, lambda: None, StopSignal())
    assert str(caught.value).isprintable()


def _nothing() -> pb.ResponseOp:
    return pb.ResponseOp(response_range=pb.RangeResponse())


def test_a_keeper_of_a_lease_lives_on_whatever_it_is_told(
    server: Anything, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentinel_core.datasources.etcd.lease._RETRY_S", 0.05)
    client = Client(Target((address,), timeout_s=1), time.monotonic)
    server.says["LeaseGrant"] = [pb.LeaseGrantResponse(id=7, ttl=1).SerializeToString()]
    server.says["Txn"] = [pb.TxnResponse(succeeded=True, responses=[pb.ResponseOp()]).SerializeToString()]
    server.says["LeaseKeepAlive"] = []
    lease = Lease(client, ttl_s=1)
    lease.put("/instances/1", b"here")
    assert wait_until(lambda: server.asked.count("LeaseKeepAlive") > 2)
    assert lease.trouble is not None
    server.says["LeaseKeepAlive"] = [pb.LeaseKeepAliveResponse(ttl=1).SerializeToString()]
    assert wait_until(lambda: lease.trouble is None)
    server.says["LeaseRevoke"] = [b""]
    lease.close()
    client.close()

"""Nacos over gRPC, beside what the contract and the tests of both transports say."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import Absent, SourceDenied, SourceMisconfigured, SourceUnavailable, StopSignal
from sentinel_core.datasources.contract import DatasourceError
from sentinel_core.datasources.nacos.grpc import GrpcTransport
from sentinel_core.datasources.nacos.grpc_errors import LinkLost, refusal, wants_login
from sentinel_core.datasources.nacos.grpc_watch import Watched, Watches
from sentinel_core.datasources.nacos.target import Target
from tests.services import nacos
from tests.services.server import free_port, wait_until

pytest.importorskip("v2.nacos", reason="the extra nacos is not installed")
import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from v2.nacos.transport.grpcauto.nacos_grpc_service_pb2 import Metadata, Payload


def transport_to(*servers: str, timeout_s: float = 5, token: str | None = None) -> GrpcTransport:
    def shown(*, renew: bool = False) -> str | None:
        return token

    return GrpcTransport(Target(servers, timeout_s=timeout_s), time.monotonic, shown)


# -- who waits, and the beat -------------------------------------------------------------------------------------------


class Beats:
    """Stands where the server stands: what it answers to each beat, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.changed: list[str] = []
        self.error: Exception | None = None
        self.threads: set[str] = set()

    def __call__(self, md5s: dict[str, str], timeout_s: float) -> list[str]:
        self.asked.append(md5s)
        self.threads.add(threading.current_thread().name)
        if self.error is not None:
            raise self.error
        return self.changed


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Beats:
    monkeypatch.setattr("sentinel_core.datasources.nacos.grpc_watch.BEAT_S", 0.02)
    return Beats()


def test_one_beat_listens_for_all_with_what_each_has_read(beats: Beats) -> None:
    watches = Watches(beats)
    flow, degrade = Watched(), Watched()
    watches.add("flow", "1", flow)
    watches.add("degrade", "", degrade)
    assert wait_until(lambda: {"flow": "1", "degrade": ""} in beats.asked)
    watches.was_read("flow", "2")
    assert wait_until(lambda: {"flow": "2", "degrade": ""} in beats.asked)
    assert not any(each.told.is_set() for each in (flow, degrade))
    watches.remove("flow", flow)
    watches.remove("degrade", degrade)


def test_a_change_whose_push_was_lost_is_told_by_the_next_beat(beats: Beats) -> None:
    watches, flow, degrade = Watches(beats), Watched(), Watched()
    watches.add("flow", "1", flow)
    watches.add("degrade", "1", degrade)
    beats.changed = ["flow"]
    assert flow.told.wait(5)
    assert not degrade.told.is_set()
    watches.end(SourceUnavailable("over"))


def test_a_beat_that_fails_ends_every_watch_with_its_reason_and_the_thread(beats: Beats) -> None:
    watches, flow, degrade = Watches(beats), Watched(), Watched()
    watches.add("flow", "1", flow)
    watches.add("degrade", "1", degrade)
    beats.error = SourceUnavailable("nobody answers")
    assert flow.told.wait(5)
    assert degrade.told.wait(5)
    assert flow.error is degrade.error is beats.error
    assert wait_until(lambda: "sentinel-nacos-beat" not in {thread.name for thread in threading.enumerate()})


def test_an_answer_that_nobody_foresaw_ends_every_watch_too(beats: Beats) -> None:
    watches, flow = Watches(beats), Watched()
    watches.add("flow", "1", flow)
    beats.error = AttributeError("'Other' object has no attribute 'changedConfigs'")
    assert flow.told.wait(5)
    assert isinstance(flow.error, SourceUnavailable)
    assert wait_until(lambda: "sentinel-nacos-beat" not in {thread.name for thread in threading.enumerate()})


@pytest.mark.parametrize("code", [301, 400, 403, 500])
def test_the_servers_words_cannot_speak_to_a_terminal(code: int) -> None:
    said = "\x1b]0;owned\x07\nINFO forged " + "x" * 100_000
    refused = refusal(SimpleNamespace(resultCode=500, errorCode=code, message=said), "h:8848", Target(("h:8848",)))
    assert str(refused).isprintable()
    assert "forged" in str(refused)
    assert len(str(refused)) < 2000


def test_whoever_comes_back_after_the_end_is_listened_for_again(beats: Beats) -> None:
    watches, first, second = Watches(beats), Watched(), Watched()
    watches.add("flow", "1", first)
    watches.end(SourceUnavailable("over"))
    watches.add("flow", "2", second)
    assert wait_until(lambda: {"flow": "2"} in beats.asked)
    watches.tell("flow")
    assert second.told.is_set()
    assert second.error is None
    watches.end(SourceUnavailable("over"))


def test_what_one_of_several_reads_the_others_are_told(beats: Beats) -> None:
    watches, one, other = Watches(beats), Watched(), Watched()
    watches.add("flow", "1", one)
    watches.was_read("flow", "2")
    assert not one.told.is_set(), "it has read it itself"
    watches.add("flow", "2", other)
    watches.was_read("flow", "3")
    assert one.told.is_set()
    assert other.told.is_set()
    watches.end(SourceUnavailable("over"))


# -- answers of another shape ------------------------------------------------------------------------------------------


class Anything(grpc.GenericRpcHandler):
    """A server that shakes hands as Nacos does, and says to the rest what the test wants: (type, JSON)."""

    def __init__(self, kind: str, body: bytes) -> None:
        self._says = {"ServerCheckRequest": ("ServerCheckResponse", b'{"resultCode": 200, "connectionId": "1"}')}
        self._else = (kind, body)

    def service(self, handler_call_details: Any) -> Any:
        if not handler_call_details.method.endswith("/request"):
            return grpc.stream_stream_rpc_method_handler(lambda requests, _: iter(lambda: next(requests, None), None))

        def answers(request: bytes, _: Any) -> bytes:
            kind = Payload.FromString(request).metadata.type
            health = ("HealthCheckResponse", b'{"resultCode": 200}') if kind == "HealthCheckRequest" else None
            answer, body = health or self._says.get(kind, self._else)
            said: bytes = Payload(metadata=Metadata(type=answer), body=AnyMessage(value=body)).SerializeToString()
            return said

        return grpc.unary_unary_rpc_method_handler(answers)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("", b""),
        ("HealthCheckResponse", b'{"resultCode": 200}'),
        ("NoSuchResponse", b"{}"),
        ("ConfigQueryResponse", b"no json"),
        ("ConfigQueryResponse", b"[1]"),
        ("ConfigQueryResponse", b'{"resultCode": 200, "content": 5}'),
        ("ConfigQueryResponse", b'{"resultCode": 200, "content": "[]", "lastModified": "soon"}'),
        ("ErrorResponse", b'{"resultCode": 500, "errorCode": 500, "message": "\\u001b[31m\\nforged"}'),
    ],
)
def test_an_answer_of_another_shape_is_an_error_in_words(kind: str, body: bytes) -> None:
    port = free_port()
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, handlers=[Anything(kind, body)])
        server.add_insecure_port(f"127.0.0.1:{port + 1000}")
        server.start()
        transport = transport_to(f"127.0.0.1:{port}", timeout_s=1)
        with pytest.raises(DatasourceError) as caught:
            transport.get("flow")
        transport.close()
        server.stop(0).wait()
    assert str(caught.value).isprintable()


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "says", "user", "error", "words"),
    [
        (403, "token expired!", "ops", SourceDenied, "refuses the login of ops"),
        (403, "user not found!", None, SourceDenied, "write &user=NAME"),
        (403, "authorization failed!", "ops", SourceDenied, "grant a role"),
        (301, "Connection is unregistered.", None, LinkLost, "is not ready"),
        (400, "content is blank", None, SourceMisconfigured, "refuses the request: content is blank"),
        (500, "no space left", None, SourceUnavailable, "failed: no space left"),
    ],
)
def test_a_refusal_says_what_to_do(code: int, says: str, user: str | None, error: type[Exception], words: str) -> None:
    answer = SimpleNamespace(resultCode=500, errorCode=code, message=says)
    refused = refusal(answer, "h:8848", Target(("h:8848",), user=user))
    assert type(refused) is error
    assert words in str(refused)
    assert wants_login(answer) is (code == 403 and "authorization" not in says)


def test_nobody_there_is_said_at_once_with_the_port_of_grpc() -> None:
    port = free_port()
    transport = transport_to(f"127.0.0.1:{port - 1000}")
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match=rf":{port}.*Connection refused.*write &transport=http"):
        transport.get("flow")
    assert time.monotonic() - began < 1
    transport.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1] - 1000}"


def test_a_silent_server_is_given_up_in_time(silent: str) -> None:
    transport = transport_to(silent, timeout_s=0.3)
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match=r"did not answer in time \(0\.3 s\)"):
        transport.get("flow")
    assert time.monotonic() - began < 1
    transport.close()


def test_many_who_ask_a_silent_server_wait_no_longer_than_one(silent: str) -> None:
    transport, failures = transport_to(silent, timeout_s=0.5), list[DatasourceError]()

    def ask() -> None:
        try:
            transport.get("flow")
        except DatasourceError as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < 1.5
    assert len(failures) == 6
    transport.close()


def test_a_close_ends_calls_and_watches_of_a_silent_server(silent: str) -> None:
    transport, ended = transport_to(silent, timeout_s=30), list[str]()

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except DatasourceError as error:
            ended.append(str(error))

    threads = [
        threading.Thread(target=run, args=(lambda: transport.get("flow"),)),
        threading.Thread(target=run, args=(lambda: transport.watch("flow", None, lambda: None, StopSignal()),)),
    ]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    transport.close()
    for thread in threads:
        thread.join(10)
    assert time.monotonic() - began < 1
    assert len(ended) == 2
    with pytest.raises(SourceUnavailable, match="this source was closed"):
        transport.get("flow")


def test_the_next_server_answers_for_a_dead_one() -> None:
    nacos.needed()
    transport = transport_to(f"127.0.0.1:{free_port() - 1000}", nacos.shared().address)
    assert transport.get("nothing-stands-here") is None
    transport.close()


def test_what_is_no_text_is_refused() -> None:
    transport = transport_to("127.0.0.1:1")
    with pytest.raises(SourceMisconfigured, match="flow: Nacos keeps text, and this is not UTF-8"):
        transport.publish("flow", b"\xff", None)


# -- what cannot be used -----------------------------------------------------------------------------------------------


def test_without_the_library_the_extra_and_the_other_transport_are_named() -> None:
    script = (
        "import sys; sys.modules['v2'] = None\n"
        "from sentinel_core import datasources\n"
        "source = datasources.open('nacos://127.0.0.1:1?transport=grpc&kind=flow')\n"
        "try: source.read(source.items(['flow'])[0])\n"
        "except datasources.SourceMisconfigured as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "pip install 'sentinel-control-plane[nacos]', or write &transport=http" in said


def test_under_gevent_the_other_transport_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    patched = SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)
    with pytest.raises(SourceMisconfigured, match=r"gevent .*write &transport=http"):
        transport_to("127.0.0.1:1")


# -- secrets and traces ------------------------------------------------------------------------------------------------


def test_contents_and_tokens_stand_in_no_log_and_no_file_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    nacos.needed()
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HOME", str(tmp_path))
    secret = "t0ken-t0ken"
    transport = transport_to(nacos.shared().address, token=secret)
    name = f"{tmp_path.name}-flow"
    assert transport.publish(name, b'["c0ntent"]', None)
    assert wait_until(lambda: transport.get(name) is not None)
    nobody = transport_to("127.0.0.1:1", token=secret)
    with pytest.raises(SourceUnavailable) as error:
        nobody.publish(name, b'["c0ntent"]', None)
    assert not any(word in f"{caplog.text}{error.value}" for word in (secret, "c0ntent"))
    assert not list(tmp_path.rglob("*"))
    assert not logging.getLogger().handlers or all("nacos" not in repr(each) for each in logging.getLogger().handlers)
    transport.close()
    nobody.close()


def test_a_fork_under_a_watch_harms_neither_parent_nor_child(tmp_path: Path) -> None:
    nacos.needed()
    transport, woken, stop = transport_to(nacos.shared().address), threading.Event(), StopSignal()
    name = f"{tmp_path.name}-flow"
    watching = threading.Thread(target=transport.watch, args=(name, None, woken.set, stop))
    watching.start()
    assert transport.publish(name, b"[1]", None)
    assert woken.wait(5)
    child = os.fork()
    if child == 0:
        found = transport.get(name)
        os._exit(0 if found is not None and found.content == b"[1]" else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    woken.clear()
    assert transport.publish(name, b"[2]", None)
    assert woken.wait(5)
    stop.set()
    watching.join(5)
    transport.close()


def test_a_source_without_a_transport_named_takes_grpc_where_it_can() -> None:
    nacos.needed()
    source = datasources.open(nacos.shared().uri(group="nobody-writes-here"))
    assert isinstance(source.read(source.items(["flow"])[0]), Absent)
    assert isinstance(source._transport(), GrpcTransport)  # type: ignore[attr-defined]
    source.close()

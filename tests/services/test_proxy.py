"""The link that tests cut: what each of its faults looks like from the client."""

from __future__ import annotations

import gc
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.services.proxy import HOST, Proxy
from tests.services.server import free_port, wait_until


class Echo:
    """Sends back what it gets, until the other side ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.heard = b""
        self.ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    self.heard += data
                    connection.sendall(data)
            except OSError:
                pass
        self.ended.set()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def link(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as proxy:
        yield proxy


def connect(link: Proxy) -> socket.socket:
    return socket.create_connection((HOST, link.port), timeout=5)


def asked(client: socket.socket, data: bytes = b"ping") -> bytes:
    client.sendall(data)
    found = b""
    while len(found) < len(data):
        part = client.recv(65536)
        assert part, "the connection ended"
        found += part
    return found


def test_bytes_and_the_end_pass_and_connections_are_counted(link: Proxy, echo: Echo) -> None:
    large = bytes(range(256)) * 8192
    with connect(link) as one, connect(link) as other:
        assert (asked(one), asked(other, large)) == (b"ping", large)
        assert (link.accepted, link.open) == (2, 2)
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b""
        assert echo.ended.wait(5)
    assert wait_until(lambda: link.open == 0)
    assert link.accepted == 2


def test_a_cut_resets_what_is_open_and_lets_the_next_one_pass(link: Proxy, echo: Echo) -> None:
    with connect(link) as client, connect(link) as again:
        asked(client)
        asked(again)
        link.cut()
        for each in (client, again):
            with pytest.raises(ConnectionResetError):
                each.recv(1)
        assert link.open == 0
        assert echo.ended.wait(5), "the server is told as well"
    with connect(link) as client:
        assert asked(client) == b"ping"
    assert link.accepted == 3


def test_a_delay_is_both_ways_keeps_the_order_and_ends_at_once(link: Proxy) -> None:
    with connect(link) as client:
        asked(client)
        link.delay(50)
        began = time.monotonic()
        assert asked(client, b"".join(b"%04d" % number for number in range(5000)))[-4:] == b"4999"
        assert 0.1 <= time.monotonic() - began < 1, "each byte is late once a way, not once a piece"
        link.restore()
        began = time.monotonic()
        asked(client)
        assert time.monotonic() - began < 0.1


def test_swallowed_bytes_vanish_without_an_end_and_their_connection_stays_deaf(link: Proxy, echo: Echo) -> None:
    with connect(link) as before:
        asked(before)
        link.swallow()
        with connect(link) as during:
            for client in (before, during):
                client.settimeout(0.1)
                client.sendall(b"lost" * 100_000)
                with pytest.raises(TimeoutError):
                    client.recv(1)
            link.restore()
            before.sendall(b"lost")
            with pytest.raises(TimeoutError):
                before.recv(1)
            with connect(link) as after:
                assert asked(after) == b"ping"
    assert b"lost" not in echo.heard


def test_the_end_of_the_server_does_not_pass_a_deaf_link() -> None:
    with socket.create_server((HOST, 0)) as listener, Proxy(listener.getsockname()[1]) as link, connect(link) as client:
        served, _ = listener.accept()
        link.swallow()
        served.close()
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_refusal_is_seen_at_once_and_the_port_is_kept(link: Proxy) -> None:
    port = link.port
    with connect(link) as client:
        asked(client)
        link.refuse()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(link)
    link.restore()
    assert link.port == port
    with connect(link) as client:
        assert asked(client) == b"ping"


def test_a_server_that_is_not_there_is_a_reset_and_it_may_come_later() -> None:
    port = free_port()
    with Proxy(port) as link:
        with pytest.raises(ConnectionResetError), connect(link) as client:
            client.recv(1)
        with socket.create_server((HOST, port)) as listener, connect(link) as client:
            served, _ = listener.accept()
            served.sendall(b"late")
            assert client.recv(4) == b"late"
            served.close()


def test_the_port_may_be_chosen(echo: Echo) -> None:
    port = free_port()
    with Proxy(echo.port, port) as link, connect(link) as client:
        assert link.port == port
        assert asked(client) == b"ping"


def test_nothing_stays_open_of_a_link_that_is_closed_while_clients_come(echo: Echo) -> None:
    """A transport that nobody closed warns when it is collected, in whichever test that is."""
    for _ in range(20):
        with warnings.catch_warnings(record=True) as told, ExitStack() as clients:
            warnings.simplefilter("always")
            with Proxy(echo.port) as link:
                for _ in range(30):
                    clients.enter_context(connect(link))
            assert link.open == 0
            gc.collect()
        assert [str(each.message) for each in told] == []

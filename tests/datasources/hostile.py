"""A web server that says what a test wants, in whatever pieces: for what no real store would say."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Says = Callable[[str, str], bytes | Iterable[bytes]]
"""(method, path with its query) → the raw answer, whole or in pieces."""


class Hostile:
    """Answers each request of each connection on a thread of its own."""

    def __init__(self, says: Says, tls: ssl.SSLContext | None = None) -> None:
        self._says = says
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked: list[str] = []
        """`METHOD /path` of each request, without the query."""

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, plain: socket.socket) -> None:
        with (
            suppress(OSError),
            self._tls.wrap_socket(plain, server_side=True) if self._tls else plain as connection,
            connection.makefile("rb") as requests,
        ):
            while line := requests.readline():
                method, path, _ = line.decode().split(" ", 2)
                length = 0
                while header := requests.readline().strip():
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                requests.read(length)
                self.asked.append(f"{method} {path.partition('?')[0]}")
                said = self._says(method, path)
                for piece in (said,) if isinstance(said, bytes) else said:
                    connection.sendall(piece)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@contextmanager
def hostile(says: Says, tls: ssl.SSLContext | None = None) -> Iterator[Hostile]:
    server = Hostile(says, tls)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.close()


def answer(body: Any, status: int = 200, headers: str = "") -> bytes:
    """`body` is sent as it is, or as JSON."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(sent)}\r\n{headers}\r\n".encode() + sent


RULES = '[{"resource": "a", "count": 1}]'
WRITTEN_MS = 1_764_489_600_000
VALUE = {"content": RULES, "md5": "e95f8b0c8157405fe4216c37a6098083", "lastModified": WRITTEN_MS}


def nacos_3(
    value: Any = VALUE, history: Any = None, login: bytes = b"", of_config: Callable[[], bytes] | None = None
) -> Says:
    """What a Nacos 3 would say that holds one dataId, save for what is given."""

    def says(_method: str, path: str) -> bytes:
        if "/liveness" in path:
            return answer({"code": 0, "data": "ok"})
        if "/login" in path:
            return login
        if "/history/list" in path:
            return answer({"code": 0, "data": {"pageItems": []} if history is None else history})
        if ".provenance" in path:
            return answer({"code": 20004})
        return of_config() if of_config else answer({"code": 0, "data": value})

    return says

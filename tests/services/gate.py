"""A gateway in front of a server that speaks HTTP, which may answer by itself what a test wants."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = tuple[int, bytes]
Decide = Callable[[str, str, bytes, "Gate"], Answer | None]
"""Of method, path, body: the answer, or None to let it through."""


class Gate:
    """`decide` may be set while it runs; `seen` holds method and path of each request."""

    def __init__(self, port: int, behind: int) -> None:
        self.port = port
        self.behind = behind
        self.decide: Decide = lambda *_: None
        self.login: str | None = None
        """The Authorization that is asked for."""
        self.seen: list[tuple[str, str]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def pass_on(self, method: str, path: str, body: bytes, kind: str = "application/x-ndjson") -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.behind, timeout=30)
        try:
            connection.request(method, path, body or None, {"Content-Type": kind} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def gate(behind: int, certificate: tuple[Path, Path] | None = None) -> Iterator[Gate]:
    """With `certificate` (and its key) it speaks TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.seen.append((self.command, self.path))
            if made.login is not None and self.headers.get("Authorization") != made.login:
                self.answer(401, b"Unauthorized")
                return
            told = made.decide(self.command, self.path, body, made)
            self.answer(*(told or made.pass_on(self.command, self.path, body, self.headers.get("Content-Type") or "")))

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_one  # noqa: N815  its names

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that went away is no news."""

    server = Quiet(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made = Gate(server.server_address[1], behind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

"""A link between a client and a real server that can be cut, slowed and made deaf while it is in use.

    with Proxy(server.port) as link:
        client = connect(link.port)
        link.swallow()    # the link dies without a word
        link.restore()    # new connections pass

The server must not tell the client another address than the link's. `port` sets the link's own port, where a client
derives one port from another.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

HOST = "127.0.0.1"
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose close is a reset."""
_BOUND_S = 10.0
_Chunks = asyncio.Queue[tuple[float, bytes]]
"""What was read, and when it is to arrive."""


class Proxy:
    """TCP on a loopback port. One thread; every method may be called from any other and returns when it is so."""

    def __init__(self, target: int, port: int = 0) -> None:
        """`target` is the port of the server, which need not run yet; `port` 0 takes a free one."""
        self.port = port
        self.accepted = 0
        """Connections since the start; what was refused is not among them."""
        self._target = target
        self._delay_s = 0.0
        self._deaf = False
        self._links: set[_Link] = set()
        self._listener: socket.socket | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-to-{target}", daemon=True)
        self._thread.start()
        self._run(self._listen)

    @property
    def open(self) -> int:
        """Connections that stand now, swallowed ones among them."""
        return len(self._links)

    # -- what befalls the link -----------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Everything passes from now on; a connection that lost bytes to `swallow` stays deaf."""
        self._deaf, self._delay_s = False, 0.0
        self._run(self._listen)

    def cut(self) -> None:
        """Resets every connection; new ones are treated as before."""
        self._run(self._cut)

    def delay(self, milliseconds: float) -> None:
        """Each byte arrives so much later, in both directions; nothing is lost and the order is kept."""
        self._delay_s = milliseconds / 1000

    def swallow(self) -> None:
        """Connections are accepted and stay open, and what is sent vanishes: half-open. Ends do not pass either."""
        self._run(self._deafen)

    def refuse(self) -> None:
        """Nobody listens any more, and every connection is reset."""
        self._run(self._unlisten)
        self._run(self._cut)

    def close(self) -> None:
        if self._thread.is_alive():
            self.refuse()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_BOUND_S)
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    def _run(self, step: Callable[[], Any]) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(step(), self._loop)
        done.result(_BOUND_S)

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((HOST, self.port))
            self._listener.settimeout(0)
            self.port = self._listener.getsockname()[1]
            self._loop.add_reader(self._listener, self._accept, self._listener)

    async def _unlisten(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener)
            listener.close()

    async def _cut(self) -> None:
        links = list(self._links)
        for link in links:
            link.reset()
            link.task.cancel()
        await asyncio.gather(*(link.task for link in links), return_exceptions=True)
        await asyncio.sleep(0)  # the ends are closed in the loop's next round
        for link in links:
            link.client.close()  # of a task that had not begun
        self._links.difference_update(links)

    async def _deafen(self) -> None:
        self._deaf = True
        for link in self._links:
            link.deaf = True

    def _accept(self, listener: socket.socket) -> None:
        """Not asyncio's own server: of that, connections that are not ours yet would outlive a cut and the loop."""
        try:
            client, _ = listener.accept()
        except OSError:
            return  # it has gone again
        self.accepted += 1
        link = _Link(client, deaf=self._deaf)
        self._links.add(link)
        link.task = self._loop.create_task(self._join(link))

    async def _join(self, link: _Link) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=link.client)
            link.ends.append(writer)
            far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
            link.ends.append(far_writer)
            async with asyncio.TaskGroup() as both:
                for one, other in ((reader, far_writer), (far_reader, writer)):
                    chunks: _Chunks = asyncio.Queue()
                    both.create_task(self._collect(link, one, chunks))
                    both.create_task(link.deliver(chunks, other))
            for end in link.ends:
                end.close()
                await end.wait_closed()  # what is in its buffer is still on its way, and may be cut
        except* (OSError, asyncio.CancelledError):
            pass  # one side broke off, or it was cut here
        finally:
            self._links.discard(link)
            link.reset()

    async def _collect(self, link: _Link, reader: asyncio.StreamReader, chunks: _Chunks) -> None:
        data = b"-"
        while data:
            try:
                data = await reader.read(65536)
            except OSError:
                if link.deaf:
                    return
                raise
            chunks.put_nowait((self._loop.time() + self._delay_s, data))


class _Link:
    """A connection of a client and that to the server."""

    task: asyncio.Task[None]

    def __init__(self, client: socket.socket, *, deaf: bool) -> None:
        client.settimeout(0)
        self.client = client
        self.ends: list[asyncio.StreamWriter] = []
        self.deaf = deaf
        """Bytes were lost here, so nothing that follows them may pass either."""

    async def deliver(self, chunks: _Chunks, writer: asyncio.StreamWriter) -> None:
        data = b"-"
        while data:
            due, data = await chunks.get()
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            if self.deaf:
                await asyncio.Event().wait()  # until it is reset
            if data:
                writer.write(data)
                await writer.drain()
            else:
                writer.write_eof()

    def reset(self) -> None:
        with suppress(OSError):  # it is closed
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        for end in self.ends:
            with suppress(OSError):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.transport.abort()

"""A real server that a test starts by itself: in a folder and on loopback ports of its own, ended by its process id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

CACHE = Path(__file__).resolve().parents[2] / ".cache"
"""Where script/test puts what it fetches."""


class Unavailable(Exception):
    """This machine cannot have the server; says what is missing."""


def cannot(why: str) -> NoReturn:
    """Skips the test, with the reason; on CI, which must have everything, it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def free_port() -> int:
    """A loopback port that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    """Whether something listens on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], within_s: float = 5) -> bool:
    """Whether it comes true in time."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


class Server:
    """One process. `start` waits until it is ready; it can be killed, frozen and started again on the same ports."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        ready: Callable[[], bool],
        *,
        within_s: float = 30,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self.log = folder / "server.log"
        self._ready = ready
        self._within_s = within_s
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
                cwd=self.log.parent,
            )
        process = self._process
        if not wait_until(lambda: process.poll() is not None or self._ready(), self._within_s) or process.poll():
            self.stop()
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.command[0]} is not ready after {self._within_s} s:\n{tail}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(10)

    def freeze(self) -> None:
        """It keeps its connections and answers nobody."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

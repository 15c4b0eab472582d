"""A command at a terminal: a pseudo-terminal with somebody who answers, and what is on the screen at the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROWS, COLUMNS = 200, 160
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Session:
    """How a command ended at a terminal."""

    code: int
    raw: str
    """All that was written, lines that went away included."""

    @property
    def screen(self) -> str:
        """What is left to read: no colours, and of a line that was written anew the last state."""
        lines = _COLOUR.sub("", self.raw).replace("\r\n", "\n").split("\n")
        return "\n".join(re.split(r"\r\x1b\[K", line)[-1].rstrip() for line in lines).strip("\n")


def type_in(command: str, *, cwd: Path, env: Mapping[str, str], answer: str = "y", within_s: float = 60) -> Session:
    """Runs a line of bash at a terminal of its own; `answer` is typed at each question [y/N]."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    running = subprocess.Popen(
        ["bash", "-c", command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", "PAGER": "cat", **env},
        start_new_session=True,
    )
    os.close(theirs)
    shown, answered = b"", 0
    deadline = time.monotonic() + within_s
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    chunk = os.read(ours, 65536)
                except OSError:  # the other side is gone
                    break
                shown += chunk
                if shown.count(b"[y/N] ") > answered:
                    os.write(ours, f"{answer}\n".encode())
                    answered += 1
            elif running.poll() is not None:
                break
        code = running.wait(timeout=max(1.0, deadline - time.monotonic()))
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
        os.close(ours)
    return Session(code, shown.decode("utf-8", "replace"))

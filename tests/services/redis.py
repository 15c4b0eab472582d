"""One Redis, of the machine's package redis-server."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.services.server import Server, Unavailable, accepts, free_port


class Redis(Server):
    """Empty, keeps nothing on disk."""

    def __init__(self, folder: Path, password: str = "") -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise Unavailable("redis-server is not installed (apt-get install redis-server)")
        self.port = free_port()
        options = {"bind": "127.0.0.1", "port": str(self.port), "save": "", "appendonly": "no", "dir": str(folder)}
        if password:
            options["requirepass"] = password
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        super().__init__([program, *words], folder, lambda: accepts(self.port))

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

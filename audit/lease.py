"""A lock on a file that the kernel gives up when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Lease:
    """Held by one process at a time. A POSIX record lock: a fork does not inherit it, a kill -9 frees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._pid = 0

    def acquire(self) -> bool:
        """Whether this process holds it now. Never waits; makes the folder. Raises OSError where the file
        cannot be opened."""
        if self._pid != os.getpid():
            self.release()
        if self._descriptor is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor, self._pid = descriptor, os.getpid()
        return True

    def release(self) -> None:
        """Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

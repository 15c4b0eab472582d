"""Checks that may take too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sentinel_core.cli.doctor import Check


class Bounded:
    """A check on a thread of its own, which is left behind when it takes too long."""

    def __init__(self, check: Callable[[], Check]) -> None:
        self._done: list[Check] = []
        self._thread = threading.Thread(target=lambda: self._done.append(check()), daemon=True)
        self._thread.start()

    def result(self, deadline: float, late: Check) -> Check:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._done[0] if self._done else late

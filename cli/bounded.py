"""Checks that may take too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Bounded(Generic[T]):
    """A check, or what one needs, on a thread of its own, which is left behind when it takes too long."""

    def __init__(self, check: Callable[[], T]) -> None:
        self._done: list[T] = []
        self._thread = threading.Thread(target=lambda: self._done.append(check()), daemon=True)
        self._thread.start()

    def result(self, deadline: float, late: T) -> T:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._done[0] if self._done else late

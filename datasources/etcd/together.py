"""Many who ask the same at once are answered by one request."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sentinel_core.datasources.contract import DatasourceError, SourceUnavailable
from sentinel_core.locks import renew_lock_after_fork

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Request(Generic[Answer]):
    done: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None
    error: DatasourceError | None = None


class Together(Generic[Answer]):
    """Thread-safe. An answer is never older than the call that gets it: who comes while a request is under way is not
    given its answer but that of the next one, which is sent when the first is back: it waits for two at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._next: dict[Hashable, _Request[Answer]] = {}
        """Not sent yet: others may join."""
        self._under_way: dict[Hashable, _Request[Answer]] = {}

    def ask(self, what: Hashable, send: Callable[[], Answer]) -> Answer:
        """What `send` returns or raises, called here or by another thread that asks for the same `what`. It must be
        bounded in time."""
        what = (os.getpid(), what)  # a parent's requests never come back to its child
        with self._lock:
            request = self._next.get(what)
            if request is None:
                mine, before = _Request[Answer](), self._under_way.get(what)
                self._next[what] = mine
        if request is None:
            if before is not None:
                before.done.wait()
            return self._send(what, mine, send)
        request.done.wait()
        if request.error is not None:
            raise type(request.error)(str(request.error)) from request.error
        return request.answer  # type: ignore[return-value]  # there is one where there is no error

    def _send(self, what: Hashable, request: _Request[Answer], send: Callable[[], Answer]) -> Answer:
        with self._lock:
            del self._next[what]
            self._under_way[what] = request
        request.error = SourceUnavailable("the request broke off")
        try:
            request.answer = send()
            request.error = None
        except DatasourceError as error:
            request.error = error
            raise
        else:
            return request.answer
        finally:
            with self._lock:
                if self._under_way[what] is request:
                    del self._under_way[what]
            request.done.set()

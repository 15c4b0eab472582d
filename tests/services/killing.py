"""Kills this process at a request of its own, for children of tests."""

from __future__ import annotations

import os
import signal
from http.client import HTTPConnection
from typing import Any


def die_at(number: int, *, answered: bool) -> None:
    """From now on this process is killed at its request `number`, before it is sent or when it was carried out."""
    left = number
    doomed: HTTPConnection | None = None
    receive, send = HTTPConnection.getresponse, HTTPConnection.request

    def request(self: HTTPConnection, *asked: Any, **more: Any) -> None:
        nonlocal left, doomed
        left -= 1
        if left == 0:
            doomed = self
            if not answered:
                os.kill(os.getpid(), signal.SIGKILL)
        send(self, *asked, **more)

    def getresponse(self: HTTPConnection) -> Any:
        response = receive(self)
        if self is doomed:  # others may have been sent meanwhile
            os.kill(os.getpid(), signal.SIGKILL)
        return response

    HTTPConnection.request = request  # type: ignore[method-assign]
    HTTPConnection.getresponse = getresponse  # type: ignore[method-assign]

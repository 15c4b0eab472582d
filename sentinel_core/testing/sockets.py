"""`no_io`: proof that a piece of code reads nothing from outside."""

from __future__ import annotations

import functools
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sentinel_core.collectors.guarded import IoInDecision, inside, refuse_inside

_METHODS = (
    "connect", "connect_ex", "accept", "send", "sendall", "sendto", "sendmsg", "sendfile", "recv", "recv_into",
    "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into",
)  # fmt: skip
_CLASSES: tuple[type, ...] = (socket.socket, ssl.SSLSocket)
_FUNCTIONS = ("create_connection", "getaddrinfo", "gethostbyname")

_lock = threading.Lock()
_users: list[object] = []
"""The `no_io` that are under way; the guards are in place while there is one."""
_originals: list[tuple[Any, str, Any, bool]] = []


@contextmanager
def no_io() -> Iterator[None]:
    """Inside it this thread may not use sockets or read a source of `sentinel_core.collectors`: IoInDecision is raised
    where it tries, and again at the end, for an engine takes what a rule raises for an internal error and lets the
    call pass. Other threads are not concerned; nor is what has no Python socket (a driver in C, a file).

        with no_io():
            engine.try_entry("order:create")
    """
    user = object()
    _install(user)
    try:
        with inside() as tried:
            yield
    finally:
        _uninstall(user)
    if tried:
        raise IoInDecision(f"tried inside no_io, and whoever called caught the error: {', '.join(tried)}")


def _guard(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def guarded(*args: Any, **options: Any) -> Any:
        refuse_inside(f"socket {name}")
        return original(*args, **options)

    return guarded


def _install(user: object) -> None:
    with _lock:
        _users.append(user)
        if len(_users) > 1:
            return
        places = [(owner, name) for owner in _CLASSES for name in _METHODS] + [(socket, name) for name in _FUNCTIONS]
        for owner, name in places:
            original = getattr(owner, name, None)
            if original is not None:
                own = name in vars(owner)
                _originals.append((owner, name, original, own))
                setattr(owner, name, _guard(name, original))


def _uninstall(user: object) -> None:
    with _lock:
        _users.remove(user)
        if _users:
            return
        for owner, name, original, own in reversed(_originals):
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)
        _originals.clear()

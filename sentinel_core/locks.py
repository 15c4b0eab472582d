"""Locks and a fork: in a child no thread lives that could let go of a lock that was held when it came into being."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Locked(Protocol):
    """Guards what it knows by one plain lock."""

    _lock: threading.Lock


_known: weakref.WeakSet[Locked] = weakref.WeakSet()


def renew_lock_after_fork(owner: Locked) -> None:
    """Gives `owner` a new `_lock` in every child of this process. What the lock guards must not break when the thread
    that held it is gone half way: a cache, or files that are made under other names."""
    _known.add(owner)


def _after_fork_in_child() -> None:
    for owner in list(_known):
        owner._lock = threading.Lock()  # noqa: SLF001  what the protocol says


os.register_at_fork(after_in_child=_after_fork_in_child)

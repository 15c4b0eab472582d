"""What becomes of engines in a forked child (pre-fork servers, `multiprocessing` with fork).

A child begins with the rules of its parent and with counters, breakers and queues of its own, all at rest: calls that
the parent's threads were in are not its calls. Locks are new. No thread outlives a fork, so subscriptions, collectors
and forwarders start theirs again, with the first call or look at the engine: a child that never uses it (or that only
goes on to `exec`) gets none.

The fork waits for the parts of a moment in which an engine is between two states (a swap, a count), so that the child
never sees half of one, and for modules that other threads are importing: their locks would be held for ever in the
child. It does not wait for stores, and for transactions of the outbox two seconds at most (`audit.database`).
"""

from __future__ import annotations

import importlib
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

IMPORT_WAIT_S: Final = 5.0

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_held: dict[int, list[Engine]] = {}
"""By the thread that forks; several may at a time."""


def remember(engine: Engine) -> None:
    """Has the hooks of `engine` called around every fork of this process."""
    _engines.add(engine)


def _before() -> None:
    if _engines:
        _await_imports()
    held = _held[threading.get_ident()] = []  # first: what is held is let go, even if a signal handler raises
    for engine in sorted(_engines, key=id):
        engine.hold_for_fork()
        held.append(engine)


def _await_imports() -> None:
    """Python has no public way to ask; where it keeps its locks otherwise, nothing is waited for."""
    locks = getattr(importlib._bootstrap, "_module_locks", {})  # noqa: SLF001  see above
    mine = (None, threading.get_ident())
    deadline = time.monotonic() + IMPORT_WAIT_S
    while time.monotonic() < deadline:
        if all(getattr(found(), "owner", None) in mine for found in list(locks.values())):
            return
        time.sleep(0.001)


def _after_in_parent() -> None:
    for engine in _held.pop(threading.get_ident()):
        engine.let_go_after_fork()


def _after_in_child() -> None:
    held = _held.pop(threading.get_ident())
    _held.clear()
    for engine in held:
        engine.renew_after_fork()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)

"""What becomes of engines in a forked child (pre-fork servers, `multiprocessing` with fork).

A child begins with the rules of its parent and with counters, breakers and queues of its own, all at rest: calls that
the parent's threads were in are not its calls. Locks are new. No thread outlives a fork, so subscriptions, collectors
and forwarders start theirs again, with the first call or look at the engine: a child that never uses it (or that only
goes on to `exec`) gets none.

The fork waits for the parts of a moment in which an engine is between two states (a swap, a count), so that the child
never sees half of one; it does not wait for disks or stores.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_held: list[list[Engine]] = []


def remember(engine: Engine) -> None:
    """Has the hooks of `engine` called around every fork of this process."""
    _engines.add(engine)


def _before() -> None:
    held: list[Engine] = []
    _held.append(held)  # first: what is held is let go, even if a signal handler raises in the middle
    for engine in sorted(_engines, key=id):
        engine.hold_for_fork()
        held.append(engine)


def _after_in_parent() -> None:
    for engine in _held.pop():
        engine.let_go_after_fork()


def _after_in_child() -> None:
    for engine in _held.pop():
        engine.renew_after_fork()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)

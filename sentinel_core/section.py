"""Who checks and counts is alone: the critical section of interpreted code.

A lock would be right and dear: 300 to 450 ns for each of the two sections of a call, and threads that sleep for it are
handed it at every release, one switch a call. Under CPython's GIL a flag is enough. The interpreter gives way to
another thread, or to a signal handler, only where a function begins, a loop jumps back or C code returns; so

    before, runtime.busy = runtime.busy and runtime.give_way(), True

is one step that nothing can come between. Who finds the flag set lets the other threads run until it is not: that
happens once in a switch interval (5 ms) and not once a call.

There may be no call between that line and the `try` that gives the flag back, for an exception of a signal handler
(Ctrl-C, a time limit) is raised where a call ends or begins. So a section is a `try` and never a `with`: the `__exit__`
of a class in Python can be interrupted before its first line. `Runtime.inside` is that `try` for code that is not hot.

Compiled by mypyc a section calls no Python code, so no other thread can run inside of it and nobody ever waits. A
free-threaded build, or an interpreter that is not CPython, has none of that: there the flag is always set and giving
way is taking a real lock, which is right and serialises all calls of an engine.

A thread may interrupt itself: a signal handler or a finalizer that enters again, in the middle of a section. It must
not wait for itself, and goes on inside.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sentinel_core.plan import Runtime

YIELDS: Final = 1_000
"""How often a thread lets the others run before it sleeps a millisecond each time."""
PATIENCE: Final = YIELDS + 10_000
"""Then it goes on all the same: a debugger, or a tracer that ended a thread, must not hang a service."""

_codes: set[CodeType] = set()


def remember(*functions: Callable[..., object]) -> None:
    """Says that these run inside a section and nowhere else."""
    _codes.update(code for function in functions if (code := getattr(function, "__code__", None)) is not None)


def is_compiled() -> bool:
    """Whether the hot modules of this build are."""
    from sentinel_core import plan

    return not plan.__file__.endswith(".py")


def has_gil() -> bool:
    """Whether one thread at a time runs Python code, and switches only where CPython does."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return sys.implementation.name == "cpython" and (enabled is None or enabled())


def interrupts_itself() -> bool:
    """Whether a section stands among the callers of this code."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 (the only way to see one's own callers cheaply)
    while frame is not None:
        if frame.f_code in _codes:
            return True
        frame = frame.f_back
    return False


def wait_for_turn(runtime: Runtime) -> bool:
    """Waits until nobody is in the section, and takes it. True where it was this thread's already."""
    if runtime.lock is not None:
        runtime.lock.acquire()
        return True
    if runtime.owner == threading.get_ident() or interrupts_itself():
        return True
    for turn in range(PATIENCE):
        before, runtime.busy = runtime.busy, True
        if not before:
            return False
        time.sleep(0 if turn < YIELDS else 0.001)
    runtime.failed(TimeoutError("a thread stayed inside the engine for ten seconds; counts may be wrong by one call"))
    return False

"""`sentinelctl lock`: who writes a store now, or wants nobody to."""

from __future__ import annotations

from sentinel_core.cli.app import shared_options
from sentinel_core.cli.lazy import Lazy, LazyGroup

_HERE = "sentinel_core.cli.lock"
COMMANDS = {
    "list": Lazy(f"{_HERE}.list:list_", "Locks of a store: who holds them, since when, why, until when."),
    "hold": Lazy(f"{_HERE}.hold:hold", "Keep everybody else from writing for a while."),
    "release": Lazy(f"{_HERE}.hold:release", "Give up a lock that is held."),
    "break": Lazy(f"{_HERE}.hold:break_", "End somebody's lock; who did it and why is kept."),
}

lock = LazyGroup(
    "lock",
    help="""Who writes a store now, or wants nobody to.

    \b
    sentinelctl lock list
    sentinelctl lock hold --reason "incident 42" --for 1h
    """,
    lazy=COMMANDS,
    shared=shared_options,
)

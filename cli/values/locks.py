"""What is locked: the ids of locks, as `lock list` shows them."""

from __future__ import annotations

from collections.abc import Callable

from sentinel_core.cli.shells import item
from sentinel_core.cli.values.line import Items, Line, said
from sentinel_core.cli.values.soon import soon
from sentinel_core.cli.values.store import asking

BY_HAND = "hold"


def held(line: Line) -> Items:
    """All of the stores that are meant, the newest first."""
    return soon(*_asking(line, lambda _: True))


def held_by_hand(line: Line) -> Items:
    """Those of people, under which a command can write."""
    return soon(*_asking(line, lambda command: command == BY_HAND))


def _asking(line: Line, counts: Callable[[str], bool]) -> list[Callable[[], Items]]:
    from sentinel_core.cli.lock.list import locks_of
    from sentinel_core.cli.stores import opened

    def ask(uri: str) -> Items:
        with opened(line.app, uri) as source:
            found = [each.lock for each in locks_of(source, uri) if counts(each.lock.command)]
        for lock in sorted(found, key=lambda each: each.since, reverse=True):
            who = (lock.holder or "somebody").partition(" <")[0]
            yield item(lock.id, said(f"{who} ({lock.command})", lock.since, lock.reason))

    return asking(line, ask)

"""Who may call. An item of the list must equal the origin whole, after trimming the item.

A white list refuses callers that say no origin: who wants unknown callers in writes no white list. `compat` restores
Java Sentinel 1.8.9: no origin passes, items are not trimmed, and only the first rule of a resource counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sentinel_core.modes import ENFORCE
from sentinel_core.node import ClusterNode
from sentinel_core.plan import BLOCK, PASS, Call, Checker
from sentinel_core.slots import Build, Slot

WHITE: Final = 0
BLACK: Final = 1


class OriginList(Checker):
    """A white or black list."""

    __slots__ = ("lenient", "origins", "strategy")

    def __init__(self, rule: Any, compat: bool) -> None:
        super().__init__("authority", rule)
        self.strategy: int = rule.strategy
        self.lenient = compat
        names: list[str] = rule.limit_app.split(",") if compat else list(rule.origins)
        self.origins = frozenset(names)

    def check(self, now: int, count: int, call: Call) -> int:
        origin = call.origin
        if not origin and (self.lenient or self.strategy == BLACK):
            return PASS
        if self.strategy == WHITE:
            return PASS if origin in self.origins else BLOCK
        if self.strategy == BLACK:
            return BLOCK if origin in self.origins else PASS
        return PASS

    def detail(self, call: Call) -> str:
        return call.origin or "(no origin)"


def compile_authority(build: Build, _node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
    """One checker a rule; every one must let the caller pass."""
    return [
        OriginList(rule, build.compat) for rule in (first_of(build, rules) if build.compat else dict.fromkeys(rules))
    ]


def first_of(build: Build, rules: Sequence[Any]) -> list[Any]:
    """The one rule that Java keeps, and those that only count."""
    enforced = [rule for rule in rules if build.mode(rule) == ENFORCE]
    return enforced[:1] + [rule for rule in rules if build.mode(rule) != ENFORCE]


SLOT = Slot("authority", 100, compile_authority)

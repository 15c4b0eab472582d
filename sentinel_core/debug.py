"""The debug mode of an engine: checkers that say so when they would read from outside.

Rules of this package never do. A slot of one's own might: then every call would wait for that source. Costs a call a
context manager for each rule, so it is off unless asked for (`Engine(debug=True)`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sentinel_core.collectors.guarded import inside
from sentinel_core.modes import Shadow
from sentinel_core.node import ClusterNode
from sentinel_core.plan import PLAIN, Call, Checker, Pass
from sentinel_core.slots import Build, Slot


class Watched(Checker):
    """Asks a checker with its thread marked as inside a decision: what reads a source there raises IoInDecision, which
    is an internal error of the engine: the call passes, and it is counted and logged."""

    def __init__(self, inner: Checker) -> None:
        super().__init__(inner.kind, inner.rule)
        self.inner = inner
        self.is_told_as(inner)
        self.again = inner.again
        self.lends = inner.lends

    def check(self, now: int, count: int, call: Call) -> int:
        with inside():
            verdict = self.inner.check(now, count, call)
        self.wait = self.inner.wait
        return verdict

    def enter(self, call: Call) -> None:
        with inside():
            self.inner.enter(call)

    def complete(self, passed: Pass, now: int, rt: int, failed: bool, cancelled: bool) -> None:
        with inside():
            self.inner.complete(passed, now, rt, failed, cancelled)

    def release(self, now: int, era: int) -> None:
        self.inner.release(now, era)

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        return self.inner.retry_after(now, call)

    def facts(self, call: Call) -> dict[str, Any]:
        return self.inner.facts(call)

    def detail(self, call: Call) -> str:
        return self.inner.detail(call)

    def live(self, now: int) -> dict[str, Any]:
        return self.inner.live(now)


def watched(slots: Mapping[str, Slot]) -> dict[str, Slot]:
    """The same slots, with every checker that they make watched."""
    return {kind: _watched(slot) for kind, slot in slots.items()}


def _watched(slot: Slot) -> Slot:
    def compile_watched(build: Build, node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
        return [_watch(checker) for checker in slot.compile(build, node, rules)]

    return replace(slot, compile=compile_watched)


def _watch(checker: Checker) -> Checker:
    if isinstance(checker, Shadow):  # stays what it is for those who list shadow rules
        checker.inner = Watched(checker.inner)
        return checker
    return Watched(checker)

"""Rules that are not simply enforced: shadow rules, which only count, and breakers that a hand holds open or closed.

Chosen when a plan is compiled, so a normal rule pays nothing. `Modes` knows who is what; `Shadow` and `Forced` stand in
the plan in the place of the checker they hold.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sentinel_core.plan import BLOCK, PASS, WAIT, Call, Checker, Pass, Runtime, Transition

ENFORCE: Final = "enforce"
SHADOW: Final = "shadow"
OPEN: Final = "open"
CLOSED: Final = "closed"
MODES: Final = (ENFORCE, SHADOW, OPEN, CLOSED)
EVERYTHING: Final = "*"


class Modes:
    """Which mode a rule is in: by hand for its path, for its resource, for everything; else what its field says."""

    def __init__(self, breakers: Collection[str]) -> None:
        self.breakers = breakers
        """The kinds that can be held open or closed; for other rules such a word is passed over."""
        self.controls: dict[str | None, str] = {}
        """By hand: rule path, resource or `*` → mode."""

    def of(self, rule: Any, resource: str) -> str:
        """The mode of a rule where it applies to `resource` (a pattern applies to several)."""
        if self.controls:
            for target in (getattr(rule, "path", None), resource, EVERYTHING):
                mode = self.controls.get(target)
                if mode is not None and self.fits(getattr(rule, "kind", ""), mode):
                    return mode
        return getattr(rule, "mode", None) or ENFORCE

    def fits(self, kind: str, mode: str) -> bool:
        """Whether rules of a kind can be in a mode."""
        return mode in (ENFORCE, SHADOW) or kind in self.breakers


class Tally:
    """What a shadow rule would have done. Outlives changes of other rules."""

    __slots__ = ("blocked", "delayed")

    def __init__(self) -> None:
        self.blocked = 0
        """Calls."""
        self.delayed = 0


class Shadow(Checker):
    """Asks a checker and lets every call pass.

    The checker works on its own state as ever, with two limits: it sees no priority, for to borrow from the next window
    would take from others, and its probes are not told apart from the calls that pass anyway, so that any of them
    decides a half-open breaker.
    """

    __slots__ = ("inner", "runtime", "tally")

    def __init__(self, inner: Checker, tally: Tally, runtime: Runtime) -> None:
        super().__init__(inner.kind, inner.rule)
        self.inner = inner
        self.tally = tally
        self.runtime = runtime
        self.is_told_as(inner)

    def check(self, now: int, count: int, call: Call) -> int:
        before = len(self.runtime.news)
        priority = call.priority
        hit = call.hit
        verdict = PASS
        if priority:
            call.priority = False
        try:
            verdict = self.inner.check(now, count, call)
        except Exception as error:  # noqa: BLE001 (a shadow rule has no effect, its errors neither)
            self.runtime.news.append(error)
        if priority:
            call.priority = True
        if verdict != PASS:
            call.hit = hit
            if verdict == BLOCK:
                self.tally.blocked += 1
            elif verdict == WAIT:
                self.tally.delayed += 1
        self.mark(before)
        return PASS

    def enter(self, call: Call) -> None:
        try:
            self.inner.enter(call)
        except Exception as error:  # noqa: BLE001 (as above)
            self.runtime.news.append(error)

    def complete(self, passed: Pass, now: int, rt: int, failed: bool, cancelled: bool) -> None:
        before = len(self.runtime.news)
        try:
            self.inner.complete(passed, now, rt, failed, cancelled)
        except Exception as error:  # noqa: BLE001 (as above)
            self.runtime.news.append(error)
        self.mark(before)

    def release(self, now: int, era: int) -> None:
        before = len(self.runtime.news)
        try:
            self.inner.release(now, era)
        except Exception as error:  # noqa: BLE001 (as above)
            self.runtime.news.append(error)
        self.mark(before)

    def mark(self, before: int) -> None:
        """Says of the transitions since that they changed nothing."""
        news = self.runtime.news
        for index in range(before, len(news)):
            happened = news[index]
            if isinstance(happened, Transition):
                happened.shadow = True

    def live(self, now: int) -> dict[str, Any]:
        tally = self.tally
        return {**self.inner.live(now), "mode": SHADOW, "wouldBlock": tally.blocked, "wouldDelay": tally.delayed}


class Forced(Checker):
    """A breaker held open or closed. Its own state stands still and goes on from there when it is let go."""

    __slots__ = ("inner", "mode", "verdict")

    def __init__(self, inner: Checker, mode: str) -> None:
        super().__init__(inner.kind, inner.rule)
        self.inner = inner
        self.mode = mode
        self.verdict = BLOCK if mode == OPEN else PASS
        self.demands_call = False

    def check(self, now: int, count: int, call: Call) -> int:  # noqa: ARG002 (of a Checker)
        return self.verdict

    def detail(self, call: Call) -> str:  # noqa: ARG002 (of a Checker)
        return f"held {self.mode}"

    def live(self, now: int) -> dict[str, Any]:
        held = {"mode": self.mode, "state": self.mode.upper(), "retryAfterMs": None}
        return {**self.inner.live(now), **held}

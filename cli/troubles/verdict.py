"""What a call would meet now, from what each rule of a resource stood at when its service told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sentinel_core.cli.troubles.seen import number
from sentinel_core.modes import OPEN, SHADOW

Verdict = Literal["pass", "wait", "refuse"]


@dataclass(frozen=True, slots=True)
class NextCall:
    """As far as its caller, context and arguments do not decide."""

    verdict: Verdict
    by: str | None = None
    """The rule that refuses it, or that it waits for, in words."""
    wait_ms: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Every field."""
        return {"verdict": self.verdict, "by": self.by, "waitMs": round(self.wait_ms, 3)}

    def __str__(self) -> str:
        if self.verdict == "refuse":
            return f"is refused by {self.by}"
        return "passes" if self.verdict == "pass" else f"waits {self.wait_ms:.0f} ms for {self.by}"


def next_call(rules: Sequence[Mapping[str, Any]]) -> NextCall:
    """Rules in the order in which they are asked; the first that refuses ends it."""
    found = NextCall("pass")
    for live in rules:
        says = f"{live.get('says') or live.get('rule')}"
        if live.get("mode") == SHADOW:
            continue
        if _refuses(live):
            return NextCall("refuse", says)
        if (wait_ms := _wait_ms(live)) > found.wait_ms:
            found = NextCall("wait", says, wait_ms)
    return found


def _refuses(live: Mapping[str, Any]) -> bool:
    if live.get("mode") is not None:
        return bool(live["mode"] == OPEN)
    if "state" in live:
        return live["state"] == "OPEN" and "values" not in live and bool(number(live, "retryAfterMs"))
    most, limit = number(live, "maxQueueingTimeMs"), number(live, "limit")
    if most is not None:
        return _wait_ms(live) > most or not limit
    allowed = number(live, "allowed")
    taken = number(live, "threads") if "qps" not in live else number(live, "qps")
    limit = limit if allowed is None else allowed
    return taken is not None and limit is not None and taken + 1 > limit


def _wait_ms(live: Mapping[str, Any]) -> float:
    return number(live, "nextWaitMs") or 0.0

"""What a backend tells of itself, beside what a check of `doctor` found: version, rights, clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from sentinel_core.cli.doctor import Check
from sentinel_core.cli.moments import age, utc_now

MOST_SKEW_S: Final = 5.0
"""Clocks that differ by more make times in events and histories misleading."""
_NTP = "set the clocks of this machine and of the store (NTP): times in events mislead"


class Told(Protocol):
    """None is what is not told."""

    @property
    def server(self) -> str | None: ...
    @property
    def clock(self) -> datetime | None: ...
    @property
    def may_write(self) -> bool | None: ...


def with_condition(check: Check, told: Told) -> Check:
    """The check with what was told, and a warning where the clocks differ."""
    skew_s = None if told.clock is None else (told.clock - utc_now()).total_seconds()
    rights = None if told.may_write is None else "may be written" if told.may_write else "read only"
    facts = {**check.facts, "server": told.server, "mayWrite": told.may_write, "clockSkewSeconds": skew_s}
    check = replace(check, what="; ".join([check.what, *filter(None, (told.server, rights))]), facts=facts)
    if skew_s is None or abs(skew_s) <= MOST_SKEW_S:
        return check
    text = f"{check.what}; its clock is {age(abs(skew_s))} {'ahead' if skew_s > 0 else 'behind'}"
    return warned(check, text, _NTP)


def dated_ahead(check: Check, newest: datetime | None) -> Check:
    """A warning where something is dated later than now: its writer's clock is ahead by as much, or ours behind."""
    ahead_s = 0.0 if newest is None else (newest - utc_now()).total_seconds()
    if ahead_s <= MOST_SKEW_S:
        return check
    return warned(check, f"{check.what}; what stands there is dated {age(ahead_s)} ahead of this machine", _NTP)


def warned(check: Check, text: str, step: str) -> Check:
    """A remark never makes a line better than it was, nor hides its own next step."""
    if check.health == "ok":
        return replace(check, health="warn", what=text, next_step=step)
    return replace(check, what=text)

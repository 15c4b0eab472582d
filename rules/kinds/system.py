"""System rules: what the whole process takes, whatever the resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from pydantic import Field

from sentinel_core.rules.rule import Finding, Mode, Number, Rule, error, warning

ALL_RESOURCES = "*"


class SystemRule(Rule):
    """Limits on inbound entries together; a negative value switches its dimension off."""

    kind: ClassVar = "system"
    document_key: ClassVar = "systemRules"
    rank: ClassVar = 40
    thresholds: ClassVar = ("highestSystemLoad", "highestCpuUsage", "qps", "avgRt", "maxThread")

    resource: str = Field(default=ALL_RESOURCES, exclude=True)
    """Always `*` in effect; Sentinel ignores what is written here."""
    highest_system_load: Number = -1.0
    highest_cpu_usage: Number = -1.0
    """Ratio 0-1."""
    qps: Number = -1.0
    avg_rt: int = Field(default=-1, ge=-(2**63), le=2**63 - 1)
    """Milliseconds."""
    max_thread: int = Field(default=-1, ge=-(2**63), le=2**63 - 1)
    mode: Mode = None
    """`shadow`: counts what it would block and lets it pass."""

    @property
    def place(self) -> str:
        return ALL_RESOURCES

    @property
    def path(self) -> str:
        return f"{self.kind}/{ALL_RESOURCES}/{self.scope}"

    def limits(self) -> dict[str, float]:
        """The dimensions that are switched on, by JSON name."""
        return {
            name: value
            for name, value in (
                ("highestSystemLoad", self.highest_system_load),
                ("highestCpuUsage", self.highest_cpu_usage),
                ("qps", self.qps),
                ("avgRt", self.avg_rt),
                ("maxThread", self.max_thread),
            )
            if value >= 0
        }

    def check(self) -> Iterator[Finding]:
        if self.resource != ALL_RESOURCES:
            yield warning("SR208", "resource", "resource has no effect: a system rule is about the whole process")
        if self.mode:
            yield from self.check_mode()
        if self.highest_cpu_usage > 1:
            hint = f"; did you mean {self.highest_cpu_usage / 100:g}?" if self.highest_cpu_usage <= 100 else ""
            message = f"highestCpuUsage is {self.highest_cpu_usage:g}, a ratio from 0 to 1 is needed{hint}"
            yield error("SR107", "highestCpuUsage", message)
        if not self.limits():
            yield warning("SR207", None, "every dimension is off: the rule does nothing")
        for name, value in self.limits().items():
            if value == 0:
                yield warning("SR205", name, f"{name} is 0: nearly every inbound call is blocked")

    @classmethod
    def check_together(cls, rules: Sequence[Self]) -> Iterator[tuple[int, Finding]]:
        if len(rules) > 1 and not rules[-1].limits() and any(rule.limits() for rule in rules):
            yield len(rules) - 1, warning("SR217", None, "the last rule limits nothing: Java then checks none of them")

    def describe(self) -> str:
        return ", ".join(f"{name} ≤ {value:g}" for name, value in self.limits().items()) or "off"

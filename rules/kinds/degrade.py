"""Degrade rules: when a circuit breaker opens, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sentinel_core.rules.patterns import is_plain
from sentinel_core.rules.rule import Amount, BreakerMode, Finding, Number, OriginRule, Positive, error, unless, warning

SLOW_RATIO, ERROR_RATIO, ERROR_COUNT = 0, 1, 2


class DegradeRule(OriginRule):
    """Opens when the completed calls of one window are too slow or fail too often; one probe, or a growing number of
    them (`recovery`), decides whether it closes again."""

    kind: ClassVar = "degrade"
    document_key: ClassVar = "degradeRules"
    rank: ClassVar = 20
    loud_defaults: ClassVar = ("count",)
    thresholds: ClassVar = ("count", "slowRatioThreshold")
    names: ClassVar = {"grade": {"slow_ratio": SLOW_RATIO, "error_ratio": ERROR_RATIO, "error_count": ERROR_COUNT}}

    grade: int = Field(default=SLOW_RATIO, ge=0, le=2)
    count: Amount = 0.0
    """Slowest good response time in ms (slow_ratio), ratio 0-1 (error_ratio) or number of errors (error_count)."""
    time_window: Positive
    """Seconds that the breaker stays open."""
    min_request_amount: Positive = 5
    slow_ratio_threshold: Number = 1.0
    """Ratio 0-1 of slow calls; slow_ratio only."""
    stat_interval_ms: Positive = 1000
    recovery: Annotated[Literal["single", "progressive"] | None, unless("single")] = None
    """`single`: one good probe closes; `progressive`: one probe, then two rounds of up to five, must all be good."""
    client_timeout_ms: Positive | None = None
    """Time-out of the clients of a slow_ratio breaker, ms; only compared with `count` when the rule is read."""
    mode: BreakerMode = None
    """`shadow`: counts what it would block and lets it pass; `open`, `closed`: blocks, or passes, whatever happens."""

    def check(self) -> Iterator[Finding]:
        if self.regex or not is_plain(self.resource):
            yield from super().check()
        if self.mode:
            yield from self.check_mode()
        if self.grade == SLOW_RATIO:
            yield from self._check_slow()
        elif self.grade == ERROR_RATIO and self.count > 1:
            yield error(
                "SR107", "count", f"count is {self.count:g}, a ratio from 0 to 1 is needed{percent(self.count)}"
            )
        elif self.grade == ERROR_COUNT and not self.count.is_integer():
            yield warning(
                "SR206",
                "count",
                f"count is {self.count:g} errors; for a ratio write grade error_ratio (1)",
            )
        if self.grade != SLOW_RATIO:
            for field, is_set in (
                ("slowRatioThreshold", self.slow_ratio_threshold != 1),
                ("clientTimeoutMs", self.client_timeout_ms is not None),
            ):
                if is_set:
                    yield warning("SR208", field, f"{field} has no effect unless grade is slow_ratio (0)")

    def _check_slow(self) -> Iterator[Finding]:
        threshold = self.slow_ratio_threshold
        if not 0 <= threshold <= 1:
            message = f"slowRatioThreshold is {threshold:g}, a ratio from 0 to 1 is needed{percent(threshold)}"
            yield error("SR107", "slowRatioThreshold", message)
        if 0 < self.count <= 1:
            yield warning(
                "SR206", "count", f"count is {self.count:g} ms of response time; were ratio and time swapped?"
            )
        if self.client_timeout_ms is not None and self.client_timeout_ms <= 2 * self.count:
            message = (
                f"clientTimeoutMs is {self.client_timeout_ms} and calls are slow above {self.count:g} ms; "
                f"write a time-out above {2 * self.count:g} ms or a lower count"
            )
            yield warning("SR219", "clientTimeoutMs", message)

    def describe(self) -> str:
        trip = {
            SLOW_RATIO: f"slow ratio {_passing(self.slow_ratio_threshold)} (above {self.count:g} ms)",
            ERROR_RATIO: f"error ratio {_passing(self.count)}",
            ERROR_COUNT: f"errors > {self.count:g}",
        }[self.grade]
        window = f"within {self.stat_interval_ms} ms ({self.min_request_amount}+ calls)"
        recovery = ", recovers step by step" if self.recovery else ""
        return f"{trip} {window} opens for {self.time_window} s{recovery}"


def _passing(ratio: float) -> str:
    """A ratio cannot be above 1: there, equal is enough to open."""
    return "≥ 1" if ratio == 1 else f"> {ratio:.4g}"


def percent(value: float) -> str:
    """The likely slip, a percentage in the place of a ratio."""
    return f"; did you mean {value / 100:g}?" if 1 < value <= 100 else ""

"""Degrade rules: when a circuit breaker opens, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from sentinel_core.rules.rule import Amount, Finding, Number, OriginRule, Positive, error, warning

SLOW_RATIO, ERROR_RATIO, ERROR_COUNT = 0, 1, 2


class DegradeRule(OriginRule):
    """Opens when the completed calls of one window are too slow or fail too often; one probe decides recovery."""

    kind: ClassVar = "degrade"
    document_key: ClassVar = "degradeRules"
    rank: ClassVar = 20
    loud_defaults: ClassVar = ("count",)
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

    def check(self) -> Iterator[Finding]:
        if self.regex or self.resource[0] == " " or self.resource[-1] == " ":
            yield from super().check()
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
        if self.grade != SLOW_RATIO and self.slow_ratio_threshold != 1:
            yield warning(
                "SR208", "slowRatioThreshold", "slowRatioThreshold has no effect unless grade is slow_ratio (0)"
            )

    def _check_slow(self) -> Iterator[Finding]:
        threshold = self.slow_ratio_threshold
        if not 0 <= threshold <= 1:
            message = f"slowRatioThreshold is {threshold:g}, a ratio from 0 to 1 is needed{percent(threshold)}"
            yield error("SR107", "slowRatioThreshold", message)
        if 0 < self.count <= 1:
            yield warning(
                "SR206", "count", f"count is {self.count:g} ms of response time; were ratio and time swapped?"
            )

    def describe(self) -> str:
        trip = {
            SLOW_RATIO: f"slower than {self.count:g} ms in {self.slow_ratio_threshold:.4g} of the calls",
            ERROR_RATIO: f"error ratio > {self.count:g}",
            ERROR_COUNT: f"errors > {self.count:g}",
        }[self.grade]
        window = f"within {self.stat_interval_ms} ms ({self.min_request_amount}+ calls)"
        return f"{trip} {window} opens for {self.time_window} s"


def percent(value: float) -> str:
    """The likely slip, a percentage in the place of a ratio."""
    return f"; did you mean {value / 100:g}?" if 1 < value <= 100 else ""

"""Business metric rules: a breaker on a number that only the business knows, such as a payment failure rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from sentinel_core.rules.rule import BreakerMode, Finding, Name, Natural, Number, Positive, Rule, warning

FALLING_METRICS = frozenset({"STOCK_DEPTH", "COUPON_POOL"})
"""Metrics that are bad when they are low."""


def _default_direction(values: dict[str, Any]) -> Literal["above", "below"]:
    return "below" if values.get("biz_metric_type") in FALLING_METRICS else "above"


class BizMetricRule(Rule):
    """Opens when a metric passes `threshold` in `direction`, stays so for `stateWindowMs`, then lets some calls try."""

    kind: ClassVar = "biz_metric"
    document_key: ClassVar = "bizMetricRules"
    rank: ClassVar = 30
    thresholds: ClassVar = ("threshold",)

    biz_metric_type: Name
    """Names the metric and its collector, e.g. PAY_FAIL_RATE (percent 0-100), STOCK_DEPTH, QUEUE_DEPTH."""
    threshold: Number
    """In the metric's own unit; equal does not trip."""
    window_interval_ms: Positive = 60000
    min_request_amount: Natural = 10
    state_window_ms: Positive = 30000
    enabled: bool = True
    direction: Literal["above", "below"] = Field(default_factory=_default_direction)
    """The bad side of the threshold; `below` for STOCK_DEPTH and COUPON_POOL unless written otherwise."""
    half_open_ms: Positive = 2000
    half_open_percent: Number = Field(default=5.0, gt=0, le=100)
    """Percent of calls let through while half open."""
    dimension: str | None = None
    """Tag of the context (`channel`, `tenant`) by whose values the rule is judged apart; None: all calls together."""
    stale_after_ms: Positive | None = None
    """A gauge older than this is stale; None: never."""
    on_stale: Literal["hold", "open", "close"] = "hold"
    mode: BreakerMode = None
    """`shadow`: counts what it would block and lets it pass; `open`, `closed`: blocks, or passes, whatever happens."""

    @property
    def path(self) -> str:
        """`kind/resource/metric`: a resource has one rule for each metric."""
        return f"{self.kind}/{self.resource}/{self.biz_metric_type}"

    def check(self) -> Iterator[Finding]:
        if self.mode:
            yield from self.check_mode()
        if self.biz_metric_type.endswith("_RATE") and not 0 <= self.threshold <= 100:
            yield warning(
                "SR214", "threshold", f"threshold is {self.threshold:g}; a rate is a percentage from 0 to 100"
            )
        elif self.biz_metric_type.endswith("_RATE") and 0 < self.threshold < 0.1:
            yield warning("SR214", "threshold", f"threshold is {self.threshold:g} percent; 5 means five percent")
        if not self.enabled:
            yield warning("SR215", "enabled", "enabled is false: the rule does nothing")
        if self.on_stale != "hold" and self.stale_after_ms is None:
            yield warning("SR208", "onStale", "onStale has no effect without staleAfterMs")

    def describe(self) -> str:
        sign = ">" if self.direction == "above" else "<"
        state = "" if self.enabled else " (disabled)"
        of = f" by {self.dimension}" if self.dimension else ""
        return (
            f"{self.biz_metric_type}{of} {sign} {self.threshold:g} opens for {self.state_window_ms / 1000:g} s{state}"
        )

"""Flow rules: how many calls, or how many at once, a resource takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field

from sentinel_core.rules.patterns import is_plain
from sentinel_core.rules.queueing import Serving, check_pool, check_timeout
from sentinel_core.rules.rule import (
    DEFAULT_APP,
    Amount,
    Finding,
    Mode,
    Natural,
    OriginRule,
    Positive,
    PositiveLong,
    Shape,
    error,
    warning,
)

THREAD, QPS = 0, 1
DIRECT, RELATE, CHAIN = 0, 1, 2
REJECT, WARM_UP, RATE_LIMITER, WARM_UP_RATE_LIMITER = 0, 1, 2, 3


def as_utc(text: str) -> str:
    """One spelling of an instant, `2026-11-30T08:00:00Z`; a text that is none stays for `check` to refuse."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return text.rstrip("Z")
    if instant.tzinfo is None:
        return text
    try:
        return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return text.rstrip("Z")


class FlowClusterConfig(Shape):
    """How a rule is shared by a cluster of clients; without a token server only the fallback matters."""

    flow_id: PositiveLong | None = None
    threshold_type: Natural = 0
    fallback_to_local_when_fail: bool = True
    strategy: Natural = 0
    sample_count: Positive = 10
    window_interval_ms: Positive = 1000
    resource_timeout: int = 2000
    resource_timeout_strategy: int = 0
    acquire_refuse_strategy: int = 0
    client_offline_time: int = 2000


class FlowRule(OriginRule):
    """At most `count` calls a second (`grade` qps) or calls at once (`grade` thread)."""

    kind: ClassVar = "flow"
    document_key: ClassVar = "flowRules"
    rank: ClassVar = 10
    loud_defaults: ClassVar = ("count",)
    thresholds: ClassVar = ("count",)
    blocks_at_zero: ClassVar = True
    nested: ClassVar = {"clusterConfig": FlowClusterConfig}
    names: ClassVar = {
        "grade": {"qps": QPS, "thread": THREAD},
        "strategy": {"direct": DIRECT, "relate": RELATE, "chain": CHAIN},
        "controlBehavior": {
            "reject": REJECT,
            "warm_up": WARM_UP,
            "rate_limiter": RATE_LIMITER,
            "warm_up_rate_limiter": WARM_UP_RATE_LIMITER,
        },
    }

    grade: int = Field(default=QPS, ge=0, le=1)
    count: Amount = 0.0
    strategy: Natural = DIRECT
    ref_resource: str | None = None
    """The related resource (relate) or the context's name (chain)."""
    control_behavior: Natural = REJECT
    warm_up_period_sec: int = Field(default=10, ge=-(2**31), le=2**31 - 1)
    max_queueing_time_ms: int = Field(default=500, ge=-(2**31), le=2**31 - 1)
    cluster_mode: bool = False
    cluster_config: FlowClusterConfig | None = None
    ref_unhealthy_rt_ms: Positive | None = None
    """Relate only: limit while the mean response time of `refResource` is above this, ms; null: always."""
    warm_up_start: Annotated[str, AfterValidator(as_utc)] | None = None
    """ISO 8601 with offset: when warming up began, for all instances alike; null: with the first call of each."""
    mode: Mode = None
    """`shadow`: counts what it would block and lets it pass."""

    @classmethod
    def repair(cls, item: dict[str, Any]) -> Finding | None:
        """Rules copied from a well-known article write 2 for threads, which Sentinel refuses."""
        if item.get("grade") != 2:
            return None
        item["grade"] = THREAD
        return warning(
            "SR203",
            "grade",
            "grade 2 is read as threads; Sentinel's code for threads is 0, which is what will be published",
        )

    def check(self) -> Iterator[Finding]:
        if self.regex or not is_plain(self.resource):
            yield from super().check()
        if self.mode or self.ref_unhealthy_rt_ms or self.warm_up_start is not None:
            yield from self._check_extensions()
        if self.count < 1:
            yield from self._check_small_count()
        if self.grade == QPS:
            if self.strategy != DIRECT or self.ref_resource is not None:
                yield from self._check_reference()
            if self.control_behavior != REJECT:
                yield from self._check_behavior()
        elif self.control_behavior != REJECT:
            yield warning("SR208", "controlBehavior", "controlBehavior has no effect on a rule that counts threads")
        if self.limit_app != DEFAULT_APP and "," in self.limit_app:
            yield warning(
                "SR209",
                "limitApp",
                f'limitApp "{self.limit_app}" is compared whole and matches no caller; write one rule a caller',
            )
        if self.cluster_mode:
            yield from self._check_cluster()

    @classmethod
    def check_together(cls, rules: Sequence[Self]) -> Iterator[tuple[int, Finding]]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, rule in enumerate(rules):  # first by few fields, which nearly always tell rules apart
            groups.setdefault((rule.resource, rule.limit_app, rule.grade, rule.strategy), []).append(index)
        for group in groups.values() if len(groups) < len(rules) else ():
            smallest: dict[FlowRule, float] = {}
            alike = [rules[index].model_copy(update={"count": 0.0}) for index in group if len(group) > 1]
            for index, key in zip(group, alike, strict=False):
                smallest[key] = min(rules[index].count, smallest.get(key, rules[index].count))
            for index, key in zip(group, alike, strict=False):
                if rules[index].count > smallest[key]:
                    message = f"count is {rules[index].count:g} here, {smallest[key]:g} in a rule that is else the same"
                    yield index, warning("SR221", "count", f"{message}: the smaller decides; remove one")

    def check_serving(self, serving: Serving) -> Iterator[Finding]:
        if not self.queues:
            return
        if serving.workers is not None:
            yield from check_pool(self.count, self.max_queueing_time_ms, serving.workers)
        if serving.request_timeout_ms is not None:
            yield from check_timeout(self.max_queueing_time_ms, serving.request_timeout_ms)

    @property
    def queues(self) -> bool:
        """Whether calls may wait for their turn."""
        return self.grade == QPS and self.control_behavior in (RATE_LIMITER, WARM_UP_RATE_LIMITER)

    def _check_small_count(self) -> Iterator[Finding]:
        if self.count == 0:
            yield warning("SR205", "count", "count is 0: every call is blocked")
        elif self.grade == THREAD or self.control_behavior in (REJECT, WARM_UP):
            yield error(
                "SR113",
                "count",
                f"count is {self.count}, so no call would ever pass; write 1 or more, "
                "or use controlBehavior rate_limiter (2) for less than one call a second",
            )

    def _check_extensions(self) -> Iterator[Finding]:
        if self.mode:
            yield from self.check_mode()
        if self.ref_unhealthy_rt_ms is not None and self.strategy != RELATE:
            yield warning("SR208", "refUnhealthyRtMs", "refUnhealthyRtMs has no effect unless strategy is relate (1)")
        if (start := self.warm_up_start) is None:
            return
        if not start.endswith("Z"):
            message = f"warmUpStart is {start!r}; write a time with its offset, such as 2026-11-30T08:00:00Z"
            yield error("SR116", "warmUpStart", message)
        if self.grade != QPS or self.control_behavior not in (WARM_UP, WARM_UP_RATE_LIMITER):
            yield warning("SR208", "warmUpStart", "warmUpStart has no effect unless controlBehavior warms up (1 or 3)")

    def _check_reference(self) -> Iterator[Finding]:
        if self.strategy in (RELATE, CHAIN) and not (self.ref_resource or "").strip():
            wanted = "the related resource" if self.strategy == RELATE else "the name of the entrance context"
            name = self.code_name("strategy", self.strategy)
            yield error("SR106", "refResource", f"strategy {name} needs refResource: write {wanted}")
        elif self.strategy == RELATE and self.ref_resource == self.resource:
            yield warning(
                "SR222", "refResource", "refResource is the resource itself, as with strategy direct; name another"
            )
        elif self.strategy == DIRECT:
            yield warning("SR208", "refResource", "refResource has no effect with strategy direct")
        if finding := self.unknown_code("strategy", self.strategy, "the rule never blocks"):
            yield finding

    def _check_behavior(self) -> Iterator[Finding]:
        behavior = self.code_name("controlBehavior", self.control_behavior)
        if self.control_behavior in (WARM_UP, WARM_UP_RATE_LIMITER) and self.warm_up_period_sec <= 0:
            yield error(
                "SR106",
                "warmUpPeriodSec",
                f"warmUpPeriodSec is {self.warm_up_period_sec}; {behavior} needs 1 second or more",
            )
        if self.control_behavior in (RATE_LIMITER, WARM_UP_RATE_LIMITER) and self.max_queueing_time_ms <= 0:
            yield error(
                "SR106",
                "maxQueueingTimeMs",
                f"maxQueueingTimeMs is {self.max_queueing_time_ms}; {behavior} needs 1 millisecond or more "
                "(reject is the behaviour without a queue)",
            )
        if self.queues:
            yield from check_pool(self.count, self.max_queueing_time_ms, None)
        if self.regex:
            yield error("SR106", "controlBehavior", f"a regex rule cannot use {behavior}; write reject (0)")
        if finding := self.unknown_code("controlBehavior", self.control_behavior, "it acts as reject"):
            yield finding

    def _check_cluster(self) -> Iterator[Finding]:
        config = self.cluster_config
        if self.regex:
            yield error("SR112", "clusterMode", "a regex rule cannot be a cluster rule; write clusterMode: false")
        if config is None or config.flow_id is None:
            yield error("SR112", "clusterConfig", "clusterMode is true; clusterConfig with a flowId above 0 is needed")
            return
        if config.strategy != 0:
            yield error("SR112", "clusterConfig.strategy", f"strategy is {config.strategy}; only 0 is valid")
        yield from check_window(config.sample_count, config.window_interval_ms)
        if self.grade == THREAD:
            yield from self._check_cluster_threads(config)

    def _check_cluster_threads(self, config: FlowClusterConfig) -> Iterator[Finding]:
        for field, value, least in (
            ("resourceTimeout", config.resource_timeout, 1),
            ("resourceTimeoutStrategy", config.resource_timeout_strategy, 0),
            ("acquireRefuseStrategy", config.acquire_refuse_strategy, 0),
            ("clientOfflineTime", config.client_offline_time, 1),
        ):
            if value < least:
                yield error("SR112", f"clusterConfig.{field}", f"{field} is {value}; write {least} or more")

    def describe(self) -> str:
        limit = f"{'qps' if self.grade == QPS else 'threads'} ≤ {self.count:g}"
        parts = [limit]
        if self.strategy == RELATE:
            parts = [f"{'qps' if self.grade == QPS else 'threads'} of {self.ref_resource} ≤ {self.count:g}"]
            if self.ref_unhealthy_rt_ms is not None:
                parts.append(f"while it takes more than {self.ref_unhealthy_rt_ms} ms")
        elif self.strategy == CHAIN:
            parts.append(f"when entered through {self.ref_resource}")
        if self.limit_app != DEFAULT_APP:
            parts.append(f"for caller {self.limit_app}")
        if self.grade == QPS and self.control_behavior in (WARM_UP, WARM_UP_RATE_LIMITER):
            since = f" from {self.warm_up_start}" if self.warm_up_start else ""
            parts.append(f"warming up for {self.warm_up_period_sec} s{since}")
        if self.grade == QPS and self.control_behavior in (RATE_LIMITER, WARM_UP_RATE_LIMITER):
            parts.append(f"queueing up to {self.max_queueing_time_ms} ms")
        return ", ".join(parts)


def check_window(sample_count: int, window_interval_ms: int) -> Iterator[Finding]:
    """A cluster window must be cut into equal buckets."""
    if window_interval_ms % sample_count:
        yield error(
            "SR112",
            "clusterConfig.sampleCount",
            f"windowIntervalMs {window_interval_ms} cannot be divided into {sample_count} equal parts (sampleCount)",
        )

"""Hot parameter rules: a limit for each value of one argument."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from sentinel_core.rules.kinds.flow import check_window
from sentinel_core.rules.queueing import Serving, check_timeout
from sentinel_core.rules.rule import (
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
REJECT, RATE_LIMITER = 0, 2
_INTEGERS = {"byte": 8, "short": 16, "int": 32, "integer": 32, "long": 64}
_FLOATS = ("float", "double")
_TEXTS = ("string", "")


class ParamFlowClusterConfig(Shape):
    """As for flow rules, with the other default of `fallbackToLocalWhenFail`."""

    flow_id: PositiveLong | None = None
    threshold_type: Natural = 0
    fallback_to_local_when_fail: bool = False
    sample_count: Positive = 10
    window_interval_ms: Positive = 1000


class ParamFlowItem(Shape):
    """A limit of its own for one value; `object` is its text, `classType` its type as Java names it."""

    object: str
    count: Natural
    class_type: str = ""

    @property
    def type_name(self) -> str:
        """`classType` without the package, in small letters: `java.lang.Integer` is `integer`."""
        return self.class_type.strip().removeprefix("java.lang.").lower()

    def fault(self) -> str | None:
        """Why the text does not fit the type; Java would skip such an item without a word."""
        name, text = self.type_name, self.object
        if name in _INTEGERS:
            bound = 2 ** (_INTEGERS[name] - 1)
            digits = text.lstrip("+-")
            fits = digits.isascii() and digits.isdigit() and len(digits) < 25 and -bound <= int(text) < bound
            return None if fits else f'object "{text}" is not a value of classType {self.class_type}'
        if name in _FLOATS:
            return None if _is_number(text) else f'object "{text}" is not a number, which classType {name} needs'
        if name == "boolean":
            return None if text.lower() in ("true", "false") else f'object "{text}" is neither true nor false'
        if name in ("char", "character"):
            return None if len(text) == 1 else f'object "{text}" is not one character, which classType char needs'
        return None


class ParamFlowRule(OriginRule):
    """At most `count` calls in `durationInSec` seconds, or calls at once, for each value of argument `paramIdx`."""

    kind: ClassVar = "param_flow"
    document_key: ClassVar = "paramFlowRules"
    rank: ClassVar = 60
    loud_defaults: ClassVar = ("count",)
    thresholds: ClassVar = ("count",)
    blocks_at_zero: ClassVar = True
    nested: ClassVar = {"paramFlowItemList": ParamFlowItem, "clusterConfig": ParamFlowClusterConfig}
    names: ClassVar = {
        "grade": {"qps": QPS, "thread": THREAD},
        "controlBehavior": {"reject": REJECT, "rate_limiter": RATE_LIMITER},
    }

    grade: Natural = QPS
    param_idx: int = Field(ge=-(2**31), le=2**31 - 1)
    """0 is the first argument, -1 the last."""
    count: Amount = 0.0
    """Cut to an integer in effect."""
    control_behavior: Natural = REJECT
    max_queueing_time_ms: Natural = 0
    burst_count: Natural = 0
    duration_in_sec: PositiveLong = 1
    param_flow_item_list: Annotated[tuple[ParamFlowItem, ...], Field(strict=False)] = ()
    cluster_mode: bool = False
    cluster_config: ParamFlowClusterConfig | None = None
    mode: Mode = None
    """`shadow`: counts what it would block and lets it pass."""

    def check(self) -> Iterator[Finding]:
        yield from super().check()
        if self.mode:
            yield from self.check_mode()
        for finding in (
            self.unknown_code("grade", self.grade, "the rule never blocks"),
            self.unknown_code("controlBehavior", self.control_behavior, "it acts as reject"),
        ):
            if finding:
                yield finding
        if self.count == 0:
            yield warning("SR205", "count", "count is 0: every call with this argument is blocked")
        elif self.count < 1:
            yield error(
                "SR113", "count", f"count is {self.count:g}, which is cut to 0 and blocks every call; write 1 or more"
            )
        elif not self.count.is_integer():
            yield warning("SR206", "count", f"count is {self.count:g}; it is cut to {int(self.count)}")
        if self.regex and (self.cluster_mode or self.control_behavior != REJECT):
            yield error("SR106", "regex", "a regex rule must have clusterMode false and controlBehavior reject (0)")
        yield from self._check_items()
        if self.cluster_mode:
            yield from self._check_cluster()

    def check_serving(self, serving: Serving) -> Iterator[Finding]:
        if self.grade == QPS and self.control_behavior == RATE_LIMITER and serving.request_timeout_ms is not None:
            yield from check_timeout(self.max_queueing_time_ms, serving.request_timeout_ms)

    def _check_items(self) -> Iterator[Finding]:
        for index, item in enumerate(self.param_flow_item_list):
            where = f"paramFlowItemList[{index}]"
            if fault := item.fault():
                yield error("SR114", f"{where}.object", f"{fault}; write a matching value or another classType")
            known = (*_INTEGERS, *_FLOATS, *_TEXTS, "boolean", "char", "character")
            if item.type_name not in known:
                yield warning(
                    "SR216",
                    f"{where}.classType",
                    f'classType "{item.class_type}" is not known and is read as text (String)',
                )

    def _check_cluster(self) -> Iterator[Finding]:
        config = self.cluster_config
        if config is None or config.flow_id is None:
            yield error("SR112", "clusterConfig", "clusterMode is true; clusterConfig with a flowId above 0 is needed")
            return
        yield from check_window(config.sample_count, config.window_interval_ms)

    def describe(self) -> str:
        unit = f"calls in {self.duration_in_sec} s" if self.grade == QPS else "threads"
        own = f", {len(self.param_flow_item_list)} values of their own" if self.param_flow_item_list else ""
        return f"{unit} for each value of argument {self.param_idx} ≤ {self.count:g}{own}"


def _is_number(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return value - value == 0 and "_" not in text

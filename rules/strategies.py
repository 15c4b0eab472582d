"""Rules as hypothesis draws them: valid, in JSON spelling, with optional fields present or not.

For the tests of whoever builds on rules; needs hypothesis, which nothing else here does.
"""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from sentinel_core.rules.registry import KINDS, MODELS
from sentinel_core.rules.rule import Rule

Items = list[dict[str, Any]]

_names = st.text("abc:/中🚀\"\\'# -", min_size=1, max_size=8).filter(lambda text: text.strip())
_ratios = st.floats(0, 1)
_positive = st.integers(1, 100_000)
_items = st.fixed_dictionaries({"object": _names, "count": _positive}, optional={"classType": st.just("String")})
_numbers = st.one_of(st.integers(1, 10**6), st.floats(1, 1e6, allow_nan=False))


def _rule(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


_STRATEGIES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "flow": _rule(
        {"resource": _names, "count": _numbers},
        {
            "grade": st.sampled_from([0, 1]),
            "limitApp": st.sampled_from(["default", "other", "app-a", ""]),
            "strategy": st.sampled_from([0, 1, 2]),
            "refResource": st.just("b"),
            "controlBehavior": st.sampled_from([0, 1, 2, 3]),
            "warmUpPeriodSec": _positive,
            "maxQueueingTimeMs": _positive,
            "clusterMode": st.booleans(),
        },
    )
    .map(lambda item: {**item, **({"refResource": "b"} if item.get("strategy") else {})})
    .map(lambda item: {**item, **({"clusterConfig": {"flowId": 7}} if item.get("clusterMode") else {})}),
    "degrade": _rule(
        {"resource": _names, "count": _ratios, "timeWindow": _positive},
        {
            "grade": st.sampled_from([0, 1, 2]),
            "minRequestAmount": _positive,
            "slowRatioThreshold": _ratios,
            "statIntervalMs": _positive,
            "limitApp": st.just("default"),
        },
    ),
    "biz_metric": _rule(
        {
            "resource": _names,
            "bizMetricType": st.sampled_from(["PAY_FAIL_RATE", "STOCK_DEPTH", "库存"]),
            "threshold": _numbers,
        },
        {"enabled": st.booleans(), "direction": st.sampled_from(["above", "below"]), "dimension": _names},
    ),
    "authority": _rule({"resource": _names, "limitApp": _names}, {"strategy": st.sampled_from([0, 1])}),
    "system": _rule({}, {"qps": _numbers, "avgRt": _positive, "highestCpuUsage": _ratios, "maxThread": _positive}),
    "param_flow": _rule(
        {"resource": _names, "paramIdx": st.integers(-3, 3), "count": _numbers},
        {
            "grade": st.sampled_from([0, 1]),
            "durationInSec": _positive,
            "paramFlowItemList": st.lists(_items, max_size=2),
        },
    ),
}


def items_of(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """One valid rule of a kind. A kind that is not written out above is drawn from its fields."""
    return _STRATEGIES[kind] if kind in _STRATEGIES else drawn_from_fields(MODELS[kind])


def drawn_from_fields(model: type[Rule]) -> st.SearchStrategy[dict[str, Any]]:
    """Rules with the fields that a kind needs, within their types and ranges, as far as they are valid."""
    needed = {
        alias: _field(info)
        for alias, info in model.fields_by_alias().items()
        if info.is_required() or alias in model.loud_defaults
    }
    return _rule(needed, {}).filter(lambda item: _is_valid(model, item))


def _field(info: FieldInfo) -> st.SearchStrategy[Any]:
    if info.annotation is str:
        return _names
    bounds = [limit for limit in info.metadata if isinstance(limit, (Ge, Gt, Le, Lt))]
    within: Any = Annotated[(info.annotation, *bounds)] if bounds else info.annotation
    return st.from_type(within)


def _is_valid(model: type[Rule], item: dict[str, Any]) -> bool:
    try:
        return not any(finding.severity == "error" for finding in model.model_validate(item).check())
    except ValidationError:
        return False


def flow_lists(max_size: int = 6) -> st.SearchStrategy[Items]:
    return st.lists(items_of("flow"), max_size=max_size)


def lists_of(*kinds: str) -> st.SearchStrategy[tuple[str, Items]]:
    """(kind, list of valid rules), of any kind that there is unless some are named."""
    drawn = st.sampled_from(kinds or KINDS)
    return drawn.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(items_of(kind), max_size=5)))

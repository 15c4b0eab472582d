"""Rules as hypothesis draws them: valid, in JSON spelling, with optional fields present or not.

For the tests of whoever builds on rules; needs hypothesis, which nothing else here does.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Items = list[dict[str, Any]]

_names = st.text("abc:/中🚀\"\\'# -", min_size=1, max_size=8).filter(lambda text: text.strip())
_metrics = st.sampled_from(["PAY_FAIL_RATE", "STOCK_DEPTH", "库存"])
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
    """One valid rule of a kind."""
    return _STRATEGIES[kind]


def flow_lists(max_size: int = 6) -> st.SearchStrategy[Items]:
    return st.lists(items_of("flow"), max_size=max_size)


def lists_of(*kinds: str) -> st.SearchStrategy[tuple[str, Items]]:
    """(kind, list of valid rules)"""
    return st.sampled_from(kinds).flatmap(lambda kind: st.tuples(st.just(kind), st.lists(items_of(kind), max_size=5)))

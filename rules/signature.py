"""Tells a list of one kind from a list of another by its keys, before any of it is believed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from sentinel_core.rules.registry import MODELS
from sentinel_core.rules.rule import Rule

CONSOLE_KEYS = frozenset({"app", "ip", "port", "gmtCreate", "gmtModified"})
"""What the Sentinel dashboard adds to every rule that it writes."""

_FOREIGN = {
    "a gateway flow list": ({"paramItem", "resourceMode", "intervalSec", "burst"}, "paramItem"),
    "a dashboard entity; publish what stands under `rule`": ({"rule"}, "rule"),
    "a list of sentinel-golang (its field names differ)": (
        {
            "threshold",
            "tokenCalculateStrategy",
            "relationStrategy",
            "statIntervalInMs",
            "retryTimeoutMs",
            "maxAllowedRtMs",
            "triggerCount",
            "metricType",
            "minRequestAmount",
            "statSlidingWindowBucketCount",
            "probeNum",
            "warmUpColdFactor",
        },
        None,
    ),
}


def looks_like(model: type[Rule], keys: AbstractSet[str]) -> str | None:
    """What a list with these keys really is, where that is not `model`; None when it may be."""
    own = model.fields_by_alias()
    unknown = keys - own.keys() - CONSOLE_KEYS
    if not unknown:
        return None
    named = keys - CONSOLE_KEYS
    candidates = [other for other in MODELS.values() if other is not model and _holds(other, named)]
    if candidates:
        return min(candidates, key=lambda other: len(other.fields_by_alias())).kind
    for name, (fields, needed) in _FOREIGN.items():
        if (needed is None and len(unknown & fields) >= 1 and unknown <= fields) or needed in unknown:
            return name
    return None


def _holds(model: type[Rule], keys: AbstractSet[str]) -> bool:
    fields = model.fields_by_alias()
    needed = {name for name, info in fields.items() if info.is_required()} | set(model.loud_defaults)
    return keys <= fields.keys() and needed <= keys

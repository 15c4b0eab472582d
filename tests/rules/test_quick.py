"""The short way gives what the careful way gives, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.rules import Limits, parse_rules
from sentinel_core.rules.quick import most_keys, quick_set
from sentinel_core.rules.registry import model_of
from sentinel_core.rules.strategies import lists_of

LIMITS = Limits()
FLAWED = [
    '[{"resource":"r","count":1,"count":2}]',
    '[{"resource":"r","count" : 1,"count":2}]',
    '[{"resource":"r","count":1,"unknown":2}]',
    '[{"resource":"r","count":1,"ref_resource":"b"}]',
    '[{"resource":"r"}]',
    '[{"resource":"r","count":1},{"resource":"r","count":1.0}]',
    '[{"resource":"r","count":0}]',
    '[{"resource":"r","count":NaN}]',
    '[{"resource":"r","count":1e999}]',
    '[{"resource":"r","count":true}]',
    "[null]",
    "[",
]


@pytest.mark.parametrize("text", FLAWED)
def test_a_text_with_the_slightest_flaw_goes_the_careful_way(text: str) -> None:
    assert quick_set(model_of("flow"), text, LIMITS) is None


def test_a_spotless_text_goes_the_short_way_whatever_stands_in_its_names() -> None:
    text = json.dumps([{"resource": 'a": b', "count": 1}, {"resource": "order:create", "count": 2.5}])
    assert quick_set(model_of("flow"), '[{"resource":"order:create","count":2.5}]', LIMITS) is not None
    careful = parse_rules("flow", json.loads(text))
    assert parse_rules("flow", text) == careful


@given(lists_of(), st.sampled_from([None, 2]))
def test_both_ways_lead_to_the_same_set(case: tuple[str, list[dict[str, Any]]], indent: int | None) -> None:
    kind, items = case
    quick = quick_set(model_of(kind), json.dumps(items, indent=indent, ensure_ascii=False), LIMITS)
    careful = parse_rules(kind, items)
    if quick is not None:
        assert quick == careful
        assert careful.warnings == ()


@given(
    st.recursive(
        st.text(':" \\a') | st.integers(), lambda inner: st.dictionaries(st.text(':" \\a'), inner) | st.lists(inner)
    )
)
def test_the_number_of_keys_is_never_underestimated(data: Any) -> None:
    def keys(value: Any) -> int:
        if isinstance(value, dict):
            return len(value) + sum(keys(inner) for inner in value.values())
        return sum(keys(inner) for inner in value) if isinstance(value, list) else 0

    for separator in (":", " :", "\n: "):
        assert most_keys(json.dumps(data, separators=(",", separator))) >= keys(data)

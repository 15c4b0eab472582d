"""Compact JSON: the fast encoder and the standard library's write the same bytes."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.audit import encode
from sentinel_core.audit.chain import COLUMNS, START, link, link_new
from sentinel_core.audit.encode import compact, compact_sorted

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(params=["orjson", "standard library"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "orjson":
        monkeypatch.setattr(encode, "orjson", None)
    return str(request.param)


@given(value=VALUES)
def test_both_write_the_same(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert compact(value) == text.encode()
    assert (
        compact_sorted(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    )
    assert orjson.dumps(value) == text.encode()


@given(
    texts=st.lists(st.none() | TEXTS, min_size=len(COLUMNS) - 4, max_size=len(COLUMNS) - 4),
    numbers=st.lists(st.integers(0, 2**53 - 1), min_size=4, max_size=4),
    rows=st.lists(st.tuples(st.integers(0, 9), TEXTS, st.none() | TEXTS), max_size=3),
)
def test_an_event_gets_the_hash_that_verifies(texts: list[Any], numbers: list[int], rows: list[Any]) -> None:
    columns = (*texts, *numbers)
    assert link_new(START, 7, b"{}", columns, rows) == link(START, 7, b"{}", columns, rows)


def test_half_a_surrogate_pair_is_refused(encoder: str) -> None:
    for write in (compact, compact_sorted):
        with pytest.raises(ValueError, match="surrogates"):
            write({"author": "\ud800"})


def test_what_only_the_standard_library_writes_is_written(encoder: str) -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    assert compact(deep) == compact_sorted(deep) == b"[" * 301 + b"]" * 301
    assert compact([2**70]) == b"[1180591620717411303424]"

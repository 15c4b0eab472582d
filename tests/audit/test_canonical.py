"""RFC 8785, by its own examples and by the library that keeps to it."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from sentinel_core.audit.canonical import read_canonical

# From appendix B and section 3.2.3 of the RFC: what ECMAScript writes for these IEEE 754 doubles.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_are_written_as_ecmascript_writes_them(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert read_canonical(json.dumps([number]).encode())[1] == f"[{text}]".encode()


def test_keys_stand_in_the_order_of_utf_16() -> None:
    value = {"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\u0080": 6, "ö": 7}
    ordered = list(json.loads(read_canonical(json.dumps(value).encode())[1]).values())
    assert ordered == [2, 4, 6, 7, 1, 5, 3]


@pytest.mark.parametrize(
    ("one", "other"),
    [(b'{"count": 20.0}', b'{"count":20}'), (b'{"b":1,"a":2}', b'{ "a": 2, "b": 1 }'), (b'"\\u00e9"', '"é"'.encode())],
)
def test_what_means_the_same_has_the_same_bytes(one: bytes, other: bytes) -> None:
    assert read_canonical(one)[1] == read_canonical(other)[1]


@pytest.mark.parametrize("data", [b'{"a":9007199254740993, "b":1}', b'{"a": "\\ud800"}', b'{"a": 1e400}'])
def test_what_the_rfc_has_no_form_for_keeps_its_bytes(data: bytes) -> None:
    assert read_canonical(data)[1] == data


@pytest.mark.parametrize("data", [b'{"a":NaN}', b"[Infinity, 20]", '["😀", -Infinity]'.encode(), b"[1e400, NaN]"])
def test_what_is_no_json_is_refused_whatever_writes_it(data: bytes) -> None:
    with pytest.raises(ValueError, match="is no JSON"):
        read_canonical(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(value=JSON, is_ascii=st.booleans())
@example(value={"😀": 1, "\ufb33": 2}, is_ascii=False)
@example(value=[1e16, 1e21, 1e-5, -0.0, 123456789012345680000.0], is_ascii=True)
def test_the_fast_way_writes_what_the_library_writes(value: Any, is_ascii: bool) -> None:
    read, canonical = read_canonical(json.dumps(value, ensure_ascii=is_ascii).encode())
    assert canonical == rfc8785.dumps(value)
    assert read == value

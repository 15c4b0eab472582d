"""RFC 8785 (JSON Canonicalization Scheme): one JSON value, one sequence of bytes, whoever computes it."""

from __future__ import annotations

import json
import re
from typing import Any

import rfc8785

from sentinel_core.audit.encode import compact_sorted

_WHOLE_BELOW = 2.0**53
_DIGITS_BELOW = 16
"""A whole number of so many characters, or with more, may be 2^53."""
_PLAIN_FROM = 1e-4


class Uncommon(Exception):
    """A character outside of the basic plane, or a number whose ECMAScript form is not the one that Python writes."""


def read_canonical(data: bytes) -> tuple[Any, bytes]:
    """The value of a JSON text, and its canonical bytes.

    An encoder of JSON is ten times as fast as the library and writes the same where keys are in the basic plane and
    numbers in plain notation; all else goes to the library. A value that RFC 8785 has no form for (whole numbers
    beyond 2^53, half a surrogate pair) keeps the bytes that it came in: evidence is not rounded.
    Raises ValueError for what is no JSON, RecursionError for what is nested too deep.
    """
    try:
        value = read_plain(data)
        return value, compact_sorted(value)
    except (Uncommon, UnicodeError):
        pass
    value = json.loads(data, parse_constant=_no_number)
    try:
        return value, rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError):
        return value, data


def read_plain(text: bytes) -> Any:
    """The value of a JSON text, numbers of it being such that `compact_sorted` writes the canonical form of any part.

    Raises Uncommon or UnicodeError where only the library does; ValueError, RecursionError.
    """
    if not _is_basic(text):
        raise Uncommon
    return (_STRICT if _LONG in text.translate(_DIGITS) else _DECODER).decode(text.decode())


def _is_basic(data: bytes) -> bool:
    """Whether no character needs two units of UTF-16, whose order is not that of code points."""
    return (data.isascii() and b"\\" not in data) or not _SURROGATES.search(data)


def _small(text: str) -> int:
    if len(text) >= _DIGITS_BELOW:
        raise Uncommon
    return int(text)


def _plain(text: str) -> float:
    """A number as both languages write it: `20.0` is 20, `0.5` stays."""
    value = float(text)
    if value.is_integer() and abs(value) < _WHOLE_BELOW:
        return int(value)
    if _PLAIN_FROM <= abs(value) < _WHOLE_BELOW:
        return value
    raise Uncommon


def _no_number(name: str) -> Any:
    """Python reads `NaN` and `Infinity`; orjson would write them as null."""
    raise ValueError(f"{name} is no JSON")


_SURROGATES = re.compile(rb"[\xf0-\xf7]|\\u[dD][89a-fA-F]")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * (_DIGITS_BELOW - 1)
_DECODER = json.JSONDecoder(parse_float=_plain, parse_constant=_no_number)
"""For texts where no whole number can be too large, as there are nowhere so many digits."""
_STRICT = json.JSONDecoder(parse_float=_plain, parse_int=_small, parse_constant=_no_number)

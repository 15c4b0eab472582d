"""What a plain YAML scalar means, and which ones two tools would read differently.

YAML 1.2 core, minus everything that YAML 1.1 tools read as something else: those are refused, with both readings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite

_NUMBER_STARTS = frozenset("+-.0123456789")
_CONSTANTS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OLD_BOOLEANS = {
    **dict.fromkeys(("yes", "on", "y"), "true"),
    **dict.fromkeys(("no", "off", "n"), "false"),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?")
_OTHER_BASE = re.compile(r"[-+]?0[xob][0-9a-fA-F_]+")
_UNDERSCORES = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
_LONGEST_NUMBER = 400

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A scalar that must be written otherwise."""

    code: str
    reason: str
    """Completes "<field>: <text> …"."""
    text: str


def resolve(text: str) -> Scalar | Refused:
    """The value of a plain (unquoted) scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in _NUMBER_STARTS:
        return _number(text)
    if (old := _OLD_BOOLEANS.get(text.lower())) is not None:
        return Refused("SR006", f'is {old} to some tools and a text to others; write {old} or "{text}" in quotes', text)
    return text


def _number(text: str) -> Scalar | Refused:
    if _INTEGER.fullmatch(text):
        if len(text) > _LONGEST_NUMBER:
            return Refused("SR006", "is too long for a number", text)
        return int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value - value != 0:
            return Refused("SR007", "is too large; write a finite number", text)
        return value
    if _NOT_FINITE.fullmatch(text):
        return Refused("SR007", "is not a finite number; write one", text)
    if _EXPONENT.fullmatch(text) and len(text) <= _LONGEST_NUMBER and not isfinite(float(text)):
        return Refused("SR007", "is too large; write a finite number", text)
    reason = _ambiguity(text)
    return Refused("SR006", reason, text) if reason else text


def _ambiguity(text: str) -> str | None:
    if len(text) > _LONGEST_NUMBER:
        return None
    if _LEADING_ZERO.fullmatch(text):
        decimal = f"{float(text):g}"
        octal = int(text, 8) if re.fullmatch(r"[-+]?0[0-7]+", text) else None
        if octal is None:
            return f'is read differently by different tools; write {decimal}, or "{text}" in quotes'
        return f'is {decimal} to some tools and {octal} to others; write {decimal} or {octal}, or "{text}" in quotes'
    if _EXPONENT.fullmatch(text):
        value = float(text)
        return f'is a number to some tools and a text to others; write {value:g}, or "{text}" in quotes'
    if _OTHER_BASE.fullmatch(text):
        return f'is a number to some tools and a text to others; write it in decimal, or "{text}" in quotes'
    if _UNDERSCORES.fullmatch(text):
        plain = text.replace("_", "")
        return f'is a number to some tools and a text to others; write {plain}, or "{text}" in quotes'
    if _SEXAGESIMAL.fullmatch(text):
        return f'is {_sixties(text)} to some tools and a text to others; write {_sixties(text)}, or "{text}" in quotes'
    if _DATE.fullmatch(text):
        return f'is a date to some tools and a text to others; write "{text}" in quotes'
    return None


def _sixties(text: str) -> str:
    """What YAML 1.1 makes of `1:30`."""
    total = 0.0
    for part in text.lstrip("+-").split(":"):
        total = total * 60 + float(part)
    return f"{-total if text[0] == '-' else total:g}"

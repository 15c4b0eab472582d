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
_SHOWN = 40

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A scalar that must be written otherwise."""

    code: str
    reason: str
    """Completes "<field>: <text> …"."""
    text: str
    meant: tuple[str, ...] = ()
    """Its readings, as they can be written without doubt."""
    is_number: bool = False
    """The readings are numbers."""


def resolve(text: str) -> Scalar | Refused:
    """The value of a plain (unquoted) scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in _NUMBER_STARTS:
        return _number(text)
    if (old := _OLD_BOOLEANS.get(text.lower())) is not None:
        return Refused("SR006", f"is {old} to some tools and a text to others", text, (old,))
    return text


def _number(text: str) -> Scalar | Refused:
    if len(text) > _LONGEST_NUMBER:
        return Refused("SR006", "is too long for a number", text[:_SHOWN] + "…") if _INTEGER.fullmatch(text) else text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) or _EXPONENT.fullmatch(text):
        value = float(text)
        if not isfinite(value):
            return Refused("SR007", "is too large for a finite number", text, is_number=True)
        if _FLOAT.fullmatch(text):
            return value
        shown = f"{value:g}"
        plain = shown if "e" not in shown or "." in shown else shown.replace("e", ".0e")
        return Refused("SR006", "is a number to some tools and a text to others", text, (plain,), is_number=True)
    if _NOT_FINITE.fullmatch(text):
        return Refused("SR007", "is not a finite number", text, is_number=True)
    return _ambiguity(text) or text


def _ambiguity(text: str) -> Refused | None:
    number_or_text = "is a number to some tools and a text to others"
    if _LEADING_ZERO.fullmatch(text):
        decimal = f"{float(text):g}"
        if not re.fullmatch(r"[-+]?0[0-7]+", text):
            return Refused("SR006", "is read differently by different tools", text, (decimal,), is_number=True)
        octal = str(int(text, 8))
        reason = f"is {decimal} to some tools and {octal} to others"
        return Refused("SR006", reason, text, tuple(dict.fromkeys((decimal, octal))), is_number=True)
    if _OTHER_BASE.fullmatch(text):
        return Refused("SR006", number_or_text, text, _decimal(text), is_number=True)
    if _UNDERSCORES.fullmatch(text):
        return Refused("SR006", number_or_text, text, (text.replace("_", ""),), is_number=True)
    if _SEXAGESIMAL.fullmatch(text):
        sixties = _sixties(text)
        return Refused("SR006", f"is {sixties} to some tools and a text to others", text, (sixties,), is_number=True)
    if _DATE.fullmatch(text):
        return Refused("SR006", "is a date to some tools and a text to others", text)
    return None


def _decimal(text: str) -> tuple[str, ...]:
    """`0x1F` → 31; nothing for digits that the base does not have."""
    try:
        return (str(int(text.replace("_", ""), 0)),)
    except ValueError:
        return ()


def _sixties(text: str) -> str:
    """What YAML 1.1 makes of `1:30`."""
    total = 0.0
    for part in text.lstrip("+-").split(":"):
        total = total * 60 + float(part)
    return f"{-total if text[0] == '-' else total:g}"

"""What is said about a field that does not fit: the value as it was written, and what to write instead."""

from __future__ import annotations

import difflib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sentinel_core.rules.rule import Finding, Rule, error
from sentinel_core.rules.source import VALUE_LENGTH, Dialect

_LOOKALIKES = str.maketrans({"O": "0", "o": "0", "l": "1", "I": "1", "S": "5", "B": "8", ",": "."})
_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "less_than": ("lt", "less than {}"),
}


def show(value: Any) -> str:
    """A value as it would be written, cut to a line."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=lambda other: f"<{type(other).__name__}>")
    except (TypeError, ValueError, RecursionError):
        text = f"<{type(value).__name__}>"
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"


def near(word: Any, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    return _near(str(word), tuple(known))


@lru_cache(maxsize=1024)  # a slip is often made in thousands of rules, and comparing words is slow
def _near(word: str, known: tuple[str, ...]) -> str | None:
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), names, n=1, cutoff=0.6)
    return names[close[0]] if close else None


def field_name(loc: Sequence[str | int]) -> str:
    """`("paramFlowItemList", 0, "count")` → `paramFlowItemList[0].count`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).lstrip(".")


def translate(model: type[Rule], fault: Mapping[str, Any], item: Any, dialect: Dialect) -> Finding:
    """One of pydantic's errors for a rule, in our words. `fault["loc"]` is relative to the rule."""
    loc = tuple(fault["loc"])
    if loc[:1] == ("id",):
        return error("SR102", "id", f"id is {show(fault['input'])}; a whole number or a text is needed")
    field = field_name(loc)
    kind: str = fault["type"]
    if kind == "missing":
        return _missing(model, field, loc, item)
    value = _as_written(item, loc) if isinstance(fault["input"], dict | list) else fault["input"]
    if len(loc) == 1 and field in model.names and kind in ("int_type", *_BOUNDS):
        return _code(model, field, value, dialect)
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return error("SR103", field, f"{field} is {show(value)}; write {words.format(_plain(fault['ctx'][key]))}")
    if kind == "finite_number":
        return error("SR007", field, f"{field} is {show(value)}; write a finite number")
    if kind.startswith("string_"):
        return _text(field, value, kind)
    if kind == "literal_error":
        return error("SR104", field, f"{field} is {show(value)}; write {fault['ctx']['expected']}")
    needed = {
        "int_type": "a whole number is needed",
        "float_type": "a number is needed",
        "bool_type": "write true or false without quotes",
        "model_type": "a mapping is needed",
        "tuple_type": "a list is needed",
    }.get(kind, fault["msg"])
    return error("SR102", field, f"{field} is {show(value)}; {needed}{_number_hint(value, kind)}")


def _text(field: str, value: Any, kind: str) -> Finding:
    if kind == "string_unicode":
        return error("SR002", field, f"{field} holds half of a surrogate pair; write the character itself")
    if kind == "string_type":
        advice = f"write {show(str(value))} in quotes" if isinstance(value, int | float) else "a text is needed"
        return error("SR102", field, f"{field} is {show(value)}; {advice}")
    if any(unicodedata.category(character) == "Cc" for character in value):
        return error("SR118", field, f"{field} is {show(value)}, which holds a control character; remove it")
    return error("SR105", field, f"{field} is {show(value)}, which is blank; write a name")


def _as_written(item: Any, loc: Sequence[str | int]) -> Any:
    """A value before unknown keys were left out of it."""
    for step in loc:
        item = item[step]
    return item


def _plain(number: float) -> str:
    return str(int(number) if number == int(number) else number)


def _missing(model: type[Rule], field: str, loc: tuple[str | int, ...], item: Any) -> Finding:
    for step in loc[:-1]:
        item = item[step]
    state = "null" if isinstance(item, dict) and loc[-1] in item else "missing"
    advice = model.choices(field) if field in model.names else "it is needed"
    return error("SR101", field, f"{field} is {state}; {advice}")


def _code(model: type[Rule], field: str, value: Any, dialect: Dialect) -> Finding:
    names = model.names[field]
    if isinstance(value, str):
        if value in names:
            return error("SR104", field, f"{field} is {show(value)}; in JSON write its number, {names[value]}")
        if value.strip().lstrip("-").isdigit():
            return error(
                "SR102", field, f"{field} is {show(value)}; a number is needed: write {value.strip()} without quotes"
            )
        meant = near(value, names)
        hint = f" (did you mean {meant}?)" if meant else ""
        return error("SR104", field, f"{field} is {show(value)}; {_choices(model, field, dialect)}{hint}")
    return error("SR104", field, f"{field} is {show(value)}; {_choices(model, field, dialect)}")


def _choices(model: type[Rule], field: str, dialect: Dialect) -> str:
    if dialect == "json":
        return "write " + " or ".join(f"{code} ({name})" for name, code in model.names[field].items())
    return model.choices(field)


def _number_hint(value: Any, kind: str) -> str:
    """`"20"` → write 20 without quotes; `"2O"` → did you mean 20?"""
    if kind not in ("int_type", "float_type") or not isinstance(value, str):
        return ""
    text = value.strip()
    if _is_number(text):
        return f": write {text} without quotes"
    guess = text.translate(_LOOKALIKES)
    return f" (did you mean {guess}?)" if _is_number(guess) else ""


def _is_number(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return value - value == 0 and text.isascii() and "_" not in text


def unknown_field(key: Any, known: Iterable[str], *, ignored: bool) -> str:
    """The message for a key that the kind does not have."""
    meant = near(key, known) if len(str(key)) <= VALUE_LENGTH else None
    fields = ", ".join(sorted(known))
    hint = f"; did you mean {meant}?" if meant else f"; known fields: {fields}" if fields else ""
    key = str(key)[:VALUE_LENGTH]
    return f"unknown field {key}{' is ignored' if ignored else ''}{hint}"

"""The keys of a list: which are unknown, whether the list is of another kind, and the list without what is ignored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel_core.rules.fields import takes_list
from sentinel_core.rules.messages import unknown_field
from sentinel_core.rules.rule import Finding, Rule, error, warning
from sentinel_core.rules.signature import CONSOLE_KEYS, looks_like

Item = dict[str, Any]
_MANY = 100
"""More different unknown keys than this are no slips of the pen, and finding near words for them is slow."""


@dataclass(frozen=True, slots=True)
class KeyFindings:
    """What the keys alone tell."""

    found: Sequence[tuple[int | None, Finding]]
    """(index of the rule, what is wrong with its key)"""
    other_kind: bool
    """The list is of another kind: nothing else about it matters."""


def check_keys(model: type[Rule], items: list[Item], *, refuse: bool, console: bool) -> KeyFindings:
    """`refuse`: unknown keys are errors; otherwise each is warned of once. `console`: the dashboard's keys are fine."""
    keys = set().union(*items)
    known = model.fields_by_alias().keys()
    unknown = keys - known - CONSOLE_KEYS if console else keys - known
    if unknown and (real := looks_like(model, {str(key) for key in keys})):
        message = f"this is no {model.kind} list: it looks like {real}; nothing of it is taken"
        return KeyFindings([(None, error("SR109", None, message))], other_kind=True)
    found: list[tuple[int | None, Finding]] = []
    found += list(_unknown(((index, "", item) for index, item in enumerate(items)), known, unknown, refuse=refuse))
    for name, shape in model.nested.items():
        if name in keys:
            known = shape.fields_by_alias().keys()
            parts = list(_parts(items, name, listed=takes_list(model, name)))
            unknown = set().union(*(part for _, _, part in parts)) - known
            found += _unknown(iter(parts), known, unknown, refuse=refuse)
    return KeyFindings(found, other_kind=False)


def _unknown(
    parts: Iterator[tuple[int, str, Item]], known: Collection[str], unknown: set[Any], *, refuse: bool
) -> Iterator[tuple[int, Finding]]:
    hints = known if len(unknown) <= _MANY else ()
    left = set(unknown)
    for index, prefix, part in parts if unknown else ():
        for key in [key for key in part if key in left]:
            message = unknown_field(key, hints, ignored=not refuse)
            make, code = (error, "SR110") if refuse else (warning, "SR201")
            yield index, make(code, f"{prefix}{key}", message, at_key=True)
            if not refuse:
                left.discard(key)


def _parts(items: list[Item], name: str, *, listed: bool) -> Iterator[tuple[int, str, Item]]:
    """(index of the rule, path prefix, object) of every object nested under `name`."""
    for index, item in enumerate(items):
        value = item.get(name)
        if isinstance(value, dict) and not listed:
            yield index, f"{name}.", value
        elif isinstance(value, list) and listed:
            yield from (
                (index, f"{name}[{place}].", part) for place, part in enumerate(value) if isinstance(part, dict)
            )


def cleaned(model: type[Rule], items: list[Item]) -> list[Item]:
    """The items with known keys only and without nulls, which mean the same as absent keys."""
    known = model.fields_by_alias().keys()
    if not set().union(*items) <= known - model.nested.keys():
        return [_clean(model, item) for item in items]
    return [item if None not in item.values() else _clean(model, item) for item in items]


def _clean(model: type[Rule], item: Item) -> Item:
    known = model.fields_by_alias().keys()
    clean = {key: value for key, value in item.items() if value is not None and key in known}
    for name in model.nested.keys() & clean.keys():
        clean[name] = _clean_nested(clean[name], model.nested[name].fields_by_alias().keys())
    return clean


def _clean_nested(value: Any, known: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_clean_nested(part, known) for part in value]
    if isinstance(value, dict):
        return {key: inner for key, inner in value.items() if inner is not None and key in known}
    return value

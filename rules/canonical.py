"""The one spelling of a rule list, whose SHA-256 is its digest (see `docs`: defaults filled, keys and rules sorted)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from sentinel_core.rules.rule import Rule

EMPTY = b"[]"


@lru_cache(maxsize=64)
def list_adapter(model: type[Rule]) -> TypeAdapter[Any]:
    """Validates and writes `list[model]` at the speed of pydantic's core."""
    return TypeAdapter(list[model])  # type: ignore[valid-type]  # the model is known at run time only


def digest_of(canonical: bytes) -> str:
    """SHA-256 (hex) of a canonical list."""
    return hashlib.sha256(canonical).hexdigest()


def rule_bytes(rule: Rule) -> bytes:
    """The canonical JSON object of one rule."""
    return rule.__pydantic_serializer__.to_json(rule, exclude_none=True)


def canonical_order(rules: Sequence[Rule]) -> list[int]:
    """Indexes of `rules` sorted by (resource, origin, every field)."""
    keys = [(rule.resource, rule.scope) for rule in rules]
    order = sorted(range(len(rules)), key=keys.__getitem__)
    if len(set(keys)) == len(keys):
        return order
    texts = {key: [] for key in keys}  # type: dict[tuple[str, str], list[int]]
    for index in order:
        texts[keys[index]].append(index)
    return [
        index
        for key in dict.fromkeys(keys[index] for index in order)
        for index in (sorted(texts[key], key=lambda i: rule_bytes(rules[i])) if len(texts[key]) > 1 else texts[key])
    ]


def canonical_json(model: type[Rule], rules: Sequence[Rule]) -> bytes:
    """The canonical list. Equal rules are written as often as they occur."""
    ordered = [rules[index] for index in canonical_order(rules)]
    return list_adapter(model).dump_json(ordered, exclude_none=True)

"""The one spelling of a rule list, whose SHA-256 is its digest (see `docs`: defaults filled, keys and rules sorted)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
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


def arrange(rules: Sequence[Rule]) -> tuple[list[int], list[tuple[int, int]]]:
    """(indexes sorted by (resource, origin, every field), pairs (first, later) of indexes of equal rules)."""
    keys = [(rule.resource, rule.scope) for rule in rules]
    order = sorted(range(len(rules)), key=keys.__getitem__)
    if len(set(keys)) == len(keys):
        return order, []
    texts: dict[int, bytes] = {}
    for earlier, later in pairwise(order):
        if keys[earlier] == keys[later]:
            texts[earlier] = texts.get(earlier) or rule_bytes(rules[earlier])
            texts[later] = rule_bytes(rules[later])
    order.sort(key=lambda index: (keys[index], texts.get(index, b"")))
    duplicates = []
    first = order[0]
    for index in order[1:]:
        if keys[index] == keys[first] and texts.get(index) == texts.get(first):
            duplicates.append((first, index))
        else:
            first = index
    return order, duplicates


def write(model: type[Rule], rules: Sequence[Rule], order: Sequence[int]) -> bytes:
    """The canonical list of the rules that `order` names."""
    if not rules:
        return EMPTY
    return list_adapter(model).dump_json([rules[index] for index in order], exclude_none=True)

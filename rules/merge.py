"""One rule set of several that different stores hold: each resource has its rules from the first that names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sentinel_core.rules.canonical import arrange, digest_of, write
from sentinel_core.rules.registry import model_of
from sentinel_core.rules.ruleset import RuleSet


def merge_sets(sets: Sequence[RuleSet]) -> RuleSet:
    """`sets` are of one kind, at least one, the one with the last word first.

    A resource that a set names has its rules from there alone: no rule of another set is added to it. Where all rules
    come from one set the result is that set itself, else `owners` tells them apart. Order: set after set, as written.
    """
    rules: list[Any] = []
    owners: dict[str, RuleSet] = {}
    parts: list[RuleSet] = []
    for each in sets:
        taken = [rule for rule in each.rules if rule.place not in owners]
        if taken:
            parts.append(each)
            rules += taken
            owners.update((rule.place, each) for rule in taken)
    if len(parts) <= 1:
        return parts[0] if parts else sets[0]
    kind = parts[0].kind
    canonical = write(model_of(kind), rules, arrange(rules)[0])
    warnings = tuple(warning for each in parts for warning in each.warnings)
    return RuleSet(kind, tuple(rules), canonical, digest_of(canonical), warnings, parts[0].revision, owners)

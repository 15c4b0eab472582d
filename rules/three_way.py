"""Two changes of one rule set, made apart from each other, as one: rule by rule, and never against each other."""

from __future__ import annotations

from sentinel_core.rules.diff import pair_rules
from sentinel_core.rules.parse import parse_rules
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.ruleset import RuleSet


class Collision(ValueError):
    """Both sides changed the same rule, each in its own way; the message names it."""


def merge_changes(base: RuleSet, edited: RuleSet, moved: RuleSet) -> RuleSet:
    """`moved` with what leads from `base` to `edited`. All are of one kind. Raises Collision."""
    if moved.digest in (base.digest, edited.digest):
        return edited
    pairs = pair_rules(base.rules, edited.rules)
    rules: list[Rule] = list(moved.rules)
    for before, after in [*pairs.changed, *((rule, None) for rule in pairs.removed)]:
        if before in rules:
            rules[rules.index(before) : rules.index(before) + 1] = [after] if after is not None else []
        elif (after is None and _named(rules, before)) or (after is not None and after not in rules):
            raise Collision(f"{before.path} was changed on both sides")
    for rule in pairs.added:
        if rule in rules:
            continue
        if rule.path in {each.path for each in moved.rules if each not in base.rules}:
            raise Collision(f"{rule.path} was added on both sides")
        rules.append(rule)
    return parse_rules(base.kind, [rule.to_json() for rule in rules])


def _named(rules: list[Rule], rule: Rule) -> bool:
    return any(each.path == rule.path for each in rules)

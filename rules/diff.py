"""What changed between two rule sets, field by field, told by identity and not by position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from sentinel_core.rules.revision import Kind
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.ruleset import RuleSet

Action = Literal["add", "remove", "change"]
Pair = tuple[Rule, Rule]


@dataclass(frozen=True, slots=True)
class Change:
    """One added or removed rule, or one changed field of a rule."""

    action: Action
    kind: Kind
    resource: str
    rule: str
    """The rule's path, e.g. `flow/payment_invoke/default`; after the change."""
    field: str | None
    """JSON name, dotted for nested objects; None for whole rules."""
    old: Any
    """The value before, as JSON has it; the whole rule for `remove`; None for `add`."""
    new: Any

    def to_json(self) -> dict[str, Any]:
        """As change events carry it."""
        return {name: getattr(self, name) for name in ("action", "resource", "rule", "field", "old", "new")}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which rule of one list is which of another. Every rule of either list occurs in exactly one place."""

    same: tuple[Pair, ...]
    """Equal content."""
    changed: tuple[Pair, ...]
    removed: tuple[Rule, ...]
    added: tuple[Rule, ...]


_SUBJECT = ("grade", "strategy", "ref_resource", "biz_metric_type", "param_idx")
"""Fields that say what a rule is about rather than how much: a rule with others is another rule."""


def _by_id(rule: Rule) -> Hashable:
    return rule.id


def _by_content(rule: Rule) -> Hashable:
    return rule


def _by_identity(rule: Rule) -> Hashable:
    return (rule.resource, rule.scope, *(getattr(rule, name, None) for name in _SUBJECT))


def _by_place(rule: Rule) -> Hashable:
    return (rule.resource, rule.scope)


LADDER: tuple[Callable[[Rule], Hashable], ...] = (_by_id, _by_content, _by_identity, _by_place)
"""Each step pairs what the steps before left over, in order; a key of None pairs nothing."""
BY_PLACE: tuple[Callable[[Rule], Hashable], ...] = (_by_content, _by_identity, _by_place)
"""By what a rule does and never by its `id`, which whoever writes it may choose: another resource, another rule."""


def pair_rules(
    old: Sequence[Rule], new: Sequence[Rule], ladder: Sequence[Callable[[Rule], Hashable]] = LADDER
) -> Pairs:
    """Finds the counterpart of each rule: same id, else equal, else same subject, else same place in order."""
    left, right = list(old), list(new)
    same: list[Pair] = []
    if _by_id not in ladder or not any(rule.id is not None for rule in left):
        left, right = _trim(left, right, same)
    pairs: list[Pair] = []
    for key in ladder:
        if not left or not right:
            break
        left, right = _match(left, right, key, pairs)
    changed: list[Pair] = []
    for pair in pairs:
        (same if pair[0] == pair[1] else changed).append(pair)
    return Pairs(same=tuple(same), changed=tuple(changed), removed=tuple(left), added=tuple(right))


def _trim(left: list[Rule], right: list[Rule], same: list[Pair]) -> tuple[list[Rule], list[Rule]]:
    """Pairs the equal beginning and the equal end, which is nearly everything in a large list that was edited."""
    head = list(takewhile(_equal, zip(left, right, strict=False)))
    left, right = left[len(head) :], right[len(head) :]
    tail = list(takewhile(_equal, zip(reversed(left), reversed(right), strict=False)))
    same += head + tail
    return left[: len(left) - len(tail)], right[: len(right) - len(tail)]


def _equal(pair: Pair) -> bool:
    return pair[0] == pair[1]


def _match(
    left: list[Rule], right: list[Rule], key: Callable[[Rule], Hashable], pairs: list[Pair]
) -> tuple[list[Rule], list[Rule]]:
    """Pairs what has the same key, first with first; returns what is left over."""
    waiting: dict[Hashable, list[Rule]] = defaultdict(list)
    for rule in reversed(left):
        waiting[key(rule)].append(rule)
    waiting.pop(None, None)
    unmatched = []
    matched = set()
    for rule in right:
        if candidates := waiting.get(key(rule)):
            partner = candidates.pop()
            matched.add(id(partner))
            pairs.append((partner, rule))
        else:
            unmatched.append(rule)
    return [rule for rule in left if id(rule) not in matched], unmatched


def diff_rules(old: RuleSet, new: RuleSet, ladder: Sequence[Callable[[Rule], Hashable]] = LADDER) -> tuple[Change, ...]:
    """What leads from `old` to `new`, by resource; empty when the digests are equal, whatever the spelling."""
    if old.kind != new.kind:
        raise ValueError(f"{old.kind} and {new.kind} rules cannot be compared")
    if old.digest == new.digest:
        return ()
    pairs = pair_rules(old.rules, new.rules, ladder)
    changes = [
        Change("remove", old.kind, rule.resource, rule.path, None, rule.to_json(), None) for rule in pairs.removed
    ]
    for before, after in pairs.changed:
        changes += field_changes(before, after)
    changes += [Change("add", new.kind, rule.resource, rule.path, None, None, rule.to_json()) for rule in pairs.added]
    return tuple(sorted(changes, key=lambda change: (change.resource, change.rule)))


def field_changes(before: Rule, after: Rule) -> list[Change]:
    """One change a field, in the order of the canonical form."""
    old, new = flatten(before.to_json()), flatten(after.to_json())
    return [
        Change("change", after.kind, after.resource, after.path, name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def flatten(rule: dict[str, Any]) -> dict[str, Any]:
    """Nested objects by dotted names; lists stay whole."""
    flat: dict[str, Any] = {}
    for name, value in rule.items():
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": inner for key, inner in flatten(value).items()})
        else:
            flat[name] = value
    return flat

"""What a publish may not do unless somebody says so: the kinds of changes that outages were made of.

Compared are what stands and what is to stand there, rule by rule of the same resource, whatever their ids. A guard
names what it found; it never changes anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from sentinel_core.rules.diff import BY_PLACE, Change, diff_rules
from sentinel_core.rules.ownership import Owner, trespasses
from sentinel_core.rules.registry import KINDS, model_of
from sentinel_core.rules.revision import Kind, SourceText
from sentinel_core.rules.rule import DEFAULT_APP
from sentinel_core.rules.ruleset import RuleSet

Guard = Literal["empty", "shrink", "last", "jump", "zero", "size", "owner", "unknown", "environment", "freeze", "check",
                "quarantine"]  # fmt: skip
GUARDS: tuple[Guard, ...] = (
    "empty",
    "shrink",
    "last",
    "jump",
    "zero",
    "size",
    "owner",
    "unknown",
    "environment",
    "freeze",
)
"""Those that are overruled by their name; own checks each by its own, and rules under quarantine are released."""
SETS = Mapping[Kind, RuleSet]
_FEW = 2
"""Rules of a kind that may go whatever their share: one of three is no accident."""
_OFF = ("shadow", "closed")
"""Modes of rules that block nothing."""


class Policy(Protocol):
    """The limits; `guards` of the settings."""

    @property
    def max_removed_percent(self) -> float: ...
    @property
    def max_jump(self) -> float: ...
    @property
    def forbid_zero(self) -> bool: ...
    @property
    def max_rules(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Objection:
    """What a guard has against a change."""

    guard: Guard
    kind: Kind | None
    """None where it is about the change as a whole."""
    text: str
    """What it found, and the limit."""
    resources: tuple[str, ...] = ()
    """Of the rules that it is about, without repetition."""
    digest: str | None = None
    """Of the rules that are under quarantine."""
    check: str | None = None
    """Name of the own check that it is from."""
    file: str | None = None
    line: int | None = None
    """Where it stands, if one place is meant."""

    @property
    def overruled_by(self) -> str:
        """What a plan lists as allowed where somebody has overruled it: `jump`, `check:two-eyes`."""
        return f"{self.guard}:{self.check}" if self.check is not None else self.guard

    @property
    def place(self) -> dict[str, str | int | None]:
        """File and line; empty where no one place is meant."""
        return {"file": self.file, "line": self.line} if self.file is not None else {}

    def to_json(self) -> dict[str, object]:
        """Every field."""
        return {name: getattr(self, name) for name in self.__slots__}


def objections(old: SETS, new: SETS, policy: Policy) -> list[Objection]:
    """Of all guards, in the order of kinds. A kind that `new` does not carry stays as it is. A rule that blocks nothing
    by its mode is none here."""
    found: list[Objection] = []
    enforced_old = {kind: _enforced(rules) for kind, rules in old.items()}
    enforced_new = {kind: _enforced(rules) for kind, rules in new.items()}
    for kind in (kind for kind in KINDS if kind in new):
        before, after = enforced_old.get(kind, RuleSet.empty(kind)), enforced_new[kind]
        changes = diff_rules(before, after, BY_PLACE)
        found += _sizes(new[kind], policy)
        found += _losses(before, after, changes, policy, "disappear" if after is new[kind] else "block nothing")
        found += _thresholds(kind, changes, policy)
    return [*found, *_unprotected(enforced_old, enforced_new), *_narrowed(enforced_old, enforced_new)]


def _enforced(rules: RuleSet) -> RuleSet:
    """Without the rules that are off. The digest stays: equal digests are equal rules, with and without them."""
    on = tuple(rule for rule in rules if getattr(rule, "mode", None) not in _OFF)
    return rules if len(on) == len(rules) else replace(rules, rules=on)


def unowned(
    old: SETS, new: SETS, owners: Sequence[Owner], texts: Sequence[SourceText], author: str | None
) -> list[Objection]:
    """What changes without its owner; see `ownership.trespasses`."""
    changes = [
        change
        for kind in (kind for kind in KINDS if kind in new and owners)
        for change in diff_rules(old.get(kind, RuleSet.empty(kind)), new[kind], BY_PLACE)
    ]
    found = trespasses(changes, owners, texts, author)
    return [
        Objection("owner", each.kind, each.text, (each.resource,), file=each.file, line=each.line) for each in found
    ]


def _sizes(new: RuleSet, policy: Policy) -> Iterator[Objection]:
    if len(new) > policy.max_rules:
        yield Objection("size", new.kind, f"{len(new)} {new.kind} rules; the limit is {policy.max_rules}")


def _losses(old: RuleSet, new: RuleSet, changes: Sequence[Change], policy: Policy, become: str) -> Iterator[Objection]:
    gone = [change for change in changes if change.action == "remove"]
    names = _names(gone)
    if old.rules and not new.rules:
        yield Objection("empty", old.kind, f"all {len(old)} {old.kind} rules would {become}", names)
    elif len(gone) >= _FEW and (percent := 100 * len(gone) / len(old)) > policy.max_removed_percent:
        yield Objection(
            "shrink",
            old.kind,
            f"{percent:.0f} % of the {old.kind} rules would {become} ({len(gone)} of {len(old)}); the limit is "
            f"{policy.max_removed_percent:g} %",
            names,
        )


def _thresholds(kind: Kind, changes: Sequence[Change], policy: Policy) -> Iterator[Objection]:
    blocks_at_zero = model_of(kind).blocks_at_zero
    for change in (*changes, *_moved(kind, changes)):
        if change.field == "grade" and change.action == "change":
            was, now = change.old, change.new
            text = f"{change.rule} grade {was} → {now}: it counts something else, so its limit cannot be compared"
            yield Objection("jump", kind, text, (change.resource,))
        if change.action != "change" or change.field not in model_of(kind).thresholds:
            continue
        if not _is_number(change.old, change.new) or (change.new == 0 and blocks_at_zero):
            continue  # zero is told below, in its own words
        low, high = sorted((abs(change.old), abs(change.new)))
        if high > low * policy.max_jump:
            times = f"{high / low:.3g}×" if low else "from or to 0"
            yield Objection(
                "jump",
                kind,
                f"{change.rule} {change.field} {change.old:g} → {change.new:g} ({times}); the limit is "
                f"{policy.max_jump:g}×",
                (change.resource,),
            )
    if policy.forbid_zero and blocks_at_zero:
        yield from _zeros(kind, changes)


def _moved(kind: Kind, changes: Sequence[Change]) -> Iterator[Change]:
    """Rules that gave way to others of their resource, for other callers maybe: what each limited is held against the
    loosest that came, since nobody can tell here whose calls fall under which."""
    for gone in (change for change in changes if change.action == "remove"):
        came = [change for change in changes if change.action == "add" and change.resource == gone.resource]
        for field in model_of(kind).thresholds:
            values = [(each.new[field], each.rule) for each in came if _is_number(each.new.get(field))]
            if values and _is_number(gone.old.get(field)):
                loosest, rule = max(values)
                yield Change("change", kind, gone.resource, f"{gone.rule} → {rule}", field, gone.old[field], loosest)


def _zeros(kind: Kind, changes: Sequence[Change]) -> Iterator[Objection]:
    for change in changes:
        value = change.new.get("count") if change.action == "add" else change.new if change.field == "count" else None
        if change.action in ("add", "change") and value == 0:
            yield Objection("zero", kind, f"{change.rule} count 0 blocks every call", (change.resource,))


def _unprotected(old: SETS, new: SETS) -> Iterator[Objection]:
    """Resources that have rules and would have none at all."""
    after = {**old, **new}
    left = {rule.resource for rules in after.values() for rule in rules}
    for kind in (kind for kind in KINDS if kind in new and kind in old):
        lost = tuple(dict.fromkeys(rule.resource for rule in old[kind] if rule.resource not in left))
        if lost:
            yield Objection(
                "last", kind, f"{len(lost)} of the resources with {kind} rules would have no rule left", lost
            )


def _narrowed(old: SETS, new: SETS) -> Iterator[Objection]:
    """Resources whose rules of a kind held for every caller and would hold for some only."""
    for kind in (kind for kind in KINDS if kind in new and kind in old):
        left = {rule.resource for rule in new[kind]}
        for_all = {rule.resource for rule in new[kind] if rule.scope == DEFAULT_APP}
        was = dict.fromkeys(rule.resource for rule in old[kind] if rule.scope == DEFAULT_APP)
        if lost := tuple(name for name in was if name in left and name not in for_all):
            text = f"{len(lost)} of the resources with {kind} rules would have none left that holds for every caller"
            yield Objection("last", kind, text, lost)


def _names(changes: Sequence[Change]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(change.resource for change in changes))


def _is_number(*values: object) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

"""What a reading of a store means as rules, and what others would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentinel_core.audit.redact import Masker
from sentinel_core.datasources.contract import Absent, Reading
from sentinel_core.rules import Kind, RuleRejected, RuleSet, diff_rules, parse_revision


def sets_of(reading: Reading, kinds: Sequence[Kind]) -> Mapping[Kind, RuleSet] | None:
    """The rules that stand there, by kind: none where nothing stands; None where they are not valid."""
    if isinstance(reading, Absent):
        return {}
    try:
        return parse_revision(reading, kinds)
    except RuleRejected:
        return None


def digests_of(sets: Mapping[Kind, RuleSet] | None) -> dict[Kind, str]:
    """Of each kind; nothing for rules that are not valid."""
    return {kind: rules.digest for kind, rules in (sets or {}).items()}


def changes_between(old: Mapping[Kind, RuleSet], new: Mapping[Kind, RuleSet]) -> list[Mapping[str, Any]]:
    """What differs in the kinds that `new` has, as change events carry it; hidden values are masked."""
    masker = Masker()
    return [
        masker.change(change.to_json())
        for kind, rules in new.items()
        for change in diff_rules(old.get(kind, RuleSet.empty(kind)), rules)
    ]

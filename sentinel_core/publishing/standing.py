"""What a reading of a store means as rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentinel_core.datasources.contract import Absent, Reading
from sentinel_core.rules import Kind, RuleRejected, RuleSet, parse_revision


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

"""What somebody changed in a store as a commit: who made the change, and what the message says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sentinel_core.audit.redact import Masker
from sentinel_core.datasources.git.commit import Author
from sentinel_core.masking import mask_text
from sentinel_core.rules import Kind, Provenance, Revision, RuleSet, diff_rules

_LINES = 20
"""Changes that a message tells one by one."""


def edits(old: Mapping[Kind, RuleSet], new: Mapping[Kind, RuleSet]) -> list[Mapping[str, Any]]:
    """What differs in the kinds that `new` has, as change events carry it; hidden values are masked."""
    masker = Masker()
    return [
        masker.change(change.to_json())
        for kind, rules in new.items()
        for change in diff_rules(old.get(kind, RuleSet.empty(kind)), rules)
    ]


def author_of(revisions: Iterable[Revision]) -> Author | None:
    """Who made all of these revisions, as their store says; None where it does not, or where several did."""
    found = [_author(revision.provenance) for revision in revisions]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or len({each.name for each in known}) != 1:
        return None
    return max(known, key=lambda each: each.at.timestamp() if each.at else 0.0)


def _author(provenance: Provenance) -> Author | None:
    text = provenance.author or provenance.published_by
    return Author.of(text and mask_text(text), provenance.committed_at or provenance.published_at)


def commit_facts(
    title: str, changes: Sequence[Mapping[str, Any]], revisions: Sequence[Revision], reason: str | None
) -> Provenance:
    """What the commit says. `title`: of the store, without credentials."""
    kinds = dict.fromkeys(str(change["rule"]).partition("/")[0] for change in changes)
    lines = [f"Take {', '.join(kinds) or 'no'} rules over from the store", "", f"Store: {title}"]
    lines += dict.fromkeys(_said(revision) for revision in revisions)
    lines += ["", *map(_line, changes[:_LINES])]
    if len(changes) > _LINES:
        lines.append(f"and {len(changes) - _LINES} more")
    return Provenance(channel="cli", message=mask_text("\n".join(lines)), reason=reason and mask_text(reason))


def _said(revision: Revision) -> str:
    provenance = revision.provenance
    when = provenance.committed_at or provenance.published_at
    who = provenance.author or provenance.published_by or "somebody"
    at = f" on {when:%Y-%m-%d at %H:%M} UTC" if when else ""
    why = f": {' '.join(provenance.reason.split())}" if provenance.reason else ""
    return f"There by {who} ({provenance.channel}){at}, as the store says{why}"


def _line(change: Mapping[str, Any]) -> str:
    if change["action"] != "change":
        return f"{'+' if change['action'] == 'add' else '-'} {change['rule']}"
    return f"~ {change['rule']} {change['field']}: {_value(change['old'])} -> {_value(change['new'])}"


def _value(value: Any) -> str:
    return "none" if value is None else str(value)

"""Whether what comes under a known id and source tells of the same. Ids are computed: anybody may have been first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sentinel_core.audit.event import RuleRejected
from sentinel_core.masking import MASK

_TOLD = (
    "type", "subject", "environment", "author", "commit", "message", "plan", "revision", "old_digest", "new_digest",
    "rollback_of", "initial",
)  # fmt: skip
"""What each instance that tells of an event must say alike; when, where and how fast it did is its own."""
_HIDDEN = (MASK, "hmac:")
"""Instances may hide values by other keys."""


class Told(Protocol):
    """Columns or an EventHead."""

    @property
    def type(self) -> str: ...


Rows = Sequence[Sequence[Any]]
"""action, kind, resource, rule, field, old, new; the last two as JSON texts."""


def difference(stored: Told, stored_rows: Rows, told: Told, told_rows: Rows) -> str | None:
    """Why `told` is to be refused; None where it is the same, or says less."""
    for name in _TOLD:
        if not _agrees(getattr(stored, name), getattr(told, name)):
            return f"an event with its id and source is there already, and its {name.replace('_', ' ')} is another"
    # What is wrong with refused rules is told in the words of the version that refused them.
    if told.type == RuleRejected.TYPE:
        return None
    if len(stored_rows) != len(told_rows) or not all(map(_is_row, stored_rows, told_rows)):
        return "an event with its id and source is there already, and its changes are others"
    return None


def _is_row(stored: Sequence[Any], told: Sequence[Any]) -> bool:
    return all(map(_agrees, stored, told))


def _agrees(stored: Any, told: Any) -> bool:
    return told is None or stored == told or any(hidden in str(one) for one in (stored, told) for hidden in _HIDDEN)

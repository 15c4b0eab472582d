"""What servers and people wrote, as far as it goes into a message, a log or an event."""

from __future__ import annotations

from sentinel_core.rules.source import printable

_MOST = 1000


def quoted(text: str, most: int = _MOST) -> str:
    """Cut short, and without what speaks to a terminal or begins a line of its own in a log."""
    return printable(text[:most]) + ("…" if len(text) > most else "")

"""What is bounded, in words for the log."""

from __future__ import annotations

from sentinel_core.plan import Beyond

BOUNDS = {
    "resources": "enough resources are counted; calls to others pass uncounted unless a rule names them. "
    "Do names carry ids? Name the pattern instead",
    "origins": "enough callers are counted apart; the others are counted as one unless a rule names them",
    "contexts": "enough contexts are counted apart; the others are counted as one unless a rule names them",
    "values": "enough values of a hot parameter are kept; those used least are forgotten and begin anew",
    "dimensions": "a rule judges enough values of its dimension; others pass and are not counted. Does it carry ids?",
    "gauges": "enough gauges are kept; others are refused unless a rule asks for them. Do dimensions carry ids?",
}


def told(beyond: Beyond) -> str:
    """One line for a bound that was reached."""
    return f"{BOUNDS.get(beyond.what, beyond.what)}; the first was {beyond.name}"

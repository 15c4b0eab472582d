"""What one rule stands at in one running service, in a line or a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sentinel_core.cli.text import Span, Styled
from sentinel_core.cli.troubles.seen import as_number

COLOURS = {"OPEN": "red", "HALF_OPEN": "yellow", "CLOSED": "green"}
Live = Mapping[str, Any]


def standing(live: Live) -> Iterator[Sequence[Span]]:
    """One line, and one for each value of a dimension that is told."""
    where = f"on {live['instance']}, {live['secondsAgo']:g} s ago"
    yield ("        ", *(_state(live) if "state" in live else _limit(live)), Styled(f"  {where}", "dim"))
    if live.get("trouble"):
        yield (Styled(f"          {live['trouble']}", "yellow"),)
    values = live.get("values")
    for value, part in values.items() if isinstance(values, dict) else ():
        if isinstance(part, dict):
            yield (f"          {value or '(none)'}: ", *_state(part))
    if live.get("beyond"):
        yield (Styled(f"          and {live['beyond']} more", "dim"),)


def _limit(live: Live) -> Iterator[Span]:
    """Rules without a state: how much of the limit is taken."""
    said = []
    if live.get("qps") is not None:
        said.append(f"{_number(live['qps'])} of {_number(live.get('limit'))} a second")
    elif live.get("threads") is not None and "limit" in live:
        said.append(f"{_number(live['threads'])} of {_number(live['limit'])} inside")
    if "queuedMs" in live:
        queued = f"{_number(live['queuedMs'])} of {_number(live.get('maxQueueingTimeMs'))} ms"
        said.append(f"{_number(live.get('waiting'))} wait, {queued}")
    if "warmUp" in live:
        full = f", full in {_seconds(live['fullInMs'])}" if live.get("fullInMs") else ""
        said.append(f"{live['warmUp']}: {_number(live.get('allowed'))} may pass{full}")
    if isinstance(live.get("values"), int):
        said.append(f"{live['values']} values counted")
    said += _mode(live)
    yield ", ".join(said) if said else "active"


def _state(breaker: Live) -> Iterator[Span]:
    state = str(breaker.get("state"))
    yield Styled(state, COLOURS.get(state, "dim"))
    said = []
    if "value" in breaker:
        said.append("without a value" if breaker["value"] is None else f"at {_number(breaker['value'])}")
    if "threshold" in breaker:
        said.append(f"threshold {_number(breaker['threshold'])}")
    if breaker.get("ageMs") is not None:
        said.append(f"{_seconds(breaker['ageMs'])} old" + (", stale" if breaker.get("stale") else ""))
    elif "samples" in breaker:
        said.append(f"{_number(breaker['samples'])} samples")
    elif "total" in breaker:
        said.append(f"{_number(breaker.get('bad'))} of {_number(breaker['total'])} calls bad")
    if (wait := breaker.get("retryAfterMs")) is not None:
        said.append(f"next try in {_seconds(wait)}" if wait else "next call tries")
    said += _mode(breaker)
    if said:
        yield " " + ", ".join(said)


def _mode(live: Live) -> list[str]:
    """A mode in which a rule is not simply enforced."""
    if live.get("mode") is None:
        return []
    return [f"shadow: would have blocked {_number(live['wouldBlock'])}" if "wouldBlock" in live else "held by hand"]


def _number(value: object) -> str:
    number = as_number(value)
    return "?" if number is None else f"{round(number, 2):.12g}"


def _seconds(value: object) -> str:
    ms = as_number(value)
    return "?" if ms is None else f"{ms / 1000:g} s"

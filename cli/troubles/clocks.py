"""Clocks: those that were set while a service ran, and those that differ between instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from sentinel_core.cli.moments import age
from sentinel_core.cli.troubles.seen import Object, Service, number, objects

MOST_SKEW_S = 1.0
"""Instances that differ by more warm up apart by as much, and their events stand in the wrong order."""
UNAFFECTED = "limits do not move with it: each process counts by a clock that nobody sets"
MOVES = "times in events and logs, and the start of a warm-up with warmUpStart that is loaded after it, do"


def steps(services: Sequence[Service]) -> Iterator[tuple[Service, str]]:
    """What each service has seen its wall clock do."""
    for service in services:
        told = service.document.get("clock")
        clock: Object = told if isinstance(told, dict) else {}
        if not number(clock, "count"):
            continue
        seen = [f"{number(each, 'seconds') or 0:+g} s at {each.get('at')}" for each in objects(clock.get("steps"))]
        more = int(number(clock, "count") or 0) - len(seen)
        yield service, ", ".join(seen) + (f", and {more} before" if more > 0 else "")


def skews(services: Sequence[Service]) -> Iterator[tuple[Service, float, str]]:
    """Services whose clock differs from the one that dates their files: seconds ahead, and in words."""
    for service in services:
        ahead = skew_s(service)
        if ahead is not None and abs(ahead) > MOST_SKEW_S:
            yield service, ahead, f"{age(abs(ahead))} {'ahead' if ahead > 0 else 'behind'}"


def skew_s(service: Service) -> float | None:
    """By how much the clock of a service was ahead of the one that dates its file, when it wrote; s."""
    try:
        changed = datetime.fromtimestamp(service.instance.status.path.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return None
    return (service.instance.status.written_at - changed).total_seconds()

"""Times as people read them: in the zone of this machine, with the zone named."""

from __future__ import annotations

from datetime import UTC, datetime


def local(moment: datetime) -> str:
    """`2026-11-25 14:41:07 +08:00`."""
    from sentinel_core.audit.query.zones import shown_in  # zones of the world: not at every start

    there = shown_in(moment, None)
    offset = there.strftime("%z")
    return f"{there:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"


def age(seconds: float) -> str:
    """`3 s`, `4 min`, `2 h`, `5 d`: one unit, rounded down."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def utc_now() -> datetime:
    """The wall clock, for labels and ages; decisions about traffic never use it."""
    return datetime.now(UTC)

"""Wall-clock times of a zone as points of UTC, also in the hours that a zone skips or has twice."""

from __future__ import annotations

import difflib
import os
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from sentinel_core.audit.errors import QueryInvalid


def zone_named(name: str | None = None) -> ZoneInfo:
    """An IANA zone; without a name the machine's own (`TZ`, `/etc/localtime`), or UTC. Raises QueryInvalid."""
    wanted = name or _machine_zone() or "UTC"
    try:
        return ZoneInfo(wanted)
    except (KeyError, ValueError, OSError):
        if name is None:
            return ZoneInfo("UTC")
        near = difflib.get_close_matches(name, _zone_names(), n=2, cutoff=0.5)
        suggestions = tuple(near) or ("Asia/Shanghai", "UTC")
        raise QueryInvalid(
            f"{name[:60]!r} is not an IANA time zone",
            suggestions=suggestions,
            next_step="give --zone one of those, or the name of another zone of the IANA database",
        ) from None


def to_utc(wall: datetime, zone: tzinfo, *, last: bool = False) -> datetime:
    """A naive wall-clock time as UTC, never falling as the wall clock rises.

    A time that the zone skips (clocks put forward) is the moment of the skip. A time that it has twice (clocks put
    back) is the first pass, or the second with `last`; a window's ends are read so that it covers both.
    Raises QueryInvalid outside of the years 2 to 9998.
    """
    if not 2 <= wall.year <= 9998:
        raise QueryInvalid(f"the year {wall.year} is out of range")
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first <= second:
        return second if last else first
    return _skip_between(second, first, zone)


def shown_in(moment: datetime, zone: tzinfo | None) -> datetime:
    """`moment` in a zone (None: that of this machine), to be shown; in UTC where that leads out of the calendar."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        return moment.astimezone(UTC)


def _skip_between(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The whole second in which the zone's offset changes, by halving."""
    offset = before.astimezone(zone).utcoffset()
    start = before.replace(microsecond=0)
    low, high = 0, int((after - start).total_seconds()) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if (start + timedelta(seconds=middle)).astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return start + timedelta(seconds=high)


def _machine_zone() -> str | None:
    name = os.environ.get("TZ", "").lstrip(":")
    if name:
        return name
    target = str(Path("/etc/localtime").resolve())
    _, found, zone = target.partition("zoneinfo/")
    return zone if found else None


@lru_cache(maxsize=1)
def _zone_names() -> list[str]:
    return sorted(available_timezones())

"""Times of day: `14:30`, `2:30 pm`, `14:00:05.123+08:00`, `3点半`, and parts of a day."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.query import phrases
from sentinel_core.expression import expression

EXAMPLES = ("last wednesday afternoon", "since 2h", "2026-11-25T14:00/PT2H", "上周三下午")


def not_understood(text: str) -> QueryInvalid:
    return QueryInvalid(f"{text!r} is not a time", suggestions=EXAMPLES)


_NOON = dict.fromkeys(("noon", "midday", "正午"), "12:00")
_OFFSET = expression(r"(.*\d) ?(z|[+-]\d{2}:?\d{2})")
_CLOCK_TEXT = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,6}))?)? ?(am|pm)?|(\d{1,2}) ?(am|pm)"
_CLOCK = expression(_CLOCK_TEXT)
CLOCK = rf"{_CLOCK_TEXT}|noon|midday".replace("(", "(?:").replace("(?:?:", "(?:")
"""The same as a part of a pattern, without groups."""
_CHINESE_CLOCK = expression(rf"({phrases.NUMBER})(?:点|时)(?:钟|整|(半)|(一刻)|({phrases.NUMBER})分?)?")


def read_clock(text: str, part: str | None, whole: str, inherited: str | None) -> tuple[timedelta, timezone | None]:
    """Time since midnight of the wall clock, and the offset where one is written."""
    offset = None
    if found := _OFFSET.fullmatch(text):
        text, offset = found[1].strip(), _offset(found[2], whole)
    if text == "midnight":
        day = whole.removesuffix(text).removesuffix("at ")
        ends = (f"{day}00:00", f"{day}24:00")
        raise QueryInvalid(f"{whole!r} may be the beginning or the end of the day", suggestions=ends)
    text = _NOON.get(text, text)
    if found := _CLOCK.fullmatch(text):
        hour, minute, second = int(found[1] or found[6]), int(found[2] or 0), int(found[3] or 0)
        micro = int((found[4] or "").ljust(6, "0")[:6])
        half = found[5] or found[7]
    elif found := _CHINESE_CLOCK.fullmatch(text):
        hour, minute = _chinese_hour(found, whole)
        second, micro, half = 0, 0, None
        part = part or inherited
        if part is None and 1 <= hour <= 11:
            before, after = "上午" if hour >= 6 else "凌晨", "下午" if hour < 6 else "晚上"
            day = whole.removesuffix(text)
            near = tuple(f"{day}{clock}" for clock in (f"{before}{hour}点", f"{after}{hour}点", f"{hour:02}:00"))
            raise QueryInvalid(f"{whole!r} may be before or after noon", suggestions=near)
    else:
        raise not_understood(whole)
    if minute > 59 or second > 59 or hour > 24 or (half and not 1 <= hour <= 12):
        raise QueryInvalid(f"{whole!r} holds no time of day", suggestions=("today 14:30", "today 2:30 pm"))
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if part:
        hour = _hour_in(part, hour, whole)
    since_midnight = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micro)
    if since_midnight > timedelta(hours=24):
        raise QueryInvalid(f"{whole!r} is after the end of the day", suggestions=("today 24:00",))
    return since_midnight, offset


def _chinese_hour(found: re.Match[str], whole: str) -> tuple[int, int]:
    try:
        hour = phrases.number(found[1])
        minute = 30.0 if found[2] else 15.0 if found[3] else phrases.number(found[4]) if found[4] else 0.0
    except (ValueError, KeyError):
        raise not_understood(whole) from None
    if hour != int(hour) or minute != int(minute):
        raise not_understood(whole)
    return int(hour), int(minute)


def _hour_in(part: str, hour: int, whole: str) -> int:
    """`下午3点` is 15, `晚上12点` the end of the day; an hour outside of its part of the day is refused."""
    first, end = phrases.PARTS[part]
    for candidate in (hour, hour + 12):
        if first <= candidate < end or candidate == end == 24:
            return candidate
    if part == "凌晨" and hour == 12:
        return 0
    raise QueryInvalid(f"{whole!r}: {hour} is not in the {part} ({first:02}:00 to {end:02}:00)")


def _offset(text: str, whole: str) -> timezone:
    if text == "z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 14 or minutes > 59:
        raise QueryInvalid(f"{whole!r} has no valid offset", suggestions=("2026-11-25T14:00+08:00",))
    return timezone((-1 if text[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes))

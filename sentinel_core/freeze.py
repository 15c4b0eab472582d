"""Freeze windows: when rules are not published, once or every week, in the zone of the people who decided it.

A window is `[from, to)`, both as dates with a time or both as weekdays with a time, or `days` with `hours`. Where
clocks change, a weekly window lasts from the earlier reading of its beginning until the later one of its end; a date
that such a change makes ambiguous is refused, with what to write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Annotated

from sentinel_core.declared import Declared, Field

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMES = {
    **{day: number for number, day in enumerate(_DAYS)},
    **{f"{name}day": number for number, name in enumerate(("mon", "tues", "wednes", "thurs", "fri", "satur", "sun"))},
}
_DAY_MINUTES = 24 * 60
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")
_YEARS = range(1970, 9000)
_EXAMPLE = "2026-11-10 18:00, 2026-11-10T18:00+08:00 or friday 17:00"


def _text(value: object) -> object:
    """YAML reads some dates as such."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.isoformat() if isinstance(value, date) else value


def _list(value: object) -> object:
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


ENDLESS = datetime.max.replace(tzinfo=UTC)
"""The end of a window that holds all week long."""
Moment = Annotated[str, _text]
Names = Annotated[tuple[str, ...], _list]


class Freeze(Declared):
    """One window, as the settings have it."""

    name: str = Field(min_length=1, description="What it is called, and why: part of every message.")
    start: Moment | None = Field(default=None, alias="from", description=f"When it begins: {_EXAMPLE}.")
    end: Moment | None = Field(default=None, alias="to", description="When it is over.")
    days: Names = Field(default=(), description="Instead of from and to: [sat, sun] or mon-fri.")
    hours: str | None = Field(default=None, description="Of those days, 22:00-06:00; none: the whole days.")
    zone: str | None = Field(default=None, description="Asia/Shanghai, UTC; needed unless the dates have an offset.")
    environments: Names = Field(default=(), description="Globs of the environments it holds for; none: every one.")

    def check(self) -> None:
        """Raises ValueError that says what to write."""
        if bool(self.days) == (self.start is not None or self.end is not None):
            raise ValueError("write from and to, or days and hours, and not both")
        if self.days:
            self._minutes()
        elif self.start is None or self.end is None:
            raise ValueError("write both from and to")
        elif (_weekly(self.start) is None) != (_weekly(self.end) is None):
            raise ValueError("write from and to both as dates, or both as weekdays")
        elif _weekly(self.start) is not None:
            self._minutes()
        elif self._once("from", self.start) >= self._once("to", self.end):
            raise ValueError("to is not after from")

    def until(self, now: datetime, environment: str) -> datetime | None:
        """When it is over, in its own zone, or ENDLESS; None where it does not hold now. `now` is aware. Globs do not
        know upper and lower case: `Prod` is no way around a freeze of `prod`."""
        name = environment.casefold()
        if self.environments and not any(fnmatchcase(name, glob.casefold()) for glob in self.environments):
            return None
        spans = sorted(self._spans(now))
        end = max((end for start, end in spans if start <= now < end), default=None)
        if end is None:
            return None
        for start, later in spans:  # days that follow each other are one freeze
            if start <= end < later:
                end = later
        if spans[-1][1] <= end and self._is_weekly and end - now > timedelta(days=7):
            return ENDLESS
        return end.astimezone(self._zone() if self.zone else end.tzinfo)

    @property
    def _is_weekly(self) -> bool:
        return self.start is None or _weekly(self.start) is not None

    def _spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Those around `now`."""
        if self.start is not None and self.end is not None and not self._is_weekly:
            yield self._once("from", self.start), self._once("to", self.end)
            return
        zone = self._zone()
        today = now.astimezone(zone).date()
        for week in (-1, 0, 1):
            monday = datetime.combine(today - timedelta(days=today.weekday() - 7 * week), datetime.min.time())
            for start, end in self._minutes():
                yield (
                    min(_readings(monday + timedelta(minutes=start), zone)),
                    max(_readings(monday + timedelta(minutes=end), zone)),
                )

    def _minutes(self) -> list[tuple[int, int]]:
        """The weekly spans in minutes since Monday; the end may lie in the next week."""
        self._zone()
        if not self.days:
            start, end = _weekly(self.start or "") or 0, _weekly(self.end or "") or 0
            if start == end:
                raise ValueError("from and to are the same; write days: mon-sun for all the time")
            return [(start, end if end > start else end + 7 * _DAY_MINUTES)]
        start, end = _hours(self.hours)
        return [(day * _DAY_MINUTES + start, day * _DAY_MINUTES + end) for day in _days(self.days)]

    def _zone(self) -> tzinfo:
        if self.zone is None:
            raise ValueError("zone is missing, so nobody knows when that is; write zone: Asia/Shanghai, or zone: UTC")
        from zoneinfo import ZoneInfo  # the settings are read by many who have no freeze

        try:
            return ZoneInfo(self.zone)
        except (OSError, ValueError, KeyError):  # a folder of zones, a path out of them, no such zone
            raise ValueError(_unknown_zone(self.zone)) from None

    def _once(self, name: str, text: str) -> datetime:
        """A date with its time as one moment."""
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip()):
            raise ValueError(f"{name} is a date alone; write the time, too: {text.strip()} 00:00")
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ValueError(f"{name} cannot be read; write {_EXAMPLE}") from None
        if found.year not in _YEARS:
            raise ValueError(f"{name}: {found.year} is no year that a freeze is for")
        if found.tzinfo is not None:
            return found
        zone = self._zone()
        readings = _readings(found, zone)
        if readings[0] != readings[1]:
            happens = "twice" if readings[0] < readings[1] else "never"
            both = " or ".join(_iso(each.astimezone(zone)) for each in sorted(readings))
            raise ValueError(f"{name}: the clocks of {self.zone} change, {found:%H:%M} happens {happens}; write {both}")
        return readings[0]


def frozen(windows: Iterable[Freeze], environment: str, now: datetime) -> list[tuple[Freeze, datetime]]:
    """The windows that hold now, each with its end."""
    ends = ((window, window.until(now, environment)) for window in windows)
    return [(window, end) for window, end in ends if end is not None]


def said(end: datetime) -> str:
    """`until Mon 2026-12-07 08:00 +08:00 (Asia/Shanghai)`."""
    if end == ENDLESS:
        return "and no end is set"
    zone = getattr(end.tzinfo, "key", None)
    return f"until {_DAYS[end.weekday()].title()} {end:%Y-%m-%d %H:%M} {_offset(end)}{f' ({zone})' if zone else ''}"


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}{_offset(moment)}"


def _offset(moment: datetime) -> str:
    text = moment.strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def _readings(naive: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """What a clock's face can mean where clocks change: two moments, else the same twice."""
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def _weekly(text: str) -> int | None:
    """`friday 17:00` in minutes since Monday; None for what does not begin with a weekday. Raises ValueError."""
    day, _, time = text.strip().lower().partition(" ")
    if day not in _NAMES:
        return None
    return _NAMES[day] * _DAY_MINUTES + _minute(time.strip())


def _minute(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise ValueError("a time of day is written 00:00 to 24:00")
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _hours(text: str | None) -> tuple[int, int]:
    """Minutes of the day; the end may lie in the next one."""
    if text is None:
        return 0, _DAY_MINUTES
    parts = [part.strip() for part in re.split("[-–]", text)]
    if len(parts) != 2:
        raise ValueError("hours are written 22:00-06:00")
    start, end = (_minute(part) for part in parts)
    if start == end:
        raise ValueError("hours begin and end at the same time; leave them out for the whole day")
    return start, end if end > start else end + _DAY_MINUTES


def _days(names: Iterable[str]) -> list[int]:
    """Weekdays, in order, of `mon`, `monday` and `mon-fri`."""
    found: set[int] = set()
    for name in names:
        ends = [_NAMES.get(part.strip().lower()) for part in re.split("[-–]", name)]
        first, last = ends[0], ends[-1]
        if first is None or last is None or len(ends) > 2:
            raise ValueError("days are written [sat, sun] or mon-fri, in English")
        found |= {(first + step) % 7 for step in range((last - first) % 7 + 1)}
    return sorted(found)


def _unknown_zone(name: str) -> str:
    import difflib
    from zoneinfo import available_timezones

    known = available_timezones()
    if not known:
        return "this machine knows no time zones; install them (pip install tzdata), or write dates with an offset"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else "write one such as Asia/Shanghai or UTC"
    return f"there is no such zone; {hint}"

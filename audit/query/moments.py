"""One expression of time as a span of UTC: an instant, a part of a day, days, a week, the time since.

last wednesday afternoon    the Wednesday before today (never today), 12:00 to 18:00
wednesday last week, 上周三  the Wednesday of the calendar week before this one; weeks begin on Monday
2h ago, half an hour ago, 2小时前   an instant        last 2 hours, 最近2小时, 2h, PT2H   the time since
2026-11-25, 2026-W48, 2026-11-25T14:00, 2026-11-25T06:30:00.123Z, 25 nov 2026, 11月25日下午3点
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.query import phrases
from sentinel_core.audit.query.clocks import CLOCK, not_understood, read_clock
from sentinel_core.audit.query.days import bare_weekday, calendar_date, leading_day
from sentinel_core.audit.query.zones import to_utc
from sentinel_core.expression import expression


@dataclass(frozen=True, slots=True)
class Frame:
    """What a phrase is read against."""

    now: datetime
    """Aware."""
    zone: tzinfo
    day: date | None = None
    """The day of a bare time of day; today where None."""
    part: str | None = None
    """The part of the day that a bare hour is in, as the 5 of `下午3点到5点`."""

    @property
    def today(self) -> date:
        return self.now.astimezone(self.zone).date()


@dataclass(frozen=True, slots=True)
class Span:
    """`start <= t < end` in UTC. An instant may have two readings where the clocks were put back: first and last."""

    start: datetime
    end: datetime
    instant: bool = False
    day: date | None = None
    """The single day that was named."""
    part: str | None = None
    """The part of the day that was named."""


@dataclass(frozen=True, slots=True)
class Duration:
    """Months and days keep the wall clock, seconds are elapsed time."""

    months: int = 0
    days: int = 0
    seconds: float = 0.0

    def shift(self, at: datetime, zone: tzinfo, sign: int) -> datetime:
        """`at` moved forward (1) or back (-1). Raises QueryInvalid when that leaves the calendar."""
        try:
            if self.months or self.days:
                wall = _add_months(at.astimezone(zone).replace(tzinfo=None), sign * self.months)
                at = to_utc(wall + timedelta(days=sign * self.days), zone)
            return at.astimezone(UTC) + sign * timedelta(seconds=self.seconds)
        except OverflowError:
            raise QueryInvalid("that leads out of the calendar") from None


def moment(text: str, frame: Frame) -> Span:
    """Reads one normalised expression. Raises QueryInvalid with suggestions."""
    if text in {"now", "现在", "此刻", "目前"}:
        return Span(frame.now, frame.now, instant=True)
    try:
        return _relative(text, frame) or _named_span(text, frame) or _day_and_time(text, frame)
    except OverflowError:
        raise QueryInvalid(f"{text!r} leads out of the calendar") from None


def latest(text: str, frame: Frame) -> Span:
    """The same, where `monday 9am` is the latest one that has been: of what is over by now, nothing else can be meant.
    Raises QueryInvalid."""
    if found := bare_weekday(text, frame.today):
        day, rest = found
        span = moment(f"{day}{rest}", frame)
        return span if span.start <= frame.now else moment(f"{day - timedelta(days=7)}{rest}", frame)
    return moment(text, frame)


def point(text: str, frame: Frame) -> Span:
    """The same as one point of the past: `2h` is two hours ago, `20:46` the latest one, a span stands for its end.
    Raises QueryInvalid."""
    if length := duration(text):
        at = length.shift(frame.now, frame.zone, -1)
        return Span(at, at, instant=True)
    span = latest(text, frame)
    if span.instant and span.start > frame.now and leading_day(text, frame.today) is None:
        return moment(text, replace(frame, day=frame.today - timedelta(days=1)))
    return span


def is_clock(text: str) -> bool:
    """Whether a text is a time of a day that it does not name."""
    return _CLOCK_FIRST.fullmatch(text) is not None


def day_behind(text: str, today: date) -> tuple[str, str] | None:
    """`4pm last wednesday` as its time and its day, both as written; None for anything else."""
    found = _CLOCK_FIRST.match(text)
    if found is None or found.end() == len(text):
        return None
    day_words = re.sub(r"^,? ?(?:on |of )?", "", text[found.end() :])
    named = leading_day(day_words, today)
    return (found[0].strip(), day_words) if named and not named[1] else None


def duration(text: str) -> Duration | None:
    """`2h`, `1h30m`, `3 days`, `半小时`, `PT2H`, `P1DT12H`; None for anything else."""
    return _iso_duration(text) or _spoken_duration(text)


_UNITS = phrases.words(phrases.CLOCK_UNITS, phrases.CALENDAR_UNITS)
_PIECE = expression(rf"\s*({phrases.NUMBER})\s*({_UNITS})(?![a-z])")
_ISO_DURATION = expression(
    r"p(?=.)(?:(\d{1,4})y)?(?:(\d{1,4})m)?(?:(\d{1,5})w)?(?:(\d{1,6})d)?"
    r"(?:t(?=\d)(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6}(?:\.\d{1,3})?)s)?)?"
)
_AGO = expression(r"(.+?)\s*(?:ago|之前|以前|前)")
_TRAILING = expression(r"(?:the )?(?:last|past|previous|最近|过去|近|前)\s*(.+?)(?:内|以来|里)?")
_BARE_UNIT = {"hour": "1h", "minute": "1m", "小时": "1h"}
_PAST_UNIT = expression(r"(?:the )?past (day|week|month|year)")
"""As long back from now; the last week is that of the calendar."""
_CLOCK_FIRST = expression(rf"(?:at )?(?:{CLOCK})(?: ?(?:z|[+-]\d{{2}}:?\d{{2}}))?(?![\w:])")


def _iso_duration(text: str) -> Duration | None:
    found = _ISO_DURATION.fullmatch(text)
    if not found:
        return None
    years, months, weeks, days, hours, minutes = (int(part or 0) for part in found.groups()[:6])
    seconds = hours * 3600 + minutes * 60 + float(found[7] or 0)
    return Duration(years * 12 + months, weeks * 7 + days, seconds)


def _spoken_duration(text: str) -> Duration | None:
    months = days = 0
    seconds = 0.0
    position = 0
    while position < len(text):
        found = _PIECE.match(text, position)
        if not found:
            return None
        try:
            amount, unit = phrases.number(found[1]), found[2]
        except (ValueError, KeyError):
            return None
        if unit in phrases.CLOCK_UNITS:
            seconds += amount * phrases.CLOCK_UNITS[unit]
        elif amount == int(amount):
            name, size = phrases.CALENDAR_UNITS[unit]
            days += int(amount) * size if name == "days" else 0
            months += int(amount) * size if name == "months" else 0
        else:
            return None
        position = found.end()
    return Duration(months, days, seconds) if position else None


def _relative(text: str, frame: Frame) -> Span | None:
    text = phrases.JUST_NOW.get(text, text)
    if found := _PAST_UNIT.fullmatch(text):
        text = f"1 {found[1]}"
    if (found := _AGO.fullmatch(text)) and (length := duration(found[1])):
        at = length.shift(frame.now, frame.zone, -1)
        return Span(at, at, instant=True)
    found = _TRAILING.fullmatch(text)
    length = duration(_BARE_UNIT.get(found[1], found[1])) if found else duration(text)
    if length is None:
        return None
    return Span(length.shift(frame.now, frame.zone, -1), frame.now.astimezone(UTC))


_THIS, _LAST = r"(?:this|本|这个?)", r"(?:last|previous|上个?)"
_WEEK, _MONTH, _YEAR = r" ?(?:week|周|星期|礼拜)", r" ?(?:month|月)", r" ?(?:year|年)"
_WEEKEND, _QUARTER = r" ?(?:weekend|周末)", r" ?(?:quarter|季度)"
_SPANS: tuple[tuple[re.Pattern[str], str, int], ...] = (
    (expression(_THIS + _WEEK), "week", 0),
    (expression(_LAST + _WEEK), "week", -1),
    (expression(r"(?:the )?week before last|上上个?(?:周|星期|礼拜)"), "week", -2),
    (expression(_THIS + _MONTH), "month", 0),
    (expression(_LAST + _MONTH), "month", -1),
    (expression(rf"{_THIS}{_WEEKEND}"), "weekend", 0),
    (expression(rf"{_LAST}{_WEEKEND}"), "weekend", -1),
    (expression(rf"{_THIS}{_QUARTER}"), "quarter", 0),
    (expression(rf"{_LAST}{_QUARTER}"), "quarter", -1),
    (expression(rf"{_THIS}{_YEAR}|今年"), "year", 0),
    (expression(rf"(?:last|previous){_YEAR}|去年"), "year", -1),
)


def _named_span(text: str, frame: Frame) -> Span | None:
    """Weeks, months and years, by word or by ISO 8601."""
    for pattern, unit, steps in _SPANS:
        if pattern.fullmatch(text):
            return _days(*_calendar_span(unit, frame.today, steps), frame)
    if found := re.fullmatch(r"(\d{4})-?w(\d{2})", text):
        year, week = int(found[1]), int(found[2])
        monday = calendar_date(lambda: date.fromisocalendar(year, week, 1), text)
        return _days(monday, monday + timedelta(days=7), frame)
    if found := re.fullmatch(r"(\d{4})-(\d{2})|(\d{4}) ?年 ?(\d{1,2}) ?月", text):
        year, month = int(found[1] or found[3]), int(found[2] or found[4])
        first = calendar_date(lambda: date(year, month, 1), text)
        return _days(*_calendar_span("month", first, 0), frame)
    if found := re.fullmatch(r"(\d{4})[- ]?q([1-4])|q([1-4]) (\d{4})", text):
        year, quarter = int(found[1] or found[4]), int(found[2] or found[3])
        first = calendar_date(lambda: date(year, 3 * quarter - 2, 1), text)
        return _days(*_calendar_span("quarter", first, 0), frame)
    if found := re.fullmatch(r"(\d{4})年?", text):
        year = int(found[1])
        first = calendar_date(lambda: date(year, 1, 1), text)
        return _days(*_calendar_span("year", first, 0), frame)
    return None


_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _calendar_span(unit: str, day: date, steps: int) -> tuple[date, date]:
    if unit in {"week", "weekend"}:
        monday = day - timedelta(days=day.weekday()) + timedelta(days=7 * steps)
        return monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=7)
    size = _MONTHS[unit]
    first = datetime(day.year, (day.month - 1) // size * size + 1, 1)  # noqa: DTZ001  a wall-clock date
    return _add_months(first, size * steps).date(), _add_months(first, size * (steps + 1)).date()


def _day_and_time(text: str, frame: Frame) -> Span:
    """A day, then a part of it or a time of day, or a time of day alone, or before its day."""
    if behind := day_behind(text, frame.today):
        text = f"{behind[1]} {behind[0]}"
    found = leading_day(text, frame.today)
    day, rest = found or (frame.day or frame.today, text)
    rest = re.sub(r"^(?:t(?=\d)|,? ?(?:at|in the|的)? ?)", "", rest).strip()
    if found and not rest:
        return _days(day, day + timedelta(days=1), frame)
    reading = _PART.fullmatch(rest)
    if reading is None or not rest:
        raise not_understood(text)
    part, clock, offset = reading[1], rest[reading.end(1) if reading[1] else 0 :].strip(" 的"), None
    if not clock:
        return _part_of(day, part, frame)
    at, offset = read_clock(clock, part, text, frame.part)
    wall, zone = _wall(day, at), offset or frame.zone
    return Span(to_utc(wall, zone), to_utc(wall, zone, last=True), instant=True, day=day, part=part)


_PART = expression(rf"({phrases.words(phrases.PARTS)})?.*")


def _part_of(day: date, part: str, frame: Frame) -> Span:
    first, end = phrases.PARTS[part]
    start, stop = (_wall(day, timedelta(hours=hours)) for hours in (first, end))
    return Span(to_utc(start, frame.zone), to_utc(stop, frame.zone, last=True), day=day)


def _days(first: date, end: date, frame: Frame) -> Span:
    start, stop = _wall(first), _wall(end)
    day = first if end - first == timedelta(days=1) else None
    return Span(to_utc(start, frame.zone), to_utc(stop, frame.zone, last=True), day=day)


def _wall(day: date, at: timedelta = timedelta()) -> datetime:
    try:
        return datetime.combine(day, time()) + at
    except OverflowError:
        raise QueryInvalid(f"the year {day.year} is out of range") from None


def _add_months(wall: datetime, months: int) -> datetime:
    """The same day of another month, or that month's last day. Raises OverflowError."""
    year, month = divmod(wall.year * 12 + wall.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError(year)
    return wall.replace(year=year, month=month + 1, day=min(wall.day, calendar.monthrange(year, month + 1)[1]))

"""Days: words, weekdays, dates. What can be read in two ways is refused with both ways written out."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.query import phrases
from sentinel_core.expression import expression


def calendar_date(make: Callable[[], date], text: str) -> date:
    try:
        return make()
    except ValueError:
        raise QueryInvalid(f"{text!r} names a day that no calendar has") from None


_WEEKDAY = phrases.words(phrases.WEEKDAYS)
_ZH_WEEKDAY = f"(?:周|星期|礼拜)({phrases.words(phrases.CHINESE_WEEKDAYS)})"
_MONTH_NAME = f"({phrases.words(phrases.MONTHS)})"
_ORDINAL = r"(\d{1,2})(?:st|nd|rd|th)?"
_BEFORE_TODAY = expression(rf"(?:last|past|previous) ({_WEEKDAY})\b")
_OF_WEEK = (
    (expression(rf"(?:this ({_WEEKDAY})|({_WEEKDAY}) this week|this week ({_WEEKDAY}))\b"), 0),
    (expression(rf"(?:({_WEEKDAY}) last week|last week ({_WEEKDAY}))\b"), -1),
    (expression(rf"(?:本|这个?){_ZH_WEEKDAY}"), 0),
    (expression(rf"上个?{_ZH_WEEKDAY}"), -1),
    (expression(rf"上上个?{_ZH_WEEKDAY}"), -2),
)
_DAY_WORD = expression(phrases.words(phrases.DAY_WORDS))
_SHORT_DAYS = expression(r"(昨|今)(?=[早晚夜])")
_THIS_PART = expression(r"(?:this (?=(?:morning|afternoon|evening|noon)\b)|to(?=night\b))")
_LAST_NIGHT = expression(r"last (?=(?:night|evening)\b)")
_ISO_DATE = expression(r"(\d{4})-(\d{2})-(\d{2})(?!\d)")
_ISO_WEEK_DATE = expression(r"(\d{4})-?w(\d{2})-?([1-7])(?!\d)")
_CHINESE_NUMBER = r"(\d{1,2}|[一二三四五六七八九十]{1,3})"
_CHINESE_DATE = expression(
    rf"(?:(\d{{4}}|[零〇一二三四五六七八九]{{4}}) ?年 ?)?{_CHINESE_NUMBER} ?月 ?{_CHINESE_NUMBER} ?[日号]"
)
_DAY_MONTH = expression(rf"{_ORDINAL} {_MONTH_NAME}\b,?(?: (\d{{4}})\b)?")
_MONTH_DAY = expression(rf"{_MONTH_NAME} {_ORDINAL}\b,?(?: (\d{{4}})\b)?")
_BARE_WEEKDAY = expression(rf"(?:({_WEEKDAY})\b|{_ZH_WEEKDAY})")
_SLASHED = expression(
    r"(\d{1,4})/(\d{1,2})(?:/(\d{1,4}))?|(\d{1,4})\.(\d{1,2})\.(\d{1,4})|(\d{4})(\d\d)(\d\d)(?!\d)|\d{10,13}"
)


def leading_day(text: str, today: date) -> tuple[date, str] | None:
    """The day that a text begins with, and what follows it."""
    if found := _DAY_WORD.match(text):
        return today + timedelta(days=phrases.DAY_WORDS[found[0]]), text[found.end() :]
    if found := _SHORT_DAYS.match(text):
        return today - timedelta(days=int(found[0] == "昨")), text[1:]
    if found := _THIS_PART.match(text):
        return today, text[found.end() :]
    if found := _LAST_NIGHT.match(text):
        return today - timedelta(days=1), text[found.end() :]
    if found := _BEFORE_TODAY.match(text):
        back = (today.weekday() - phrases.WEEKDAYS[found[1]] - 1) % 7 + 1
        return today - timedelta(days=back), text[found.end() :]
    for pattern, weeks in _OF_WEEK:
        if found := pattern.match(text):
            name = next(group for group in found.groups() if group)
            number = (phrases.WEEKDAYS | phrases.CHINESE_WEEKDAYS)[name]
            monday = today - timedelta(days=today.weekday())
            return monday + timedelta(days=7 * weeks + number), text[found.end() :]
    return _leading_date(text, today)


def _leading_date(text: str, today: date) -> tuple[date, str] | None:
    if found := _ISO_DATE.match(text):
        year, month, day = found.groups()
    elif found := _ISO_WEEK_DATE.match(text):
        iso = tuple(int(part) for part in found.groups())
        return calendar_date(lambda: date.fromisocalendar(*iso), text), text[found.end() :]
    elif found := _CHINESE_DATE.match(text):
        year, month, day = _chinese_digits(found)
    elif found := _DAY_MONTH.match(text):
        day, month, year = found[1], str(phrases.MONTHS[found[2]]), found[3]
    elif found := _MONTH_DAY.match(text):
        day, month, year = found[2], str(phrases.MONTHS[found[1]]), found[3]
    else:
        _refuse_ambiguous(text, today)
        return None
    named = calendar_date(lambda: date(int(year or today.year), int(month), int(day)), text)
    if year is None and named > today:
        # A day without a year is the latest one that has been.
        named = calendar_date(lambda: date(today.year - 1, int(month), int(day)), text)
    return named, text[found.end() :]


def _chinese_digits(found: re.Match[str]) -> tuple[str | None, str, str]:
    """Year, month and day of `二〇二六年十一月二十五日` as digits."""
    year, month, day = found.groups()
    if year is not None and not year.isascii():
        year = "".join(str(int(phrases.number(digit))) for digit in year)
    try:
        return year, str(int(phrases.number(month))), str(int(phrases.number(day)))
    except (ValueError, KeyError):
        raise QueryInvalid(f"{found[0]!r} names a day that no calendar has") from None


def bare_weekday(text: str, today: date) -> tuple[date, str] | None:
    """The latest such weekday, which may be today, and what follows it, where nothing says of which week it is."""
    found = _BARE_WEEKDAY.match(text)
    if found is None:
        return None
    number = phrases.WEEKDAYS[found[1]] if found[1] else phrases.CHINESE_WEEKDAYS[found[2]]
    return today - timedelta(days=(today.weekday() - number) % 7), text[found.end() :]


def _refuse_ambiguous(text: str, today: date) -> None:
    if found := _BARE_WEEKDAY.match(text):
        rest = text[found.end() :]
        name = found[1] or found[0]
        near = (f"last {name}{rest}", f"this {name}{rest}") if found[1] else (f"上{name}{rest}", f"本{name}{rest}")
        raise QueryInvalid(f"{text!r} does not say of which week", suggestions=near)
    if found := _SLASHED.match(text):
        readings = _readings([int(part) for part in found.groups() if part], today)
        if len(readings) == 1:
            raise QueryInvalid(f"{text!r} is no way to write a date here", suggestions=readings)
        readings = readings or ("2026-11-25", "2026-11-25T14:00Z")
        raise QueryInvalid(f"{text!r} can be read in several ways", suggestions=readings)


def _readings(numbers: list[int], today: date) -> tuple[str, ...]:
    """The days that `11/12/2026` may mean: by the order of month and day, wherever the year stands."""
    if len(numbers) == 2:
        numbers = [*numbers, today.year]
    if len(numbers) != 3 or (numbers[0] < 1000) == (numbers[2] < 1000):
        return ()
    year, first, second = numbers if numbers[0] >= 1000 else (numbers[2], numbers[0], numbers[1])
    found = []
    for month, day in dict.fromkeys(((first, second), (second, first))):
        with suppress(ValueError):
            found.append(date(year, month, day).isoformat())
    return tuple(found)

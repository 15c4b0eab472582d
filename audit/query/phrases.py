"""The words of time that are understood, English and Chinese, after `normalise`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_LENGTH = 200

WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            ("monday", "mon"),
            ("tuesday", "tue", "tues"),
            ("wednesday", "wed"),
            ("thursday", "thu", "thur", "thurs"),
            ("friday", "fri"),
            ("saturday", "sat"),
            ("sunday", "sun"),
        )
    )
    for name in names
}
CHINESE_WEEKDAYS = {**{digit: number for number, digit in enumerate("一二三四五六日")}, "天": 6}
_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
MONTHS = {name[:length]: number for number, name in enumerate(_MONTH_NAMES, 1) for length in (3, len(name))}
DAY_WORDS = {
    "today": 0, "今天": 0, "今日": 0,
    "yesterday": -1, "昨天": -1, "昨日": -1,
    "the day before yesterday": -2, "day before yesterday": -2, "前天": -2, "前日": -2,
    "大前天": -3,
}  # fmt: skip
PARTS = {
    "morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 24),
    "凌晨": (0, 6), "早上": (6, 12), "早晨": (6, 12), "清晨": (6, 12), "早": (6, 12), "上午": (6, 12), "中午": (11, 14),
    "下午": (12, 18), "傍晚": (18, 24), "晚上": (18, 24), "夜里": (18, 24), "晚": (18, 24),
    "夜": (18, 24),
}  # fmt: skip
"""Part of a day → first hour, hour after the last."""

JUST_NOW = {"just now": "10m", "刚才": "10m", "刚刚": "10m"}
"""Vague words → how far back they reach; what is understood is told before every answer."""

CLOCK_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分", "分钟"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "个小时", "钟头", "个钟头"), 3600),
}
"""Seconds of units that are elapsed time."""
CALENDAR_UNITS = {
    **dict.fromkeys(("d", "day", "days", "天"), ("days", 1)),
    **dict.fromkeys(("w", "week", "weeks", "周", "星期", "个星期", "礼拜", "个礼拜"), ("days", 7)),
    **dict.fromkeys(("mo", "month", "months", "个月"), ("months", 1)),
    **dict.fromkeys(("y", "year", "years"), ("months", 12)),
}
"""Units that keep the wall clock: a day is 23 or 25 hours long where the zone makes it so."""

_NUMBER_WORDS = {
    "half an": 0.5, "half a": 0.5, "half": 0.5, "an": 1, "a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5,
    "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
NUMBER = rf"\d{{1,6}}(?:\.\d{{1,3}})?|[零〇一二两三四五六七八九十]{{1,3}}|半|(?:{'|'.join(_NUMBER_WORDS)})(?= )"
_DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}


def normalise(text: str) -> str:
    """One spelling: full-width characters narrowed, lower case, single blanks, traditional characters simplified."""
    narrow = unicodedata.normalize("NFKC", text).lower().translate(_SIMPLIFIED)
    return re.sub(r"\s+", " ", narrow).strip()


def number(text: str) -> float:
    """`3`, `1.5`, `三`, `十二`, `二十`, `半`, `half an`. Raises ValueError."""
    if text == "半":
        return 0.5
    if text in _NUMBER_WORDS:
        return _NUMBER_WORDS[text]
    if text[0].isascii():
        return float(text)
    tens, ten, ones = text.partition("十")
    if not ten:
        if len(text) != 1:
            raise ValueError(text)
        return _DIGITS[text]
    return (_DIGITS[tens] if tens else 1) * 10 + (_DIGITS[ones] if ones else 0)


def words(*tables: Iterable[str]) -> str:
    """An alternation of the keys of tables, longest first."""
    keys = [key for table in tables for key in table]
    return "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))


_SIMPLIFIED = str.maketrans("週禮個這點時鐘號兩過間裡", "周礼个这点时钟号两过间里")

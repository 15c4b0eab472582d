"""What may be written whatever stands anywhere: durations, times, fields, kinds, zones."""

from __future__ import annotations

from sentinel_core.cli.shells import item
from sentinel_core.cli.values.line import Items, Line

DURATIONS = ("10s", "30s", "1m", "5m", "15m", "30m", "1h", "4h", "1d")
SINCE = {
    "15m": "the last 15 minutes",
    "1h": "the last hour",
    "2h": "the last two hours",
    "1d": "one day back",
    "7d": "seven days back",
    "today": "since midnight",
    "yesterday": "since its midnight",
    "this week": "since Monday",
    "last week": "since its Monday",
    "this month": "since its first",
    "last wednesday 14:00": "since a time of a day",
    "2 hours ago": "",
}
"""Each with what it says, where that is not plain."""
MOMENTS = {
    "2m": "two minutes ago",
    "1h": "one hour ago",
    "1d": "one day ago",
    "12:00": "the latest noon",
    "yesterday 18:00": "",
}
SPANS = (
    *("today", "yesterday", "this week", "last week", "last weekend", "this month", "last month", "past 24h"),
    "last wednesday afternoon",
)
AGO = ("30 days ago", "90 days ago", "6 months ago", "1 year ago", "last month", "last year")
CHINESE = ("今天", "昨天", "昨天下午", "上周", "上周三下午", "本周", "上个月", "最近3天", "2小时前", "刚才")
"""For who has begun to write so."""
SHARES = ("50%", "90%", "99%", "100%")
ADDRESSES = {"127.0.0.1:9465": "this machine alone", "0.0.0.0:9465": "every address"}


def durations(_: Line) -> Items:
    return [item(each) for each in DURATIONS]


def since(line: Line) -> Items:
    """Phrases, not all that are understood."""
    yield from (item(*each) for each in SINCE.items())
    if not line.incomplete.isascii():
        yield from map(item, CHINESE)


def between(line: Line) -> Items:
    """START, then END."""
    yield from since(line)
    yield item("now")


def spans(_: Line) -> Items:
    """Whole windows."""
    return [item(each) for each in SPANS]


def at(_: Line) -> Items:
    """An instant."""
    return [item(*each) for each in MOMENTS.items()]


def ago(_: Line) -> Items:
    """Of what is old."""
    return [item(each) for each in AGO]


def shares(_: Line) -> Items:
    return [item(each) for each in SHARES]


def addresses(_: Line) -> Items:
    return [item(*each) for each in ADDRESSES.items()]


def zones(_: Line) -> Items:
    from zoneinfo import available_timezones

    return [item(name) for name in sorted(available_timezones())]


def kinds(_: Line) -> Items:
    from sentinel_core.rules import KINDS

    return [item(kind) for kind in KINDS]


def fields(line: Line) -> Items:
    """Of the kind that is given, else of every kind, which stands beside them."""
    from sentinel_core.rules.registry import MODELS

    having: dict[str, list[str]] = {}
    for kind, model in MODELS.items():
        for name in model.fields_by_alias() if line.kind in (None, kind) else ():
            having.setdefault(name, []).append(kind)
    return [item(name, "" if line.kind else ", ".join(kinds)) for name, kinds in sorted(having.items())]

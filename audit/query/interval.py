"""Windows of time as people write them. Always half-open, always resolved against a given now and zone, always echoed.

A window is one expression (`yesterday`, `last wednesday afternoon`, `最近3天`), or two with `to`, `..`, `~`, `到`, `至`
or `/` between them; a side that names a span counts whole, so `2026-11-25/2026-11-27` ends when the 27th does. An
instant alone is no window. `moments.py` lists the expressions, `zones.py` what happens when clocks are changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.query.clocks import EXAMPLES
from sentinel_core.audit.query.moments import (
    Duration,
    Frame,
    day_behind,
    duration,
    is_clock,
    latest,
    moment,
    point,
)
from sentinel_core.audit.query.phrases import MAX_LENGTH, normalise
from sentinel_core.audit.query.zones import shown_in
from sentinel_core.expression import expression


@dataclass(frozen=True, slots=True)
class Interval:
    """`start <= t < end`, aware UTC."""

    start: datetime
    end: datetime
    zone: tzinfo
    """The zone it was written in, and is shown in."""

    def describe(self) -> str:
        """`2026-11-25 12:00 – 18:00 Asia/Shanghai`; what is echoed."""
        start, end = (shown_in(at, self.zone) for at in (self.start, self.end))
        until = _clock(end) if start.date() == end.date() else f"{end:%Y-%m-%d} {_clock(end)}"
        return f"{start:%Y-%m-%d} {_clock(start)} – {until} {self.zone}"

    def to_json(self) -> dict[str, str]:
        """`start` and `end` as RFC 3339, and the name of the zone."""
        return {"start": rfc3339(self.start), "end": rfc3339(self.end), "zone": str(self.zone)}


def window(text: str, *, now: datetime, zone: tzinfo) -> Interval:
    """One text that says a whole window. Raises QueryInvalid."""
    clean, frame = _clean(text), Frame(now, zone)
    sides = _sides(re.sub(r"^(?:from|between|从|自) ?", "", clean))
    if sides:
        return _between(*sides, frame)
    if found := re.fullmatch(r"(?:since|from) (.+)|[自从]?(.+?)(?:以来|至今|到现在)", clean):
        return _since(found[1] or found[2], frame)
    span = moment(clean, frame)
    if span.instant:
        at = span.start.astimezone(zone).isoformat(timespec="minutes")
        near = (f"since {clean}", f"{at}/PT1H")
        raise QueryInvalid(f"{text!r} is a point in time, not a window", suggestions=near)
    return _interval(span.start, span.end, frame)


def between(start: str, end: str, *, now: datetime, zone: tzinfo) -> Interval:
    """Two texts; the second may be a time of the first one's day. `2h` is two hours ago, at either end, and `PT2H` two
    hours from the other end. Raises QueryInvalid."""
    return _between(_clean(start), _clean(end), Frame(now, zone))


def since(text: str, *, now: datetime, zone: tzinfo) -> Interval:
    """From the beginning of what is named until now; `2h` is two hours ago. Raises QueryInvalid."""
    try:
        return _since(_clean(text), Frame(now, zone))
    except QueryInvalid as error:
        if error.suggestions != EXAMPLES:
            raise
        raise QueryInvalid(f"{text!r} is not a time", suggestions=_BEGINNINGS) from error


def beginning(text: str, *, now: datetime, zone: tzinfo) -> datetime:
    """When what is named began; `2h` is two hours ago. Raises QueryInvalid, also for what is to come."""
    return _begun(_clean(text), Frame(now, zone))


def until(text: str, *, now: datetime, zone: tzinfo) -> Interval:
    """All up to a point of the past, or to the end of what is named; a time of day is the latest one that has been.
    Raises QueryInvalid."""
    frame = Frame(now, zone)
    return _interval(EVER, point(_clean(text), frame).end, frame)


EVER = datetime(1970, 1, 1, tzinfo=UTC)
_BEGINNINGS = ("2h", "yesterday", "2026-11-25T14:00", "上周三下午")
"""What may be written where `since` is said already."""
_SEPARATOR = expression(r" (?:to|until|till|and|-) |\.\.| ?[~–—] ?|到(?!现在$)|至(?!今$)")
_TIMES = expression(r"(?<=\d:\d\d)-(?=\d{1,2}:\d\d)")


def _sides(text: str) -> tuple[str, str] | None:
    """Both ends of a range, None where there is one expression only."""
    is_iso = re.match(r"\d{4}-|p\d|pt", text) is not None
    if is_iso and "/" in text:
        sides = text.split("/")
    else:
        sides = _SEPARATOR.split(text)
        # After an ISO date, `14:00-08:00` is an offset from UTC.
        if len(sides) == 1 and not is_iso:
            sides = _TIMES.split(text)
    if len(sides) > 2:
        raise QueryInvalid(f"{text!r} has more than two ends", suggestions=EXAMPLES)
    return (sides[0].strip(), sides[1].strip()) if len(sides) == 2 else None


def _between(start: str, end: str, frame: Frame) -> Interval:
    before, after = duration(start), duration(end)
    if before is not None and start.startswith("p"):
        last = moment(end, frame)
        return _interval(before.shift(last.start if last.instant else last.end, frame.zone, -1), last.end, frame)
    if is_clock(start) and (behind := day_behind(end, frame.today)):
        start, end = f"{behind[1]} {start}", f"{behind[1]} {behind[0]}"
    first = moment(start, frame)
    if first.instant and first.start == frame.now:
        raise QueryInvalid("nothing has happened yet after now", suggestions=(f"{end} to {start}",))
    if after is not None and end.startswith("p"):
        # Of a time that the clock shows twice, the second pass counts too.
        last_begin = first.end if first.instant else first.start
        return _interval(first.start, after.shift(last_begin, frame.zone, 1), frame)
    last = point(end, frame) if after is not None else moment(end, replace(frame, day=first.day, part=first.part))
    if last.end <= first.start:
        near = (f"{end} to {start}",) if last.start < first.end and end != start else ()
        raise _empty(first.start, last.end, frame, near)
    return _interval(first.start, last.end, frame)


def _since(text: str, frame: Frame) -> Interval:
    return _interval(_begun(text, frame), frame.now, frame)


def _begun(text: str, frame: Frame) -> datetime:
    span = latest(text, frame)
    if span.start > frame.now:
        start, now = (at.astimezone(frame.zone) for at in (span.start, frame.now))
        clocks = f"it begins at {start:%Y-%m-%d %H:%M} {frame.zone}, now it is {now:%Y-%m-%d %H:%M}"
        raise QueryInvalid(f"{text!r} lies in the future: {clocks}", suggestions=("2h", "yesterday"))
    return span.start


def _interval(start: datetime, end: datetime, frame: Frame) -> Interval:
    utc_start, utc_end = (Duration().shift(at, frame.zone, 1) for at in (start, end))
    if utc_end <= utc_start:
        raise _empty(start, end, frame)
    return Interval(utc_start, utc_end, frame.zone)


def _empty(start: datetime, end: datetime, frame: Frame, near: tuple[str, ...] = ()) -> QueryInvalid:
    shown = " – ".join(f"{at.astimezone(frame.zone):%Y-%m-%d %H:%M:%S}" for at in (start, end))
    how = "ends before it begins" if end < start else "is empty"
    return QueryInvalid(f"the window {how}: {shown} {frame.zone}", suggestions=near)


def _clean(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise QueryInvalid(f"a time of {len(text)} characters; at most {MAX_LENGTH} are read")
    clean = normalise(text)
    if not clean:
        raise QueryInvalid("no time is given", suggestions=EXAMPLES)
    return clean


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second or at.microsecond else f"{at:%H:%M}"

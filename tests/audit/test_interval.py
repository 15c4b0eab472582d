"""Windows of time: what people write, what it means, and what is refused with a better way to write it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.query.interval import Interval, between, since, until, window
from sentinel_core.audit.query.phrases import WEEKDAYS
from sentinel_core.audit.query.zones import to_utc, zone_named

SHANGHAI = ZoneInfo("Asia/Shanghai")
NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 30, 10, 20, tzinfo=SHANGHAI)
"""A Monday."""


def read(text: str, now: datetime = NOW, zone: ZoneInfo = SHANGHAI) -> str:
    return window(text, now=now, zone=zone).describe()


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("last wednesday afternoon", "2026-11-25 12:00 – 18:00"),
        ("Last Wednesday  Morning", "2026-11-25 06:00 – 12:00"),
        ("last wed", "2026-11-25 00:00 – 2026-11-26 00:00"),
        ("last monday", "2026-11-23 00:00 – 2026-11-24 00:00"),
        ("this monday", "2026-11-30 00:00 – 2026-12-01 00:00"),
        ("wednesday last week evening", "2026-11-25 18:00 – 2026-11-26 00:00"),
        ("last wednesday 12:00 to 18:00", "2026-11-25 12:00 – 18:00"),
        ("last wednesday 12:00-18:00", "2026-11-25 12:00 – 18:00"),
        ("last wednesday at 2pm to 3:30 pm", "2026-11-25 14:00 – 15:30"),
        ("between yesterday 12:00 and 13:00", "2026-11-29 12:00 – 13:00"),
        ("today", "2026-11-30 00:00 – 2026-12-01 00:00"),
        ("yesterday", "2026-11-29 00:00 – 2026-11-30 00:00"),
        ("the day before yesterday", "2026-11-28 00:00 – 2026-11-29 00:00"),
        ("this week", "2026-11-30 00:00 – 2026-12-07 00:00"),
        ("last week", "2026-11-23 00:00 – 2026-11-30 00:00"),
        ("this morning", "2026-11-30 06:00 – 12:00"),
        ("this afternoon", "2026-11-30 12:00 – 18:00"),
        ("tonight", "2026-11-30 18:00 – 2026-12-01 00:00"),
        ("last night", "2026-11-29 18:00 – 2026-11-30 00:00"),
        ("since an hour ago", "2026-11-30 09:20 – 10:20"),
        ("since half an hour ago", "2026-11-30 09:50 – 10:20"),
        ("since two days ago", "2026-11-28 10:20 – 2026-11-30 10:20"),
        ("last half hour", "2026-11-30 09:50 – 10:20"),
        ("yesterday at noon to 2pm", "2026-11-29 12:00 – 14:00"),
        ("yesterday noon to now", "2026-11-29 12:00 – 2026-11-30 10:20"),
        ("just now", "2026-11-30 10:10 – 10:20"),
        ("last month", "2026-10-01 00:00 – 2026-11-01 00:00"),
        ("last year", "2025-01-01 00:00 – 2026-01-01 00:00"),
        ("2h", "2026-11-30 08:20 – 10:20"),
        ("last 2 hours", "2026-11-30 08:20 – 10:20"),
        ("past hour", "2026-11-30 09:20 – 10:20"),
        ("1h30m", "2026-11-30 08:50 – 10:20"),
        ("last 3 days", "2026-11-27 10:20 – 2026-11-30 10:20"),
        ("since 2h ago", "2026-11-30 08:20 – 10:20"),
        ("since yesterday", "2026-11-29 00:00 – 2026-11-30 10:20"),
        ("yesterday to now", "2026-11-29 00:00 – 2026-11-30 10:20"),
        ("2026-11-25", "2026-11-25 00:00 – 2026-11-26 00:00"),
        ("2026-11-25T14:00/PT2H", "2026-11-25 14:00 – 16:00"),
        ("PT2H/2026-11-25T14:00", "2026-11-25 12:00 – 14:00"),
        ("2026-11-25T14:00/16:00", "2026-11-25 14:00 – 16:00"),
        ("2026-11-25/2026-11-27", "2026-11-25 00:00 – 2026-11-28 00:00"),
        ("2026-11-25T06:00:00Z/2026-11-25T07:00:00.500Z", "2026-11-25 14:00 – 15:00:00"),
        ("2026-11-25T14:00-08:00/PT1H", "2026-11-26 06:00 – 07:00"),
        ("2026-W48", "2026-11-23 00:00 – 2026-11-30 00:00"),
        ("2026-W48-3", "2026-11-25 00:00 – 2026-11-26 00:00"),
        ("2026-02", "2026-02-01 00:00 – 2026-03-01 00:00"),
        ("2026", "2026-01-01 00:00 – 2027-01-01 00:00"),
        ("P1D", "2026-11-29 10:20 – 2026-11-30 10:20"),
        ("P1M", "2026-10-30 10:20 – 2026-11-30 10:20"),
        ("25 nov 2026 14:00..15:00", "2026-11-25 14:00 – 15:00"),
        ("November 25th", "2026-11-25 00:00 – 2026-11-26 00:00"),
        ("dec 24", "2025-12-24 00:00 – 2025-12-25 00:00"),
        ("上周三下午", "2026-11-25 12:00 – 18:00"),
        ("上週三下午", "2026-11-25 12:00 – 18:00"),
        ("上星期三的上午", "2026-11-25 06:00 – 12:00"),
        ("上上周日", "2026-11-22 00:00 – 2026-11-23 00:00"),
        ("本周", "2026-11-30 00:00 – 2026-12-07 00:00"),
        ("上周", "2026-11-23 00:00 – 2026-11-30 00:00"),
        ("上个月", "2026-10-01 00:00 – 2026-11-01 00:00"),
        ("昨天", "2026-11-29 00:00 – 2026-11-30 00:00"),
        ("刚才", "2026-11-30 10:10 – 10:20"),
        ("今早", "2026-11-30 06:00 – 12:00"),
        ("今晚", "2026-11-30 18:00 – 2026-12-01 00:00"),
        ("昨夜", "2026-11-29 18:00 – 2026-11-30 00:00"),
        ("昨天正午到下午2点", "2026-11-29 12:00 – 14:00"),
        ("昨晚", "2026-11-29 18:00 – 2026-11-30 00:00"),
        ("前天凌晨", "2026-11-28 00:00 – 06:00"),
        ("最近3天", "2026-11-27 10:20 – 2026-11-30 10:20"),
        ("最近三天内", "2026-11-27 10:20 – 2026-11-30 10:20"),
        ("过去半小时", "2026-11-30 09:50 – 10:20"),
        ("上周三下午3点到5点", "2026-11-25 15:00 – 17:00"),
        ("上周三12点到18点半", "2026-11-25 12:00 – 18:30"),
        ("昨天晚上8点至晚上12点", "2026-11-29 20:00 – 2026-11-30 00:00"),
        ("从昨天到现在", "2026-11-29 00:00 – 2026-11-30 10:20"),
        ("昨天至今", "2026-11-29 00:00 – 2026-11-30 10:20"),
        ("11月25日下午", "2026-11-25 12:00 – 18:00"),
        ("2026年11月25号", "2026-11-25 00:00 – 2026-11-26 00:00"),
        ("between 2pm and 4pm last wednesday", "2026-11-25 14:00 – 16:00"),
        ("2pm to 4pm on 2026-11-25", "2026-11-25 14:00 – 16:00"),
        ("14:00-16:00 yesterday", "2026-11-29 14:00 – 16:00"),
        ("2pm last wednesday to 4pm last wednesday", "2026-11-25 14:00 – 16:00"),
        ("noon to 2pm yesterday", "2026-11-29 12:00 – 14:00"),
        ("since monday 9am", "2026-11-30 09:00 – 10:20"),
        ("since monday 11am", "2026-11-23 11:00 – 2026-11-30 10:20"),
        ("since tuesday", "2026-11-24 00:00 – 2026-11-30 10:20"),
        ("从周三下午至今", "2026-11-25 12:00 – 2026-11-30 10:20"),
        ("past day", "2026-11-29 10:20 – 2026-11-30 10:20"),
        ("past week", "2026-11-23 10:20 – 2026-11-30 10:20"),
        ("the past month", "2026-10-30 10:20 – 2026-11-30 10:20"),
        ("last weekend", "2026-11-28 00:00 – 2026-11-30 00:00"),
        ("this weekend", "2026-12-05 00:00 – 2026-12-07 00:00"),
        ("上周末", "2026-11-28 00:00 – 2026-11-30 00:00"),
        ("2026-Q3", "2026-07-01 00:00 – 2026-10-01 00:00"),
        ("Q4 2025", "2025-10-01 00:00 – 2026-01-01 00:00"),
        ("last quarter", "2026-07-01 00:00 – 2026-10-01 00:00"),
        ("上个季度", "2026-07-01 00:00 – 2026-10-01 00:00"),
        ("十一月二十五日", "2026-11-25 00:00 – 2026-11-26 00:00"),
        ("二〇二六年十一月二十五日下午", "2026-11-25 12:00 – 18:00"),
        ("上周三下午2点到4点", "2026-11-25 14:00 – 16:00"),
        ("2h to 1h", "2026-11-30 08:20 – 09:20"),
        ("２０２６－１１－２５", "2026-11-25 00:00 – 2026-11-26 00:00"),
    ],
)
def test_what_people_write_is_one_half_open_window(text: str, resolved: str) -> None:
    assert read(text) == f"{resolved} Asia/Shanghai"


@pytest.mark.parametrize("now", ["2026-11-24", "2026-11-25", "2026-11-26", "2026-12-01"])
def test_last_wednesday_is_before_today_while_of_last_week_is_of_the_week_before(now: str) -> None:
    at = datetime.fromisoformat(f"{now}T10:00").replace(tzinfo=SHANGHAI)
    by_day = {"2026-11-24": "18", "2026-11-25": "18", "2026-11-26": "25", "2026-12-01": "25"}
    by_week = {"2026-11-24": "18", "2026-11-25": "18", "2026-11-26": "18", "2026-12-01": "25"}
    assert read("last wednesday", at).startswith(f"2026-11-{by_day[now]} ")
    assert read("wednesday last week", at).startswith(f"2026-11-{by_week[now]} ")
    assert read("上周三", at).startswith(f"2026-11-{by_week[now]} ")


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("wednesday", "last wednesday"),
        ("wednesday afternoon", "this wednesday afternoon"),
        ("周三下午", "上周三下午"),
        ("11/25/2026", "2026-11-25"),
        ("11/12/2026", "2026-11-12"),
        ("11/12/2026", "2026-12-11"),
        ("11.12.2026", "2026-12-11"),
        ("2026/11/12", "2026-11-12"),
        ("3/11", "2026-03-11"),
        ("20260203", "2026-02-03"),
        ("1h to 2h", "2h to 1h"),
        ("25.11.2026", "2026-11-25"),
        ("20261125", "2026-11-25"),
        ("1795588200123", "2026-11-25"),
        ("昨天3点", "昨天下午3点"),
        ("last wednesday 12:00", "since last wednesday 12:00"),
        ("2h ago", "since 2h ago"),
        ("yesterday at midnight", "yesterday 24:00"),
        ("yesterday noon", "since yesterday noon"),
        ("now to today", "today to now"),
        ("18:00 to 12:00", "12:00 to 18:00"),
        ("today to yesterday", "yesterday to today"),
        ("three o'clock", "last wednesday afternoon"),
        ("last day", "since 2h"),
        ("", "last wednesday afternoon"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_with_both(text: str, suggestion: str) -> None:
    with pytest.raises(QueryInvalid) as refusal:
        read(text)
    assert suggestion in refusal.value.suggestions
    assert suggestion in str(refusal.value)
    for each in refusal.value.suggestions:
        _is_understood(each)


@pytest.mark.parametrize(
    "text",
    [
        "2026-13-01", "2026-02-30", "2026-W54", "last wednesday 25:00", "last wednesday 12:60", "13:00 pm to 14:00 pm",
        "下午9点", "yesterday 24:01 to now", "am", "a", "half", "an",
        "tonight noon 3", "9999-12-31", "0001-01-01", "99999 years ago to now", "999999d", "now",
        "tomorrow", "today to yesterday", "a to b to c", "2026-11-25/2026-11-26/2026-11-27",
        "2026-11-25T14:00-18:00/PT1H", "2026-Q5", "十三月四十日", "十十月五日", "2pm to 4pm last", "2h to 2h",
        "p", "pt", "一一点", "x" * 201, "\x00", "last", "of", "/", "..", "到",
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_words(text: str) -> None:
    with pytest.raises(QueryInvalid):
        read(text)


def test_the_second_end_may_be_a_time_of_the_first_ones_day() -> None:
    interval = between("last wednesday 12:00", "18:00", now=NOW, zone=SHANGHAI)
    assert interval.describe() == "2026-11-25 12:00 – 18:00 Asia/Shanghai"
    assert interval == between("last wednesday 12:00", "last wednesday 18:00", now=NOW, zone=SHANGHAI)
    assert interval == between("last wednesday 12:00", "PT6H", now=NOW, zone=SHANGHAI)


def test_since_reaches_until_now() -> None:
    assert since("2h", now=NOW, zone=SHANGHAI) == since("2h ago", now=NOW, zone=SHANGHAI)
    assert since("yesterday", now=NOW, zone=SHANGHAI).end == NOW


@pytest.mark.parametrize("text", ["今天上午", "this afternoon", "18:00", "this sunday"])
def test_since_what_is_to_come_says_that_it_lies_in_the_future(text: str) -> None:
    now = datetime(2026, 11, 30, 4, 8, tzinfo=SHANGHAI)
    with pytest.raises(QueryInvalid, match=r"lies in the future.*now it is 2026-11-30 04:08"):
        since(text, now=now, zone=SHANGHAI)


def test_a_range_the_wrong_way_round_is_refused_with_the_right_one() -> None:
    with pytest.raises(QueryInvalid, match=r"nothing has happened yet after now.*'today to now'"):
        between("now", "today", now=NOW, zone=SHANGHAI)
    with pytest.raises(QueryInvalid, match=r"ends before it begins.*'12:00 to 18:00'"):
        between("18:00", "12:00", now=NOW, zone=SHANGHAI)


def test_a_date_of_which_one_reading_is_in_the_calendar_names_that_one_alone() -> None:
    with pytest.raises(QueryInvalid) as refusal:
        read("25/12/2026")
    assert refusal.value.suggestions == ("2026-12-25",)


def test_durations_as_ends_count_back_from_now() -> None:
    assert between("2h", "1h", now=NOW, zone=SHANGHAI).describe() == "2026-11-30 08:20 – 09:20 Asia/Shanghai"
    assert between("yesterday", "90m", now=NOW, zone=SHANGHAI).end == NOW - timedelta(minutes=90)
    with pytest.raises(QueryInvalid, match=r"ends before it begins.*'2h to 1h'"):
        between("1h", "2h", now=NOW, zone=SHANGHAI)


def test_both_ends_may_name_their_day_behind_the_time() -> None:
    named = between("2pm last wednesday", "4pm last wednesday", now=NOW, zone=SHANGHAI)
    assert named == between("2pm", "4pm last wednesday", now=NOW, zone=SHANGHAI)
    assert named.describe() == "2026-11-25 14:00 – 16:00 Asia/Shanghai"


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("09:30:15", "2026-11-30 09:30:15"),
        ("20:46:53", "2026-11-29 20:46:53"),
        ("下午3点", "2026-11-29 15:00:00"),
        ("2m", "2026-11-30 10:18:00"),
        ("PT2H", "2026-11-30 08:20:00"),
        ("2h ago", "2026-11-30 08:20:00"),
        ("monday 9am", "2026-11-30 09:00:00"),
        ("monday 11am", "2026-11-23 11:00:00"),
        ("2pm last wednesday", "2026-11-25 14:00:00"),
        ("last wednesday afternoon", "2026-11-25 18:00:00"),
        ("yesterday", "2026-11-30 00:00:00"),
        ("now", "2026-11-30 10:20:00"),
    ],
)
def test_a_point_is_one_of_the_past(text: str, resolved: str) -> None:
    interval = until(text, now=NOW, zone=SHANGHAI)
    assert f"{interval.end.astimezone(SHANGHAI):%Y-%m-%d %H:%M:%S}" == resolved
    assert interval.start.year == 1970


def test_an_interval_is_written_for_machines_in_utc() -> None:
    interval = window("last wednesday afternoon", now=NOW, zone=SHANGHAI)
    assert interval.to_json() == {
        "start": "2026-11-25T04:00:00.000Z",
        "end": "2026-11-25T10:00:00.000Z",
        "zone": "Asia/Shanghai",
    }


class TestChangedClocks:
    """New York 2026: 02:00 → 03:00 on March 8th, 02:00 → 01:00 on November 1st."""

    def test_a_day_is_as_long_as_its_zone_makes_it(self) -> None:
        for day, hours in (("2026-03-08", 23), ("2026-11-01", 25), ("2026-11-02", 24)):
            interval = window(day, now=NOW, zone=NEW_YORK)
            assert interval.end - interval.start == timedelta(hours=hours)

    def test_an_hour_that_is_there_twice_is_covered_twice(self) -> None:
        interval = window("2026-11-01T01:00/01:30", now=NOW, zone=NEW_YORK)
        assert interval.end - interval.start == timedelta(hours=1, minutes=30)

    def test_a_length_from_an_hour_that_is_there_twice_covers_both(self) -> None:
        interval = window("2026-10-25T02:30/PT1H", now=NOW, zone=BERLIN)
        assert (interval.start.hour, interval.start.minute) == (0, 30)
        assert interval.end - interval.start == timedelta(hours=2)

    def test_a_time_that_is_skipped_is_the_moment_of_the_skip(self) -> None:
        interval = window("2026-03-08T02:30/04:00", now=NOW, zone=NEW_YORK)
        assert interval.start == datetime(2026, 3, 8, 7, 0, tzinfo=UTC)
        with pytest.raises(QueryInvalid, match="empty"):
            window("2026-03-08T02:15/02:45", now=NOW, zone=NEW_YORK)

    def test_hours_are_elapsed_and_days_keep_the_wall_clock(self) -> None:
        now = datetime(2026, 11, 2, 12, 0, tzinfo=NEW_YORK)
        assert since("24h", now=now, zone=NEW_YORK).start == now.astimezone(UTC) - timedelta(hours=24)
        assert since("2d", now=now, zone=NEW_YORK).start == datetime(2026, 10, 31, 16, 0, tzinfo=UTC)

    def test_an_offset_that_is_written_wins_over_the_zone(self) -> None:
        assert window("2026-03-08T02:30-05:00/PT1H", now=NOW, zone=NEW_YORK).start == datetime(
            2026, 3, 8, 7, 30, tzinfo=UTC
        )


MOMENTS = st.datetimes(datetime.fromisoformat("1990-01-01"), datetime.fromisoformat("2036-12-31"))
ZONES = st.sampled_from(
    [SHANGHAI, NEW_YORK, BERLIN, ZoneInfo("America/Sao_Paulo"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("UTC")]
)


@given(MOMENTS, st.timedeltas(timedelta(0), timedelta(hours=30)), ZONES, st.booleans())
def test_utc_never_falls_as_the_wall_clock_rises(wall: datetime, ahead: timedelta, zone: ZoneInfo, last: bool) -> None:
    assert to_utc(wall, zone, last=last) <= to_utc(wall + ahead, zone, last=last)


@given(MOMENTS, ZONES)
def test_a_point_in_time_is_inside_of_its_own_wall_clock_reading(at: datetime, zone: ZoneInfo) -> None:
    utc = at.replace(tzinfo=UTC)
    wall = utc.astimezone(zone).replace(tzinfo=None)
    assert to_utc(wall, zone) <= utc <= to_utc(wall, zone, last=True)


@given(MOMENTS, ZONES, st.sampled_from(sorted(WEEKDAYS)))
def test_last_weekday_is_that_weekday_one_to_seven_days_back(at: datetime, zone: ZoneInfo, name: str) -> None:
    now = at.replace(tzinfo=UTC)
    interval = window(f"last {name}", now=now, zone=zone)
    day = _middle(interval).astimezone(zone).date()
    assert day.weekday() == WEEKDAYS[name]
    assert 1 <= (now.astimezone(zone).date() - day).days <= 7


@given(st.dates(date(1990, 1, 1), date(2036, 12, 31)), ZONES)
def test_days_meet_without_gap_or_overlap(day: date, zone: ZoneInfo) -> None:
    following = day + timedelta(days=1)
    first, second = (window(each.isoformat(), now=NOW, zone=zone) for each in (day, following))
    assert first.end >= second.start
    assert first.end - second.start in (
        timedelta(0),
        to_utc(_midnight(following), zone, last=True) - to_utc(_midnight(following), zone),
    )


@given(MOMENTS, st.timedeltas(timedelta(seconds=1), timedelta(days=400)))
def test_two_written_instants_are_read_exactly(at: datetime, length: timedelta) -> None:
    start = at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
    end = (start + length).replace(microsecond=0) + timedelta(seconds=1)
    text = f"{start.isoformat(timespec='milliseconds')}/{end.isoformat()}".replace("+00:00", "Z")
    assert window(text, now=NOW, zone=SHANGHAI) == Interval(start, end, SHANGHAI)


CLOCKS = st.times().map(lambda at: f"{at:%H:%M:%S}")


@given(MOMENTS, ZONES, CLOCKS)
def test_a_bare_time_as_a_point_is_one_of_the_last_days(at: datetime, zone: ZoneInfo, text: str) -> None:
    now = at.replace(tzinfo=UTC)
    end = until(text, now=now, zone=zone).end
    assert now - timedelta(hours=27) < end <= now + timedelta(hours=1)  # an hour that is there twice counts whole


@given(MOMENTS, ZONES, st.sampled_from(sorted(WEEKDAYS)), CLOCKS)
def test_since_a_weekday_is_within_the_last_seven_days(at: datetime, zone: ZoneInfo, name: str, text: str) -> None:
    now = at.replace(tzinfo=UTC)
    start = since(f"{name} {text}", now=now, zone=zone).start
    assert now - timedelta(days=7, hours=3) < start <= now


@given(MOMENTS, ZONES, st.integers(1, 5000), st.integers(1, 5000))
def test_two_durations_are_two_points_before_now(at: datetime, zone: ZoneInfo, first: int, second: int) -> None:
    now = at.replace(tzinfo=UTC)
    if first <= second:
        with pytest.raises(QueryInvalid):
            between(f"{first}m", f"{second}m", now=now, zone=zone)
        return
    interval = between(f"{first}m", f"{second}m", now=now, zone=zone)
    assert (now - interval.start, now - interval.end) == (timedelta(minutes=first), timedelta(minutes=second))


WORDS = st.sampled_from(
    ["last", "this", "week", "wednesday", "afternoon", "12:00", "to", "2h", "ago", "since", "2026-11-25", "/",
     "PT2H", "上", "周", "三", "下午", "3点", "到", "最近", "天", "半", "-", "+08:00", "T", "Z", "0", "99",
     "november", "and", "..", "monday", "9am", "past", "weekend", "11/12/2026", "十一月", "日", "Q3", "2026-"]
)  # fmt: skip


@given(
    st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=8).map(" ".join), st.lists(WORDS, max_size=8).map("".join))
)
def test_any_text_is_a_window_or_a_refusal(text: str) -> None:
    try:
        interval = window(text, now=NOW, zone=SHANGHAI)
    except QueryInvalid:
        return
    assert interval.start < interval.end


@given(st.lists(WORDS, max_size=8).map(" ".join), st.lists(WORDS, max_size=8).map(" ".join))
def test_any_two_texts_are_a_window_or_a_refusal(start: str, end: str) -> None:
    for ask, texts in ((between, (start, end)), (until, (end,)), (since, (start,))):
        try:
            interval: Interval = ask(*texts, now=NOW, zone=SHANGHAI)
        except QueryInvalid:
            continue
        assert interval.start < interval.end


def _is_understood(text: str) -> None:
    """As a window, or as one end of a window."""
    try:
        window(text, now=NOW, zone=SHANGHAI)
    except QueryInvalid:
        since(text, now=NOW + timedelta(days=8), zone=SHANGHAI)


def test_zones_are_iana_names_with_a_hint() -> None:
    assert zone_named("Asia/Shanghai") == SHANGHAI
    with pytest.raises(QueryInvalid, match="Asia/Shanghai"):
        zone_named("asia/shangai")
    with pytest.raises(QueryInvalid):
        zone_named("../../etc/passwd")


def test_the_machines_zone_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert zone_named() == BERLIN
    monkeypatch.setenv("TZ", "nonsense")
    assert zone_named() == ZoneInfo("UTC")


def _middle(interval: Interval) -> datetime:
    return interval.start + (interval.end - interval.start) / 2


def _midnight(day: date) -> datetime:
    return datetime.fromisoformat(day.isoformat())


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-10-25T02:30/PT1H", "00:30", "02:30"),
        ("PT1H/2026-10-25T02:30", "23:30", "01:30"),
    ],
)
def test_a_duration_at_a_time_that_the_clock_shows_twice_covers_both(text: str, start: str, end: str) -> None:
    found = window(text, now=datetime(2026, 11, 30, tzinfo=UTC), zone=ZoneInfo("Europe/Berlin"))
    assert (f"{found.start:%H:%M}", f"{found.end:%H:%M}") == (start, end)

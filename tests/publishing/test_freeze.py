"""Freeze windows: when nothing is published, read as the people who wrote them mean it, also where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.declared import Invalid
from sentinel_core.freeze import ENDLESS, Freeze, frozen, said


def window(**fields: Any) -> Freeze:
    return Freeze(**{"name": "sale", **{name.rstrip("_"): value for name, value in fields.items()}})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ends(of: Freeze, now: str, environment: str = "prod") -> str | None:
    end = of.until(at(now), environment)
    return None if end is None else end.isoformat()


SALE = window(from_="2026-11-10 18:00", to="2026-11-12 09:00", zone="Asia/Shanghai", environments=["prod*"])
WEEKEND = window(from_="friday 17:00", to="mon 08:00", zone="Europe/Berlin")
NIGHTS = window(days="mon-thu", hours="22:00-06:00", zone="UTC")


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-10T17:59:59+08:00", None),
        ("2026-11-10T18:00:00+08:00", "2026-11-12T09:00:00+08:00"),
        ("2026-11-12T00:59:59+00:00", "2026-11-12T09:00:00+08:00"),
        ("2026-11-12T09:00:00+08:00", None),
    ],
)
def test_a_window_lasts_from_its_first_moment_until_before_its_last(now: str, end: str | None) -> None:
    assert ends(SALE, now) == end


def test_it_holds_for_the_environments_that_its_globs_name() -> None:
    now = "2026-11-11T00:00:00+08:00"
    assert [bool(ends(SALE, now, name)) for name in ("prod", "prod-eu", "Prod", "staging")] == [
        True,
        True,
        True,
        False,
    ]
    assert ends(window(days="mon-sun", zone="UTC"), now, "anything") is not None


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-12-04T16:59:59+01:00", None),
        ("2026-12-04T17:00:00+01:00", "2026-12-07T08:00:00+01:00"),
        ("2026-12-06T23:00:00+00:00", "2026-12-07T08:00:00+01:00"),
        ("2026-12-07T08:00:00+01:00", None),
    ],
)
def test_a_week_has_its_end_in_the_next(now: str, end: str | None) -> None:
    assert ends(WEEKEND, now) == end


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-30T21:59:00+00:00", None),
        ("2026-11-30T22:00:00+00:00", "2026-12-01T06:00:00+00:00"),
        ("2026-12-04T05:59:00+00:00", "2026-12-04T06:00:00+00:00"),
        ("2026-12-04T22:30:00+00:00", None),
    ],
)
def test_hours_that_end_before_they_begin_end_on_the_next_day(now: str, end: str | None) -> None:
    assert ends(NIGHTS, now) == end


def test_days_that_follow_each_other_are_one_freeze() -> None:
    both = window(days=["sat", "sun"], zone="UTC")
    assert ends(both, "2026-12-05T10:00:00+00:00") == "2026-12-07T00:00:00+00:00"
    assert ends(window(days="sat-mon", zone="UTC"), "2026-12-05T10:00:00+00:00") == "2026-12-08T00:00:00+00:00"


@pytest.mark.parametrize(
    ("hours", "now", "frozen_then"),
    [
        # Berlin, 2026-10-25: 02:00 to 03:00 happens twice (00:00Z and 01:00Z)
        ("02:30-04:00", "2026-10-25T00:29:00+00:00", False),
        ("02:30-04:00", "2026-10-25T00:30:00+00:00", True),
        ("01:00-02:30", "2026-10-25T01:29:00+00:00", True),
        ("01:00-02:30", "2026-10-25T01:30:00+00:00", False),
        # Berlin, 2026-03-29: 02:00 to 03:00 does not happen
        ("02:30-04:00", "2026-03-29T00:30:00+00:00", True),
        ("01:00-02:30", "2026-03-29T01:29:00+00:00", True),
    ],
)
def test_where_clocks_change_a_weekly_window_lasts_the_longer_of_two_readings(
    hours: str, now: str, frozen_then: bool
) -> None:
    assert (ends(window(days="sun", hours=hours, zone="Europe/Berlin"), now) is not None) is frozen_then


def test_a_weekly_window_keeps_its_hour_over_a_change_of_clocks() -> None:
    assert ends(WEEKEND, "2026-10-24T12:00:00+00:00") == "2026-10-26T08:00:00+01:00"
    assert ends(WEEKEND, "2026-10-26T06:59:00+00:00") == "2026-10-26T08:00:00+01:00"


def test_the_windows_that_hold_are_told_with_their_end_in_their_own_zone() -> None:
    ((found, end),) = frozen([WEEKEND, SALE], "prod", at("2026-11-11T00:00:00+00:00"))
    assert found is SALE
    assert said(end) == "until Thu 2026-11-12 09:00 +08:00 (Asia/Shanghai)"
    once = window(from_="2026-11-10T18:00+08:00", to="2026-11-12T09:00+08:00")
    assert (
        said(once.until(at("2026-11-11T00:00+00:00"), "x") or at("2000-01-01")) == "until Thu 2026-11-12 09:00 +08:00"
    )


ALWAYS = [{"days": "mon-sun"}, {"days": "mon-sun", "hours": "00:00-24:00"}, {"from_": "mon 00:00", "to": "sun 24:00"}]


@pytest.mark.parametrize("fields", ALWAYS)
@pytest.mark.parametrize("now", ["2026-11-29T23:59:59+00:00", "2026-11-30T06:00:30+00:00", "2026-10-24T06:00+00:00"])
def test_one_that_holds_all_week_long_has_no_end(fields: dict[str, Any], now: str) -> None:
    for zone in ("UTC", "Europe/Berlin"):
        end = window(zone=zone, **fields).until(at(now), "prod")
        assert end == ENDLESS
        assert said(end) == "and no end is set"


def test_one_that_pauses_for_a_minute_a_week_has_an_end() -> None:
    made = window(from_="mon 00:00", to="sun 23:59", zone="UTC")
    assert made.until(at("2026-11-30T06:00+00:00"), "prod") == at("2026-12-06T23:59+00:00")


def test_dates_that_yaml_has_read_already_are_taken() -> None:
    read = window(from_=datetime(2026, 11, 10, 18), to=datetime(2026, 11, 12, 9, tzinfo=UTC), zone="Asia/Shanghai")  # noqa: DTZ001 -- as YAML gives it
    assert ends(read, "2026-11-10T10:00:00+00:00") == "2026-11-12T17:00:00+08:00"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"from_": "2026-11-10 18:00", "to": "2026-11-12 09:00"}, "zone is missing"),
        ({"days": "sat"}, "zone is missing"),
        ({"from_": "2026-11-10", "to": "2026-11-12 09:00", "zone": "UTC"}, "write the time, too: 2026-11-10 00:00"),
        ({"from_": "2026-11-12 09:00", "to": "2026-11-10 18:00", "zone": "UTC"}, "to is not after from"),
        ({"from_": "10.11.2026 18:00", "to": "2026-11-12 09:00", "zone": "UTC"}, "from cannot be read; write"),
        ({"from_": "2026-11-10 18:00", "zone": "UTC"}, "write both from and to"),
        ({"from_": "fri 17:00", "to": "2026-11-12 09:00", "zone": "UTC"}, "both as dates, or both as weekdays"),
        ({"from_": "fri 17:00", "to": "fri 17:00", "zone": "UTC"}, "are the same"),
        ({"from_": "fri 5pm", "to": "mon 8am", "zone": "UTC"}, "a time of day is written"),
        ({"days": "sat", "hours": "22:00-22:00", "zone": "UTC"}, "leave them out for the whole day"),
        ({"days": "sat", "hours": "22-6", "zone": "UTC"}, "a time of day is written"),
        ({"days": "sat", "hours": "22:00", "zone": "UTC"}, "hours are written 22:00-06:00"),
        ({"days": "samstag", "zone": "UTC"}, "in English"),
        ({"days": "sat", "zone": "Europe/Berlon"}, "did you mean Europe/Berlin"),
        ({"days": "sat", "zone": "../etc/passwd"}, "there is no such zone"),
        ({"days": "sat", "from_": "fri 17:00", "to": "mon 08:00", "zone": "UTC"}, "and not both"),
        ({}, "write from and to, or days and hours"),
        ({"from_": "0001-01-01 00:00", "to": "2026-11-12 09:00", "zone": "Asia/Shanghai"}, "1 is no year"),
        ({"from_": "2026-11-12T09:00Z", "to": "9999-12-31T23:59-12:00"}, "9999 is no year"),
        (
            {"from_": "2026-10-25 02:30", "to": "2026-11-12 09:00", "zone": "Europe/Berlin"},
            "02:30 happens twice; write 2026-10-25T02:30+02:00 or 2026-10-25T02:30+01:00",
        ),
        (
            {"from_": "2026-03-29 02:30", "to": "2026-11-12 09:00", "zone": "Europe/Berlin"},
            "02:30 happens never; write 2026-03-29T01:30+01:00 or 2026-03-29T03:30+02:00",
        ),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as caught:
        window(**fields)
    assert words in str(caught.value)


PIECES = st.sampled_from(
    [
        "mon",
        "friday",
        "17:00",
        "24:00",
        "2026-11-10",
        "2026-10-25 02:30",
        "T",
        "Z",
        "+08:00",
        "-",
        "–",
        ",",
        " ",
        "0",
        "é",
    ]
)
ANYTHING = st.one_of(
    st.none(), st.text(max_size=8), st.lists(PIECES, max_size=4).map("".join), st.integers(), st.booleans()
)


@given(st.dictionaries(st.sampled_from(["from", "to", "days", "hours", "zone", "environments"]), ANYTHING))
def test_whatever_stands_there_is_refused_in_words_or_answers(fields: dict[str, Any]) -> None:
    try:
        made = Freeze(**{"name": "x", **fields})
    except Invalid:
        return
    for now in ("2026-10-25T00:30:00+00:00", "2026-11-10T18:00:00+00:00"):
        end = made.until(at(now), "prod")
        assert end is None or end > at(now)

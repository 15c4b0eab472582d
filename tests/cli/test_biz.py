"""`biz observe` and `biz suggest`: from readings to what people and programs are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core.cli.biz.plot import bar, histogram, sparkline
from sentinel_core.observation.store import ObservationStore, Reading, Series, Span
from tests.cli.conftest import Run
from tests.observation.conftest import DAY, EVERY, PAY, STOCK, fill, gauge_readings, rate_readings

HOUR = 3_600_000


def now_ms() -> int:
    return round(datetime.now(UTC).timestamp() * 1000)


@pytest.fixture
def start() -> int:
    """Two days ago."""
    return now_ms() - 2 * DAY


@pytest.fixture
def recorded(here: Path, start: int) -> ObservationStore:
    """Two days of payments that fail in 1 % (40 % for ten minutes of the first day), and of a stock that empties."""
    (here / "sentinel.yaml").write_text("observe: {file: data/observations.db}\n", encoding="utf-8")
    store = ObservationStore(here / "data" / "observations.db")
    fill(store, PAY, rate_readings(2, lambda at: 40 if HOUR < at < HOUR + 600_000 else 1, start=start))
    fill(store, STOCK, gauge_readings(2, lambda at: 500 - 400 * (at % DAY) / DAY, start=start))
    return store


def test_without_a_metric_it_lists_what_is_recorded(sentinelctl: Run, recorded: ObservationStore) -> None:
    ended = sentinelctl("biz", "observe")
    assert ended.code == 0
    pay, stock = ended.out.splitlines()[1:]
    assert pay.split()[:6] == ["PAY_FAIL_RATE", "order_create", "–", "rate", "1", "17,280"]
    assert stock.split()[:6] == ["STOCK_DEPTH", "stock_deduct", "–", "gauge", "1", "17,280"]
    assert sentinelctl("biz", "observe", "-o", "name").out.split() == ["PAY_FAIL_RATE", "STOCK_DEPTH"]


def test_a_rate_is_told_as_numbers_as_bars_and_by_the_hour(sentinelctl: Run, recorded: ObservationStore) -> None:
    ended = sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--zone", "UTC")
    assert ended.code == 0
    assert ended.out.startswith("PAY_FAIL_RATE of order_create   rate, percent bad in windows of 60 s, 1 instance\n")
    assert "p99.9" in ended.out
    assert "█" in ended.out
    assert "highest of each hour" in ended.out
    assert " UTC\n" in ended.err
    document = json.loads(sentinelctl("biz", "observe", "PAY_FAIL_RATE", "-o", "json").out)
    summary = document["summary"]
    assert 0.9 < summary["p50"] < 1.1
    assert 30 < summary["maximum"] < 50
    assert summary["mean"] == pytest.approx(100 * document["bad"] / document["samples"], rel=0.01)
    assert sum(each["count"] for each in document["histogram"]) == summary["count"]
    assert len(document["hours"]) in (48, 49)
    assert document["gaps"] == []


def test_a_gauge_that_is_bad_when_low_shows_its_lowest(sentinelctl: Run, recorded: ObservationStore) -> None:
    ended = sentinelctl("biz", "observe", "STOCK_DEPTH")
    assert "lowest of each hour" in ended.out
    assert "down to 100" in ended.out


def test_a_gauge_that_nobody_set_lately_is_told(sentinelctl: Run, here: Path) -> None:
    store, begin = ObservationStore(here / "o.db"), now_ms() - HOUR
    fill(store, STOCK, [Reading(begin + number * EVERY, value=5.0, age=number * EVERY) for number in range(1, 201)])
    ended = sentinelctl("biz", "observe", "STOCK_DEPTH", "--file", "o.db")
    assert "in 97.0% of the readings the gauge had not been set for a minute" in ended.err


def test_gaps_and_few_samples_are_told(sentinelctl: Run, here: Path) -> None:
    store, begin = ObservationStore(here / "o.db"), now_ms() - 20 * HOUR
    for hours in (0, 2, 5):
        fill(store, PAY, rate_readings(1 / 24 / 12, lambda _: 1.0, samples=1, start=begin + hours * HOUR))
    ended = sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--file", "o.db", "--minimum", "6")
    assert "(1 h)" in ended.err
    assert "(2 h)" in ended.err
    assert "fewer than 6 samples are left out" in ended.err
    ended = sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--file", "o.db")
    assert ended.code == 0
    assert "no window held 10 samples or more" in ended.out
    assert (
        json.loads(sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--file", "o.db", "-o", "json").out)["summary"]
        is None
    )


def test_times_are_said_as_for_audit(sentinelctl: Run, recorded: ObservationStore, start: int) -> None:
    begin = datetime.fromtimestamp(start / 1000, UTC)
    first_hour = f"{begin:%Y-%m-%dT%H:%M:%SZ}/PT1H".split("/")
    document = json.loads(sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--between", *first_hour, "-o", "json").out)
    assert document["watchedSeconds"] == pytest.approx(3600, abs=30)
    assert sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--since", "最近3小时").code == 0
    ended = sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--since", "2h", "--between", *first_hour)
    assert ended.code == 64


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["observe", "PAY"], 2, "PAY is not recorded; recorded is: PAY_FAIL_RATE, STOCK_DEPTH"),
        (["observe", "PAY_FAIL_RATE", "--between", "2020-01-01", "2020-01-02"], 2, "the newest reading is of"),
        (
            ["observe", "PAY_FAIL_RATE", "--resource", "x"],
            2,
            "nothing was recorded of PAY_FAIL_RATE of x; there",
        ),
        (["observe", "PAY_FAIL_RATE", "--dimension", "x"], 2, "nothing was recorded of PAY_FAIL_RATE (x)"),
        (["observe", "PAY_FAIL_RATE", "--window", "often"], 64, "write a duration such as"),
        (["observe", "PAY_FAIL_RATE", "--window", "0s"], 64, "above 0"),
        (["observe", "--file", "sqlite:///data/observations.db"], 64, "write its path"),
        (["observe", "--file", "data"], 64, "data is a folder"),
        (["observe", "--file", "nowhere.db"], 69, "cannot be opened"),
        (["suggest", "PAY_FAIL_RATE", "--factor", "0.5"], 64, "--factor"),
        (["suggest", "PAY_FAIL_RATE", "--since", "2h"], 3, "less than a day says nothing about a normal peak"),
    ],
)
def test_what_cannot_be_answered_says_why_and_what_to_do(
    sentinelctl: Run, recorded: ObservationStore, arguments: list[str], code: int, said: str
) -> None:
    ended = sentinelctl("biz", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert "next: " in ended.err


def test_where_nothing_is_recorded_it_says_how_to_begin(sentinelctl: Run, here: Path) -> None:
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE")
    assert ended.code == 78
    assert "observe: {file: .sentinel/observations.db}" in ended.err


def test_another_sqlite_file_is_refused(sentinelctl: Run, here: Path) -> None:
    (here / "o.db").write_bytes(b"no database" * 100)
    assert sentinelctl("biz", "observe", "--file", "o.db").code == 69


def test_a_suggestion_is_a_shadow_rule_with_reasons_and_what_it_would_have_done(
    sentinelctl: Run, recorded: ObservationStore, here: Path
) -> None:
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE", "--zone", "UTC")
    assert ended.code == 0
    yaml, _, told = ended.out.partition("\n\n")
    (here / "rules.yaml").write_text(yaml, encoding="utf-8")
    assert sentinelctl("rules", "validate", "rules.yaml").code == 0
    assert "resource: order_create\n" in yaml
    assert "mode: shadow" in yaml
    for field in ("threshold", "windowIntervalMs", "minRequestAmount", "stateWindowMs", "mode"):
        assert f"{field}  " in told
    assert "left out as incidents" in told
    assert "it would have opened 1 time:" in told


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_same_for_programs(sentinelctl: Run, recorded: ObservationStore, form: str) -> None:
    from ruamel.yaml import YAML

    ended = sentinelctl("biz", "suggest", "STOCK_DEPTH", "-o", form)
    document = YAML(typ="safe", pure=True).load(ended.out)
    (rule,) = document["bizMetricRules"]
    assert (rule["direction"], rule["threshold"], rule["mode"]) == ("below", 41, "shadow")
    assert document["normalTrough"] == pytest.approx(104, abs=0.1)
    assert document["wouldHaveOpened"] == []


def test_too_little_is_refused_unless_forced(sentinelctl: Run, here: Path) -> None:
    store = ObservationStore(here / "o.db")
    fill(store, PAY, rate_readings(0.5, lambda _: 1.0, start=now_ms() - DAY // 2))
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE", "--file", "o.db")
    assert ended.code == 3
    assert "was recorded for 11 h only" in ended.err or "was recorded for 12 h only" in ended.err
    assert "--force" in ended.err
    assert sentinelctl("biz", "suggest", "PAY_FAIL_RATE", "--file", "o.db", "--force").code == 0


def test_a_metric_that_is_hardly_reported_is_refused_however_long_it_was_watched(sentinelctl: Run, here: Path) -> None:
    store, begin = ObservationStore(here / "o.db"), now_ms() - 2 * DAY
    few = [(PAY, Reading(begin + EVERY + number * HOUR, 30, 1)) for number in range(20)]
    store.add(few, Span("i-1", begin, begin + 2 * DAY, EVERY))
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE", "--file", "o.db")
    assert ended.code == 3
    assert "20 observations" in ended.err


def test_nothing_is_said_of_windows_shorter_than_the_readings_are_apart(sentinelctl: Run, here: Path) -> None:
    store, begin = ObservationStore(here / "o.db"), now_ms() - 2 * DAY
    readings = [(PAY, Reading(begin + number * 300_000, 600, 6)) for number in range(1, 577)]
    store.add(readings, Span("i-1", begin, begin + 2 * DAY, 300_000))
    ended = sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--file", "o.db")
    assert ended.code == 64
    assert "add --window 300s" in ended.err
    assert sentinelctl("biz", "observe", "PAY_FAIL_RATE", "--file", "o.db", "--window", "300s").code == 0
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE", "--file", "o.db", "-o", "json")
    assert json.loads(ended.out)["bizMetricRules"][0]["windowIntervalMs"] >= 300_000
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE", "--file", "o.db", "--window", "60s")
    assert (ended.code, ended.out) == (3, "")


def test_nothing_sensible_is_no_rule(sentinelctl: Run, here: Path) -> None:
    store = ObservationStore(here / "o.db")
    fill(store, STOCK, gauge_readings(1.5, lambda _: 0.0, start=now_ms() - 3 * DAY // 2))
    ended = sentinelctl("biz", "suggest", "STOCK_DEPTH", "--file", "o.db")
    assert (ended.code, ended.out) == (3, "")
    assert "set the threshold by hand" in ended.err


def test_a_rule_is_for_one_resource(sentinelctl: Run, recorded: ObservationStore, start: int) -> None:
    other = Series("PAY_FAIL_RATE", "order_refund", "", "rate", "i-1")
    fill(recorded, other, rate_readings(2, lambda _: 10.0, start=start, samples=20))
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE")
    assert ended.code == 64
    assert "it was recorded of order_create, order_refund" in ended.err
    ended = sentinelctl("biz", "suggest", "PAY_FAIL_RATE", "--resource", "order_refund", "-o", "json")
    assert json.loads(ended.out)["bizMetricRules"][0]["threshold"] > 20


def test_foreign_names_cannot_forge_output(sentinelctl: Run, here: Path) -> None:
    store = ObservationStore(here / "o.db")
    evil = Series("PAY\x1b[2J_RATE", "r\nPAY_OK", "", "rate", "i-1")
    fill(store, evil, rate_readings(1.2, lambda _: 1.0, start=now_ms() - 6 * DAY // 5))
    for arguments in (["observe"], ["observe", evil.metric], ["suggest", evil.metric]):
        ended = sentinelctl("biz", *arguments, "--file", "o.db")
        assert ended.code == 0
        assert "\x1b" not in ended.out + ended.err
        assert "\nPAY_OK" not in ended.out


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("data/observations.db", "2 metrics, written 0 s ago"),
        ("new/observations.db", "not made yet"),
        ("sentinel.yaml/observations.db", "is not a folder"),
        ("sentinel.yaml", "not a SQLite file"),
    ],
)
def test_doctor_looks_at_what_is_recorded(sentinelctl: Run, recorded: ObservationStore, file: str, said: str) -> None:
    Path("sentinel.yaml").write_text(f"observe: {{file: {file}}}\n", encoding="utf-8")
    (line,) = [line for line in sentinelctl("doctor").out.splitlines() if "observations " in line]
    assert said in re.sub(r" \d s ago", " 0 s ago", line)


# -- plots -------------------------------------------------------------------------------------------------------------


def test_bins_hold_every_value_once() -> None:
    bins = histogram([float(value) for value in range(100)])
    assert [each.count for each in bins] == [10] * 10
    assert [(each.low, each.high, each.count) for each in histogram([3.0, 3.0])] == [(3.0, 3.0, 2)]


def test_a_wild_value_has_a_bin_of_its_own() -> None:
    *normal, last = histogram([float(value % 10) for value in range(1000)] + [1e6])
    assert last.count == 1
    assert sum(each.count for each in normal) == 1000


@pytest.mark.parametrize(("count", "length"), [(0, 0), (1, 1), (500, 20), (1000, 40)])
def test_what_is_there_is_seen_in_a_bar(count: int, length: int) -> None:
    assert len(bar(count, 1000)) == length


def test_a_sparkline_is_blank_where_nothing_is_known() -> None:
    assert sparkline([0, 50, None, 100], 0, 100) == "▁▅ █"
    assert sparkline([5, 5], 5, 5) == "▁▁"


def test_without_unicode_plots_are_ascii(process: Callable[..., object], recorded: ObservationStore) -> None:
    ended = process("biz", "observe", "STOCK_DEPTH", env={"PYTHONIOENCODING": "ascii"})
    assert ended.out.isascii()  # type: ignore[attr-defined]  # the fixture's Ended
    assert "#" in ended.out  # type: ignore[attr-defined]  # the fixture's Ended
    assert "\\u" not in ended.out  # type: ignore[attr-defined]  # the fixture's Ended

"""Completion of what stands in files and settings, and of what may be written anywhere."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core.audit.query.interval import beginning, between, since, window
from sentinel_core.cli.values import words
from sentinel_core.settings import parse_duration
from tests.cli.conftest import Complete, Shop, ok

NOW = datetime(2026, 11, 25, 15, tzinfo=UTC)


@pytest.mark.parametrize("text", [*words.SINCE, *words.CHINESE])
def test_a_time_that_is_offered_is_understood(text: str) -> None:
    assert since(text, now=NOW, zone=UTC).start < NOW
    assert between(text, "now", now=NOW, zone=UTC).start < NOW


@pytest.mark.parametrize("text", words.SPANS)
def test_a_window_that_is_offered_is_understood(text: str) -> None:
    assert window(text, now=NOW, zone=UTC).start < NOW


@pytest.mark.parametrize("text", words.AGO)
def test_an_old_time_that_is_offered_is_understood(text: str) -> None:
    assert beginning(text, now=NOW, zone=UTC) < NOW


@pytest.mark.parametrize("text", words.DURATIONS)
def test_a_duration_that_is_offered_is_understood(text: str) -> None:
    assert parse_duration(text)


def test_times_are_offered_where_times_are_meant(here: Path, complete: Complete) -> None:
    for line in ("audit who pay --since y", "audit query --between y", "audit export --between today y"):
        assert list(complete(line)) == ["yesterday"], line
    assert list(complete("biz observe --since 昨")) == ["昨天", "昨天下午"]
    assert list(complete("audit purge --before 9")) == ["90 days ago"]
    assert list(complete("lock hold --for 3")) == ["30s", "30m"]


def test_plans_of_the_folder_are_offered_the_newest_first(plain: Shop, complete: Complete) -> None:
    folder = plain.here / "plans"
    folder.mkdir()
    for name in ("old.json", "new.json"):
        ok(plain.run("rules", "plan", "-o", folder / name, "--reason", "x"))
    os.utime(folder / "old.json", (1, 1))
    (folder / "none.json").write_text("{}")
    (folder / "bad.json").write_text('{"plan": "p-0123456789ab", "store": "\\x"}')
    (folder / ".hidden.json").write_bytes((folder / "new.json").read_bytes())
    told = complete("rules apply plans/")
    assert list(told) == ["plans/new.json", "plans/old.json"]
    assert told["plans/new.json"].startswith("p-")
    assert told["plans/new.json"].endswith(f" for {plain.store}")
    assert list(complete("rules apply plans/.h")) == ["plans/.hidden.json"]
    assert list(complete("rules apply p")) == ["plans/"]


@pytest.mark.parametrize(
    ("begun", "values"),
    [
        ("production=", ["production=true", "production=false"]),
        ("compat=", ["compat=sentinel-1.8.9"]),
        ("audit.kafka.mechanism=P", ["audit.kafka.mechanism=PLAIN"]),
        ("guards.maxJump=", ["guards.maxJump=10"]),
        ("environment=", ["environment=prod"]),
        ("rules=ru", ["rules=rules.yaml"]),
        ("audit.signingKey=", []),
        ("bogus=", []),
    ],
)
def test_a_setting_has_its_values(plain: Shop, complete: Complete, begun: str, values: list[str]) -> None:
    assert list(complete(f"config set-context staging {begun}")) == values


def test_stores_are_values_of_settings(plain: Shop, complete: Complete) -> None:
    assert list(complete("config set-context staging stores=")) == [f"stores={plain.store}"]


def test_what_a_context_sets_can_be_left_out_again(plain: Shop, complete: Complete) -> None:
    ok(plain.run("config", "set-context", "prod", "production=true", "guards.maxJump=3"))
    assert sorted(complete("config set-context prod --unset ")) == ["guards.maxJump", "production"]
    assert complete("config set-context other --unset ") == {}


def test_settings_tell_what_they_are(here: Path, complete: Complete) -> None:
    assert complete("config set-context x guards.maxJ") == {
        "guards.maxJump=": "Factor by which a threshold may change."
    }


def test_repositories_are_offered_as_sync_takes_them(plain: Shop, complete: Complete) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    uri = next(iter(complete("sync ")))
    assert ok(plain.run("sync", uri, "--once")).code == 0
    assert list(complete("serve --sync ")) == [uri]

"""Audit commands over a store that a running engine has filled from real commits."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.store.contract import EventHead
from sentinel_core.cli.audit.common import author
from sentinel_core.datasources import Subscription
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from sentinel_core.testing import FakeClock
from tests.cli.conftest import FIRST, Project, Run, make_project

NOON_IN_SHANGHAI = datetime(2026, 11, 25, 4, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An engine saw: 30 → 20 together with another rule, a typo that was refused, 20 → 35; ten minutes between them."""
    project = make_project(tmp_path_factory.mktemp("told"))
    clock = FakeClock(start_ms=int(NOON_IN_SHANGHAI.timestamp() * 1000))
    engine = start(load_settings(project.folder / "sentinel.yaml"), clock=clock)
    (subscription,) = engine.subscriptions
    assert subscription.wait_ready(10)
    for text, message in (
        (FIRST.replace("count: 5", "count: 6"), "Back to the reviewed value"),
        (FIRST.replace("20", "2O"), "A typo"),
        (FIRST.replace("20", "35").replace("count: 5", "count: 6"), "Ready for the sale"),
    ):
        version = project.commit(text, message)
        subscription.refresh()
        _wait_until_read(subscription, version)
        clock.advance(ms=600_000)
    engine.close()
    return project


@pytest.fixture
def story(told: Project, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch) -> Project:
    """What was told, as the working directory. Nothing here writes."""
    monkeypatch.chdir(told.folder)
    return told


def _wait_until_read(subscription: Subscription, version: str) -> None:
    """Applied or refused; the subscription has threads of its own."""
    for _ in range(1000):
        (status,) = subscription.status()
        if version in (status.version, *(status.reason or "").split()):
            return
        time.sleep(0.01)
    raise AssertionError(f"{version} was not read: {status}")


def test_who_answers_in_one_line_a_change_who_when_from_what_to_what_and_why(story: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "who", "payment_invoke", "--field", "count", "--zone", "Asia/Shanghai")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert "Ada Example (git " in lines[0]
    assert lines[0].startswith("2026-11-25 12:00:00  ")
    assert lines[0].endswith("~ count  30 → 20")
    assert "reason: Back to the reviewed value   seen by 1 instance   id " in lines[1]
    assert lines[2].strip() == "with it: coupon.count 5 → 6"
    assert "! refused: sentinel-rules.yaml:2:49: SR102" in lines[3]
    assert lines[4].endswith("~ count  20 → 35")
    assert ended.err == "all changes so far\n2 changes, 1 refused. The hashes hold.\n"


@pytest.mark.parametrize(
    "window",
    [["--since", "1h"], ["--since", "2026-01-01"], ["--between", "yesterday", "now"], ["--between", "昨天", "现在"]],
)
def test_the_window_that_was_understood_is_told_with_its_zone_on_stderr(
    story: Project, sentinelctl: Run, window: list[str]
) -> None:
    ended = sentinelctl("audit", "who", "payment_invoke", "--zone", "Asia/Shanghai", *window)
    assert ended.code == 0
    assert ended.err.splitlines()[0].endswith(" Asia/Shanghai")
    assert " – " in ended.err.splitlines()[0]


def test_within_one_day_the_time_of_day_is_enough(story: Project, sentinelctl: Run) -> None:
    window = ("2026-11-25T12:15+08:00", "2026-11-25T13:00+08:00")
    ended = sentinelctl("audit", "who", "payment_invoke", "--zone", "Asia/Shanghai", "--between", *window)
    assert ended.out.startswith("12:20:00  Ada Example (git ")
    assert ended.err == "2026-11-25 12:15 – 13:00 Asia/Shanghai\n1 change. Its hash holds.\n"


def test_at_names_the_change_that_was_in_force(story: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "who", "payment_invoke", "--at", "2026-11-25T12:15+08:00", "-o", "json")
    (blame,) = json.loads(ended.out)["changes"]
    assert (blame["changes"][0]["old"], blame["changes"][0]["new"]) == (30, 20)


def test_where_nothing_changed_the_last_change_before_is_told(story: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "who", "payment_invoke", "--between", "2031-01-01", "2031-01-02")
    assert ended.out == ""
    assert "0 changes. The last before: " in ended.err


def test_the_last_change_before_is_so_far_from_the_beginning_of_the_window(story: Project, sentinelctl: Run) -> None:
    told = json.loads(sentinelctl("audit", "who", "payment_invoke", "-o", "json").out)
    last = datetime.fromisoformat(told["changes"][-1]["event"]["time"])
    window = [(last + timedelta(minutes=minutes)).isoformat() for minutes in (10, 1200)]
    assert "(10 min earlier)" in sentinelctl("audit", "who", "payment_invoke", "--between", *window).err


def test_each_change_says_of_which_kind_it_is_and_a_refusal_where_to_look(story: Project, sentinelctl: Run) -> None:
    lines = sentinelctl("audit", "who", "payment_invoke", "--field", "count", "--kind", "flow").out.splitlines()
    assert "  flow  ~ count  30 → 20" in lines[0]
    refused = next(line for line in lines if "! refused" in line)
    assert sentinelctl("audit", "show", refused.rpartition("   id ")[2]).code == 0
    assert "0 changes." in sentinelctl("audit", "who", "payment_invoke", "--kind", "degrade").err


def test_a_point_is_never_of_1970(story: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "who", "payment_invoke", "--at", "20:46:53", "--zone", "UTC")
    assert ended.code == 0
    assert "in force at 1970" not in ended.err


def test_another_environment_that_knows_a_resource_is_named(story: Project, sentinelctl: Run) -> None:
    asked = sentinelctl("audit", "who", "payment_invoke", "--env", "elsewhere")
    assert "No change of payment_invoke is known. It is known in prod: --env prod." in asked.err


def test_a_context_in_use_keeps_to_its_environment(story: Project, sentinelctl: Run, tmp_path: Path) -> None:
    store = load_settings(story.folder / "sentinel.yaml").audit.store
    file = tmp_path / "sentinel.yaml"
    contexts = "{live: {environment: prod}, other: {environment: staging}}"
    file.write_text(f"audit: {{store: '{store}'}}\ncontexts: {contexts}\n", encoding="utf-8")
    who = ("audit", "who", "payment_invoke", "--config", str(file), "--context")
    assert sentinelctl(*who, "other").err.startswith("all changes so far, environment staging\n0 changes. ")
    assert "It is known in prod: --env prod." in sentinelctl(*who, "other").err
    assert "environment prod\n2 changes" in sentinelctl(*who, "live").err
    assert "2 changes" in sentinelctl(*who, "other", "--env", "prod").err


def test_terms_that_find_nothing_because_no_rule_has_the_field_say_so(story: Project, sentinelctl: Run) -> None:
    for term in ("cuont>3", "field:cuont"):
        asked = sentinelctl("audit", "query", term)
        assert asked.code == 0
        assert asked.err == "No change matches: no rule has a field cuont; did you mean count?\n"
    assert sentinelctl("audit", "query", "field:grade").err == "No change matches.\n"


def test_what_instances_run_is_told_with_instance_and_digest(story: Project, sentinelctl: Run) -> None:
    (line, *_) = [line for line in sentinelctl("audit", "query", "type:applied").out.splitlines() if " runs " in line]
    assert "  flow  " in line
    newest = json.loads(sentinelctl("audit", "query", "type:applied", "-o", "json").out)["changes"][0]["event"]
    assert f"{newest['instance']} runs {newest['new_digest'][:12]}" in line


def test_show_tells_who_ran_it_what_came_with_it_and_its_place_in_the_chain(story: Project, sentinelctl: Run) -> None:
    changes = json.loads(sentinelctl("audit", "who", "payment_invoke", "-o", "json").out)["changes"]
    blame = changes[0]
    ended = sentinelctl("audit", "show", blame["event"]["id"])
    for name in ("seen by", "first", "last", "chain", "instance"):
        assert any(line.startswith(f"  {name} ") for line in ended.out.splitlines()), name
    document = json.loads(sentinelctl("audit", "show", blame["event"]["id"], "-o", "json").out)
    assert document["seen"] == blame["seen"]
    assert document["together"] == []
    assert document["chain"]["holds"]
    assert len(bytes.fromhex(document["chain"]["hash"])) == 32
    refused = json.loads(sentinelctl("audit", "who", "payment_invoke", "-o", "json").out)["rejections"][0]["event"]
    assert "  refused by " in sentinelctl("audit", "show", refused["id"]).out


def test_a_name_that_no_event_knows_gets_the_one_that_was_meant(story: Project, sentinelctl: Run) -> None:
    asked = sentinelctl("audit", "who", "payment_invok")
    assert (asked.code, asked.out) == (0, "")
    assert "No change of payment_invok is known; did you mean payment_invoke?" in asked.err
    asked = sentinelctl("audit", "who", "payment_invoke", "--field", "cuont")
    assert asked.code == 0
    assert "No change of the field cuont is known; did you mean count?" in asked.err
    asked = sentinelctl("audit", "who", "payment_invok", "-o", "json")
    assert json.loads(asked.out)["unknown"] == {
        "what": "resource",
        "asked": "payment_invok",
        "known": ["payment_invoke"],
    }


def test_query_finds_by_resource_field_number_and_author(story: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "query", "resource:payment_*", "field:count", "count>30", "author:ada", "-o", "ndjson")
    (line,) = ended.out.splitlines()
    assert (json.loads(line)["old"], json.loads(line)["new"]) == (20, 35)


def test_query_pages_with_a_token(story: Project, sentinelctl: Run) -> None:
    whole = json.loads(sentinelctl("audit", "query", "-o", "json").out)["changes"]
    first = json.loads(sentinelctl("audit", "query", "--limit", "2", "-o", "json").out)
    rest = json.loads(sentinelctl("audit", "query", "--after", first["next"], "-o", "json").out)
    assert first["changes"] + rest["changes"] == whole


def test_a_value_with_blanks_needs_no_second_quotes(story: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "query", "reason:for the sale", "-o", "name")
    assert len(set(ended.out.split())) == 1


@pytest.mark.parametrize(
    "line",
    [
        ["resource:payment_* kind:flow", "--since", "2026-11-25"],
        ["resource:payment_*", "kind:flow", "--between", "2026-11-25", "2026-11-26"],
        ["resource:payment_* kind:flow since:2026-11-25"],
    ],
)
def test_terms_may_stand_in_one_argument_or_in_several_and_times_in_flags(
    story: Project, sentinelctl: Run, line: list[str]
) -> None:
    ended = sentinelctl("audit", "query", *line, "-o", "ndjson", "--zone", "UTC")
    changed = [json.loads(each) for each in ended.out.splitlines()]
    assert [each["new"] for each in changed if each["action"] == "change"] == [35, 20]


def test_show_prints_the_patch_and_the_inverse(story: Project, sentinelctl: Run) -> None:
    newest = json.loads(sentinelctl("audit", "who", "payment_invoke", "-o", "json").out)["changes"][-1]["event"]["id"]
    lines = sentinelctl("audit", "show", newest[:8]).out.splitlines()
    patch, inverse = lines.index("patch"), lines.index("inverse")
    assert lines[patch + 1] == "  ~ flow/payment_invoke/default  count  20 → 35"
    assert lines[inverse + 1] == "  ~ flow/payment_invoke/default  count  35 → 20"
    document = json.loads(sentinelctl("audit", "show", newest, "-o", "json").out)
    assert document["event"]["data"]["changes"] == document["patch"]


@pytest.mark.parametrize("command", [["who", "*"], ["query"]])
def test_until_ends_a_time_as_its_term_does(months: Path, sentinelctl: Run, command: list[str]) -> None:
    def count(*options: str) -> int:
        ended = sentinelctl("audit", *command, "--zone", "UTC", "-o", "json", *options)
        assert ended.code == 0, ended.err
        return ended.out.count('"flow/pay"')

    whole = count()
    assert 0 < count("--until", "2026-07") < whole  # all of July, too
    assert count("--until", "2026-07") == count("--between", "1970-01-01", "2026-08-01")
    assert count("--since", "2026-07-01", "--until", "2026-07-31") == count("--between", "2026-07-01", "2026-08-01")
    assert sentinelctl("audit", *command, "--between", "2h", "1h", "--until", "now").code == 64


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["query", "feild:x"], "feild: is no qualifier; write 'field:x'"),
        (["query", 'resource:"x'], "close the quotes"),
        (["who", "x", "--since", "blargh"], "'blargh' is not a time; write '2h' or 'yesterday'"),
        (["who", "x", "--since", "blargh"], "  next: sentinelctl audit query --help"),
        (["who", "x", "--zone", "Asia/Shanghi"], "write 'Asia/Shanghai'"),
        (
            ["who", "x", "--since", "1h", "--at", "now"],
            "--between, --since with --until, and --at name the time in three ways",
        ),
        (["who", "x", "--between", "now", "yesterday"], "write 'yesterday to now'"),
        (["show", "ab"], "give at least 8 characters"),
        (["show", "ab"], "  next: sentinelctl audit query    (lists events with their ids)"),
        (["who", "x", "--zone", "Asia/Shanghi"], "  next: give --zone"),
        (["query", "-author:chen"], "  next: sentinelctl audit query [OPTION]... -- -author:chen"),
        (["tail", "-author:chen"], "  next: sentinelctl audit tail [OPTION]... -- -author:chen"),
        (["query", "--env", "staging"], "  next: sentinelctl audit query env:ENV"),
        (["query", "a OR b"], "OR is no word of a query; a comma between values is 'or'; write 'resource:a,b'"),
        (["query", "--since"], "  next: sentinelctl audit query --help"),
        (["who", "x", "--between", "1h", "2h"], "ends before it begins"),
        (["who", "x", "--since", "11/12/2026"], "write '2026-11-12' or '2026-12-11'"),
        (["query", "--after", "nonsense"], "nonsense"),
    ],
)
def test_a_question_that_cannot_be_understood_is_a_usage_error_that_says_what_to_write(
    story: Project, sentinelctl: Run, arguments: list[str], said: str
) -> None:
    ended = sentinelctl("audit", *arguments)
    assert ended.code == 64, ended.err
    assert said in ended.err


def test_an_id_that_is_not_there_says_how_to_find_one(story: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "show", "00000000-none")
    assert ended.code == 2
    assert "there is no event 00000000-none in the audit store\n  next: sentinelctl audit query" in ended.err


def test_before_the_first_event_there_is_no_store_and_it_says_so(here: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "query")
    assert ended.code == 69
    assert "there is no audit store yet" in ended.err


def test_a_rollback_by_this_program_is_found_by_its_channel(project: Project, sentinelctl: Run) -> None:
    engine = start(load_settings())
    assert engine.wait_ready(10)
    assert sentinelctl("rules", "rollback", "--yes", "--reason", "sale is over").code == 0
    assert engine.subscriptions[0].refresh(10)
    engine.close()
    changes = json.loads(sentinelctl("audit", "query", "channel:cli", "-o", "json").out)["changes"]
    assert [(each["field"], each["old"], each["new"], each["event"]["reason"]) for each in changes] == [
        ("count", 30, 25, "sale is over")
    ]


def test_without_settings_it_says_where_they_were_looked_for(here: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "who", "x")
    assert ended.code == 69
    assert f"no sentinel.yaml was found in {here} or above it" in ended.err


@pytest.mark.parametrize(
    ("author_of", "channel", "shown"),
    [
        ("ada <10.2.3.4>", "console", "ada (console, 10.2.3.4)"),
        ("unknown <10.2.3.4>", "console", "unknown (console, 10.2.3.4)"),
        (None, "console", "unknown (console)"),
        ("Ada Example <ada@example.com>", "cli", "Ada Example (cli)"),
    ],
)
def test_an_edit_in_a_console_is_shown_with_its_address(author_of: str | None, channel: str, shown: str) -> None:
    fields: dict[str, Any] = dict.fromkeys(EventHead.__slots__)
    assert author(EventHead(**fields | {"author": author_of, "channel": channel})) == shown

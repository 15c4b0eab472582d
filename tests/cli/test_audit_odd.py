"""Odd evidence ends no listing: times at the ends of the calendar, changes without parts, values nested deep."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.event import parse_event
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.audit.test_each import document
from tests.cli.conftest import Run


@pytest.fixture
def put(here: Path) -> Any:
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")

    def keep(*documents: dict[str, Any]) -> None:
        with_store = SqliteStore(here / "audit.db")
        assert with_store.ingest([parse_event(json.dumps(each)) for each in documents]).new == len(documents)
        with_store.close()

    return keep


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York", "UTC"])
def test_the_ends_of_the_calendar_end_no_listing(put: Any, sentinelctl: Run, zone: str) -> None:
    put(
        document("aaaaaaa0") | {"time": "0001-01-01T00:00:00Z"},
        document("aaaaaaa1") | {"time": "9999-12-31T23:59:59.999Z"},
        document("aaaaaaa2"),
    )
    for command in (["query"], ["tail"], ["who", "pay"], ["show", "aaaaaaa0"], ["show", "aaaaaaa1"], ["export"]):
        more = [] if command == ["export"] else ["--zone", zone]
        ended = sentinelctl("audit", *command, *more)
        assert ended.code == 0, (command, ended.err)
    told = sentinelctl("audit", "who", "pay", "--zone", "UTC").err
    assert "1 event of it dated before 1970 left out, the newest" in told
    assert "1 event of it dated after now left out, the newest 9999-12-31 23:59:59 (aaaaaaa1)" in told
    outside = json.loads(sentinelctl("audit", "who", "pay", "-o", "json").out)["outside"]
    assert {when: [head["id"] for head in heads] for when, heads in outside.items()} == {
        "past": ["aaaaaaa0"],
        "future": ["aaaaaaa1"],
    }


def test_what_a_fast_clock_dated_is_told_where_it_is_left_out(put: Any, sentinelctl: Run) -> None:
    put(document() | {"time": rfc3339(datetime.now(UTC) + timedelta(minutes=10))})
    for window in ([], ["--since", "1h"], ["--at", "now"]):
        assert "1 event of it dated after now left out" in sentinelctl("audit", "who", "pay", *window).err
    assert "left out" not in sentinelctl("audit", "who", "pay", "--between", "3h", "2026-11-01").err


@pytest.mark.parametrize(
    "change",
    [
        {"action": "change", "resource": "pay", "field": "count", "old": 1, "new": 2},
        {"action": "add", "resource": "pay"},
        {"action": {"a": 1}, "resource": ["x"], "kind": 5, "rule": [1], "field": {"f": 1}},
        {"action": None, "rule": 7, "field": [1]},
    ],
)
def test_changes_without_their_parts_are_shown(put: Any, sentinelctl: Run, change: dict[str, Any]) -> None:
    put(document(changes=[change]))
    for command in (["show", "aaaaaaa0"], ["query"], ["who", "pay"]):
        for form in ("table", "json", "yaml"):
            assert sentinelctl("audit", *command, "-o", form).code == 0


def test_a_value_that_is_nested_deep_is_written_as_yaml(put: Any, sentinelctl: Run) -> None:
    value: Any = 1
    for _ in range(600):
        value = [value]
    put(document(changes=[{"action": "change", "resource": "pay", "rule": "r", "field": "f", "old": 1, "new": value}]))
    ended = sentinelctl("audit", "query", "-o", "yaml")
    assert (ended.code, "[" * 600 in ended.out) == (0, True)


def test_without_a_store_yet_kafka_is_to_be_taken_from(here: Path, sentinelctl: Run) -> None:
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db', kafka: {bootstrap: 'localhost:1'}}\n")
    ended = sentinelctl("audit", "who", "pay")
    assert ended.code == 69
    assert "next: sentinelctl audit ingest" in ended.err


def test_a_store_that_is_behind_what_this_machine_sent_says_so(here: Path, put: Any, sentinelctl: Run) -> None:
    from sentinel_core.audit.outbox import Outbox

    put(document())
    (here / "sentinel.yaml").write_text(
        "audit: {store: 'sqlite:///audit.db', outbox: outbox.db, kafka: {bootstrap: 'localhost:1'}}\n"
    )
    sent = parse_event(json.dumps(document("aaaaaaa1") | {"time": rfc3339(datetime.now(UTC))}))
    outbox = Outbox(here / "outbox.db")
    outbox.append([sent])
    outbox.mark_sent([sent])
    said = "events that this machine sent to Kafka are not in the store yet: sentinelctl audit ingest"
    assert said in sentinelctl("audit", "who", "pay").err
    put(json.loads(sent.to_json()))
    assert said not in sentinelctl("audit", "who", "pay").err

"""`audit purge`, and `audit verify` and `audit who` after it."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core.audit.event import Event, RuleChanged
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

ALL = ("--to", "segments", "--zone", "UTC")


def test_a_purge_shows_what_it_would_do_and_asks(months: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "purge", "--before", "2026-06-01", *ALL, "--dry-run")
    assert (ended.code, ended.out.splitlines()[1].split()) == (0, ["/prod/x", "2", "2"])
    assert "2 events of 1 source from before 2026-06-01T00:00:00.000Z" in ended.err
    assert "Dry run" in ended.err
    refused = sentinelctl("audit", "purge", "--before", "2026-06-01", *ALL)
    assert (refused.code, "--yes" in refused.err) == (64, True)
    assert not (months / "segments").exists()


def test_a_purge_seals_removes_and_leaves_a_sound_store(months: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "checkpoint")
    ended = sentinelctl("audit", "purge", "--before", "2026-06-01", *ALL, "--yes", "-o", "json", "--reason", "90 days")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["events"], document["removed"], document["segment"]["events"]) == (2, 2, 2)
    assert (months / "segments" / document["segment"]["file"]).is_file()
    verified = sentinelctl("audit", "verify")
    assert (verified.code, verified.out) == (0, ""), verified.err
    assert "note: 2 events of before 2026-06-01T00:00:00.000Z were purged" in verified.err
    assert "Sound: 5 events of 2 sources, 3 checkpoints." in verified.err
    assert "Sound: 7 events of 2 sources" in sentinelctl("audit", "verify", "--segments", "segments").err
    told = json.loads(sentinelctl("audit", "verify", "-o", "json").out)["purged"]
    assert (told["before"], told["walked"], told["segments"]) == (
        "2026-06-01T00:00:00.000Z", False, [document["segment"]]
    )  # fmt: skip
    shown = sentinelctl("audit", "query", "type:purged")
    assert "2 old events left the store" in shown.out
    assert "90 days" in shown.out
    again = sentinelctl("audit", "purge", "--before", "2026-06-01", *ALL, "--yes")
    assert (again.code, "No event of before" in again.err) == (0, True)


def test_a_segment_that_was_tampered_with_ends_with_2(months: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "purge", "--before", "2026-06-01", *ALL, "--yes")
    (path,) = (months / "segments").glob("*.gz")
    path.write_bytes(path.read_bytes()[:-30])
    assert sentinelctl("audit", "verify").code == 0
    ended = sentinelctl("audit", "verify", "--segments", "segments")
    assert ended.code == 2
    assert f"! bad segment  {path.name} is not as it was sealed" in ended.out


def test_the_time_must_be_one(months: Path, sentinelctl: Run) -> None:
    assert sentinelctl("audit", "purge", "--before", "11/12/2026", *ALL).code == 64
    assert sentinelctl("audit", "purge", *ALL).code == 64


def test_a_folder_that_cannot_be_written_is_told(months: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "checkpoint")
    ended = sentinelctl("audit", "purge", "--before", "2026-06-01", "--to", "/proc/none", "--yes")
    assert ended.code == 2
    assert "\n  next: give --to a folder that this user may write" in ended.err
    assert sentinelctl("audit", "verify").code == 0


def test_what_a_rollback_undid_is_told_by_its_revision_whatever_was_purged(months: Path, sentinelctl: Run) -> None:
    """The time is that of another event, which may have left the store."""
    who = ("audit", "who", "pay", "--since", "2026-08-01", "--zone", "UTC")
    with closing(SqliteStore(months / "audit.db")) as store:
        for number, (day, old, new, undone) in enumerate([(1, "a", "b", None), (20, "b", "a", "17")]):
            change = {"action": "change", "resource": "pay", "rule": "flow/pay", "field": "count", "old": 1, "new": 2}
            facts = {"environment": "prod", "kind": "flow", "changes": [change], "rollbackOf": undone}
            data = json.dumps(facts | {"oldDigest": old, "newDigest": new}).encode()
            at = datetime(2026, 8, day, 12, tzinfo=UTC)
            store.ingest([Event(f"{number:08}-undone", "/prod/y", RuleChanged.TYPE, "flow", at, data)])
    assert "rollback of 17 (2026-08-01 12:00:00)" in sentinelctl(*who).out
    purged = sentinelctl("audit", "purge", "--before", "2026-08-10", *ALL, "--yes", "--reason", "old")
    assert purged.code == 0, purged.err
    assert "rollback of 17 (no longer in the store)" in sentinelctl(*who).out


def put(months: Path, name: str, at: datetime) -> None:
    with closing(SqliteStore(months / "audit.db")) as store:
        (row,) = store.query(Query(limit=1)).rows
        (event,) = store.events([row.event])
        store.ingest([replace(event, id=name, time=at)])


def test_an_event_that_is_dated_in_the_future_is_named_and_may_be_passed(months: Path, sentinelctl: Run) -> None:
    put(months, "mistaken-event", datetime(2099, 1, 1, tzinfo=UTC))
    put(months, "late-event", datetime(2026, 8, 1, tzinfo=UTC))
    asked = ("audit", "purge", "--before", "2026-10-01", *ALL)
    ended = sentinelctl(*asked, "--dry-run", "-o", "json")
    assert json.loads(ended.out)["events"] == 6
    assert json.loads(ended.out)["held"] == [
        {"source": "/prod/x", "number": 7, "time": "2099-01-01T00:00:00.000Z", "waiting": 1}
    ]
    assert (
        "note: event 7 of /prod/x is of 2099-01-01T00:00:00.000Z, in the future: 1 older event behind it must wait "
        "for that; --with-future passes it" in ended.err
    )
    ended = sentinelctl(*asked, "--with-future", "--yes", "-o", "json")
    assert (json.loads(ended.out)["removed"], json.loads(ended.out)["held"]) == (8, [])
    assert "note: event" not in ended.err
    assert sentinelctl("audit", "verify", "--segments", "segments").code == 0


def test_a_younger_event_is_named_that_keeps_older_ones(months: Path, sentinelctl: Run) -> None:
    put(months, "late-event", datetime(2026, 5, 1, tzinfo=UTC))
    ended = sentinelctl("audit", "purge", "--before", "2026-06-01", *ALL, "--dry-run")
    assert "note: event 3 of /prod/x is of 2026-06-03T" in ended.err
    assert "1 older event behind it must wait until it is old enough, too" in ended.err


@pytest.mark.usefixtures("months")
def test_another_folder_than_that_of_earlier_segments_is_told(sentinelctl: Run) -> None:
    sentinelctl("audit", "purge", "--before", "2026-06-01", *ALL, "--yes")
    ended = sentinelctl("audit", "purge", "--before", "2026-08-01", *ALL, "--dry-run")
    assert "earlier" not in ended.err
    elsewhere = ("audit", "purge", "--before", "2026-08-01", "--to", "elsewhere", "--zone", "UTC")
    for more in ("--dry-run", "--yes"):
        ended = sentinelctl(*elsewhere, more)
        assert ended.code == 0
        assert "note: elsewhere lacks 1 segment of earlier purges (audit-000001-" in ended.err
        assert "needs all in one folder" in ended.err
    assert sentinelctl("audit", "verify", "--segments", "elsewhere").code == 2

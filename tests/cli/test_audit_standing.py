"""What `audit who` says of its own answer: hashes, checkpoints, and what was purged."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel_core.audit import standing
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run

WHO = ("audit", "who", "pay", "--zone", "UTC")


def told(sentinelctl: Run, *more: str, code: int = 0) -> str:
    ended = sentinelctl(*WHO, *more)
    assert ended.code == code, ended.err
    return ended.err.partition("\n")[2]


def chain(sentinelctl: Run) -> dict[str, object]:
    found: dict[str, object] = json.loads(sentinelctl(*WHO, "-o", "json").out)["chain"]
    return found


@pytest.mark.usefixtures("months")
def test_hashes_are_computed_anew_and_a_checkpoint_is_told(sentinelctl: Run) -> None:
    assert told(sentinelctl) == "6 changes. The hashes hold; no checkpoint covers them yet.\n"
    sentinelctl("audit", "checkpoint")
    assert told(sentinelctl).startswith("6 changes. The hashes hold, and the checkpoint of 20")
    assert told(sentinelctl).endswith(" covers them.\n")
    assert " Its hash holds, and the checkpoint of " in told(sentinelctl, "--since", "2026-08-30")
    assert told(sentinelctl, "--since", "2026-11-01").startswith("0 changes. The last before: ")


def test_what_came_after_the_last_checkpoint_is_not_covered(months: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "checkpoint")
    store = SqliteStore(months / "audit.db")
    (row,) = store.query(Query(limit=1)).rows
    (event,) = store.events([row.event])
    store.ingest([replace(event, id="another-event")])
    assert " covers 6 of 7.\n" in told(sentinelctl)
    assert (chain(sentinelctl)["checked"], chain(sentinelctl)["covered"]) == (7, 6)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE events SET author = 'li' WHERE seq = 3", "UPDATE changes SET new = '1' WHERE event = 3",
        "UPDATE changes SET new = 'no JSON' WHERE event = 3",
     "UPDATE bodies SET data = CAST('{}' AS BLOB) WHERE event = 3", "UPDATE bodies SET data = x'ff' WHERE event = 3",
     "DELETE FROM bodies WHERE event = 3"],
)  # fmt: skip
def test_an_event_that_is_not_as_written_ends_with_2(months: Path, sentinelctl: Run, statement: str) -> None:
    connection = sqlite3.connect(months / "audit.db")
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert "TAMPERED WITH: 00000002 not as written" in told(sentinelctl, code=2)
    assert "hashes hold" not in told(sentinelctl, code=2)
    assert chain(sentinelctl)["broken"] == ["00000002-event"]


def test_a_chain_made_anew_is_seen_where_a_checkpoint_knew_another(months: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "checkpoint")
    path = months / "checkpoints.ndjson"
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"hash": "00" * 32}) + "\n")
    assert "TAMPERED WITH: 00000005" in told(sentinelctl, code=2)


def test_many_or_large_events_are_hashed_only_as_far_as_it_takes_no_time(
    months: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "MOST_EVENTS", 4)
    assert "The hashes of the newest 4 hold;" in told(sentinelctl)
    monkeypatch.setattr(standing, "MOST_BYTES", 1)
    assert "The hashes of the newest 1 hold;" in told(sentinelctl)


@pytest.mark.usefixtures("months")
def test_a_window_that_reaches_before_what_was_purged_says_so(sentinelctl: Run) -> None:
    sentinelctl("audit", "purge", "--before", "2026-06-01", "--to", "segments", "--zone", "UTC", "--yes")
    assert told(sentinelctl).splitlines() == [
        told(sentinelctl).splitlines()[0],
        "Events of before 2026-06-01 00:00:00 were purged; what they told is in their segments.",
    ]
    assert "purged" not in told(sentinelctl, "--since", "2026-06-01")
    assert "were purged" in told(sentinelctl, "--field", "nothing")
    assert chain(sentinelctl)["purgedBefore"] == "2026-06-01T00:00:00.000Z"

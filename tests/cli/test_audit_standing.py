"""What `audit who` says of its own answer: hashes, checkpoints, and what was purged."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel_core.audit import standing
from sentinel_core.audit.store import _layout
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
    assert "TAMPERED WITH: another chain than the one that the checkpoint of 20" in told(sentinelctl, code=2)
    assert "00000005" in told(sentinelctl, code=2)


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


def execute(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "audit.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def rechain(folder: Path) -> None:
    """What a forger without the key can do."""
    connection = sqlite3.connect(folder / "audit.db")
    connection.execute("DELETE FROM chains")
    _layout._chain_what_is_there(connection)
    connection.execute("UPDATE chains SET adopted = 0")
    connection.commit()
    connection.close()


def test_a_checkpoint_of_a_later_event_shows_a_chain_made_anew(months: Path, sentinelctl: Run) -> None:
    store = SqliteStore(months / "audit.db")
    (row,) = store.query(Query(limit=1)).rows
    (event,) = store.events([row.event])
    store.ingest([replace(event, id="of-another-resource", data=event.data.replace(b'"pay"', b'"other"'))])
    store.close()
    sentinelctl("audit", "checkpoint")
    assert " covers them.\n" in told(sentinelctl)
    execute(months, "UPDATE events SET author = 'mallory' WHERE seq = 2")
    rechain(months)
    assert "TAMPERED WITH: another chain than the one that the checkpoint of 20" in told(sentinelctl, code=2)
    assert "hashes hold" not in told(sentinelctl, code=2)
    assert chain(sentinelctl)["contradicted"] is not None


def test_a_checkpoint_that_knows_of_more_events_shows_a_chain_that_was_cut_off(months: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "checkpoint")
    execute(months, *(f"DELETE FROM {table} WHERE event = 6" for table in ("bodies", "changes")))  # noqa: S608  own names
    execute(months, "DELETE FROM events WHERE seq = 6")
    rechain(months)
    assert "TAMPERED WITH: another chain" in told(sentinelctl, code=2)


@pytest.mark.usefixtures("months")
@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["DELETE FROM events WHERE seq = 3", "DELETE FROM changes WHERE event = 3"], "1 event missing in the chain"),
        (["DELETE FROM changes WHERE event = 3"], "TAMPERED WITH: 00000002 not as written"),
    ],
)
def test_what_is_gone_from_between_is_told(
    months: Path, sentinelctl: Run, statements: list[str], expected: str
) -> None:
    sentinelctl("audit", "checkpoint")
    execute(months, *statements)
    assert expected in told(sentinelctl, code=2)
    assert "hashes hold" not in told(sentinelctl, code=2)


def test_what_stands_between_and_cannot_be_looked_at_is_not_vouched_for(
    months: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(months, "UPDATE changes SET resource = 'other' WHERE event IN (3, 4)")
    monkeypatch.setattr("sentinel_core.audit.store._linked._LOOKED_AT", 1)
    assert "4 changes. The hashes of what is shown hold; no checkpoint" in told(sentinelctl)


def test_the_last_change_before_a_window_is_looked_at_too(months: Path, sentinelctl: Run) -> None:
    execute(months, "UPDATE events SET author = 'mallory' WHERE seq = 6")
    assert "TAMPERED WITH: 00000005" in told(sentinelctl, "--since", "2026-11-01", code=2)


def test_what_changed_with_it_is_looked_at_too(months: Path, sentinelctl: Run) -> None:
    change = {"action": "change", "resource": "refund", "rule": "degrade/refund", "field": "count", "old": 1, "new": 2}
    data = {"environment": "prod", "author": "chen", "commitHash": "c0ffee", "kind": "degrade", "changes": [change]}
    store = SqliteStore(months / "audit.db")
    (row,) = store.query(Query(limit=1)).rows
    (event,) = store.events([row.event])
    both = [("one", "/prod/x", data | {"changes": [change | {"resource": "pay"}]}), ("two", "/prod/y", data)]
    store.ingest(
        [
            replace(event, id=f"{name}-of-a-commit", source=source, data=json.dumps(held).encode())
            for name, source, held in both
        ]
    )
    store.close()
    assert "with it: refund.count 1 → 2" in sentinelctl(*WHO).out
    execute(months, "UPDATE changes SET new = '999' WHERE resource = 'refund'")
    assert "TAMPERED WITH: two-of-a not as written" in told(sentinelctl, code=2)


@pytest.mark.parametrize("command", [("query",), ("query", "-o", "json"), ("show", "00000002-event")])
def test_query_and_show_tell_of_a_hash_that_does_not_hold(
    months: Path, sentinelctl: Run, command: tuple[str, ...]
) -> None:
    assert sentinelctl("audit", *command).code == 0
    execute(months, "UPDATE events SET author = 'mallory' WHERE seq = 3")
    ended = sentinelctl("audit", *command)
    assert ended.code == 2
    assert "TAMPERED WITH: 00000002 not as written; sentinelctl audit verify tells more." in ended.err


@pytest.mark.parametrize("body", ["x''", "x'7b7d7d'", "CAST('{}x' AS TEXT)"])
def test_an_event_whose_data_is_none_leads_to_verify(months: Path, sentinelctl: Run, body: str) -> None:
    execute(months, f"UPDATE bodies SET data = {body} WHERE event = 3")  # noqa: S608  own names
    ended = sentinelctl("audit", "show", "00000002-event")
    assert ended.code == 2
    assert "event 00000002-event: its data is" in ended.err
    assert "next: sentinelctl audit verify" in ended.err

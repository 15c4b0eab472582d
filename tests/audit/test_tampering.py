"""What somebody who can write the store may do to it, and where `verify` finds it.

The first table needs nothing but the store. The second is of what is sound in itself: a chain that was cut off or made
anew, the record of its end included, is found by a checkpoint alone.
"""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sentinel_core.audit.chain import COLUMNS, ROW
from sentinel_core.audit.checkpoints import append, read, signed
from sentinel_core.audit.events import Event
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store import _layout, _walk
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import Promise, verify

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
OTHER = "/staging/file/rules/flow"
Tamper = Callable[[sqlite3.Connection], object]


@pytest.fixture
def store(sqlite: SqliteStore) -> SqliteStore:
    return sqlite


def tamper(store: SqliteStore, how: Tamper) -> None:
    connection = sqlite3.connect(store.path)
    how(connection)
    connection.commit()
    connection.close()


def found(store: SqliteStore, promises: list[Promise] | None = None) -> list[tuple[str, int, int]]:
    verdict = verify(store, promises or [])
    return [(finding.kind, finding.number, finding.last) for finding in verdict.findings]


def run(*statements: str) -> Tamper:
    return lambda connection: [connection.execute(statement) for statement in statements]


def flip(table: str, column: str, where: str) -> Tamper:
    """One bit of what is stored; where nothing is, something."""

    def change(connection: sqlite3.Connection) -> None:
        (value,) = connection.execute(f'SELECT "{column}" FROM {table} WHERE {where}').fetchone()
        if isinstance(value, str):
            new: Any = value[:-1] + chr(ord(value[-1]) ^ 1) if value else "x"
        elif isinstance(value, bytes):
            new = value[:-3] + bytes([value[-3] ^ 1]) + value[-2:]
        else:
            new = "x" if value is None else value ^ 1
        connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE {where}', (new,))

    return change


@pytest.mark.parametrize("column", COLUMNS)
def test_a_bit_of_any_column_of_an_event_is_found_at_its_number(filled: SqliteStore, column: str) -> None:
    tamper(filled, flip("events", column, "seq = 5"))
    assert found(filled) == [("hash mismatch", 5, 5)]


@pytest.mark.parametrize("column", ROW)
def test_a_bit_of_any_column_of_a_change_is_found_at_its_number(filled: SqliteStore, column: str) -> None:
    tamper(filled, flip("changes", column, "event = 5"))
    assert found(filled) == [("hash mismatch", 5, 5)]


def test_a_bit_of_each_member_of_the_data_is_found_at_its_number(filled: SqliteStore, events: list[Event]) -> None:
    connection = sqlite3.connect(filled.path)
    (body,) = connection.execute("SELECT data FROM bodies WHERE event = 5").fetchone()
    for place in range(0, len(body), 37):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        connection.execute("UPDATE bodies SET data = ? WHERE event = 5", (changed,))
        connection.commit()
        assert found(filled) == [("hash mismatch", 5, 5)], changed[place - 10 : place + 10]
    connection.close()


TABLE: dict[str, tuple[Tamper, list[tuple[str, int, int]]]] = {
    "nothing": (run("SELECT 1"), []),
    "another number": (flip("events", "number", "seq = 5"), [("hash mismatch", 5, 5)]),
    "another previous hash": (flip("events", "previous", "seq = 5"), [("hash mismatch", 5, 5)]),
    "another hash": (flip("events", "hash", "seq = 5"), [("hash mismatch", 5, 5)]),
    "another hash at the end": (flip("events", "hash", "seq = 10"), [("hash mismatch", 10, 10)]),
    "bytes that are no text": (
        run("UPDATE events SET author = CAST(x'ff41' AS TEXT) WHERE seq = 5"),
        [("hash mismatch", 5, 5)],
    ),
    "a blob for a text": (run("UPDATE events SET author = x'00' WHERE seq = 5"), [("hash mismatch", 5, 5)]),
    "a body that is gone": (run("DELETE FROM bodies WHERE event = 5"), [("hash mismatch", 5, 5)]),
    "a change that is gone": (run("DELETE FROM changes WHERE event = 5"), [("hash mismatch", 5, 5)]),
    "a change that was added": (
        run("INSERT INTO changes (event, place, time, action) VALUES (5, 1, 0, 'change')"),
        [("hash mismatch", 5, 5)],
    ),
    "delete the first": (run("DELETE FROM events WHERE seq = 1"), [("gap", 1, 1)]),
    "delete from the middle": (run("DELETE FROM events WHERE seq IN (4, 5, 6)"), [("gap", 4, 6)]),
    "delete two apart": (run("DELETE FROM events WHERE seq IN (3, 6)"), [("gap", 3, 3), ("gap", 6, 6)]),
    "delete the last": (run("DELETE FROM events WHERE seq = 10"), [("truncated after", 9, 9)]),
    "delete a whole source": (run("DELETE FROM events WHERE seq <= 10"), [("truncated after", 0, 0)]),
    "delete and move the rest up": (
        run("DELETE FROM events WHERE seq = 5", "UPDATE events SET number = number - 1 WHERE seq BETWEEN 6 AND 10"),
        [("hash mismatch", 5, 9), ("truncated after", 9, 9)],
    ),
    "swap two": (
        run(
            "UPDATE events SET seq = -1 WHERE seq = 5", "UPDATE events SET seq = 5 WHERE seq = 6",
            "UPDATE events SET seq = 6 WHERE seq = -1",
            "UPDATE bodies SET event = -1 WHERE event = 5", "UPDATE bodies SET event = 5 WHERE event = 6",
            "UPDATE bodies SET event = 6 WHERE event = -1",
            "UPDATE changes SET event = -1 WHERE event = 5", "UPDATE changes SET event = 5 WHERE event = 6",
            "UPDATE changes SET event = 6 WHERE event = -1",
        ),
        [("reordered", 5, 5)],
    ),
    "swap the bodies of two": (
        run(
            "UPDATE bodies SET event = -1 WHERE event = 5", "UPDATE bodies SET event = 5 WHERE event = 8",
            "UPDATE bodies SET event = 8 WHERE event = -1",
        ),
        [("hash mismatch", 5, 5), ("hash mismatch", 8, 8)],
    ),
    "the record of the end": (run("UPDATE chains SET hash = x'00' WHERE number = 10"), [("hash mismatch", 10, 10)]),
    "the record of the end is gone": (run("DELETE FROM chains WHERE number = 10"), [("hash mismatch", 10, 10)]),
}  # fmt: skip


@pytest.mark.parametrize("how", TABLE)
def test_what_the_chain_itself_shows(filled: SqliteStore, how: str) -> None:
    change, expected = TABLE[how]
    tamper(filled, change)
    assert found(filled) == expected


def copied(connection: sqlite3.Connection, seq: int, to: int, **changed: Any) -> None:
    """Row `seq` once more as row `to`, with its body and changes."""
    names = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
    row = dict(zip(names, connection.execute("SELECT * FROM events WHERE seq = ?", (seq,)).fetchone(), strict=True))
    row |= {"seq": to, **changed}
    connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(row))})", [*row.values()])
    connection.execute("INSERT INTO bodies SELECT ?, data FROM bodies WHERE event = ?", (to, seq))
    rest = ", ".join(f'"{name}"' for name in ROW)
    connection.execute(f"INSERT INTO changes SELECT ?, {rest} FROM changes WHERE event = ?", (to, seq))


def test_an_event_that_is_replayed_is_a_duplicate(filled: SqliteStore) -> None:
    # The same id again is refused by the file itself; whoever replays takes the index away first.
    def replay(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE copy AS SELECT * FROM events")
        connection.execute("DROP TABLE events")
        connection.execute("ALTER TABLE copy RENAME TO events")
        copied(connection, 5, 13)

    tamper(filled, replay)
    assert found(filled) == [("duplicate", 5, 5)]


def test_an_event_that_is_inserted_is_found(filled: SqliteStore) -> None:
    tamper(filled, lambda connection: copied(connection, 5, 13, id="forged"))
    assert found(filled) == [("hash mismatch", 5, 5), ("duplicate", 5, 5)]


def test_an_event_that_is_appended_without_its_link_is_found(filled: SqliteStore) -> None:
    tamper(filled, lambda connection: copied(connection, 10, 13, id="forged", number=11))
    assert found(filled) == [("hash mismatch", 11, 11)]


def test_a_walk_goes_on_after_each_failure(filled: SqliteStore) -> None:
    tamper(
        filled,
        run(
            "UPDATE events SET author = 'x' WHERE seq = 2",
            "DELETE FROM events WHERE seq = 4",
            "UPDATE changes SET new = '1000' WHERE event = 7",
            "DELETE FROM events WHERE seq IN (9, 10)",
            "UPDATE bodies SET data = '{}' WHERE event = 12",
        ),
    )
    assert found(filled) == [
        ("hash mismatch", 2, 2), ("gap", 4, 4), ("hash mismatch", 7, 7), ("truncated after", 8, 8),
        ("hash mismatch", 2, 2),
    ]  # fmt: skip


def test_neighbours_with_the_same_trouble_are_one_finding(filled: SqliteStore) -> None:
    tamper(filled, run("UPDATE events SET author = 'x' WHERE seq BETWEEN 3 AND 8"))
    assert found(filled) == [("hash mismatch", 3, 8)]


@pytest.fixture
def checkpoints(filled: SqliteStore, key: SigningKey, tmp_path: Path) -> Path:
    """At numbers 10 and 2."""
    path = tmp_path / "elsewhere" / "checkpoints.ndjson"
    append(path, signed(filled.heads(), key, AT))
    return path


def rechain(connection: sqlite3.Connection) -> None:
    """What a forger without the key can do: every link from the first, and the record of the end."""
    connection.execute("DELETE FROM chains")
    _layout._chain_what_is_there(connection)
    connection.execute("UPDATE chains SET adopted = 0")


HIDDEN: dict[str, tuple[Tamper, list[tuple[str, int, int]]]] = {
    "nothing": (rechain, []),
    "the last was deleted": (run("DELETE FROM events WHERE seq = 10"), [("truncated after", 9, 9)]),
    "the last three were deleted": (run("DELETE FROM events WHERE seq BETWEEN 8 AND 10"), [("truncated after", 7, 7)]),
    "a source was deleted": (run("DELETE FROM events WHERE seq <= 10"), [("truncated after", 0, 0)]),
    "the first was deleted": (run("DELETE FROM events WHERE seq = 1"), [("truncated after", 9, 9)]),
    "an author was changed": (run("UPDATE events SET author = 'x' WHERE seq = 5"), [("hash mismatch", 1, 10)]),
    "a body was changed": (
        run("UPDATE bodies SET data = CAST('{}' AS BLOB) WHERE event = 5"),
        [("hash mismatch", 1, 10)],
    ),
}


@pytest.mark.parametrize("how", HIDDEN)
def test_what_only_a_checkpoint_shows(filled: SqliteStore, checkpoints: Path, key: SigningKey, how: str) -> None:
    change, expected = HIDDEN[how]
    tamper(filled, change)
    tamper(filled, rechain)
    assert found(filled) == [], "sound in itself"
    assert found(filled, [*read(checkpoints, [key.public]).promises]) == expected


def test_a_chain_made_anew_is_sound_up_to_the_last_checkpoint_that_agrees(
    store: SqliteStore, events: list[Event], key: SigningKey, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoints.ndjson"
    for start in range(0, 10, 3):
        store.ingest(events[start : start + 3])
        append(path, signed(store.heads(), key, AT))
    tamper(store, run("UPDATE events SET author = 'x' WHERE seq = 5"))
    tamper(store, rechain)
    assert found(store, [*read(path, [key.public]).promises]) == [("hash mismatch", 4, 10)]


def test_events_after_a_checkpoint_are_no_finding(
    filled: SqliteStore, checkpoints: Path, key: SigningKey, history: Any, flow: Any
) -> None:
    history.commits = 100
    filled.ingest([history.commit("flow", [flow(count=77)])])
    assert found(filled, [*read(checkpoints, [key.public]).promises]) == []


@pytest.mark.parametrize("member", ["time", "source", "number", "hash", "keyId", "signature", "formatVersion"])
def test_a_checkpoint_that_was_changed_has_a_bad_signature(checkpoints: Path, key: SigningKey, member: str) -> None:
    first, *rest = checkpoints.read_text().splitlines()
    statement = json.loads(first)
    value = statement[member]
    statement[member] = value + 1 if isinstance(value, int) else ("1" if value[0] == "0" else "0") + value[1:]
    checkpoints.write_text("\n".join([json.dumps(statement), *rest]) + "\n")
    told = read(checkpoints, [key.public])
    assert [finding.kind for finding in told.findings] == ["bad signature"]
    assert len(told.promises) == 1


def test_a_checkpoint_of_another_key_is_no_promise(
    filled: SqliteStore, checkpoints: Path, key: SigningKey, tmp_path: Path
) -> None:
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    other = SigningKey.from_pem(pem)
    append(checkpoints, signed(filled.heads(), other, AT))
    told = read(checkpoints, [key.public])
    assert (len(told.promises), len(told.findings)) == (2, 2)
    assert read(checkpoints, [key.public, other.public]).findings == []


def test_a_line_that_a_crash_cut_off_is_told_and_the_next_is_read(
    filled: SqliteStore, checkpoints: Path, key: SigningKey
) -> None:
    checkpoints.write_bytes(checkpoints.read_bytes()[:-20])
    append(checkpoints, signed(filled.heads(), key, AT))
    told = read(checkpoints, [key.public])
    assert (len(told.promises), [finding.text for finding in told.findings]) == (
        3,
        ["line 2 of checkpoints.ndjson is no checkpoint"],
    )


@pytest.mark.parametrize("how", ["nothing", "delete two apart"])
def test_several_processes_find_the_same_as_one(filled: SqliteStore, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tamper(filled, TABLE[how][0])
    promises = [Promise(filled.heads()[0].source, 2, b"another", "2026-11-30T12:00:00.000Z")]
    expected = found(filled, promises)
    assert ("hash mismatch", 1, 2) in expected
    # Pages of four events, so that trouble lies within one, at its edge and across two.
    walk_in_two_processes(monkeypatch)
    assert found(filled, promises) == expected


def walk_in_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walk, "PAGE", 4)
    monkeypatch.setattr(_walk, "PARALLEL_FROM", 1)
    monkeypatch.setattr(_walk, "_SHARED", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def test_a_process_that_is_killed_is_done_without(filled: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    walk_in_two_processes(monkeypatch)
    _, pages = filled.pages({})
    walked = [next(pages)]
    for other in multiprocessing.active_children():
        other.kill()
        other.join()
    walked += pages
    assert sum(page.events for page in walked) == filled.count()
    assert all(page.runs is not None for page in walked)

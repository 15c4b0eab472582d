"""What somebody may do to a store after a purge, to its record and to the segments, and where `verify` finds it."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from sentinel_core.audit.chain import COLUMNS, link
from sentinel_core.audit.checkpoints import append, read, signed
from sentinel_core.audit.events import Event
from sentinel_core.audit.retention.contract import PURGED, PurgingStore
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store import _layout
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.audit.purging import AT, OTHER, RECORDS, SOURCE, Found, found, gone, purged, tamper


@pytest.fixture
def after(filled: SqliteStore, folder: Path, cut: datetime, key: SigningKey) -> SqliteStore:
    """The store after a purge of 1 to 5, and of the whole other source."""
    purged(filled, cut, folder, key)
    return filled


@pytest.fixture
def sealed(stocked: PurgingStore, folder: Path, cut: datetime, key: SigningKey) -> PurgingStore:
    """The same in each back end."""
    purged(stocked, cut, folder, key)
    return stocked


IN_THE_STORE: dict[str, tuple[tuple[str, ...], Found]] = {
    "nothing": ((), []),
    "the first that is left": (gone("number = 6"), [("gap", SOURCE, 6, 6)]),
    "a bit of the first that is left": (
        ("UPDATE events SET author = 'x' WHERE number = 6",),
        [("hash mismatch", SOURCE, 6, 6)],
    ),
    "the last": (gone("number = 10"), [("truncated after", SOURCE, 9, 9)]),
    "all that are left": (gone("number > 5"), [("truncated after", SOURCE, 5, 5)]),
    "the record": (
        gone(f"type = '{PURGED}'"),
        [
            ("altered record", "", 0, 0),
            ("truncated after", RECORDS, 0, 0),
            ("gap", SOURCE, 1, 5),
            ("truncated after", OTHER, 0, 0),
        ],
    ),
    "the record and its chain": (
        (*gone(f"type = '{PURGED}'"), f"DELETE FROM chains WHERE source = '{RECORDS}'"),
        [("altered record", "", 0, 0), ("gap", SOURCE, 1, 5), ("truncated after", OTHER, 0, 0)],
    ),
    "which event the record is": (
        ("DELETE FROM purges",),
        [
            ("altered record", SOURCE, 0, 0),
            ("altered record", OTHER, 0, 0),
            ("gap", SOURCE, 1, 5),
            ("truncated after", OTHER, 0, 0),
        ],
    ),
    "which event the record is, to another one": (
        ("UPDATE purges SET event = 6",),
        [("hash mismatch", SOURCE, 0, 0), ("gap", SOURCE, 1, 5), ("truncated after", OTHER, 0, 0)],
    ),
}


@pytest.mark.parametrize("how", IN_THE_STORE)
def test_what_is_done_to_the_store_after_a_purge_is_found(after: SqliteStore, how: str, key: SigningKey) -> None:
    statements, expected = IN_THE_STORE[how]
    tamper(after, *statements)
    assert found(after, key) == expected


def test_a_purge_that_nobody_recorded_is_found(filled: SqliteStore) -> None:
    tamper(filled, *gone("number <= 5"))
    assert found(filled) == [("gap", SOURCE, 1, 5), ("truncated after", OTHER, 0, 0)]


def insert(sqlite: SqliteStore, number: int, previous: bytes, row: int, source: str = SOURCE) -> bytes:
    """A forged event with the hash that it must have; the hash."""
    columns = (f"forged-{row}", source, "t", "flow", *[None] * 14, 0, 0, 0, 0)
    made = link(previous, number, b"{}", columns, ())
    names = ", ".join(f'"{name}"' for name in ("seq", "number", "previous", "hash", *COLUMNS))
    values = (row, number, previous, made, *columns)
    connection = sqlite3.connect(sqlite.path)
    connection.execute(f"INSERT INTO events ({names}) VALUES ({', '.join('?' * len(values))})", values)
    connection.execute("INSERT INTO bodies VALUES (?, ?)", (row, b"{}"))
    connection.commit()
    connection.close()
    return made


def test_an_event_that_is_slipped_in_among_the_purged_ones_is_found(
    after: SqliteStore, key: SigningKey, folder: Path
) -> None:
    insert(after, 3, bytes(32), 3)
    assert found(after, key) == found(after, key, folder) == [("gap", SOURCE, 4, 5)]


def test_a_beginning_that_is_made_anew_up_to_the_last_purged_one_is_found(
    after: SqliteStore, key: SigningKey, folder: Path
) -> None:
    insert(after, 5, insert(after, 4, bytes(32), 4), 5)
    for past in (None, folder):
        told = found(after, key, past)
        assert {(kind, source) for kind, source, *_ in told} == {("hash mismatch", SOURCE)}, told


def test_a_purged_event_that_is_put_behind_the_others_is_found(after: SqliteStore, key: SigningKey) -> None:
    insert(after, 3, bytes(32), 100)
    assert found(after, key) == [("duplicate", SOURCE, 3, 3)]


def test_an_event_that_is_slipped_into_a_source_that_was_purged_whole_is_found(
    after: SqliteStore, key: SigningKey, folder: Path
) -> None:
    insert(after, 1, bytes(32), 100, OTHER)
    assert found(after, key) == found(after, key, folder) == [("truncated after", OTHER, 1, 1)]


@pytest.mark.parametrize("member", ["before", "events", "segments", "chains", "publishedBy", "keyId", "signature"])
def test_a_record_that_was_changed_is_found_by_its_chain_and_by_its_signature(
    after: SqliteStore, key: SigningKey, member: str
) -> None:
    event = after.last_purge()
    assert event is not None
    data = event.payload
    if member == "chains":
        data["chains"][1]["number"] += 1
    elif member == "segments":
        data["segments"][0]["sha256"] = "0" * 64
    elif member == "events":
        data["events"] += 1
    else:
        data[member] = {"before": "2020-01-01T00:00:00.000Z", "signature": "AAAA"}.get(member, "mallory")
    connection = sqlite3.connect(after.path)
    changed = json.dumps(data).encode()
    connection.execute(
        f"UPDATE bodies SET data = ? WHERE event = (SELECT seq FROM events WHERE type = '{PURGED}')", (changed,)
    )
    connection.commit()
    kinds = {(kind, source) for kind, source, *_ in found(after, key)}
    assert {("bad signature", RECORDS), ("hash mismatch", RECORDS), ("gap", SOURCE)} <= kinds
    # Made anew, the chain is sound; the signature still is not.
    connection.execute("DELETE FROM events WHERE type <> ?", (PURGED,))
    connection.execute("DELETE FROM chains")
    _layout._chain_what_is_there(connection)
    connection.commit()
    connection.close()
    assert ("bad signature", RECORDS, 0, 0) in found(after, key)


@pytest.mark.parametrize("text", ["{}", "[]", '{"before": 1}', '{"chains": [{"source": "x"}]}'])
def test_a_record_that_is_none_is_told_and_vouches_for_nothing(after: SqliteStore, text: str) -> None:
    tamper(after, f"UPDATE bodies SET data = CAST('{text}' AS BLOB) WHERE event > 12")
    assert ("hash mismatch", RECORDS, 0, 0) in found(after)
    assert ("gap", SOURCE, 1, 5) in found(after)


def test_a_record_without_a_signature_vouches_for_nothing_where_a_key_is_asked(
    stocked: PurgingStore, folder: Path, cut: datetime, key: SigningKey
) -> None:
    purged(stocked, cut, folder)
    assert found(stocked) == []
    assert found(stocked, key)[:2] == [("bad signature", RECORDS, 0, 0), ("gap", SOURCE, 1, 5)]
    only_the_signature = [("bad signature", RECORDS, 0, 0)]
    assert found(stocked, key, folder) == only_the_signature, "the events themselves are there to be walked"


def test_a_record_of_another_key_vouches_for_nothing(sealed: PurgingStore, new_key: Callable[[], SigningKey]) -> None:
    assert found(sealed, new_key())[:2] == [("bad signature", RECORDS, 0, 0), ("gap", SOURCE, 1, 5)]


def lines_of(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return file.readlines()


def seal(path: Path, lines: Sequence[bytes]) -> None:
    path.write_bytes(gzip.compress(b"".join(lines)))


def other_author(line: bytes) -> bytes:
    return line.replace(b"chen", b"mall")


SEGMENTS: dict[str, tuple[Callable[[Path], object], Found]] = {
    "gone": (
        lambda path: path.unlink(),
        [("bad segment", "", 0, 0), ("gap", SOURCE, 1, 5), ("truncated after", OTHER, 0, 0)],
    ),
    "an event was changed": (
        lambda path: seal(path, [*(lines := lines_of(path))[:3], other_author(lines[3]), *lines[4:]]),
        [("bad segment", "", 0, 0), ("hash mismatch", SOURCE, 3, 3)],
    ),
    "an event was taken out": (
        lambda path: seal(path, [*(lines := lines_of(path))[:3], *lines[4:]]),
        [("bad segment", "", 0, 0), ("gap", SOURCE, 3, 3)],
    ),
    "two were swapped": (
        lambda path: seal(path, [*(lines := lines_of(path))[:3], lines[4], lines[3], *lines[5:]]),
        [("bad segment", "", 0, 0), ("reordered", SOURCE, 3, 3)],
    ),
    "the last of it were cut off": (
        lambda path: seal(path, lines_of(path)[:4]),
        [("bad segment", "", 0, 0), ("gap", SOURCE, 4, 5), ("truncated after", OTHER, 0, 0)],
    ),
    "sightings were changed": (
        lambda path: seal(path, [line.replace(b'["i-1"', b'["i-2"') for line in lines_of(path)]),
        [("bad segment", "", 0, 0)],
    ),
    "no gzip": (
        lambda path: path.write_bytes(b"nothing"),
        [("bad segment", "", 0, 0), ("gap", SOURCE, 1, 5), ("truncated after", OTHER, 0, 0)],
    ),
}


@pytest.mark.parametrize("how", SEGMENTS)
def test_what_is_done_to_a_segment_is_found(sealed: PurgingStore, folder: Path, key: SigningKey, how: str) -> None:
    change, expected = SEGMENTS[how]
    (path,) = folder.glob("*.gz")
    change(path)
    assert sorted(found(sealed, key, folder)) == sorted(expected)
    assert found(sealed, key) == [], "the store alone is sound"


@pytest.mark.parametrize("line", [b"\n", b"[]\n", b"{}\n", b'{"number": "x"}\n', b"\xff\n"])
def test_a_line_of_a_segment_that_is_no_event_is_found(sealed: PurgingStore, folder: Path, line: bytes) -> None:
    (path,) = folder.glob("*.gz")
    lines = lines_of(path)
    seal(path, [*lines[:3], line, *lines[4:]])
    told = found(sealed, None, folder)
    assert ("bad segment", "", 0, 0) in told
    assert ("gap", SOURCE, 3, 3) in told or ("hash mismatch", SOURCE, 3, 3) in told


@pytest.mark.parametrize("at", [range(1, 4), range(1, 6), range(1, 11)])
def test_checkpoints_of_before_the_purge_hold_in_the_store_and_in_the_segments(
    store: PurgingStore, events: list[Event], folder: Path, key: SigningKey, cut: datetime, tmp_path: Path, at: range
) -> None:
    path = tmp_path / "checkpoints.ndjson"
    store.ingest(events[: at.stop - 1])
    append(path, signed(store.heads(), key, AT))
    store.ingest(events)
    purged(store, cut, folder, key)
    promises = read(path, [key.public]).promises
    assert found(store, key, None, promises) == found(store, key, folder, promises) == []
    wrong = [replace(promise, hash=bytes(32)) for promise in promises]
    told = [("hash mismatch", SOURCE, 1 if at.stop <= 6 else 6, at.stop - 1)]  # the purge vouches for the first five
    assert found(store, key, folder, wrong) == told
    assert found(store, key, None, wrong) == (told if at.stop > 5 else []), "what is gone only segments tell"

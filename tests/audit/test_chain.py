"""The hash chain of a source holds whatever way events arrive."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from sentinel_core.audit.chain import COLUMNS, ROW, START, Head, link
from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.events import Event, restore_event
from sentinel_core.audit.store import _layout
from sentinel_core.audit.store.contract import Condition, Ingested, Query
from sentinel_core.audit.store.opensearch import OpenSearchStore
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import verify

Store = SqliteStore | OpenSearchStore


def assert_sound(store: Store, events: int) -> None:
    verdict = verify(store)
    assert verdict.findings == []
    assert verdict.events == events
    assert [(head.source, head.number, head.hash) for head in verdict.heads] == [
        (head.source, head.number, head.hash) for head in store.heads()
    ]


def test_the_hash_is_what_its_definition_says() -> None:
    columns: list[Any] = [*(f"{name} é" for name in COLUMNS[:-4]), 1795588200123, 0, 1, 0]
    rows: list[list[Any]] = [[0, 1795588200123, "change", None, 'a"b\x1f', "r", "count", "20", "0.5"]]
    assert len(rows[0]) == len(ROW)
    data = rfc8785.dumps({"count": 20.0})
    entry: list[Any] = [1, START.hex(), 7, sha256(data).hexdigest(), columns, rows]
    assert link(START, 7, data, columns, rows) == sha256(rfc8785.dumps(entry)).digest()


def test_the_format_never_changes() -> None:
    columns: list[Any] = [*COLUMNS[:-4], 0, 0, 0, 0]
    made = link(START, 1, b"{}", columns, [[*ROW]]).hex()
    assert made == "0411f8b0fe4846cbc5488c115ea340c2f78eacf39cbdf7d777f81514bcbf83cb"


CHANGED = b'{"formatVersion":1,"late":false,"environment":"prod","app":"order","instance":"i-1","channel":"git",'
CHANGE = b'{"action":"change","resource":"pay","rule":"flow/pay/default","field":"count","old":20,"new":%b}'
DATA: list[tuple[str, bytes]] = [
    (
        "sentinel.rules.changed.v1",
        CHANGED + b'"author":"Chen <c@example.com>","commitHash":"9f1c2ab","reason":"sale","message":"Raise\\n\\nsale",'
        b'"planId":"p-1","revisionSource":"/prod/git/rules","revision":"9f1c2ab","oldDigest":"aa","newDigest":"bb",'
        b'"rollbackOf":null,"kind":"flow","initial":false,"observed":false,"changes":[' + CHANGE % b"25.0" + b","
        + CHANGE % b"0.5" + b","
        + CHANGE % b'{"z": 1, "a": "\xc3\xa9"}' + b"]}",
    ),
    (
        "sentinel.rules.changed.v1",
        CHANGED + '"author":null,"publishedBy":"操作员","late":true,"kind":"flow","initial":true,'.encode()
        + b'"observed":true,"newDigest":"cc","newRules":[{"resource":"r\xc3\xa9","count":1e-7,"limitApp":"x"},'
        b'{"resource":"b","bizMetricType":"FAIL"}]}',
    ),
    (
        "sentinel.rules.rejected.v1",
        CHANGED + b'"contentDigest":"dd","problems":[{"severity":"error","code":"SR1","message":"\\u20ac","file":"f",'
        b'"line":3,"column":7,"kind":"flow","resource":"r","path":"$[0]","field":"count"},{"severity":"warning"}]}',
    ),
    (
        "sentinel.breaker.open.v1",
        CHANGED + b'"kind":"degrade","resource":"r","rule":"degrade/r","before":"CLOSED","after":"OPEN","value":0.25}',
    ),
    ("sentinel.of.tomorrow.v9", b'{"environment":{"a":[1]},"app":7,"instance":true,"big":1152921504606846977}'),
    ("sentinel.of.tomorrow.v9", '{"half":"\\ud800","\ufb33":1,"😀":2}'.encode()),
]  # fmt: skip
"""A bit of everything that has been stored in one way or another."""
HASH = "2bfae55c53bd2c71c0a8288437e1da71604b9eb4f2926aacf7c0e25db721983b"


def test_what_a_store_makes_of_events_never_changes(store: Store) -> None:
    """Stores out there hold these hashes, and checkpoints vouch for them."""
    at = datetime(2026, 11, 25, 6, 30, 0, 123000, tzinfo=UTC)
    store.ingest(
        [
            restore_event(f"id-{number}", "/prod/git/rules/flow", kind, "flow", at + timedelta(seconds=number), data)
            for number, (kind, data) in enumerate(DATA)
        ]
    )
    (head,) = store.heads()
    assert (head.number, head.hash.hex()) == (len(DATA), HASH)
    assert_sound(store, len(DATA))


def test_numbers_count_from_one_in_each_source(store: Store, events: list[Event]) -> None:
    other = [replace(event, source="/staging/x") for event in events]
    store.ingest(events[:3] + other[:2])
    store.ingest(events[3:])
    assert [(head.source, head.number) for head in store.heads()] == [(events[0].source, 10), ("/staging/x", 2)]
    assert_sound(store, 12)


def test_one_history_has_one_chain_however_it_is_cut_into_batches(tmp_path: Path, events: list[Event]) -> None:
    heads: list[list[Head]] = []
    for size in (1, 3, 10):
        store = SqliteStore(tmp_path / f"{size}.db")
        for start in range(0, 10, size):
            store.ingest(events[start : start + size])
        heads.append([*store.heads()])
    assert heads[0] == heads[1] == heads[2]


def test_the_same_event_in_another_spelling_has_the_same_hash(tmp_path: Path, events: list[Event]) -> None:
    one, other = SqliteStore(tmp_path / "one.db"), SqliteStore(tmp_path / "other.db")
    one.ingest(events)
    other.ingest([replace(event, data=json.dumps(event.payload, indent=2).encode()) for event in events])
    assert one.heads() == other.heads()


def test_repeats_and_late_events_leave_it_whole(store: Store, events: list[Event], told_by: Any) -> None:
    store.ingest(events[5:])
    store.ingest([events[0].as_late(), *events])
    store.ingest([told_by(event, "i-2", timedelta(seconds=1)) for event in events])
    assert_sound(store, 10)


def test_folded_observations_leave_it_whole(store: Store, history: Any, flow: Any) -> None:
    hosts = [type(history)(instance=f"host-{number}", observed=True) for number in range(3)]
    told = [
        host.commit("flow", [flow(count=count)], version=f"{host.instance}:{count}")
        for count in (1, 2, 3)
        for host in hosts
    ]
    assert store.ingest(told) == Ingested(3, 6)
    assert store.ingest(told) == Ingested(0, 9)
    assert_sound(store, 3)


@pytest.mark.parametrize(
    "more", [{"big": 2**60 + 1}, {"half": "\ud800"}, {"tiny": 1e-7, "😀": 1}, {"text": "x" * 9000}]
)
def test_whatever_json_an_event_holds_is_chained(store: Store, events: list[Event], more: dict[str, Any]) -> None:
    payload = {**events[1].payload, "more": more}
    store.ingest([replace(events[1], data=json.dumps(payload).encode())])
    found = store.get(events[1].id)
    assert found is not None
    assert found.payload == payload
    assert_sound(store, 1)


def test_two_processes_that_write_at_once_make_one_chain(
    sqlite: SqliteStore, events: list[Event], child: Callable[..., int]
) -> None:
    def ingest(mine: list[Event]) -> None:
        for event in mine:
            SqliteStore(sqlite.path).ingest([event])

    writers = [child(ingest, events[start::2], wait=False) for start in (0, 1)]
    assert [os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers] == [0, 0]
    assert_sound(sqlite, 10)


def test_a_kill_within_an_ingest_leaves_it_whole(
    sqlite: SqliteStore, events: list[Event], child: Callable[..., int]
) -> None:
    sqlite.ingest(events[:2])
    sqlite.close()

    def ingest_and_die() -> None:
        with sqlite._database.write() as connection:
            connection.set_trace_callback(
                lambda told: os.kill(os.getpid(), signal.SIGKILL) if "INSERT INTO chains" in told else None
            )
            connection.execute("COMMIT")
            sqlite.ingest(events[2:])

    assert child(ingest_and_die) == -signal.SIGKILL
    assert_sound(sqlite, 2)
    sqlite.ingest(events)
    assert_sound(sqlite, 10)


def test_a_store_of_an_older_version_is_chained_when_it_is_opened(
    tmp_path: Path, events: list[Event], history: Any, flow: Any
) -> None:
    path = tmp_path / "audit.db"
    large = history.commit("flow", [flow(f"r{number}") for number in range(100)])
    SqliteStore(path).ingest([*events[:5], large])
    _as_an_older_version_left_it(path)
    store = SqliteStore(path)
    store.ingest(events)
    assert_sound(store, 11)
    assert verify(store).adopted == 6


def test_what_was_damaged_before_there_was_a_chain_is_told_and_keeps_nobody_out(
    tmp_path: Path, events: list[Event]
) -> None:
    path = tmp_path / "audit.db"
    SqliteStore(path).ingest(events)
    _as_an_older_version_left_it(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE bodies SET data = x'00' WHERE event = 3")
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    assert store.ingest(events) == Ingested(0, 10)
    assert [(finding.kind, finding.number) for finding in verify(store).findings] == [("hash mismatch", 3)]


def _as_an_older_version_left_it(path: Path) -> None:
    connection = sqlite3.connect(path)
    for statement in (
        "DROP INDEX events_source",
        "DROP TABLE purges",
        "DROP TABLE chains",
        *(f"ALTER TABLE events DROP COLUMN {column}" for column in ("number", "previous", "hash")),
        "PRAGMA user_version = 1",
    ):
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_store_without_the_index_of_sources_gets_it(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "audit.db"
    SqliteStore(path).ingest(events[:6])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX events_source")
        connection.execute("PRAGMA user_version = 4")
    reader = SqliteStore(path, read_only=True)
    asked = Query((Condition("source", "is", (events[0].source,)), Condition("type", "is", (events[0].type,))))
    assert len(reader.query(asked).rows) == len(verify(reader).heads) * 6 == 6
    assert not verify(reader).findings, "an older layout is altered by nobody"
    reader.close()
    store = SqliteStore(path)
    assert store.ingest(events) == Ingested(4, 6)
    assert_sound(store, 10)
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")]
    assert "events_source" in names


def test_a_store_without_a_chain_is_not_read_before_it_has_one(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "audit.db"
    SqliteStore(path).ingest(events)
    _as_an_older_version_left_it(path)
    with pytest.raises(StoreUnavailable, match="open it once for writing"):
        SqliteStore(path, read_only=True).count()


def test_a_kill_within_the_migration_leaves_the_older_layout(
    tmp_path: Path, events: list[Event], child: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    SqliteStore(path).ingest(events)
    _as_an_older_version_left_it(path)

    def die(*_: object) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    def migrate() -> None:
        monkeypatch.setattr(_layout, "link", die)
        SqliteStore(path).count()

    assert child(migrate) == -signal.SIGKILL
    assert_sound(SqliteStore(path), 10)

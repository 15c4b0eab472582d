"""Whatever one message does, the others are stored: in any order and in batches of any size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentinel_core.audit.each import ingest_each
from sentinel_core.audit.errors import EventInvalid, QueryInvalid, StoreUnavailable
from sentinel_core.audit.event import Event, parse_event
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.store.contract import AuditStore, Ingested, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.audit.verify import verify

GOOD = 6


def document(identity: str = "aaaaaaa0", source: str = "/prod/x/flow", **data: Any) -> dict[str, Any]:
    change = {"action": "change", "resource": "pay", "rule": "flow/pay", "field": "count", "old": 1, "new": 2}
    return {
        "specversion": "1.0", "id": identity, "source": source, "type": "sentinel.rules.changed.v1", "subject": "flow",
        "time": "2026-11-25T06:30:00Z", "data": {"kind": "flow", "instance": "i-1", "changes": [change], **data},
    }  # fmt: skip


POISON = [
    b"poison",
    b"\xff\xfe",
    b"[" * 100_000,
    *(
        json.dumps(each).encode()
        for each in (
            *(document(f"aaaaaaa{number}", "/mallory", changes=[1]) for number in range(3)),
            document("aaaaaaa1", changes={"a": 1}),
            document("\ud800aaaaaaa"),
            document("aaaaaaa\0b"),
            document("aaaaaaa0", "/s\0x"),
            document("aaaaaaa0", "/s\udfffx"),
            document("aaaaaaa0") | {"subject": "\0"},
            document("aaaaaaa0") | {"type": "\ud800"},
            document("aaaaaaa0") | {"time": "0000-01-01T00:00:00Z"},
            document("aaaaaaa0") | {"time": "0001-01-01T00:00:00+14:00"},
            document("aaaaaaa0") | {"data": {"a": float("inf")}},
        )
    ),
    b'{"specversion":"1.0","id":"aaaaaaa9","source":"/s","type":"t","subject":"s","time":"2026-11-25T06:30:00Z",'
    b'"data":{"a":' + b"9" * 5000 + b"}}",
    (
        b'{"specversion":"1.0","id":"aaaaaaa9","source":"/s","type":"t","subject":"s","time":"2026-11-25T06:30:00Z",'
        b'"data":{"a":1e999}}'
    ),
]
"""Nothing of it may be stored."""
ODD = [
    document("odd00000", changes=[{"action": "\ud800", "resource": "\udfff", "rule": "\0", "field": "\ud83d"}]),
    document("odd00001", initial=True, newRules=[{"resource": "\ud800", "limitApp": "\ud800"}]),
    document("odd00002", author="\ud800", instance="\0\ud800", environment="\0", reason=["\ud800"]),
    document("odd00003", changes=[{"action": {"a": 1}, "new": 10**400, "old": -(2**63) - 1}]),
    document("odd00004") | {"time": "9999-12-31T23:59:59.999Z"},
    document("odd00005") | {"time": "0001-01-01T00:00:00Z"},
]
"""Odd, and evidence all the same."""
WELL = [document(f"aaaaaaa{number}", f"/prod/{number % 2}/flow") for number in range(GOOD)] + ODD


def names(store: SqliteStore) -> list[str]:
    with store._database.read() as connection:
        return [name for (name,) in connection.execute("SELECT id FROM events ORDER BY 1")]


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mix_of_good_and_bad_stores_exactly_the_good(tmp_path: Path, data: st.DataObject) -> None:
    good = [json.dumps(each).encode() for each in WELL]
    bad = data.draw(st.lists(st.sampled_from(POISON), max_size=20))
    messages = data.draw(st.permutations(good + good[:2] + bad))
    size = data.draw(st.integers(1, len(messages)))
    path = tmp_path / "audit.db"
    path.unlink(missing_ok=True)
    store = SqliteStore(path)
    total, refused = 0, 0
    for start in range(0, len(messages), size):
        events = []
        for message in messages[start : start + size]:
            try:
                events.append(parse_event(message))
            except EventInvalid:
                refused += 1
        done = ingest_each(store, events)
        total += done.new
        refused += len(done.refused)
        assert done.new + done.duplicate + len(done.refused) == len(events)
    assert (total, refused) == (len(good), len(bad))
    assert names(store) == sorted(each["id"] for each in WELL)
    assert verify(store).findings == []
    store.close()


def test_the_same_in_every_store(store: AuditStore) -> None:
    events = [parse_event(json.dumps(each)) for each in WELL]
    poison = parse_event(json.dumps(document("aaaaaaa1", "/mallory", changes=[1])))
    done = ingest_each(store, [poison, *events, poison])
    assert (done.new, done.duplicate, [each.place for each in done.refused]) == (len(events), 0, [0, len(events) + 1])
    assert ingest_each(store, events) == Ingested(0, len(events))
    for event in events:
        assert store.get(event.id) == event


def test_the_forwarder_parks_the_event_that_is_refused_and_no_other_of_its_id(tmp_path: Path) -> None:
    outbox, store = Outbox(tmp_path / "outbox.db"), SqliteStore(tmp_path / "audit.db")
    forwarder = Forwarder(outbox, StorePublisher(store))
    whole = parse_event(json.dumps(document()))
    poison = replace(whole, source="/mallory", data=b'{"changes":[1]}')
    nameless = replace(whole, source="/s\0x")
    outbox.append([poison, whole, nameless, replace(whole, source="/other")])
    assert forwarder.drain(5)
    assert [parked.event for parked in outbox.parked()] == [poison, nameless]
    assert store.count() == 2
    forwarder.close()


class Fragile:
    """A store with a fault of its own, for some events."""

    def __init__(self, store: SqliteStore, *ids: str) -> None:
        self._store, self._ids = store, ids

    def ingest(self, events: Sequence[Event]) -> Ingested:
        if any(event.id in self._ids for event in events):
            raise OverflowError("unforeseen")
        return self._store.ingest(events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def events_of(*ids: str) -> list[Event]:
    return [parse_event(json.dumps(document(identity))) for identity in ids]


def test_a_failure_that_nobody_foresaw_is_put_down_to_the_events_it_comes_with(sqlite: SqliteStore) -> None:
    ids = [f"id-{number:05}" for number in range(100)]
    done = ingest_each(Fragile(sqlite, ids[7], ids[8], ids[99]), events_of(*ids))
    assert (done.new, [each.place for each in done.refused]) == (97, [7, 8, 99])
    assert done.refused[0].reason == "the store fails with it: OverflowError: unforeseen"


@pytest.mark.parametrize("count", [1, 5])
def test_where_nothing_goes_well_the_store_is_to_blame_and_nothing_is_given_up(sqlite: SqliteStore, count: int) -> None:
    ids = [f"id-{number:05}" for number in range(count)]
    with pytest.raises(StoreUnavailable, match="unforeseen"):
        ingest_each(Fragile(sqlite, *ids), events_of(*ids))
    assert names(sqlite) == []


def test_what_is_larger_than_any_event_is_told_at_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel_core.audit.event.MAX_BYTES", 1000)
    with pytest.raises(EventInvalid, match="longer than 0 MiB"):
        parse_event(json.dumps(document(author="x" * 1000)))


TELLERS = {"instance": "i-2", "app": "other", "timestamp": 7, "late": True, "channel": "poll"}


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"author": "chen"}, "author"),
        ({"author": None}, None),
        ({"environment": "dev"}, "environment"),
        ({"newDigest": "other"}, "new digest"),
        ({"message": "it was ***"}, None),
        ({"changes": []}, "changes"),
        ({"changes": [{**document()["data"]["changes"][0], "new": 3}]}, "changes"),
        ({"changes": [{**document()["data"]["changes"][0], "new": "hmac:ab:cd"}]}, None),
    ],
)
def test_what_comes_under_a_known_id_and_tells_another_thing_is_refused(
    store: AuditStore, changed: dict[str, Any], word: str | None
) -> None:
    first = document(author="mallory", environment="prod", newDigest="d", message="m", timestamp=5)
    other = document(**{**first["data"], **changed, **TELLERS})
    later = document("aaaaaaa1", "/s")
    events = [parse_event(json.dumps(each)) for each in (first, other, later)]
    for batch in (events, events):
        done = ingest_each(store, batch)
        said = [(each.place, each.reason) for each in done.refused]
        if word is None:
            assert said == []
        else:
            ((place, reason),) = said
            assert (place, word in reason) == (1, True)
        assert done.new + done.duplicate + len(said) == 3
    found = store.get("aaaaaaa0")
    assert found is not None
    assert found.payload["author"] == "mallory"
    assert store.count() == 2


def test_a_known_id_is_compared_whatever_month_it_claims(store: AuditStore) -> None:
    first, other = document(author="chen"), document(author="mallory") | {"time": "2031-01-01T00:00:00Z"}
    assert ingest_each(store, [parse_event(json.dumps(first))]).new == 1
    list(store.query(Query()).rows)
    (refused,) = ingest_each(store, [parse_event(json.dumps(other))]).refused
    assert "author is another" in refused.reason


def test_a_whole_id_finds_its_event_whatever_strangers_call_theirs(store: AuditStore) -> None:
    mine = parse_event(json.dumps(document()))
    store.ingest([parse_event(json.dumps(document("aaaaaaa0x", "/mallory"))), mine])
    assert store.get("aaaaaaa0") == mine
    store.ingest([replace(mine, source="/mallory")])
    with pytest.raises(QueryInvalid, match=r"give the source too .*/mallory"):
        store.get("aaaaaaa0")
    assert store.get("aaaaaaa0", mine.source) == mine
    assert store.get("aaaaaaa0", "/nobody") is None
    assert store.get("aaaa", mine.source) is None

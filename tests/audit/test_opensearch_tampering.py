"""What somebody who can write the indices may do to them over HTTP, and where `verify` finds it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sentinel_core.audit.chain import COLUMNS, START
from sentinel_core.audit.checkpoints import append, read, signed
from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.standing import standing
from sentinel_core.audit.store._os_layout import DATA, FIELDS, HASH, LISTS, NUMBER, PREVIOUS, ROWS, computed, key
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.opensearch import OpenSearchStore
from sentinel_core.audit.verify import Promise, verify
from tests.services.opensearch import OpenSearch

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
OTHER = "/staging/file/rules/flow"
Findings = list[tuple[str, int, int]]


class Forger:
    """Edits documents of the first source by their numbers."""

    def __init__(self, node: OpenSearch, index: str, source: str) -> None:
        self.node = node
        self.index = index
        self.source = source
        self.record = f"/{index}-state/_doc/{key('chain', source)}"

    def documents(self) -> list[dict[str, Any]]:
        self.node.ask("POST", f"/{self.index}-*/_refresh")
        query = {"term": {FIELDS["source"]: self.source}}
        asked = {"query": query, "sort": [NUMBER], "size": 100}
        hits: list[dict[str, Any]] = self.node.ask("POST", f"/{self.index}-events-*/_search", asked)[1]["hits"]["hits"]
        return hits

    def edit(self, number: int, **changed: Any) -> None:
        hit = self.documents()[number - 1]
        self.put(hit["_source"] | changed, hit["_id"])

    def put(self, held: Mapping[str, Any], name: str) -> None:
        kept = {field: value for field, value in held.items() if value is not ...}
        status, told = self.node.ask("PUT", f"/{self.index}-events-2026.11/_doc/{name}?refresh=true", kept)
        assert status in (200, 201), told

    def delete(self, *numbers: int) -> None:
        hits = self.documents()
        for number in numbers:
            self.node.ask("DELETE", f"/{hits[number - 1]['_index']}/_doc/{hits[number - 1]['_id']}?refresh=true")

    def replay(self, number: int, **changed: Any) -> None:
        self.put(self.documents()[number - 1]["_source"] | changed, "another")

    def swap(self, one: int, other: int) -> None:
        hits = self.documents()
        moved = (NUMBER, PREVIOUS, HASH)
        for here, there in ((one, other), (other, one)):
            link = {name: hits[there - 1]["_source"][name] for name in moved}
            self.put(hits[here - 1]["_source"] | link, hits[here - 1]["_id"])

    def end(self, **changed: Any) -> None:
        held = self.node.ask("GET", self.record)[1]["_source"]
        self.node.ask("PUT", f"{self.record}?refresh=true", held | changed)

    def rechain(self) -> None:
        """What one without the key can do: every link from the first, and the record of the end."""
        previous = START
        hits = self.documents()
        for number, hit in enumerate(hits, 1):
            held = hit["_source"] | {NUMBER: number, PREVIOUS: previous.hex()}
            made = computed(held)
            assert made is not None
            self.put(held | {HASH: made.hex()}, hit["_id"])
            previous = made
        if hits:
            self.end(number=len(hits), hash=previous.hex())
        else:
            self.node.ask("DELETE", f"{self.record}?refresh=true")


@pytest.fixture
def filled(remote: OpenSearchStore, events: list[Event]) -> OpenSearchStore:
    """Ten events of one source, then two of another."""
    remote.ingest(events)
    remote.ingest([replace(event, source=OTHER) for event in events[:2]])
    return remote


@pytest.fixture
def forger(filled: OpenSearchStore, node: OpenSearch, index: str, events: list[Event]) -> Forger:
    return Forger(node, index, events[0].source)


def found(store: OpenSearchStore, promises: list[Promise] | None = None) -> Findings:
    verdict = verify(store, promises or [])
    return [(finding.kind, finding.number, finding.last) for finding in verdict.findings]


def other(value: Any) -> Any:
    """One bit of it; where nothing is, something."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        place = -3 if len(value) > 2 else -1
        return value[:place] + chr(ord(value[place]) ^ 1) + value[len(value) + place + 1 :] if value else "x"
    if isinstance(value, list):
        return [*value, 7 if isinstance(value[0], float) else "x"]
    return "x" if value is None else value + 1


def test_a_bit_of_any_member_of_a_document_is_found_at_its_number(filled: OpenSearchStore, forger: Forger) -> None:
    before = forger.documents()[4]["_source"]
    for name in sorted({*FIELDS.values(), *LISTS.values(), *before} - {FIELDS["source"], NUMBER}):
        changed = other(before.get(name))
        if name == "@timestamp":
            changed = before[name].replace("123Z", "124Z")
        forger.edit(5, **{name: changed})
        assert found(filled) == [("hash mismatch", 5, 5)], name
        if name in before:
            forger.edit(5, **{name: ...})
            assert found(filled) == [("hash mismatch", 5, 5)], name
        forger.edit(5, **{name: before.get(name, ...)})
    assert found(filled) == []
    assert len(COLUMNS) == len(FIELDS)


@pytest.mark.parametrize(
    "changed",
    [
        {"@timestamp": ["2026-11-25T06:30:05.123Z"]}, {FIELDS["author"]: ["x"]}, {FIELDS["id"]: ["x"]}, {ROWS: "x"},
        {DATA: ...}, {HASH: "AB" * 32}, {HASH: ["x"]}, {FIELDS["initial"]: "true"},
    ],
)  # fmt: skip
def test_a_document_that_was_changed_hides_no_other(
    filled: OpenSearchStore, forger: Forger, changed: dict[str, Any]
) -> None:
    forger.edit(5, **changed)
    assert ("hash mismatch", 5, 5) in found(filled)
    heads = [row.event for row in filled.query(Query(limit=100)).rows]
    assert len({head.id for head in heads}) >= 9
    stands = standing(filled, heads, {})
    assert stands is not None
    assert not stands.is_sound
    assert len(filled.events(heads)) >= 11
    assert len(filled.arrived(Query(limit=100)).rows) >= 11


def test_a_hash_in_capitals_is_not_what_was_written(filled: OpenSearchStore, forger: Forger) -> None:
    forger.edit(5, **{HASH: forger.documents()[4]["_source"][HASH].upper()})
    assert found(filled) == [("hash mismatch", 5, 5)]


def test_a_checkpoint_of_a_later_event_shows_a_chain_made_anew(filled: OpenSearchStore, forger: Forger) -> None:
    heads = {head.source: head for head in filled.heads()}
    seen = {name: Promise(name, head.number, head.hash, "2026-11-30T12:00:00.000Z") for name, head in heads.items()}
    shown = [row.event for row in filled.query(Query(limit=100)).rows][-3:]
    sound = standing(filled, shown, seen)
    assert sound is not None
    assert (sound.is_sound, sound.covered) == (True, sound.checked)
    forger.edit(2, **{FIELDS["author"]: "mallory"})
    forger.rechain()
    forged = standing(filled, shown, seen)
    assert forged is not None
    assert forged.contradicted is not None


@pytest.mark.parametrize(
    "more", [{"event": {"action": "x"}}, {"sentinel": {"resource": ["x"]}}, {"sentinel.set.count": [7, 8]}]
)
def test_what_is_added_so_that_it_is_found_by_other_names_is_seen(
    filled: OpenSearchStore, forger: Forger, more: dict[str, Any]
) -> None:
    forger.edit(5, **more)
    assert found(filled) == [("hash mismatch", 5, 5)]


def test_an_event_that_was_moved_to_another_source_is_missed_there_and_found_here(
    filled: OpenSearchStore, forger: Forger
) -> None:
    forger.edit(5, **{FIELDS["source"]: "/elsewhere"})
    moved = {("hash mismatch", 1, 1), ("gap", 5, 5)}
    assert {*found(filled)} == moved
    forger.put({**forger.documents()[6]["_source"], FIELDS["source"]: ..., FIELDS["id"]: "x"}, "stray")
    verdict = verify(filled)
    assert {finding.source for finding in verdict.findings} == {"/elsewhere", forger.source, "None"}


_STRAY: Findings = [("gap", 5, 5), ("hash mismatch", 11, 11), ("hash mismatch", 11, 11)]
"""It is missed, found behind the end, and is not the end that is recorded."""
TABLE: dict[str, tuple[Callable[[Forger], object], Findings]] = {
    "nothing": (lambda _: None, []),
    "another number": (lambda forger: forger.edit(5, **{NUMBER: 50}), _STRAY),
    "the number of its neighbour": (lambda forger: forger.edit(5, **{NUMBER: 6}), [("hash mismatch", 5, 5)]),
    "a text for a number": (lambda forger: forger.edit(5, **{NUMBER: "5"}), [("hash mismatch", 5, 5)]),
    "no number": (lambda forger: forger.edit(5, **{NUMBER: ...}), _STRAY),
    "another hash at the end": (lambda forger: forger.edit(10, **{HASH: "0" * 64}), [("hash mismatch", 10, 10)]),
    "rows that are none": (lambda forger: forger.edit(5, **{ROWS: "[[1]]"}), [("hash mismatch", 5, 5)]),
    "no rows": (lambda forger: forger.edit(5, **{ROWS: "[]"}), [("hash mismatch", 5, 5)]),
    "data that is packed wrongly": (lambda forger: forger.edit(5, **{DATA: "zlib:eJ"}), [("hash mismatch", 5, 5)]),
    "delete the first": (lambda forger: forger.delete(1), [("gap", 1, 1)]),
    "delete from the middle": (lambda forger: forger.delete(4, 5, 6), [("gap", 4, 6)]),
    "delete two apart": (lambda forger: forger.delete(3, 6), [("gap", 3, 3), ("gap", 6, 6)]),
    "delete the last": (lambda forger: forger.delete(10), [("truncated after", 9, 9)]),
    "delete a whole source": (lambda forger: forger.delete(*range(1, 11)), [("truncated after", 0, 0)]),
    "swap two": (lambda forger: forger.swap(5, 6), [("hash mismatch", 5, 6)]),
    "replay": (lambda forger: forger.replay(5), [("duplicate", 5, 5)]),
    "insert": (
        lambda forger: forger.replay(5, **{FIELDS["id"]: "forged"}),
        [("hash mismatch", 5, 5), ("duplicate", 5, 5)],
    ),
    "append without a link": (
        lambda forger: forger.replay(10, **{FIELDS["id"]: "forged", NUMBER: 11}),
        [("hash mismatch", 11, 11)],
    ),
    "the record of the end": (lambda forger: forger.end(hash="00" * 32), [("hash mismatch", 10, 10)]),
    "an earlier record of the end": (lambda forger: forger.end(number=8), [("hash mismatch", 10, 10)]),
    "the record of the end is gone": (
        lambda forger: forger.node.ask("DELETE", f"{forger.record}?refresh=true"),
        [("hash mismatch", 10, 10)],
    ),
}


@pytest.mark.parametrize("how", TABLE)
def test_what_the_chain_itself_shows(filled: OpenSearchStore, forger: Forger, how: str) -> None:
    change, expected = TABLE[how]
    change(forger)
    assert found(filled) == expected


def packed(*lines: dict[str, Any]) -> str:
    return base64.b64encode(zlib.compress("\n".join(map(json.dumps, lines)).encode())).decode()


@pytest.mark.parametrize(
    "pending",
    [
        7,
        {"number": 99},
        {"number": "x", "hash": "y", "lines": "z"},
        {"number": 11, "hash": "00" * 32, "lines": packed({"delete": {"_index": "elsewhere", "_id": "x"}})},
        {"number": 11, "hash": "00" * 32, "lines": packed({"create": {"_index": "elsewhere", "_id": "x"}}, {})},
    ],
)
def test_a_record_that_somebody_broke_is_told_and_stops_what_would_follow(
    filled: OpenSearchStore, forger: Forger, events: list[Event], pending: Any
) -> None:
    forger.end(pending=pending)
    assert found(filled) == []
    with pytest.raises(StoreUnavailable, match="somebody changed the record of the chain"):
        filled.ingest([replace(events[0], id="another")])
    forger.end(number="x")
    with pytest.raises(StoreUnavailable, match="somebody changed the record of the chain"):
        verify(filled)


HIDDEN: dict[str, tuple[Callable[[Forger], object], Findings]] = {
    "nothing": (lambda _: None, []),
    "the last three were deleted": (lambda forger: forger.delete(8, 9, 10), [("truncated after", 7, 7)]),
    "a source was deleted": (lambda forger: forger.delete(*range(1, 11)), [("truncated after", 0, 0)]),
    "the first was deleted": (lambda forger: forger.delete(1), [("truncated after", 9, 9)]),
    "an author was changed": (lambda forger: forger.edit(5, **{FIELDS["author"]: "x"}), [("hash mismatch", 1, 10)]),
    "the data was changed": (lambda forger: forger.edit(5, **{DATA: json.dumps({})}), [("hash mismatch", 1, 10)]),
}


@pytest.mark.parametrize("how", HIDDEN)
def test_what_only_a_checkpoint_shows(filled: OpenSearchStore, forger: Forger, tmp_path: Path, how: str) -> None:
    private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    signing = SigningKey.from_pem(private.decode())
    append(tmp_path / "checkpoints", signed(filled.heads(), signing, AT))
    change, expected = HIDDEN[how]
    change(forger)
    forger.rechain()
    assert found(filled) == [], "sound in itself"
    assert found(filled, [*read(tmp_path / "checkpoints", [signing.public]).promises]) == expected

"""Quarantine: rules that were rolled back do not come back until they are released by name."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import MemorySource, SourceMisconfigured
from sentinel_core.datasources.contract import Item
from sentinel_core.publishing import make_plan
from sentinel_core.publishing.make import Wanted
from sentinel_core.publishing.quarantine import (
    NOTE,
    Note,
    Quarantined,
    Released,
    add,
    noted,
    quarantined,
    release,
    take_back,
)
from sentinel_core.rules import Provenance, parse_rules
from sentinel_core.settings import Guards

SINCE = datetime(2026, 11, 25, 7, 20, tzinfo=UTC)
LATER = datetime(2026, 11, 26, tzinfo=UTC)
BAD = parse_rules("flow", b'[{"resource": "a", "grade": 1, "count": 7}]')


def held(digest: str = BAD.digest, kind: str = "flow") -> Quarantined:
    return Quarantined(kind, digest, "9f1c2ab", SINCE, "chen", "促销 was wrong")


@pytest.fixture
def source() -> MemorySource:
    return MemorySource()


@pytest.fixture
def item(source: MemorySource) -> Item:
    return source.items(["flow"])[0]


def objections(source: MemorySource, rules: Any = BAD, **options: Any) -> list[tuple[str, str]]:
    proposal = make_plan(
        source,
        "memory://",
        Wanted("rules", {"flow": rules}),
        environment="prod",
        provenance=Provenance(reason="x"),
        policy=Guards(),
        max_bytes=1000,
        **options,
    )
    return [(each.guard, each.text) for each in proposal.objections]


def test_what_is_put_there_is_found_again(source: MemorySource, item: Item) -> None:
    assert quarantined(source, item) == []
    assert add(source, item, [held()])
    assert add(source, item, [held(), held("b" * 64)])
    assert quarantined(source, item) == [held(), held("b" * 64)]


def test_rules_under_quarantine_are_refused_whoever_brings_them(source: MemorySource, item: Item) -> None:
    add(source, item, [held()])
    told = [("quarantine", f"the flow rules {BAD.digest[:12]} were rolled back (2026-11-25 07:20 UTC, by chen: 促销 was wrong)")]  # fmt: skip  # noqa: E501
    assert objections(source) == told
    assert objections(source, allowed=["jump", "empty"]) == told, "no option overrules it"
    assert objections(source, parse_rules("flow", b'[{"resource": "a", "grade": 1, "count": 8}]')) == []


def test_the_same_rules_in_other_words_are_the_same(source: MemorySource, item: Item) -> None:
    add(source, item, [held()])
    other = parse_rules("flow", b'[{"count": 7.0, "limitApp": "default", "resource": "a"}]')
    assert [name for name, _ in objections(source, other)] == ["quarantine"]


def test_they_are_released_by_the_beginning_of_their_digest(source: MemorySource, item: Item) -> None:
    add(source, item, [held(), held("b" * 64)])
    assert release(source, item, "c" * 12, "no", by="li", at=LATER) == []
    assert release(source, item, BAD.digest[:12], "mended", by="li", at=LATER) == [held()]
    assert quarantined(source, item) == [held("b" * 64)]
    assert objections(source) == []
    assert noted(source, item).released == (Released(held(), LATER, "li", "mended"),), "who and why is kept"


def test_what_was_there_before_a_rollback_that_failed_stays(source: MemorySource, item: Item) -> None:
    add(source, item, [held()])
    added = add(source, item, [held(), held("b" * 64)])
    assert added == [held("b" * 64)]
    take_back(source, item, added, "the rollback failed")
    assert noted(source, item) == Note((held(),))


def test_a_note_of_before_releases_were_kept_is_read(source: MemorySource, item: Item) -> None:
    source.write_note(item, NOTE, b'{"formatVersion": 1, "quarantined": []}', expected=None, why="")
    assert noted(source, item) == Note()


@pytest.mark.parametrize(
    "note", [b"", b"junk", b"[]", b'{"formatVersion": 2}', b'{"formatVersion": 1, "quarantined": [{}]}']
)
def test_a_note_that_cannot_be_read_opens_no_gate(source: MemorySource, item: Item, note: bytes) -> None:
    source.write_note(item, NOTE, note, expected=None, why="by hand")
    with pytest.raises(SourceMisconfigured, match="mend it, or remove it"):
        objections(source)


def test_a_store_without_notes_has_none(item: Item) -> None:
    class Bare:
        uri = "bare://"

    assert quarantined(Bare(), item) == []  # type: ignore[arg-type]
    assert not add(Bare(), item, [held()])  # type: ignore[arg-type]
    assert release(Bare(), item, "c" * 12, "x", by=None, at=LATER) == []  # type: ignore[arg-type]


def test_of_many_who_add_at_once_none_is_lost(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/sentinel-flow-rules.json"
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        source = datasources.open(uri)
        barrier.wait()
        add(source, source.items(["flow"])[0], [held(f"{number}" * 64)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    source = datasources.open(uri)
    assert sorted(each.digest[0] for each in quarantined(source, source.items(["flow"])[0])) == list("0123")

"""The copy on disk that a service starts with when its store is down."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel_core.datasources import Item, LastGood
from sentinel_core.rules import Provenance, Revision, SourceText

ITEM = Item("rules", "/prod/git/file:///srv/rules.git@main/rules", ("flow",))
FLOW, DEGRADE = frozenset({"flow"}), frozenset({"degrade"})
REVISION = Revision(
    (SourceText("rules/a.yaml", "flowRules: []  # 空\n".encode()), SourceText("rules/b.json", b"\xff\x00", "json")),
    ITEM.source,
    "9f1c2ab",
    Provenance(
        commit_hash="9f1c2ab",
        author="Ada Example <ada@example.com>",
        committed_at=datetime(2026, 11, 25, 6, 30, tzinfo=UTC),
        message="Lower the limit",
        channel="git",
        rollback_of="1234567",
    ),
    observed=True,
)


@pytest.fixture
def last_good(tmp_path: Path) -> LastGood:
    return LastGood(tmp_path / "last-good")


def test_what_is_saved_is_loaded(last_good: LastGood) -> None:
    last_good.save(ITEM, REVISION, FLOW)
    assert last_good.load(ITEM) == (REVISION,)
    assert last_good.problem(ITEM) is None


def test_nothing_saved_is_no_problem(last_good: LastGood) -> None:
    assert last_good.load(ITEM) == ()
    assert last_good.problem(ITEM) is None


def test_a_save_replaces_the_older_one_and_leaves_nothing_beside_it(last_good: LastGood) -> None:
    last_good.save(ITEM, REVISION, FLOW)
    newer = Revision((SourceText("rules", b"[]"),), ITEM.source, "2")
    last_good.save(ITEM, newer, FLOW)
    assert last_good.load(ITEM) == (newer,)
    assert [path.name for path in last_good.path(ITEM).parent.iterdir()] == [last_good.path(ITEM).name]


def test_only_its_owner_may_read_it(last_good: LastGood) -> None:
    last_good.save(ITEM, REVISION, FLOW)
    assert stat.S_IMODE(last_good.path(ITEM).stat().st_mode) == 0o600
    assert stat.S_IMODE(last_good.path(ITEM).parent.stat().st_mode) == 0o700


def test_sources_do_not_share_a_file(last_good: LastGood) -> None:
    twin = Item(ITEM.key, ITEM.source.replace("/", "-"), ITEM.kinds)
    assert last_good.path(twin) != last_good.path(ITEM)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data[:-1], "checksum"),
        (lambda data: data.replace(b"Lower", b"Raise"), "checksum"),
        (lambda data: data[: data.index(b"\n")], "checksum"),
        (lambda _: b"", "not a saved revision"),
        (lambda _: b"\x00" * 4096, "not a saved revision"),
        (lambda data: data.replace(b"sentinel-last-good 1", b"sentinel-last-good 0", 1), "format is 0"),
    ],
)
def test_a_spoilt_file_is_refused_with_the_reason(last_good: LastGood, spoil: object, words: str) -> None:
    last_good.save(ITEM, REVISION, FLOW)
    path = last_good.path(ITEM)
    path.write_bytes(spoil(path.read_bytes()))  # type: ignore[operator]  # a table of functions
    assert last_good.load(ITEM) == ()
    assert words in str(last_good.problem(ITEM))
    assert str(path) in str(last_good.problem(ITEM))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version": "9f1c2ab"', b'"version": 9'),
        (b'"name": "rules/a.yaml"', b'"name": null'),
        (b'"kinds": ["flow"]', b'"kinds": [["flow"]]'),
        (b'"channel": "git"', b'"channel": {"git": 1}'),
        (b'"length": 2', b'"length": "2"'),
    ],
)
def test_a_header_of_another_shape_is_refused_though_its_checksum_is_right(
    last_good: LastGood, old: bytes, new: bytes
) -> None:
    last_good.save(ITEM, REVISION, FLOW)
    path = last_good.path(ITEM)
    first, _, body = path.read_bytes().partition(b"\n")
    assert old in body
    body = body.replace(old, new, 1)
    digest = hashlib.sha256(body).hexdigest().encode()
    path.write_bytes(b" ".join((*first.split(b" ")[:2], digest)) + b"\n" + body)
    assert last_good.load(ITEM) == ()
    assert "header cannot be read" in str(last_good.problem(ITEM))


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (os.mkfifo, "it is no file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is no file"),
        (Path.mkdir, "Is a directory"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 2**40), "larger than"),
    ],
    ids=["fifo", "endless", "folder", "huge"],
)
def test_what_is_no_copy_does_not_hold_up_a_start(last_good: LastGood, put: object, words: str) -> None:
    last_good.save(ITEM, REVISION, FLOW)
    last_good.path(ITEM).unlink()
    put(last_good.path(ITEM))  # type: ignore[operator]  # a table of functions
    assert last_good.load(ITEM) == ()
    assert words in str(last_good.problem(ITEM))


def test_an_author_that_is_no_utf_8_is_kept(last_good: LastGood) -> None:
    odd = replace(REVISION, provenance=Provenance(author="Ada \ud800"))
    last_good.save(ITEM, odd, FLOW)
    assert LastGood(last_good.path(ITEM).parent).load(ITEM) == (odd,)


def test_a_file_of_another_source_is_refused(last_good: LastGood) -> None:
    last_good.save(ITEM, REVISION, FLOW)
    other = Item("rules", "/prod/elsewhere", ("flow",))
    last_good.path(ITEM).replace(last_good.path(other))
    assert last_good.load(other) == ()
    assert "belongs to" in str(last_good.problem(other))


def test_a_folder_that_cannot_be_written_degrades_and_recovers(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be", encoding="utf-8")
    last_good = LastGood(tmp_path / "taken")
    last_good.save(ITEM, REVISION, FLOW)
    assert "cannot be written" in str(last_good.problem(ITEM))
    (tmp_path / "taken").unlink()
    last_good.save(ITEM, REVISION, FLOW)
    assert last_good.problem(ITEM) is None


@settings(deadline=None)  # it writes to a real disk
@given(st.data())
def test_any_cut_or_flipped_byte_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    last_good = LastGood(tmp_path_factory.mktemp("last-good"))
    last_good.save(ITEM, REVISION, FLOW)
    path = last_good.path(ITEM)
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert last_good.load(ITEM) == ()
    path.write_bytes(content[:position])
    assert last_good.load(ITEM) == ()


def test_an_older_revision_stays_for_the_kinds_that_newer_ones_do_not_carry(last_good: LastGood) -> None:
    """Their rules stay active, so they must be there after a restart as well."""

    def revision(version: str) -> Revision:
        return Revision((SourceText("rules", version.encode()),), ITEM.source, version)

    def loaded() -> list[str]:
        return [each.version for each in LastGood(last_good.path(ITEM).parent).load(ITEM)]

    last_good.save(ITEM, revision("1"), FLOW | DEGRADE)
    last_good.save(ITEM, revision("2"), FLOW)
    assert loaded() == ["1", "2"]
    LastGood(last_good.path(ITEM).parent).save(ITEM, revision("3"), FLOW)
    assert loaded() == ["1", "3"]
    LastGood(last_good.path(ITEM).parent).save(ITEM, revision("4"), FLOW | DEGRADE)
    assert loaded() == ["4"]

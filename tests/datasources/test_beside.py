"""What a file store keeps beside its rules: whose they are, and never whose they are not."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.datasources import (
    Absent,
    FileSource,
    Item,
    SourceConflict,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    file,
)
from sentinel_core.datasources.beside import MAX_BYTES
from sentinel_core.datasources.provenance import rules_of
from sentinel_core.rules import KINDS, Provenance, Revision, SourceText, parse_rules
from tests.unprivileged import exit_code_as_nobody, folder_for_all

A, B = b"flowRules: [{resource: a, count: 1}]\n", b"flowRules: [{resource: a, count: 2}]\n"
AT = datetime(2026, 11, 25, 14, 2, tzinfo=UTC)
ADA = Provenance(
    commit_hash="4f1d2c",
    author="Ada Example <ada@example.org>",
    channel="git",
    environment="prod",
    reason="促销 (overruled: jump)",
    plan_id="plan-1",
    published_by="chen",
    rollback_of="3-abc",
)
BOB = Provenance(author="Bob", channel="cli", reason="again")
SORTS = ["file", "folder", "list"]


class Store:
    """A file, a folder or a list of one kind, as a publisher writes it and an editor finds it."""

    def __init__(self, sort: str, folder: Path) -> None:
        self.sort, self.folder = sort, folder
        self.path = {
            "file": folder / "rules.yaml",
            "folder": folder / "rules",
            "list": folder / "lists" / "sentinel-flow-rules.json",
        }[sort]
        (self.path if sort == "folder" else self.path.parent).mkdir(exist_ok=True)
        self.text = self.path / "flow.yaml" if sort == "folder" else self.path
        """What an editor opens."""
        self.beside = (
            self.path / ".provenance" if sort == "folder" else self.path.with_name(f".{self.path.name}.provenance")
        )
        self.a, self.b = (b'[{"resource": "a", "count": %d}]' % n if sort == "list" else c for n, c in ((1, A), (2, B)))
        self.source = self.opened()

    def opened(self) -> FileSource:
        path = self.path.parent if self.sort == "list" else self.path
        return FileSource(path, format="json" if self.sort == "list" else None, now=lambda: AT)

    @property
    def item(self) -> Item:
        return self.source.items(["flow"] if self.sort == "list" else KINDS)[0]

    def publish(self, content: bytes, provenance: Provenance = ADA, *, expected: str | None = "what stands") -> None:
        if expected == "what stands":
            reading = self.source.read(self.item)
            expected = reading.version if isinstance(reading, Revision) else None
        text = SourceText(str(self.text), content)
        self.source.write(self.item, [text], expected=expected, provenance=provenance)

    def read(self, source: FileSource | None = None) -> Revision:
        reading = (source or self.source).read(self.item)
        assert isinstance(reading, Revision), reading
        return reading

    @property
    def told(self) -> Provenance:
        return self.read().provenance


@pytest.fixture(params=SORTS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(request.param, tmp_path)


@pytest.fixture
def plain(tmp_path: Path) -> Store:
    return Store("file", tmp_path)


def killed_in_between(store: Store, content: bytes, provenance: Provenance) -> None:
    """A process that is killed when whose the rules are is written, and they themselves are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads beside a fork
        process = os.fork()
    if not process:
        file.replace_file = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[attr-defined]
        store.publish(content, provenance)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


# -- whose the rules are -----------------------------------------------------------------------------------------------


def test_whose_the_rules_are_comes_back_whole_with_the_time_of_the_write(store: Store) -> None:
    store.publish(store.a)
    assert store.told == replace(ADA, published_at=AT)
    assert store.opened().read(store.item) == store.read()


def test_it_is_a_hidden_file_that_no_rules_are_read_from(store: Store) -> None:
    store.publish(store.a)
    found = {each.name for each in store.beside.parent.iterdir()}
    assert found == {store.text.name, store.beside.name}
    assert [text.content for text in store.read().texts] == [store.a]
    document = json.loads(store.beside.read_bytes())
    assert document["author"] == ADA.author
    assert document["rules"]["flow"] == parse_rules("flow", b'[{"resource": "a", "count": 1}]').digest


def test_it_can_be_read_by_whoever_may_read_the_rules(store: Store) -> None:
    store.text.write_bytes(store.a)
    store.text.chmod(0o640)
    store.publish(store.b)
    assert stat.S_IMODE(store.beside.stat().st_mode) == 0o640


def test_an_edit_by_hand_is_nobodys(store: Store) -> None:
    store.publish(store.a)
    store.text.write_bytes(store.b)
    assert (store.told.author, store.told.reason, store.told.plan_id) == (None, None, None)
    assert store.told.channel == "file"
    store.publish(store.a, BOB)
    assert store.told.author == "Bob"


def test_a_comment_that_is_added_by_hand_is_an_edit(plain: Store) -> None:
    plain.publish(A)
    plain.text.write_bytes(A + b"# mine\n")
    assert plain.told.author is None


def test_a_file_that_joins_a_folder_is_an_edit(tmp_path: Path) -> None:
    store = Store("folder", tmp_path)
    store.publish(A)
    (store.path / "more.yaml").write_bytes(b"degradeRules: []\n")
    assert store.told.author is None


def test_the_next_publisher_is_told_of_and_not_the_one_before(store: Store) -> None:
    store.publish(store.a)
    store.publish(store.b, BOB)
    assert store.told == replace(BOB, published_at=AT)


def test_a_store_that_is_mounted_elsewhere_tells_the_same(store: Store, tmp_path: Path) -> None:
    store.publish(store.a)
    (tmp_path / "moved").mkdir()
    within = store.path.parent if store.sort == "list" else store.path
    for each in [within] if within.is_dir() else [store.path, store.beside]:
        each.rename(tmp_path / "moved" / each.name)
    store.path = tmp_path / "moved" / (Path("lists") / store.path.name if store.sort == "list" else store.path.name)
    store.source = store.opened()
    assert store.told.author == ADA.author


def test_a_link_to_the_rules_tells_whose_they_are(plain: Store) -> None:
    plain.publish(A)
    link = plain.folder / "link.yaml"
    link.symlink_to("rules.yaml")
    source = FileSource(link)
    reading = source.read(source.items(KINDS)[0])
    assert isinstance(reading, Revision)
    assert reading.provenance.author == ADA.author


def test_an_overlay_is_told_of_with_its_base(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    source = FileSource(tmp_path, environment="prod")
    item = source.items(KINDS)[0]
    texts = [SourceText("base.yaml", A), SourceText("environments/prod.yaml", B)]
    source.write(item, texts, expected=None, provenance=ADA)
    for environment, author in (("prod", ADA.author), ("staging", None)):
        reading = FileSource(tmp_path, environment=environment).read(item)
        assert isinstance(reading, Revision)
        assert reading.provenance.author == author


def test_removing_the_rules_removes_what_tells_of_them(tmp_path: Path) -> None:
    store = Store("folder", tmp_path)
    store.publish(A)
    store.source.write(store.item, [], expected=store.read().version, provenance=BOB)
    assert list(store.path.iterdir()) == []


def test_a_text_that_never_ends_is_cut_and_can_be_read(plain: Store) -> None:
    endless = "\x01" * 10**6
    plain.publish(A, replace(ADA, author=endless, message=endless, reason=endless, plan_id=endless))
    assert plain.beside.stat().st_size < MAX_BYTES
    assert (plain.told.author or "").startswith("\x01")


# -- never a wrong one -------------------------------------------------------------------------------------------------


def test_a_writer_that_is_killed_in_between_leaves_rules_of_nobody(store: Store) -> None:
    store.publish(store.a)
    killed_in_between(store, store.b, BOB)
    assert [text.content for text in store.read().texts] == [store.a]
    assert store.told.author is None
    store.publish(store.b, BOB)
    assert store.told.author == "Bob"


def test_a_first_writer_that_is_killed_in_between_finishes_by_writing_again(store: Store) -> None:
    killed_in_between(store, store.a, BOB)
    assert isinstance(store.source.read(store.item), Absent)
    store.publish(store.a, BOB)
    assert store.told.author == "Bob"


def test_a_write_that_fails_leaves_whose_the_rules_were(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    store.publish(store.a)
    with monkeypatch.context() as patch:
        patch.setattr(file, "replace_file", full)
        with pytest.raises(SourceUnavailable, match="No space left"):
            store.publish(store.b, BOB)
    assert store.told.author == ADA.author


def test_a_first_write_that_fails_leaves_nothing(plain: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file, "replace_file", full)
    with pytest.raises(SourceUnavailable):
        plain.publish(A)
    assert list(plain.folder.iterdir()) == []


def test_who_lost_the_race_has_written_nothing(store: Store) -> None:
    store.publish(store.a)
    base = store.read().version
    store.publish(store.b, BOB)
    with pytest.raises(SourceConflict):
        store.publish(store.a, ADA, expected=base)
    assert (store.told.author, store.read().texts[0].content) == ("Bob", store.b)


def test_of_several_processes_that_write_at_once_one_wins_and_its_rules_are_told_as_its_own(store: Store) -> None:
    def race(number: int) -> int:
        try:
            content = store.a.replace(b"1", b"%d" % number)
            store.publish(content, Provenance(author=f"writer {number}"), expected=None)
        except SourceConflict:
            return 5
        return 0

    begin, begun = os.pipe()
    processes = []
    for number in range(2, 8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if not process:
            os.close(begun)
            os.read(begin, 1)  # until all are there
            os._exit(race(number))
        processes.append(process)
    os.close(begun)
    ends = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in processes]
    os.close(begin)
    assert sorted(ends) == [0, 5, 5, 5, 5, 5]
    winner = ends.index(0) + 2
    assert b"%d" % winner in store.read().texts[0].content
    assert store.told.author == f"writer {winner}"


def test_whoever_reads_while_others_write_is_told_nothing_wrong(store: Store) -> None:
    done = threading.Event()
    authors = {store.a: "Ada", store.b: "Bob"}

    def write() -> None:
        for number in range(40):
            content = store.b if number % 2 else store.a
            store.publish(content, Provenance(author=authors[content]))
        done.set()

    store.publish(store.a, Provenance(author="Ada"))
    writer, reader = threading.Thread(target=write), store.opened()
    writer.start()
    while not done.is_set():
        reading = store.read(reader)
        assert reading.provenance.author in {None, authors[reading.texts[0].content]}
    writer.join()


# -- what cannot be read -----------------------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: path.write_bytes(b""), "is damaged"),
    (lambda path: path.write_bytes(b"{'"), "is damaged"),
    (lambda path: path.write_bytes(b"[" * 100_000), "is damaged"),
    (lambda path: path.write_bytes(path.read_bytes()[:-20]), "is damaged"),
    (lambda path: os.truncate(path, 10**9), "is damaged"),
    (pipe, "is no file; remove it"),
    (folder, "is no file; remove it"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_rules_are_read_whatever_stands_beside_them_and_it_is_told_once(
    store: Store, damage: Callable[[Path], Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.publish(store.a)
    damage(store.beside)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert store.read().texts[0].content == store.a
    assert (store.told.channel, store.told.author) == ("unknown", None)
    assert caplog.text.count(words) == 1
    assert words in str(store.told.problem)


@pytest.mark.parametrize(("damage", "words"), DAMAGES[:5])
def test_publishing_again_mends_what_is_damaged(store: Store, damage: Callable[[Path], Any], words: str) -> None:
    store.publish(store.a)
    damage(store.beside)
    store.publish(store.b)
    assert (store.told.author, store.told.problem) == (ADA.author, None)


def test_what_is_no_file_is_not_written_over(plain: Store) -> None:
    plain.publish(A)
    folder(plain.beside)
    with pytest.raises(SourceMisconfigured, match=r"\.rules\.yaml\.provenance is no file; remove it"):
        plain.publish(B)
    assert plain.text.read_bytes() == A


def test_what_may_not_be_read_names_itself_and_keeps_no_rules_away(capfd: pytest.CaptureFixture[str]) -> None:
    with folder_for_all() as place:
        made = Store("file", place)

        def look() -> int:
            os.write(1, str(made.told.problem).encode())
            return len(made.read().texts)

        made.publish(A)
        made.beside.chmod(0)
        assert exit_code_as_nobody(look) == 1
        assert capfd.readouterr().out == f"{made.beside}: Permission denied; let this user read it"


def test_who_may_not_write_writes_neither(capfd: pytest.CaptureFixture[str]) -> None:
    with folder_for_all() as place:
        made = Store("file", place)

        def write() -> int:
            try:
                made.publish(B)
            except SourceDenied:
                return 7
            return 0

        made.publish(A)
        assert exit_code_as_nobody(write) == 7
        assert made.told.author == ADA.author


# -- what a subscription sees of it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", SORTS)
def test_a_follower_is_told_of_new_rules_and_of_whose_they_are_at_once(
    tmp_path: Path, sort: str, recorder: Any, subscribe: Any
) -> None:
    store = Store(sort, tmp_path)
    store.publish(store.a, BOB)
    kinds = ("flow",) if sort == "list" else tuple(KINDS)
    subscription = subscribe(store.opened(), recorder, kinds=kinds)
    assert subscription.wait_ready(5)
    store.publish(store.b)
    recorder.wait_active(store.b)
    assert [each.provenance.author for each in recorder.revisions] == ["Bob", ADA.author]
    assert recorder.revisions[-1].version == store.read().version
    assert subscription.refresh(5)
    (status,) = subscription.status()
    assert (status.author, status.commit_hash) == (ADA.author, "4f1d2c")


@pytest.mark.parametrize("sort", SORTS)
def test_what_changes_beside_the_rules_is_no_change_of_rules_and_shows_at_the_next_look(
    tmp_path: Path, sort: str, recorder: Any, subscribe: Any
) -> None:
    store = Store(sort, tmp_path)
    store.publish(store.a)
    kinds = ("flow",) if sort == "list" else tuple(KINDS)
    subscription = subscribe(store.opened(), recorder, kinds=kinds)
    assert subscription.wait_ready(5)
    store.beside.unlink()
    assert subscription.refresh(5)
    assert (recorder.contents, subscription.status()[0].author) == ([store.a], None)


def test_a_follower_is_told_why_it_is_not_known_whose_the_rules_are(
    plain: Store, recorder: Any, subscribe: Any
) -> None:
    plain.publish(A)
    plain.beside.write_bytes(b"{'")
    subscription = subscribe(plain.opened(), recorder, kinds=tuple(KINDS))
    assert subscription.wait_ready(5)
    assert subscription.status()[0].provenance_problem == f"{plain.beside} is damaged; remove it, or publish again"
    plain.beside.unlink()
    assert subscription.refresh(5)
    assert subscription.status()[0].provenance_problem is None


# -- rules that are gone -----------------------------------------------------------------------------------------------


def gone(store: Store) -> Absent:
    reading = store.source.read(store.item)
    assert isinstance(reading, Absent)
    return reading


def test_rules_that_were_published_and_are_gone_are_told_from_those_that_never_were(store: Store) -> None:
    assert (gone(store).reason, "publish" in gone(store).next_step) in {
        (f"{store.path} is missing", False),
        (f"{store.path} holds no rule files", False),
    }
    store.publish(store.a)
    store.text.unlink()
    reading = gone(store)
    assert reading.reason == (
        f"{store.path} is gone: rules of {ADA.author} were published there at 2026-11-25 14:02 UTC"
    )
    assert "sentinelctl rules publish" in reading.next_step
    store.publish(store.b)
    assert store.read().texts[0].content == store.b


def test_whoever_is_named_writes_no_lines_and_no_secrets_into_what_is_said(plain: Store) -> None:
    plain.publish(A, Provenance(author=f"ada\n\x1b[31m password=hunter2 {'x' * 10**5}"))
    plain.text.unlink()
    assert "\n" not in gone(plain).reason
    assert "\x1b" not in gone(plain).reason
    assert "hunter2" not in gone(plain).reason
    assert len(gone(plain).reason) < 1000


def test_a_folder_that_is_missing_is_named_with_what_makes_it(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "rulse" / "rules.yaml")
    reading = source.read(source.items(KINDS)[0])
    assert isinstance(reading, Absent)
    assert reading.reason.endswith(f"there is no folder {tmp_path}/rulse")
    assert reading.next_step == f"correct the path, or make it: mkdir -p {tmp_path}/rulse"
    whole = FileSource(tmp_path / "rules")
    reading = whole.read(whole.items(KINDS)[0])
    assert isinstance(reading, Absent)
    assert f"where it is to be a folder: mkdir -p {tmp_path}/rules" in reading.next_step


def test_what_was_published_last_is_known_when_the_rules_are_gone(store: Store) -> None:
    store.publish(store.a)
    store.text.unlink()
    told = store.source.note(store.item, "provenance")
    assert told is not None
    assert rules_of(told)["flow"] == parse_rules("flow", b'[{"resource": "a", "count": 1}]').digest

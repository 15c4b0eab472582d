"""Files: only whole texts, whatever the writer does."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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
    notify,
)
from sentinel_core.rules import Provenance, Revision, SourceText
from tests.unprivileged import exit_code_as_nobody, folder_for_all

A, B = b"flowRules: [{resource: a}]\n", b"flowRules: [{resource: a}, {resource: b}]\n"
NOBODY = Provenance()


def item_of(source: FileSource, *kinds: str) -> Item:
    (item,) = source.items(kinds or ("flow",))
    return item


def read(source: FileSource, *kinds: str) -> Revision:
    reading = source.read(item_of(source, *kinds))
    assert isinstance(reading, Revision)
    return reading


def write_slowly(path: Path, content: bytes) -> None:
    """As an editor on a slow disk: truncate, pause, half, pause, the rest."""
    with path.open("wb", buffering=0) as file:
        time.sleep(0.05)
        file.write(content[: len(content) // 2])
        time.sleep(0.05)
        file.write(content[len(content) // 2 :])


# -- D13: torn writes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poll_s", [None, 0.005])
def test_d13_a_slow_rewrite_in_place_is_seen_whole_or_not_at_all(
    tmp_path: Path, recorder: Any, subscribe: Any, poll_s: float | None
) -> None:
    path = tmp_path / "rules.yaml"
    old = b"flowRules:\n" + b"".join(b"  - {resource: r%d}\n" % number for number in range(20))
    new = old.replace(b"r1", b"s1")
    path.write_bytes(old)
    subscribe(FileSource(path, poll_s=poll_s), recorder).wait_ready(5)
    write_slowly(path, new)
    recorder.wait_active(new)
    assert recorder.contents == [old, new]


def test_d13_a_compare_in_the_middle_of_a_rewrite_waits_for_the_writer(
    tmp_path: Path, recorder: Any, subscribe: Any
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    subscription = subscribe(FileSource(path), recorder)
    subscription.wait_ready(5)
    writer = threading.Thread(target=write_slowly, args=(path, B))
    writer.start()
    while writer.is_alive():
        subscription.refresh(5)
    writer.join()
    recorder.wait_active(B)
    assert recorder.contents == [A, B]


def test_d13_a_writer_that_pauses_is_waited_for_and_told_of(
    tmp_path: Path, recorder: Any, subscribe: Any, wait_reason: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it pauses: half a document never becomes active."""
    monkeypatch.setattr("sentinel_core.datasources.file._OPEN_WRITER_S", 0.05)
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    subscription = subscribe(FileSource(path), recorder)
    subscription.wait_ready(5)
    with path.open("wb", buffering=0) as file:
        file.write(b"flowRules: [{resource: a}]\n# ")
        subscription.refresh(5)
        wait_reason(subscription, "is being written and was not closed")
        path.chmod(0o600)  # somebody else's change of rights does not mean that the writer is done
        subscription.refresh(5)
        file.write(b"more\n")
    recorder.wait_active(b"flowRules: [{resource: a}]\n# more\n")
    assert recorder.contents == [A, b"flowRules: [{resource: a}]\n# more\n"]


def test_d13_a_writer_that_never_pauses_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel_core.datasources.file._RESTLESS_S", 0.05)
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    monkeypatch.setattr("sentinel_core.datasources.file.time.sleep", lambda _: path.write_bytes(os.urandom(9)))
    with pytest.raises(SourceUnavailable, match="is being written and was not closed"):
        read(FileSource(path))


def test_d13_a_file_that_was_just_written_is_looked_at_again_before_it_is_taken(tmp_path: Path) -> None:
    """Nobody told of its closing: at the start, and while polling."""
    path = tmp_path / "rules.yaml"
    writing = threading.Thread(target=write_slowly, args=(path, B))
    path.write_bytes(A)
    writing.start()
    assert read(FileSource(path)).texts[0].content == B
    writing.join()


def test_a_file_that_was_written_a_while_ago_is_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    monkeypatch.setattr("sentinel_core.datasources.file.time.sleep", lambda _: pytest.fail("it waited"))
    assert read(FileSource(path, now=lambda: datetime.now(UTC) + timedelta(seconds=1))).texts[0].content == A


def test_d13_a_renamed_file_is_another_inode_and_is_followed(tmp_path: Path, recorder: Any, subscribe: Any) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    subscribe(FileSource(path), recorder).wait_ready(5)
    for number in range(5):
        aside = tmp_path / "rules.yaml.tmp"
        aside.write_bytes(content := b"flowRules: [{resource: r%d}]" % number)
        aside.replace(path)
        recorder.wait_active(content)


@pytest.mark.parametrize("name", ["", "rules.yaml"])
def test_d13_a_mounted_config_map_is_swapped_by_its_symbolic_link(
    tmp_path: Path, recorder: Any, subscribe: Any, name: str
) -> None:
    def publish(version: str, content: bytes) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / "rules.yaml").write_bytes(content)
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    publish("..v1", A)
    (tmp_path / "rules.yaml").symlink_to("..data/rules.yaml")
    subscribe(FileSource(tmp_path / name), recorder).wait_ready(5)
    publish("..v2", B)
    recorder.wait_active(B)
    publish("..v3", A)
    recorder.wait_active(A)


# -- what may happen to the path -------------------------------------------------------------------------------------


def test_a_folder_that_does_not_exist_yet_is_waited_for(tmp_path: Path, recorder: Any, subscribe: Any) -> None:
    path = tmp_path / "etc" / "sentinel" / "rules.yaml"
    subscription = subscribe(FileSource(path), recorder)
    subscription.refresh(5)
    path.parent.mkdir(parents=True)
    path.write_bytes(A)
    recorder.wait_active(A)


def test_a_folder_that_is_replaced_is_followed(tmp_path: Path, recorder: Any, subscribe: Any) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "flow.yaml").write_bytes(A)
    subscribe(FileSource(folder), recorder).wait_ready(5)
    aside = tmp_path / "next"
    aside.mkdir()
    (aside / "flow.yaml").write_bytes(B)
    folder.rename(tmp_path / "old")
    aside.rename(folder)
    recorder.wait_active(B)
    (folder / "flow.yaml").write_bytes(A)
    recorder.wait_active(A)


def test_a_link_to_elsewhere_is_followed_there(tmp_path: Path, recorder: Any, subscribe: Any) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "rules.yaml").write_bytes(A)
    (tmp_path / "link.yaml").symlink_to(real / "rules.yaml")
    subscribe(FileSource(tmp_path / "link.yaml"), recorder).wait_ready(5)
    (real / "rules.yaml").write_bytes(B)
    recorder.wait_active(B)


def test_a_touched_file_is_read_and_not_applied(tmp_path: Path, recorder: Any, subscribe: Any) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    subscription = subscribe(FileSource(path), recorder)
    subscription.wait_ready(5)
    os.utime(path, ns=(1, 1))
    subscription.refresh(5)
    assert recorder.contents == [A]


def test_without_inotify_it_says_so_and_polls(
    tmp_path: Path, recorder: Any, subscribe: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def exhausted(_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(notify, "Inotify", exhausted)
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    with caplog.at_level(logging.WARNING):
        subscribe(FileSource(path), recorder).wait_ready(5)
        path.write_bytes(B)
        recorder.wait_active(B)
    assert "no inotify (Too many open files); looking every 100 ms instead" in caplog.text


# -- what is read ----------------------------------------------------------------------------------------------------


def test_a_folder_is_one_document_of_its_visible_yaml_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", ".hidden.yaml", "#a.yaml#", "a.yaml~", ".a.yaml.swp", "README.md"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "environments").mkdir()
    revision = read(FileSource(tmp_path), "flow", "degrade")
    assert [Path(text.name).name for text in revision.texts] == ["a.yml", "b.yaml"]
    assert {text.format for text in revision.texts} == {"yaml"}


def test_json_in_a_folder_of_documents_is_refused_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_bytes(A)
    (tmp_path / "more.json").write_bytes(b"[]")
    source = FileSource(tmp_path)
    with pytest.raises(SourceMisconfigured, match=r"more\.json is JSON in a folder of YAML"):
        source.read(item_of(source))


def test_a_json_list_is_of_the_kind_it_is_named_after(tmp_path: Path) -> None:
    path = tmp_path / "sentinel-param-flow-rules.json"
    path.write_bytes(b"[]")
    item = item_of(FileSource(path), "flow", "param_flow")
    assert item.kinds == ("param_flow",)
    assert read(FileSource(path), "param_flow").texts[0].format == "json"


def test_a_json_list_whose_name_does_not_tell_needs_its_kind(tmp_path: Path) -> None:
    with pytest.raises(SourceMisconfigured, match=r"add \?kind=flow"):
        FileSource(tmp_path / "rules.json").items(["flow"])
    assert item_of(FileSource(tmp_path / "rules.json", kind="degrade"), "flow", "degrade").kinds == ("degrade",)


def test_a_json_list_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceMisconfigured, match="holds flow rules, but degrade is asked for"):
        FileSource(tmp_path / "sentinel-flow-rules.json").items(["degrade"])


def test_a_folder_of_json_lists_is_one_item_a_kind(tmp_path: Path) -> None:
    items = FileSource(tmp_path, format="json").items(["flow", "biz_metric"])
    assert [(Path(item.key).name, item.kinds) for item in items] == [
        ("sentinel-flow-rules.json", ("flow",)),
        ("sentinel-biz-metric-rules.json", ("biz_metric",)),
    ]


def test_p08_p09_bytes_are_handed_over_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(b"\xef\xbb\xbfflowRules: []\r\n")
    assert read(FileSource(path)).texts[0].content == b"\xef\xbb\xbfflowRules: []\r\n"


def test_the_version_is_this_hosts_observation(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    revision = read(FileSource(path))
    assert revision.observed is True
    assert revision.version.startswith(str(path.stat().st_ctime_ns))
    assert revision.provenance.channel == "file"
    assert revision.provenance.author is None


def flip_link(tmp_path: Path) -> Callable[[str], None]:
    for name, content in (("a", A), ("b", B)):
        (tmp_path / f"{name}.yaml").write_bytes(content)

    def flip(name: str) -> None:
        (tmp_path / "next").symlink_to(f"{name}.yaml")
        (tmp_path / "next").replace(tmp_path / "rules.yaml")

    return flip


def flip_folder_link(tmp_path: Path) -> Callable[[str], None]:
    for name, content in (("a", A), ("b", B)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rules.yaml").write_bytes(content)
    (tmp_path / "rules.yaml").symlink_to("..data/rules.yaml")

    def flip(name: str) -> None:
        (tmp_path / "next").symlink_to(name)
        (tmp_path / "next").replace(tmp_path / "..data")

    return flip


def flip_copy(tmp_path: Path) -> Callable[[str], None]:
    for name, content in (("a", A), ("b", B)):
        (tmp_path / f"{name}.yaml").write_bytes(content)
        os.utime(tmp_path / f"{name}.yaml", ns=(1, 1))

    def flip(name: str) -> None:
        shutil.copy2(tmp_path / f"{name}.yaml", tmp_path / "rules.yaml")

    return flip


def flip_rename(tmp_path: Path) -> Callable[[str], None]:
    for name, content in (("a", A), ("b", B)):
        (tmp_path / f"{name}.yaml").write_bytes(content)

    def flip(name: str) -> None:
        if (tmp_path / "rules.yaml").exists():
            (tmp_path / "rules.yaml").rename(tmp_path / f"{'b' if name == 'a' else 'a'}.yaml")
        (tmp_path / f"{name}.yaml").rename(tmp_path / "rules.yaml")

    return flip


@pytest.mark.parametrize("flips", [flip_link, flip_folder_link, flip_copy, flip_rename])
def test_each_return_to_older_content_is_a_version_of_its_own(
    tmp_path: Path, flips: Callable[[Path], Callable[[str], None]]
) -> None:
    """A → B → A → B are four events, whose ids are made of the versions."""
    flip, versions = flips(tmp_path), []
    for name in "abab":
        flip(name)
        versions.append(read(FileSource(tmp_path / "rules.yaml")).version)
        assert read(FileSource(tmp_path / "rules.yaml")).version == versions[-1], "nothing was touched"
        time.sleep(0.01)  # more than a tick of the file system's clock
    assert len(set(versions)) == 4


def test_a_file_that_leaves_a_folder_twice_makes_two_versions(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_bytes(A)
    versions = []
    for _ in range(2):
        (folder / "b.yaml").write_bytes(B)
        (folder / "b.yaml").unlink()
        versions.append(read(FileSource(folder)).version)
        time.sleep(0.01)  # as above
    assert len(set(versions)) == 2


def test_what_is_no_file_is_refused_without_opening_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rules.yaml")
    source = FileSource(tmp_path / "rules.yaml")
    with pytest.raises(SourceMisconfigured, match="neither a file nor a folder"):
        source.read(item_of(source))


def test_a_file_too_large_to_be_rules_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "rules.yaml").open("wb") as file:
        file.truncate(10**9)
    source = FileSource(tmp_path / "rules.yaml")
    with pytest.raises(SourceMisconfigured, match="is it the right path"):
        source.read(item_of(source))


@pytest.mark.parametrize(("mode", "code"), [(0o644, 0), (0, 1)])
def test_a_file_that_may_not_be_read_names_itself(capfd: pytest.CaptureFixture[str], mode: int, code: int) -> None:
    def look() -> int:
        try:
            read(FileSource(path))
        except SourceDenied as error:
            os.write(1, str(error).encode())
            return 1
        return 0

    with folder_for_all() as folder:
        path = folder / "rules.yaml"
        path.write_bytes(A)
        path.chmod(mode)
        assert exit_code_as_nobody(look) == code
        said = f"{path}: Permission denied; let this user read it" if code else ""
        assert capfd.readouterr().out == said


def test_an_empty_folder_and_a_missing_file_are_absent(tmp_path: Path) -> None:
    for source in (FileSource(tmp_path), FileSource(tmp_path / "rules.yaml")):
        assert isinstance(source.read(item_of(source)), Absent)


# -- writing ---------------------------------------------------------------------------------------------------------


def test_a_write_replaces_the_file_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    path.chmod(0o640)
    source = FileSource(path)
    written = source.write(item_of(source), [SourceText("x", B)], expected=read(source).version, provenance=NOBODY)
    assert path.read_bytes() == B
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert written.version == read(source).version


def test_a_write_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_bytes(A)
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    source = FileSource(tmp_path / "link.yaml")
    source.write(item_of(source), [SourceText("x", B)], expected=read(source).version, provenance=NOBODY)
    assert (tmp_path / "link.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_bytes() == B


def test_d14_the_second_of_two_editors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    source = FileSource(path)
    base = read(source).version
    source.write(item_of(source), [SourceText("x", B)], expected=base, provenance=NOBODY)
    with pytest.raises(SourceConflict, match="read it again"):
        source.write(item_of(source), [SourceText("x", A)], expected=base, provenance=NOBODY)
    assert path.read_bytes() == B


def test_a_first_write_needs_absence(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "rules.yaml")
    source.write(item_of(source), [SourceText("x", A)], expected=None, provenance=NOBODY)
    with pytest.raises(SourceConflict):
        source.write(item_of(source), [SourceText("x", B)], expected=None, provenance=NOBODY)


def test_a_folder_that_is_not_there_is_a_slip_and_is_not_made(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "rulse" / "rules.yaml")
    with pytest.raises(SourceMisconfigured, match=r"no folder .*rulse; correct the path, or make it: mkdir -p"):
        source.write(item_of(source), [SourceText("x", A)], expected=None, provenance=NOBODY)
    with pytest.raises(SourceMisconfigured, match="no folder"):
        source.write_note(item_of(source), "lock", b"x", expected=None, why="")
    assert list(tmp_path.iterdir()) == []


def test_what_only_looks_newer_is_the_revision_that_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(A)
    source = FileSource(path)
    seen = read(source).version
    path.chmod(0o600)
    assert read(source).version != seen
    source.write(item_of(source), [SourceText("x", B)], expected=seen, provenance=NOBODY)
    assert path.read_bytes() == B


def test_a_write_to_a_folder_removes_files_that_are_not_among_the_texts(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml", "README.md"):
        (tmp_path / name).write_bytes(A)
    source = FileSource(tmp_path)
    texts = [SourceText(str(tmp_path / "a.yaml"), B)]
    source.write(item_of(source), texts, expected=read(source).version, provenance=NOBODY)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".provenance", "README.md", "a.yaml"]


def test_one_file_does_not_take_two_texts(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "rules.yaml")
    with pytest.raises(SourceMisconfigured, match="cannot take 2 texts"):
        source.write(item_of(source), [SourceText("a", A), SourceText("b", B)], expected=None, provenance=NOBODY)

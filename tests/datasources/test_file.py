"""Files: only whole texts, whatever the writer does."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
import time
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
    assert revision.version.startswith(str(path.stat().st_mtime_ns))
    assert revision.provenance.channel == "file"
    assert revision.provenance.author is None


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
    source = FileSource(tmp_path / "new" / "rules.yaml")
    source.write(item_of(source), [SourceText("x", A)], expected=None, provenance=NOBODY)
    with pytest.raises(SourceConflict):
        source.write(item_of(source), [SourceText("x", B)], expected=None, provenance=NOBODY)


def test_a_write_to_a_folder_removes_files_that_are_not_among_the_texts(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml", "README.md"):
        (tmp_path / name).write_bytes(A)
    source = FileSource(tmp_path)
    texts = [SourceText(str(tmp_path / "a.yaml"), B)]
    source.write(item_of(source), texts, expected=read(source).version, provenance=NOBODY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "a.yaml"]


def test_one_file_does_not_take_two_texts(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "rules.yaml")
    with pytest.raises(SourceMisconfigured, match="cannot take 2 texts"):
        source.write(item_of(source), [SourceText("a", A), SourceText("b", B)], expected=None, provenance=NOBODY)

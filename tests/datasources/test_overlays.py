"""A folder is read with the overlay of its environment, wherever it lies, and with no other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.datasources import Absent, FileSource, GitSource, Item, SourceMisconfigured, State
from sentinel_core.rules import Provenance, Revision, SourceText

BASE, PROD, STAGING = (b"flowRules: [{resource: a, count: %d}]\n" % count for count in (1, 2, 3))
SOON = 5.0


@dataclass
class Tree:
    """A folder `rules` of one environment, and the hand that changes it."""

    source: Any
    put: Callable[[str, bytes | None], None]

    @property
    def item(self) -> Item:
        item: Item
        (item,) = self.source.items(["flow"])
        return item

    def read(self) -> dict[str, bytes]:
        """By name from the folder on; empty where nothing stands."""
        return texts_of(self.source.read(self.item))


def texts_of(reading: Any) -> dict[str, bytes]:
    return (
        {}
        if isinstance(reading, Absent)
        else {text.name.partition("rules/")[2]: text.content for text in reading.texts}
    )


@pytest.fixture(params=["file", "file-polled", "git"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    if request.param == "git":
        work = request.getfixturevalue("work")
        source = GitSource(work.work, ref="main", path="rules", environment="prod")
        return Tree(source, lambda name, content: work.put_file(f"rules/{name}", content))
    folder = tmp_path / "rules"
    poll_s = 0.01 if request.param == "file-polled" else None

    def put(name: str, content: bytes | None) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    return Tree(FileSource(folder, environment="prod", poll_s=poll_s), put)


def test_the_overlay_of_the_environment_is_among_the_texts_and_no_other(tree: Tree) -> None:
    for name, content in (("a.yaml", BASE), ("environments/prod.yaml", PROD), ("environments/staging.yaml", STAGING)):
        tree.put(name, content)
    assert tree.read() == {"a.yaml": BASE, "environments/prod.yaml": PROD}


def test_the_other_suffix_will_do_but_not_both(tree: Tree) -> None:
    tree.put("a.yaml", BASE)
    tree.put("environments/prod.yml", PROD)
    assert tree.read() == {"a.yaml": BASE, "environments/prod.yml": PROD}
    tree.put("environments/prod.yaml", PROD)
    with pytest.raises(SourceMisconfigured, match=r"of the same environment; keep one"):
        tree.read()


def test_an_overlay_without_a_base_is_no_document(tree: Tree) -> None:
    """A base that was deleted must not leave an overlay that clears everything else."""
    tree.put("environments/prod.yaml", PROD)
    assert tree.read() == {}


def test_an_overlay_that_comes_later_changes_or_goes_is_followed(tree: Tree, recorder: Any, subscribe: Any) -> None:
    tree.put("a.yaml", BASE)
    assert subscribe(tree.source, recorder).wait_ready(SOON)
    tree.put("environments/prod.yaml", PROD)
    recorder.wait_active(BASE + b"\n" + PROD)
    tree.put("environments/prod.yaml", STAGING)
    recorder.wait_active(BASE + b"\n" + STAGING)
    tree.put("environments/prod.yaml", None)
    recorder.wait_active(BASE)


def test_another_environments_file_is_no_change(tree: Tree, recorder: Any, subscribe: Any) -> None:
    tree.put("a.yaml", BASE)
    tree.put("environments/prod.yaml", PROD)
    subscription = subscribe(tree.source, recorder)
    assert subscription.wait_ready(SOON)
    version = tree.source.read(tree.item).version
    tree.put("environments/staging.yaml", STAGING)
    tree.put("environments/staging.yaml", b"invalid")
    assert subscription.refresh(SOON)
    assert (len(recorder.seen), recorder.refused, subscription.state) == (1, [], State.READY)
    assert tree.source.read(tree.item).version == version


def test_a_write_puts_the_overlay_where_it_belongs_and_takes_away_what_is_not_written(tree: Tree) -> None:
    tree.put("a.yaml", BASE)
    tree.put("environments/staging.yaml", STAGING)
    before = tree.source.read(tree.item)
    texts = [SourceText("rules/a.yaml", BASE), SourceText("rules/environments/prod.yaml", PROD)]
    tree.source.write(tree.item, texts, expected=before.version, provenance=Provenance())
    assert tree.read() == {"a.yaml": BASE, "environments/prod.yaml": PROD}
    stands = tree.source.read(tree.item)
    written = tree.source.write(tree.item, before.texts, expected=stands.version, provenance=Provenance())
    assert tree.read() == {"a.yaml": BASE}
    assert texts_of(Revision(written.texts, "", "")) == {"a.yaml": BASE}


def test_the_overlay_of_another_environment_is_not_written(tree: Tree) -> None:
    tree.put("a.yaml", BASE)
    texts = [SourceText("rules/a.yaml", BASE), SourceText("rules/environments/staging.yaml", STAGING)]
    with pytest.raises(SourceMisconfigured, match="overlay of another environment"):
        tree.source.write(tree.item, texts, expected=tree.source.read(tree.item).version, provenance=Provenance())


@pytest.mark.parametrize("environment", ["../a", "a/b", "", ".", "a\0b", "-x", "*"])
def test_an_environment_that_names_no_file_has_no_overlay(work: Any, environment: str) -> None:
    work.commit(rules__a_yaml=BASE, rules__environments__prod_yaml=PROD)
    for source in (
        GitSource(work.work, path="rules", environment=environment),
        FileSource(work.work / "rules", environment=environment),
    ):
        (item,) = source.items(["flow"])
        assert texts_of(source.read(item)) == {"a.yaml": BASE}


# -- Git: versions and history ---------------------------------------------------------------------------------------


def test_the_history_holds_what_changed_for_the_environment_each_with_its_overlay(work: Any) -> None:
    work.commit("base", rules__a_yaml=BASE)
    work.commit("prod", rules__environments__prod_yaml=PROD)
    work.commit("staging", rules__environments__staging_yaml=STAGING)
    work.commit("read me", rules__README=b"words")
    work.commit("other base", rules__a_yaml=STAGING)
    source = GitSource(work.work, ref="main", path="rules", environment="prod")
    (item,) = source.items(["flow"])
    told = [(revision.provenance.message, texts_of(revision)) for revision in source.history(item)]
    assert told == [
        ("other base", {"a.yaml": STAGING, "environments/prod.yaml": PROD}),
        ("prod", {"a.yaml": BASE, "environments/prod.yaml": PROD}),
        ("base", {"a.yaml": BASE}),
    ]
    assert texts_of(source.at(item, "HEAD~3")) == {"a.yaml": BASE, "environments/prod.yaml": PROD}
    assert source.at(item, "HEAD~1").version == source.at(item, "HEAD~3").version


def test_the_top_of_a_repository_may_be_the_folder(work: Any) -> None:
    work.commit(a_yaml=BASE, environments__prod_yaml=PROD)
    source = GitSource(work.work, environment="prod")
    (item,) = source.items(["flow"])
    reading = source.read(item)
    assert isinstance(reading, Revision)
    assert [text.name for text in reading.texts] == ["a.yaml", "environments/prod.yaml"]


def test_a_folder_whose_name_holds_signs_of_patterns_is_taken_literally(work: Any) -> None:
    work.commit("yes", **{"r[1]*__a_yaml": BASE})
    work.commit("no", r1x__a_yaml=PROD)
    source = GitSource(work.work, path="r[1]*")
    (item,) = source.items(["flow"])
    assert [revision.provenance.message for revision in source.history(item)] == ["yes"]


# -- files: only whole overlays --------------------------------------------------------------------------------------


def test_d13_an_overlay_that_is_rewritten_slowly_is_seen_whole_or_not_at_all(
    tmp_path: Path, recorder: Any, subscribe: Any
) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "a.yaml").write_bytes(BASE)
    overlay = tmp_path / "environments" / "prod.yaml"
    overlay.write_bytes(PROD)
    subscription = subscribe(FileSource(tmp_path, environment="prod"), recorder)
    assert subscription.wait_ready(SOON)
    with overlay.open("wb", buffering=0) as file:
        file.write(STAGING[:10])
        reader = threading.Thread(target=subscription.refresh, args=(SOON,))
        reader.start()
        file.write(STAGING[10:])
    reader.join()
    recorder.wait_active(BASE + b"\n" + STAGING)
    assert recorder.contents == [BASE + b"\n" + PROD, BASE + b"\n" + STAGING]


def test_a_writer_of_another_environments_file_keeps_nobody_waiting(
    tmp_path: Path, recorder: Any, subscribe: Any
) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "a.yaml").write_bytes(BASE)
    source = FileSource(tmp_path, environment="prod")
    subscription = subscribe(source, recorder)
    assert subscription.wait_ready(SOON)
    with (tmp_path / "environments" / "staging.yaml").open("wb", buffering=0) as file:
        file.write(STAGING)
        (tmp_path / "environments" / "prod.yaml").write_bytes(PROD)
        recorder.wait_active(BASE + b"\n" + PROD)


def test_an_overlay_behind_symbolic_links_is_followed(tmp_path: Path, recorder: Any, subscribe: Any) -> None:
    for name, content in (("v1", PROD), ("v2", STAGING)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "prod.yaml").write_bytes(content)
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_bytes(BASE)
    (folder / "environments").symlink_to("../v1")
    assert subscribe(FileSource(folder, environment="prod"), recorder).wait_ready(SOON)
    (folder / "next").symlink_to("../v2")
    (folder / "next").replace(folder / "environments")
    recorder.wait_active(BASE + b"\n" + STAGING)

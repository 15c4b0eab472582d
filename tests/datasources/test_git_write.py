"""Writing to Git: a new commit by the caller, on top of what was expected, treading on nobody's work."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.datasources import (
    GitSource,
    SourceConflict,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
)
from sentinel_core.datasources.git.commit import Author
from sentinel_core.rules import Provenance, SourceText
from tests.datasources.git_hands import A, B, C, Run, item_of, read


def write(source: GitSource, *texts: SourceText, expected: str | None, **provenance: Any) -> str:
    return source.write(item_of(source), texts, expected=expected, provenance=Provenance(**provenance)).version


def text(content: bytes, name: str = "rules.yaml") -> SourceText:
    return SourceText(name, content)


@pytest.mark.parametrize(("channel", "read_back"), [("cli", "cli"), ("git", "git"), ("unknown", "git")])
def test_the_channel_of_a_write_is_found_again(work: Any, channel: str, read_back: str) -> None:
    base = work.commit(rules_yaml=A)
    write(work.source, text(B), expected=base, message="Raise the limit", channel=channel)
    assert read(work.source).provenance.channel == read_back
    assert (read(work.source).provenance.message or "").startswith("Raise the limit")


def test_a_trailer_that_names_no_channel_of_ours_is_a_persons_own(work: Any) -> None:
    work.commit("Raise\n\nChannel: telepathy", rules_yaml=A)
    assert read(work.source).provenance.channel == "git"


def test_a_write_is_a_new_commit_by_the_caller_and_the_work_tree_follows(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A, README_md=b"x")
    version = write(work.source, text(B), expected=base, message="Raise the limit", reason="sale", plan_id="p1")
    assert git("log", "-1", "--format=%H|%P|%an|%cn|%B").split("|") == [
        version,
        base,
        "Ada Example",
        "Ada Example",
        "Raise the limit\n\nReason: sale\nPlan-id: p1",
    ]
    assert (work.work / "rules.yaml").read_bytes() == B
    assert git("status", "--porcelain") == ""
    assert read(work.source).provenance.reason == "sale"
    assert read(work.source).provenance.plan_id == "p1"


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ("Raise it\n\nReason: sale", "Raise it\n\nReason: sale"),
        ("Raise it\n\nMore.\n\nReason:\n  sale\n", "Raise it\n\nMore.\n\nReason: sale"),
        (
            "Raise it\n\nReason: sale\nSigned-off-by: Ada <a@b.example>",
            "Raise it\n\nSigned-off-by: Ada <a@b.example>\n\nReason: sale",
        ),
        ("Raise it\n\nReason: other", "Raise it\n\nReason: other\n\nReason: sale"),
        ("Raise it\n\nReason: sale\nand more", "Raise it\n\nReason: sale\nand more\n\nReason: sale"),
        ("Reason: sale", "Reason: sale\n\nReason: sale"),
    ],
)
def test_a_reason_that_a_message_told_on_gives_already_stands_there_once(
    work: Any, git: Run, told: str, written: str
) -> None:
    base = work.commit(rules_yaml=A)
    write(work.source, text(B), expected=base, message=told, reason="sale")
    assert git("log", "-1", "--format=%B").strip() == written
    assert read(work.source).provenance.reason == "sale"


def test_the_commit_that_rules_are_from_is_named(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    write(work.source, text(B), expected=base, message="Raise the limit", commit_hash="c0ffee" * 6 + "abcd")
    assert git("log", "-1", "--format=%(trailers:key=Source-commit,valueonly)").strip() == "c0ffee" * 6 + "abcd"


def test_c03_a_rollback_is_a_new_commit_that_names_what_it_undoes(work: Any) -> None:
    good = work.commit(rules_yaml=A)
    bad = work.commit(rules_yaml=B)
    version = write(work.source, text(A), expected=bad, reason="too low", rollback_of=bad)
    revision = read(work.source)
    assert version not in {good, bad}
    assert (revision.provenance.rollback_of, revision.provenance.reason) == (bad, "too low")
    assert [each.version for each in work.source.history(item_of(work.source))] == [version, bad, good]


def test_c03_a_rollback_of_a_folder_removes_what_was_added(work: Any, git: Run) -> None:
    work.commit(rules__a_yaml=A)
    source = GitSource(work.work, ref="main", path="rules")
    old = read(source)
    bad = work.commit(rules__a_yaml=B, rules__new_yaml=C, rules__keep_md=b"x")
    write(source, *old.texts, expected=bad, rollback_of=bad)
    assert read(source).texts == old.texts
    assert sorted(path.name for path in (work.work / "rules").iterdir()) == ["a.yaml", "keep.md"]
    assert git("status", "--porcelain") == ""


def test_d14_the_second_of_two_editors_is_refused(work: Any) -> None:
    base = work.commit(rules_yaml=A)
    write(work.source, text(B), expected=base)
    with pytest.raises(SourceConflict, match="read it again"):
        write(work.source, text(C), expected=base)
    assert read(work.source).texts[0].content == B


def test_commits_elsewhere_are_no_conflict(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    other = work.commit(README_md=b"x")
    version = write(work.source, text(B), expected=base)
    assert git("rev-parse", f"{version}^") == other


def test_a_first_write_makes_the_first_commit(work: Any) -> None:
    version = write(work.source, text(A), expected=None, message="Begin")
    assert read(work.source).version == version
    assert (work.work / "rules.yaml").read_bytes() == A


def test_equal_texts_make_no_commit(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    assert write(work.source, text(A), expected=base) == base
    assert git("rev-parse", "main") == base


@pytest.mark.parametrize("staged", [True, False])
def test_work_that_is_not_committed_is_not_overwritten(work: Any, git: Run, staged: bool) -> None:
    base = work.commit(rules_yaml=A)
    (work.work / "rules.yaml").write_bytes(C)
    if staged:
        git("add", "-A")
    with pytest.raises(SourceConflict, match="not committed; commit or discard"):
        write(work.source, text(B), expected=base)
    assert (work.work / "rules.yaml").read_bytes() == C
    assert git("rev-parse", "main") == base


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_work_that_git_was_told_to_overlook_is_not_overwritten(work: Any, git: Run, mark: str) -> None:
    base = work.commit(rules_yaml=A)
    git("update-index", mark, "rules.yaml")
    (work.work / "rules.yaml").write_bytes(C)
    with pytest.raises(SourceConflict, match=r"rules\.yaml has changes that are not committed"):
        write(work.source, text(B), expected=base)
    assert (work.work / "rules.yaml").read_bytes() == C
    assert git("rev-parse", "main") == base


@pytest.mark.parametrize("way", ["file", "parent is a file", "parent is a link"])
def test_what_is_ignored_and_stands_in_the_way_is_not_overwritten(
    work: Any, git: Run, tmp_path: Path, way: str
) -> None:
    base = work.commit(rules_yaml=A)
    (work.work / ".git" / "info" / "exclude").write_text("d\n", encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if way == "file":
        (work.work / "d").mkdir()
        (work.work / "d" / "b.yaml").write_bytes(C)
    elif way == "parent is a file":
        (work.work / "d").write_bytes(C)
    else:
        (work.work / "d").symlink_to(elsewhere)
    source = GitSource(work.work, ref="main", path="d")
    with pytest.raises(SourceConflict, match=r"d/b\.yaml has changes that are not committed"):
        write(source, text(B, "b.yaml"), expected=None)
    assert way != "file" or (work.work / "d" / "b.yaml").read_bytes() == C
    assert list(elsewhere.iterdir()) == []
    assert git("rev-parse", "main") == base


def test_other_line_ends_in_the_work_tree_are_nobodys_work(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    git("config", "core.autocrlf", "true")
    (work.work / "rules.yaml").write_bytes(A.replace(b"\n", b"\r\n"))
    git("add", "rules.yaml")
    assert write(work.source, text(B), expected=base) != base


def test_no_program_of_the_repository_runs(work: Any, git: Run, tmp_path: Path) -> None:
    base = work.commit(rules_yaml=A)
    for name in ("reference-transaction", "post-index-change", "post-checkout", "pre-commit", "post-commit"):
        hook = work.work / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-$(basename $0)\n", encoding="utf-8")
        hook.chmod(0o755)
    write(work.source, text(B), expected=base)
    read(work.source)
    assert list(tmp_path.glob("ran-*")) == []


def test_uncommitted_work_elsewhere_is_left_alone(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A, README_md=b"x")
    (work.work / "README.md").write_bytes(b"changed")
    (work.work / "new.txt").write_bytes(b"new")
    git("add", "new.txt")
    write(work.source, text(B), expected=base)
    assert git("status", "--porcelain").splitlines() == ["M README.md", "A  new.txt"]


def test_nothing_is_committed_while_another_git_command_runs(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    (work.work / ".git" / "index.lock").touch()
    with pytest.raises(SourceUnavailable, match="another git command holds"):
        write(work.source, text(B), expected=base)
    assert git("rev-parse", "main") == base


def test_a_branch_that_is_checked_out_nowhere_is_written_without_a_work_tree(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    git("checkout", "-q", "-b", "other")
    write(work.source, text(B), expected=base)
    assert (work.work / "rules.yaml").read_bytes() == A
    assert git("show", "main:rules.yaml") == B.decode().strip()


def test_a_linked_work_tree_follows_too(work: Any, git: Run, tmp_path: Path) -> None:
    base = work.commit(rules_yaml=A)
    git("checkout", "-q", "-b", "other")
    git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    write(work.source, text(B), expected=base)
    assert (tmp_path / "linked" / "rules.yaml").read_bytes() == B


def test_an_executable_file_keeps_its_mode(work: Any, git: Run) -> None:
    (work.work / "rules.yaml").write_bytes(A)
    (work.work / "rules.yaml").chmod(0o755)
    base = work.commit()
    write(work.source, text(B), expected=base)
    assert git("ls-tree", "main", "rules.yaml").startswith("100755")


@pytest.mark.parametrize("ref", ["v1", "HEAD"])
def test_only_a_branch_can_be_written(work: Any, git: Run, ref: str) -> None:
    base = work.commit(rules_yaml=A)
    git("tag", "v1")
    git("checkout", "-q", "--detach")
    with pytest.raises(SourceMisconfigured, match="is not a branch"):
        write(GitSource(work.work, ref=ref, path="rules.yaml"), text(B), expected=base)


def test_a_caller_without_an_identity_is_told_how_to_set_it(
    work: Any, git: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = work.commit(rules_yaml=A)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with pytest.raises(SourceMisconfigured, match=r"git config --global user\.name"):
        write(work.source, text(B), expected=base)


def test_a_write_to_a_url_is_pushed(remote: Any) -> None:
    base = remote.commit(rules_yaml=A)
    version = write(remote.source, text(B), expected=base, message="Raise")
    assert subprocess.run(
        ["git", "rev-parse", "main"], cwd=remote.repository, capture_output=True, text=True, check=True
    ).stdout.strip() == version  # fmt: skip
    assert read(remote.source).version == version


def test_d14_a_push_that_comes_second_is_a_conflict(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base = remote.commit(rules_yaml=A)
    make = GitSource._expected

    def meanwhile(*arguments: Any) -> Any:
        found = make(*arguments)
        remote.commit(rules_yaml=C)
        return found

    monkeypatch.setattr(GitSource, "_expected", meanwhile)
    with pytest.raises(SourceConflict, match="somebody else committed"):
        write(remote.source, text(B), expected=base)
    assert read(remote.source).texts[0].content == C


def test_a_push_that_a_hook_declines_is_denied(remote: Any) -> None:
    base = remote.commit(rules_yaml=A)
    hook = remote.repository / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    with pytest.raises(SourceDenied, match="hook declined"):
        write(remote.source, text(B), expected=base)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("ops-li", "ops-li <>"),
        ("Bo Example <bo@example.org>", "Bo Example <bo@example.org>"),
        ("nacos <10.2.3.4>", "nacos <>"),
        ("a\nb\x1b[31m <x@y>\nEvil: yes", "a b[31m x@y Evil: yes <>"),
        ("...", None),
        ("", None),
        (None, None),
    ],
)
def test_what_somebody_else_changed_is_committed_in_their_name(work: Any, git: Run, said: str, shown: str) -> None:
    base = work.commit(rules_yaml=A)
    author = Author.of(said, datetime(2026, 11, 25, 6, 41, tzinfo=UTC))
    facts = Provenance(message="Take over", environment="prod")
    work.source.commit(item_of(work.source), [text(B)], expected=base, provenance=facts, author=author)
    assert git("log", "-1", "--format=%an <%ae>|%cn <%ce>").split("|") == [
        shown or "Ada Example <ada@example.com>",
        "Ada Example <ada@example.com>",
    ]
    if shown:
        assert git("log", "-1", "--format=%aI").startswith("2026-11-25T06:41:00")
    assert read(work.source).provenance.environment == "prod"


def test_a_new_branch_begins_where_the_ref_stands_and_moves_nothing_else(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    facts = Provenance(message="Propose")
    made = work.source.commit(item_of(work.source), [text(B)], expected=base, provenance=facts, branch="topic")
    assert (git("rev-parse", "topic"), git("rev-parse", "topic~1"), git("rev-parse", "HEAD")) == (
        made.version,
        base,
        base,
    )
    assert git("status", "--porcelain") == ""
    assert (work.work / "rules.yaml").read_bytes() == A
    with pytest.raises(SourceConflict):
        work.source.commit(item_of(work.source), [text(C)], expected=base, provenance=facts, branch="topic")
    assert git("rev-parse", "topic") == made.version
    with pytest.raises(SourceMisconfigured, match="is no name for a branch"):
        work.source.commit(item_of(work.source), [text(B)], expected=base, provenance=facts, branch="a b")


def test_the_same_path_on_another_branch(work: Any, git: Run) -> None:
    work.commit(rules_yaml=A)
    git("branch", "topic")
    other = work.source.on("topic")
    assert (other.exists(), work.source.on("nowhere").exists()) == (True, False)
    write(other, text(B), expected=git("rev-parse", "topic"), message="On the other")
    assert (read(other).texts[0].content, read(work.source).texts[0].content) == (B, A)

"""Reading Git: whose commit it was, what may stand there, and never backwards."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.datasources import (
    Absent,
    FileSource,
    GitSource,
    HasHistory,
    Ordered,
    SourceDenied,
    SourceMisconfigured,
    SourceRewound,
    SourceUnavailable,
    State,
    Writable,
)
from sentinel_core.datasources.git.command import Git, GitFailedError
from sentinel_core.rules import Provenance, Revision, SourceText
from tests.datasources.git_hands import A, B, C, Run, item_of, read


def test_it_has_every_capability(work: Any) -> None:
    for capability in (Ordered, Writable, HasHistory):
        assert isinstance(work.source, capability)


# -- provenance ------------------------------------------------------------------------------------------------------


def test_provenance_is_that_of_the_commit_that_touched_the_path(work: Any, git: Run) -> None:
    commit = work.commit("Lower the limit\n\nIncident 7", rules_yaml=A)
    work.commit("Write a page", README_md=b"x")
    revision = read(work.source)
    assert revision.version == revision.provenance.commit_hash == commit
    assert revision.provenance.author == "Ada Example <ada@example.com>"
    assert revision.provenance.message == "Lower the limit\n\nIncident 7"
    assert revision.provenance.reason == "Lower the limit"
    assert revision.provenance.committed_at == datetime.fromtimestamp(
        int(git("log", "-1", "--format=%ct", commit)), UTC
    )
    assert (revision.provenance.channel, revision.observed) == ("git", False)
    assert revision.texts == (SourceText("rules.yaml", A, "yaml"),)


def test_a_merge_counts_only_where_it_changed_the_path(work: Any, git: Run) -> None:
    work.commit(rules_yaml=A)
    git("checkout", "-q", "-b", "side")
    side = work.commit(rules_yaml=B)
    git("checkout", "-q", "main")
    work.commit(README_md=b"x")
    git("merge", "-q", "--no-ff", "-m", "merge", "side")
    assert read(work.source).version == side


def test_names_that_are_not_utf8_do_not_break_reading(work: Any, git: Run) -> None:
    work.commit(rules_yaml=A)
    git("config", "i18n.commitEncoding", "latin-1")
    (work.work / "rules.yaml").write_bytes(B)
    author = "Jos\udce9 <jose@example.com>"
    git("commit", "-q", "-a", "-m", "x", "--author", author)
    assert read(work.source).provenance.author == "José <jose@example.com>"


def test_a_shallow_clone_makes_no_guess_about_who_it_was(work: Any, tmp_path: Path) -> None:
    work.commit(rules_yaml=A)
    tip = work.commit(README_md=b"x")
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{work.work}", tmp_path / "shallow"], check=True, cwd=tmp_path
    )
    revision = read(GitSource(tmp_path / "shallow", path="rules.yaml"))
    assert revision.version == tip
    assert revision.provenance == Provenance(channel="git")


def test_bytes_are_those_that_were_committed(work: Any, git: Run) -> None:
    git("config", "core.autocrlf", "true")
    work.commit(rules_yaml=b"flowRules: []\n")
    assert read(work.source).texts[0].content == b"flowRules: []\n"


# -- what may stand there --------------------------------------------------------------------------------------------


def test_a_repository_without_a_commit_is_absent(work: Any) -> None:
    assert isinstance(work.source.read(item_of(work.source)), Absent)


def test_a_path_that_is_not_in_the_commit_is_absent(work: Any) -> None:
    work.commit(README_md=b"x")
    reading = work.source.read(item_of(work.source))
    assert isinstance(reading, Absent)
    assert "rules.yaml is not in commit" in reading.reason


def test_a_folder_is_one_document_with_paths_as_names(work: Any) -> None:
    work.commit(rules__b_yaml=B, rules__a_yaml=A, rules__notes_md=b"x")
    revision = read(GitSource(work.work, path="rules/"))
    assert [each.name for each in revision.texts] == ["rules/a.yaml", "rules/b.yaml"]


def test_the_top_of_the_repository_is_the_default_path(work: Any) -> None:
    work.commit(sentinel_yaml=A, README_md=b"x")
    assert [each.name for each in read(GitSource(work.work)).texts] == ["sentinel.yaml"]


def test_a_branch_goes_before_a_tag_of_the_same_name(work: Any, git: Run) -> None:
    work.commit(rules_yaml=A)
    git("tag", "main")
    work.commit(rules_yaml=B)
    assert read(work.source).texts[0].content == B


@pytest.mark.parametrize("ref", ["v1", "refs/tags/v1", "HEAD", "refs/heads/main", "feature/deep/name"])
def test_refs_may_be_written_as_git_users_write_them(work: Any, git: Run, ref: str) -> None:
    work.commit(rules_yaml=A)
    git("tag", "-a", "-m", "one", "v1")
    git("branch", "feature/deep/name")
    assert read(GitSource(work.work, ref=ref, path="rules.yaml")).texts[0].content == A


def test_an_unknown_ref_names_the_branches(work: Any) -> None:
    work.commit(rules_yaml=A)
    source = GitSource(work.work, ref="mian", path="rules.yaml")
    with pytest.raises(SourceMisconfigured, match=r"no branch or tag mian \(branches: main\)"):
        read(source)


def test_a_symbolic_link_is_refused(work: Any) -> None:
    work.commit(other_yaml=A)
    (work.work / "rules.yaml").symlink_to("other.yaml")
    work.commit()
    with pytest.raises(SourceMisconfigured, match="symbolic link"):
        read(work.source)


def test_a_submodule_is_refused(work: Any, git: Run, tmp_path: Path) -> None:
    work.commit(rules_yaml=A)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(work.work), "shared")
    git("commit", "-q", "-m", "x")
    with pytest.raises(SourceMisconfigured, match="submodule"):
        read(GitSource(work.work, path="shared/rules.yaml"))


def test_a_pointer_of_large_file_storage_is_refused(work: Any) -> None:
    work.commit(rules_yaml=b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(SourceMisconfigured, match="LFS pointer"):
        read(work.source)


def test_a_folder_inside_a_repository_is_not_taken_for_one(work: Any) -> None:
    work.commit(rules__a_yaml=A)
    with pytest.raises(SourceMisconfigured, match="top folder"):
        read(GitSource(work.work / "rules"))
    with pytest.raises(SourceMisconfigured, match="no such folder"):
        read(GitSource(work.work / "nowhere"))


def test_the_callers_own_git_environment_is_not_used(
    work: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work.commit(rules_yaml=A)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert read(work.source).texts[0].content == A


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_says_how_to_trust_it(work: Any) -> None:
    work.commit(rules_yaml=A)
    for path in (work.work, work.work / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(SourceDenied, match=r"safe\.directory"):
        read(work.source)


def test_a_git_that_hangs_is_ended(work: Any) -> None:
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match="took longer"):
        Git(work.work, "repository").run("-c", "alias.hang=!sleep 30", "hang", timeout_s=0.1)
    assert time.monotonic() - began < 5


def test_a_protocol_that_runs_commands_is_not_used(tmp_path: Path) -> None:
    git = Git(tmp_path, "repository")
    with pytest.raises(GitFailedError, match="not allowed"):
        git.attempt("ls-remote", f"ext::touch {tmp_path}/owned")
    assert not (tmp_path / "owned").exists()


# -- D15: never backwards without being told -------------------------------------------------------------------------


def test_d15_a_bad_commit_does_not_block_the_next_good_one(work: Any, recorder: Any, subscribe: Any) -> None:
    work.commit(rules_yaml=A)
    subscription = subscribe(work.source, recorder)
    subscription.wait_ready(5)
    work.commit(rules_yaml=b"invalid")
    work.commit(rules_yaml=C)
    recorder.wait_active(C)
    assert subscription.wait_ready(5)


def test_d15_a_start_at_a_bad_commit_takes_the_newest_good_one(work: Any, recorder: Any, subscribe: Any) -> None:
    good = work.commit(rules_yaml=A)
    work.commit(rules_yaml=None)
    work.commit(rules_yaml=b"invalid")
    subscription = subscribe(work.source, recorder)
    recorder.wait_active(A)
    assert subscription.refresh(5)
    (status,) = subscription.status()
    assert (status.state, status.version) == (State.STALE, good)


def test_d15_a_force_push_is_refused_with_both_hashes(work: Any, git: Run, recorder: Any, subscribe: Any) -> None:
    base = work.commit(rules_yaml=A)
    active = work.commit(rules_yaml=B)
    subscription = subscribe(work.source, recorder)
    subscription.wait_ready(5)
    git("reset", "-q", "--hard", base)
    assert subscription.refresh(5)
    (status,) = subscription.status()
    assert (status.state, status.version) == (State.ERROR, active)
    assert active in str(status.reason)
    assert base in str(status.reason)
    assert recorder.contents == [B]
    git("reset", "-q", "--hard", active)
    work.commit(rules_yaml=C)
    recorder.wait_active(C)
    assert subscription.wait_ready(5)


def test_d15_a_rewind_that_is_allowed_is_recorded(work: Any, git: Run, recorder: Any, subscribe: Any) -> None:
    base = work.commit("first", rules_yaml=A)
    active = work.commit(rules_yaml=B)
    source = GitSource(work.work, ref="main", path="rules.yaml", allow_rewind=True)
    subscribe(source, recorder).wait_ready(5)
    git("reset", "-q", "--hard", base)
    recorder.wait_active(A)
    reason = recorder.revisions[-1].provenance.reason
    assert reason == f"the history was rewound from {active} to {base} (allowed); first"


def test_d15_each_refused_head_is_told_and_pushing_the_lost_commits_ends_it(
    work: Any, git: Run, recorder: Any, subscribe: Any, wait_reason: Any, caplog: pytest.LogCaptureFixture
) -> None:
    base = work.commit(rules_yaml=A)
    active = work.commit(rules_yaml=B)
    subscription = subscribe(work.source, recorder)
    subscription.wait_ready(5)
    with caplog.at_level("WARNING"):
        git("reset", "-q", "--hard", base)
        wait_reason(subscription, f"git push origin {active}:main")
        on_top = work.commit(rules_yaml=C)
        wait_reason(subscription, f"to {on_top}")
    told = [record.getMessage() for record in caplog.records if "no longer contains what is active" in record.message]
    assert [text.partition(" at ")[2][:12] for text in told] == [base[:12], on_top[:12]]
    assert "A commit on top of the rewound branch is not enough" in told[-1]
    git("update-ref", "refs/heads/main", active)
    assert subscription.wait_ready(5)


def test_d15_a_moved_tag_is_a_rewind(work: Any, git: Run) -> None:
    base = work.commit(rules_yaml=A)
    work.commit(rules_yaml=B)
    git("tag", "live")
    source = GitSource(work.work, ref="live", path="rules.yaml")
    seen = read(source)
    git("tag", "-f", "live", base)
    with pytest.raises(SourceRewound, match="allow_rewind=true"):
        source.admit(item_of(source), seen, read(source))


def test_d15_a_commit_that_is_gone_is_a_rewind(work: Any) -> None:
    work.commit(rules_yaml=A)
    seen = Revision((), item_of(work.source).source, "0" * 39 + "1")
    with pytest.raises(SourceRewound):
        work.source.admit(item_of(work.source), seen, read(work.source))


def test_history_of_side_branches_is_no_rewind(work: Any, git: Run) -> None:
    work.commit(rules__a_yaml=A, rules__b_yaml=A)
    git("checkout", "-q", "-b", "side")
    work.commit(rules__b_yaml=B)
    git("checkout", "-q", "main")
    source = GitSource(work.work, ref="main", path="rules")
    work.commit(rules__a_yaml=B)
    seen = read(source)
    git("merge", "-q", "--no-ff", "-m", "merge", "side")
    new = read(source)
    assert source.admit(item_of(source), seen, new) is new


# -- history ---------------------------------------------------------------------------------------------------------


def test_history_is_newest_first_with_content_and_without_removals(work: Any) -> None:
    first = work.commit("one", rules_yaml=A)
    work.commit("gone", rules_yaml=None)
    work.commit("elsewhere", README_md=b"x")
    third = work.commit("three", rules_yaml=B)
    history = work.source.history(item_of(work.source))
    assert [(each.version, each.texts[0].content) for each in history] == [(third, B), (first, A)]
    assert [each.version for each in work.source.history(item_of(work.source), limit=1)] == [third]


@pytest.mark.parametrize("revision", ["HEAD~1", "v1"])
def test_any_revision_can_be_asked_for(work: Any, git: Run, revision: str) -> None:
    first = work.commit(rules_yaml=A)
    git("tag", "v1")
    work.commit(rules_yaml=B)
    reading = work.source.at(item_of(work.source), revision)
    assert isinstance(reading, Revision)
    assert (reading.version, reading.texts[0].content) == (first, A)


@pytest.mark.parametrize("revision", ["nowhere", "--all", "a\nb"])
def test_a_revision_that_is_none_is_refused(work: Any, revision: str) -> None:
    work.commit(rules_yaml=A)
    with pytest.raises(SourceMisconfigured, match=r"revision"):
        work.source.at(item_of(work.source), revision)


# -- URLs ------------------------------------------------------------------------------------------------------------


def test_the_url_is_not_stored_in_the_clone(remote: Any, tmp_path: Path) -> None:
    remote.commit(rules_yaml=A)
    read(remote.source)
    (config,) = (tmp_path / "cache").glob("*/config")
    assert "url" not in config.read_text(encoding="utf-8")


def test_a_remote_that_is_not_there_is_told_without_a_prompt(tmp_path: Path) -> None:
    source = GitSource(f"file://{tmp_path}/nowhere.git", clone=True, cache=tmp_path / "cache")
    with pytest.raises(SourceMisconfigured, match="does not appear to be a git repository"):
        read(source)


@pytest.mark.parametrize("named", ["HEAD", "tag", "hash"])
def test_a_remote_ref_may_be_a_tag_or_a_commit(remote: Any, tmp_path: Path, named: str) -> None:
    commit = remote.commit(rules_yaml=A)
    subprocess.run(["git", "tag", "-a", "-m", "one", "v1"], cwd=remote.repository, check=True)
    remote.commit(README_md=b"x")
    ref = {"HEAD": "HEAD", "tag": "v1", "hash": commit}[named]
    source = GitSource(f"file://{remote.repository}", ref=ref, path="rules.yaml", clone=True, cache=tmp_path / "other")
    assert read(source).version == commit


def test_d15_a_force_push_to_a_url_is_refused(remote: Any, recorder: Any, subscribe: Any) -> None:
    base = remote.commit(rules_yaml=A)
    remote.commit(rules_yaml=B)
    subscription = subscribe(remote.source, recorder)
    subscription.wait_ready(5)
    subprocess.run(["git", "update-ref", "refs/heads/main", base], cwd=remote.repository, check=True)
    assert subscription.refresh(5)
    assert subscription.state is State.ERROR
    assert recorder.contents == [B]


@pytest.mark.parametrize("path", ["rules", "rules/a.yaml", "."])
def test_a_long_history_is_read_as_its_commits_are_one_by_one(remote: Any, path: str) -> None:
    for number in range(4):
        remote.commit(
            f"c{number}",
            rules__a_yaml=b"a%d" % number,
            rules__environments__prod_yaml=b"p%d" % (number // 2),
            b_yml=b"b%d" % number,
        )
    remote.commit("gone", rules__a_yaml=None, b_yml=None)
    remote.commit("again", rules__a_yaml=b"a9", b_yml=b"b9")
    source = GitSource(remote.repository, ref="main", path=path, environment="prod")
    (item,) = source.items(["flow"])
    history = source.history(item)
    assert len(history) == 5
    assert list(history) == [source.at(item, revision.version) for revision in history]


def test_a_history_of_many_commits_takes_no_more_processes_than_one_of_few(
    remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []

    class Counted(subprocess.Popen):  # type: ignore[type-arg]  # as the standard library's own
        def __init__(self, command: Any, *arguments: Any, **more: Any) -> None:
            started.append(command)
            super().__init__(command, *arguments, **more)

    source = GitSource(remote.repository, ref="main", path="rules.yaml")
    remote.put(b"first")
    source.history(item_of(source))  # what is asked once is asked here
    counts = []
    for commits in (2, 20):
        for number in range(commits):
            remote.put(b"%d %d" % (commits, number))
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", Counted)
            assert source.history(item_of(source))
        counts.append(len(started))
        started.clear()
    assert counts[0] == counts[1] < 12


@pytest.mark.parametrize("seconds", ["253402300800", "99999999999999999", "-99999999999999"])
def test_a_commit_whose_time_is_none_is_read_without_it(work: Any, seconds: str) -> None:
    work.commit(rules_yaml=b"flowRules: [{resource: a}]\n")
    tree = git_out(work.work, "rev-parse", "HEAD^{tree}")
    who = f"Ada Example <ada@example.com> {seconds} +9999"
    raw = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nfrom afar\n".encode()
    commit = git_out(work.work, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=raw)
    git_out(work.work, "update-ref", "refs/heads/main", commit)
    (item,) = work.source.items(["flow"])
    revision = work.source.read(item)
    assert revision.provenance.message == "from afar"
    assert revision.provenance.committed_at is None or 1 <= revision.provenance.committed_at.year <= 9999
    assert [each.version for each in work.source.history(item)] == [revision.version]


def test_an_object_that_is_missing_is_named(work: Any) -> None:
    work.commit(rules_yaml=b"flowRules: [{resource: a}]\n")
    blob = git_out(work.work, "rev-parse", "HEAD:rules.yaml")
    (work.work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (item,) = work.source.items(["flow"])
    for look in (work.source.read, work.source.history):
        with pytest.raises(SourceUnavailable, match=f"git says '{blob} missing'.* fsck"):
            look(item)


def test_a_replaced_object_does_not_speak_for_the_commit(work: Any) -> None:
    work.commit(rules_yaml=b"flowRules: [{resource: a}]\n")
    forged = git_out(work.work, "hash-object", "-w", "--stdin", stdin=b"flowRules: []\n")
    git_out(work.work, "replace", git_out(work.work, "rev-parse", "HEAD:rules.yaml"), forged)
    (item,) = work.source.items(["flow"])
    assert work.source.read(item).texts[0].content == b"flowRules: [{resource: a}]\n"


def test_a_name_that_is_not_utf_8_is_told(work: Any) -> None:
    (work.work / "rules").mkdir()
    Path(os.fsdecode(os.fsencode(work.work) + b"/rules/\xff.yaml")).write_bytes(b"flowRules: []\n")
    work.commit()
    git_source, file_source = GitSource(work.work, ref="main", path="rules"), FileSource(work.work / "rules")
    for source in (git_source, file_source):
        (item,) = source.items(["flow"])
        with pytest.raises(SourceMisconfigured, match=r"the name of b'.xff\.yaml' is not UTF-8; rename"):
            source.read(item)


def git_out(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, input=stdin, check=True, capture_output=True)
    return done.stdout.decode().strip()

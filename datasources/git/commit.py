"""Writing rules as one new commit, by plumbing: nobody's index or work tree is used to make it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sentinel_core.datasources.atomic import temporary_folder
from sentinel_core.datasources.contract import SourceConflict, SourceMisconfigured, SourceUnavailable
from sentinel_core.datasources.git.command import Git, GitFailedError, last_words
from sentinel_core.datasources.git.objects import (
    CHANNEL,
    CHANNELS,
    ENVIRONMENT,
    PLAN,
    REASON,
    ROLLBACK,
    SOURCE_COMMIT,
    Entry,
    entries,
    read_objects,
)
from sentinel_core.rules import Provenance

_REGULAR = "100644"
_WHO = ("-c", "user.useConfigOnly=true")
"""Without a configured identity Git would make one up from the host's name."""


_TRAILER = re.compile(r"[A-Za-z0-9-]+: ")
_FOLD = re.compile(r"\n[ \t]+")
"""Where a trailer goes on on the next line."""
_UNFINISHED = (
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
)
_MAILED = re.compile(r"\s*(?P<name>[^<>]*?)\s*<(?P<address>[^<>]*)>\s*")
_NOTHING = ".,:;<>\"'\\ "
"""What Git takes off the ends of a name; of these alone it makes none."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who made a change that somebody else commits."""

    name: str
    address: str = ""
    """Empty where none is known: nobody's address is made up."""
    at: datetime | None = None
    """When the change was made."""

    @classmethod
    def of(cls, text: str | None, at: datetime | None = None) -> Author | None:
        """Of `Name <address>` or a name alone; None of what Git takes for no name."""
        text = " ".join((text or "").split())
        found = _MAILED.fullmatch(text)
        name, address = (found["name"], found["address"]) if found else (text, "")
        address = address.strip() if "@" in address else ""  # a host from which somebody came is none
        name = "".join(letter for letter in name if letter.isprintable() and letter not in "<>").strip()
        return cls(name, address, at) if name.strip(_NOTHING) else None

    def environment(self) -> dict[str, str]:
        """As Git takes it."""
        when = {"GIT_AUTHOR_DATE": f"@{int(self.at.timestamp())} +0000"} if self.at else {}
        return {"GIT_AUTHOR_NAME": self.name, "GIT_AUTHOR_EMAIL": self.address, **when}


def check_identity(git: Git) -> None:
    """The author is whoever runs this, as configured. Raises SourceMisconfigured saying how to set it."""
    try:
        git.attempt(*_WHO, "var", "GIT_AUTHOR_IDENT")
        git.attempt(*_WHO, "var", "GIT_COMMITTER_IDENT")
    except GitFailedError as failed:
        raise SourceMisconfigured(
            f'{git.shown}: git does not know who you are; set it with: git config --global user.name "Your Name" '
            "and git config --global user.email you@example.com"
        ) from failed


def make_commit(
    git: Git,
    parent: str | None,
    writes: Mapping[str, bytes],
    old: Sequence[Entry],
    provenance: Provenance,
    author: Author | None = None,
) -> str | None:
    """A commit on top of `parent` in which the files `old` are replaced by `writes`; None when that changes nothing.
    No ref moves. `author`: where that is not who commits."""
    modes = {entry.name: entry.mode for entry in old}
    with temporary_folder("sentinel-index-") as folder:
        env = {"GIT_INDEX_FILE": str(folder / "index")}
        if parent is not None:
            git.run("read-tree", parent, env=env)
        lines = []
        for name, content in writes.items():
            blob = git.run("hash-object", "-w", "--stdin", stdin=content).decode("ascii").strip()
            lines.append(f"{modes.get(name, _REGULAR)} {blob}\t{name}")
        lines += [f"0 {'0' * 40}\t{name}" for name in modes.keys() - writes.keys()]
        index = "".join(f"{line}\0" for line in lines).encode("utf-8", "surrogateescape")
        git.run("update-index", "-z", "--index-info", stdin=index, env=env)
        tree = git.line("write-tree", env=env)
    if parent is not None and tree == git.line("rev-parse", f"{parent}^{{tree}}"):
        return None
    parents = [] if parent is None else ["-p", parent]
    by = author.environment() if author else {}
    out = git.run(*_WHO, "commit-tree", tree, *parents, "-F", "-", stdin=message(provenance).encode(), env=by)
    return out.decode("ascii").strip()


def message(provenance: Provenance) -> str:
    """The commit message: what was said, and as trailers what must be found again."""
    text = (provenance.message or provenance.reason or "Change rules").strip()
    trailers = []
    if provenance.rollback_of:
        trailers.append(f"{ROLLBACK}: {provenance.rollback_of}")
    if provenance.reason and provenance.reason != text.partition("\n")[0]:  # trailers in the text count no more
        trailers.append(f"{REASON}: {' '.join(provenance.reason.split())}")
    if provenance.commit_hash:
        trailers.append(f"{SOURCE_COMMIT}: {provenance.commit_hash}")
    if provenance.plan_id:
        trailers.append(f"{PLAN}: {provenance.plan_id}")
    if provenance.environment:
        trailers.append(f"{ENVIRONMENT}: {' '.join(provenance.environment.split())}")
    if provenance.channel in CHANNELS:
        trailers.append(f"{CHANNEL}: {provenance.channel}")
    return "\n\n".join([_without(text, trailers), "\n".join(trailers)]).strip() + "\n"


def _without(text: str, trailers: Sequence[str]) -> str:
    """A message that is told on, as of the commit that rules are from, without those of its own trailers that are
    written again."""
    said, blank, last = text.rpartition("\n\n")
    own = _FOLD.sub(" ", last).splitlines()
    if not blank or not all(_TRAILER.match(line) for line in own):
        return text
    kept = [line for line in own if " ".join(line.split()) not in trailers]
    return text if kept == own else "\n\n".join([said.rstrip(), "\n".join(kept)]).rstrip()


def work_trees(git: Git, branch: str) -> list[Path]:
    """Where the branch is checked out; empty for a bare repository."""
    found, folder = [], None
    for line in git.run("worktree", "list", "--porcelain", "-z").decode("utf-8", "surrogateescape").split("\0"):
        if line.startswith("worktree "):
            folder = Path(line.removeprefix("worktree "))
        elif line == f"branch {branch}" and folder is not None:
            found.append(folder)
    return [folder for folder in found if folder.is_dir() and (folder / ".git").exists()]


def check_clean(git: Git, folder: Path, paths: Sequence[str], commit: str | None) -> None:
    """Raises SourceConflict when work of somebody's that `commit`, which is checked out there, does not hold would be
    overwritten; SourceUnavailable when the files cannot be brought along now."""
    tree = Git(folder, git.shown)
    lock = folder / _path(tree, "index.lock")
    if lock.exists():
        raise SourceUnavailable(f"{folder}: another git command holds {lock}; wait for it, or remove it if none runs")
    if unfinished := next((what for name, what in _UNFINISHED if (folder / _path(tree, name)).exists()), None):
        raise SourceConflict(
            f"{folder}: {unfinished} is not finished, and a commit in between would become part of it; finish or abort "
            f"it first (git -C {folder} status says how)"
        )
    out = tree.run("status", "--porcelain", "-z", "--untracked-files=all", "--", *paths)
    changed = [line[3:] for line in out.decode("utf-8", "replace").split("\0") if line]
    if changed or (changed := _unlike(tree, folder, paths, commit)):
        raise SourceConflict(
            f"{folder}: {changed[0]} has changes that are not committed; commit or discard them "
            f"(git -C {folder} status --ignored), then try again"
        )


def _path(tree: Git, name: str) -> str:
    return tree.line("rev-parse", "--git-path", name)


def _unlike(git: Git, folder: Path, paths: Sequence[str], commit: str | None) -> list[str]:
    """What stands at these paths with other bytes than in the commit. Git itself does not look at ignored files, nor at
    those marked assume-unchanged or skip-worktree."""
    known = {entry.name: entry.hash for entry in (entries(git, commit, *paths) if commit else ())}
    contents = dict(zip(known, (content for _, content in read_objects(git, list(known.values()))), strict=True))
    return [name for name in paths if _differs(folder, name, contents.get(name))]


def _differs(folder: Path, name: str, committed: bytes | None) -> bool:
    for parent in list(Path(name).parents)[-2::-1]:
        if (folder / parent).is_symlink() or (folder / parent).is_file():
            return True
    file = folder / name
    if not os.path.lexists(file):
        return False
    if committed is None or file.is_symlink() or not file.is_file():
        return True
    return _lines(file.read_bytes()) != _lines(committed)


def _lines(content: bytes) -> bytes:
    """Git may be set to write other line ends into a work tree than into a commit."""
    return content.replace(b"\r\n", b"\n")


def update_work_tree(git: Git, folder: Path, commit: str, paths: Sequence[str]) -> None:
    """Brings index and files of these paths to the commit that the branch has moved to."""
    try:
        Git(folder, git.shown).attempt("restore", f"--source={commit}", "--staged", "--worktree", "--", *paths)
    except GitFailedError as failed:
        raise SourceUnavailable(
            f"{folder}: committed as {commit[:12]}, but the files could not be updated ({last_words(failed.stderr)}); "
            f"run: git -C {folder} restore --source=HEAD --staged --worktree -- {' '.join(paths)}"
        ) from failed

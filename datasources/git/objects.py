"""Commits and trees as values: who made a commit, and which texts stand under a path in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sentinel_core.datasources.contract import Absent, SourceMisconfigured, SourceUnavailable
from sentinel_core.datasources.git.command import Git
from sentinel_core.datasources.layout import Layout, check_size, documents, one_overlay
from sentinel_core.datasources.names import YAML_SUFFIXES
from sentinel_core.rules import Provenance, SourceText
from sentinel_core.rules.overlay import FOLDER as OVERLAYS

ROLLBACK, REASON, PLAN, CHANNEL, ENVIRONMENT = "Rollback-of", "Reason", "Plan-id", "Channel", "Environment"
"""Trailers of the commits that are written here, in the order they are read back."""
SOURCE_COMMIT = "Source-commit"
"""Trailer for people: the commit of another repository that the rules are from."""
CHANNELS = ("cli", "console", "api")
"""Ways in which a commit is made that are told apart from a person's own `git commit`."""

_FIELDS = (
    "%H", "%an", "%ae", "%ct", "%B",
    *(f"%(trailers:key={key},valueonly,separator=%x20)" for key in (ROLLBACK, REASON, PLAN, CHANNEL, ENVIRONMENT)),
)  # fmt: skip
_FORMAT = "--format=tformat:" + "%x00".join(_FIELDS) + "%x00"
_HASH = re.compile(r"[0-9a-f]{7,64}")
_GLOB = re.compile(r"[*?\[\]\\]")
_LFS = b"version https://git-lfs.github.com/spec/"
_SYMLINK, _SUBMODULE = "120000", "160000"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that touched a path."""

    hash: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree."""

    mode: str
    type: str
    hash: str
    size: int
    name: str
    """Relative to the tree that was listed."""


def check_word(what: str, text: str) -> str:
    """A ref, revision or path that may stand in a command line. Raises SourceMisconfigured."""
    if text.startswith("-") or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise SourceMisconfigured(f"{what} {text!r} is not possible: it begins with - or holds control characters")
    return text


def is_hash(ref: str) -> bool:
    """Whether a ref is a commit's hash, whole or short."""
    return _HASH.fullmatch(ref) is not None


def commits(git: Git, tip: str, where: Sequence[str], *, limit: int) -> list[Commit]:
    """The commits up to `tip` in which something changed that `where` (path specs) names, newest first. A merge counts
    only where it changed it too."""
    command = ("log", f"-{limit}", "--encoding=UTF-8", "--no-show-signature", _FORMAT, tip, "--", *where)
    out = git.run(*command, env={"GIT_LITERAL_PATHSPECS": "0"})
    values = out.decode("utf-8", "replace").split("\0")
    width = len(_FIELDS)
    rows = [values[start : start + width] for start in range(0, len(values) - width + 1, width)]
    shallow = _shallow_boundary(git) if rows else frozenset()
    return [_commit(row, shallow) for row in rows]


def _commit(row: Sequence[str], shallow: frozenset[str]) -> Commit:
    hash_, name, mail, seconds, message, rollback, reason, plan, channel, environment = (value.strip() for value in row)
    if hash_ in shallow:
        # History was cut here: that this commit touched the path is Git's guess and must not become ours.
        return Commit(hash_, Provenance(channel="git"))
    provenance = Provenance(
        commit_hash=hash_,
        author=f"{name} <{mail}>",
        committed_at=_moment(seconds),
        message=message,
        channel=channel if channel in CHANNELS else "git",
        environment=environment or None,
        reason=reason or message.partition("\n")[0] or None,
        plan_id=plan or None,
        rollback_of=rollback or None,
    )
    return Commit(hash_, provenance)


def _moment(seconds: str) -> datetime | None:
    """None where the commit names a time that is none: before year 1, after 9999, or no number."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _shallow_boundary(git: Git) -> frozenset[str]:
    file = git.shallow_file
    return frozenset(file.read_text(encoding="ascii").split()) if file.is_file() else frozenset()


def is_shallow(git: Git) -> bool:
    return bool(_shallow_boundary(git))


def entries(git: Git, tree: str, *paths: str) -> list[Entry]:
    out = git.run("ls-tree", "-z", "-l", "--full-tree", tree, *(["--", *paths] if paths else []))
    return [_entry(line) for line in out.decode("utf-8", "surrogateescape").split("\0") if line]


def _entry(line: str) -> Entry:
    facts, _, name = line.partition("\t")
    mode, type_, hash_, size = facts.split()
    return Entry(mode, type_, hash_, int(size) if size.isdigit() else 0, name)


def pathspecs(path: str, overlays: Sequence[str], *, is_file: bool) -> list[str]:
    """What an item is made of, for `commits`: a file, or the rule files of a folder and the overlay, not what else lies
    there."""
    if is_file:
        return [f":(literal){path}"]
    folder = "" if path == "." else f"{path}/"
    escaped = _GLOB.sub(r"\\\g<0>", folder)
    return [
        *(f":(glob,icase){escaped}*{suffix}" for suffix in YAML_SUFFIXES),
        *(f":(literal){folder}{name}" for name in overlays),
    ]


def files(git: Git, commit: str, path: str, overlays: Sequence[str], shown: str) -> list[Entry] | Absent:
    """The files that make up an item in a commit, named by their path in the repository; of a folder, with the overlay
    that is there."""
    if path == ".":
        return _folder(git, f"{commit}^{{tree}}", "", overlays, shown)
    found = entries(git, commit, path)
    if not found:
        _refuse_submodule(git, commit, path, shown)
        return Absent(f"{path} is not in commit {commit[:12]}", commit)
    if found[0].type == "tree":
        return _folder(git, found[0].hash, f"{path}/", overlays, shown)
    return [check_entry(found[0], path, shown)]


def _folder(git: Git, tree: str, prefix: str, overlays: Sequence[str], shown: str) -> list[Entry]:
    listed = {entry.name: entry for entry in entries(git, tree)}
    laid_over = entries(git, tree, *overlays) if overlays and OVERLAYS in listed else []
    return document(listed, laid_over, prefix, shown)


def document(listed: Mapping[str, Entry], laid_over: Sequence[Entry], prefix: str, shown: str) -> list[Entry]:
    """What counts of a folder and of its overlays. Nothing where there is an overlay alone, which is no document."""
    found = [listed[name] for name in documents([each.name for each in listed.values() if each.type != "tree"], shown)]
    if found:
        overlays = [entry for entry in laid_over if entry.type != "tree"]
        one_overlay([entry.name for entry in overlays], shown)
        found += overlays
    return [check_entry(replace(entry, name=f"{prefix}{entry.name}"), entry.name, shown) for entry in found]


def check_entry(entry: Entry, name: str, shown: str) -> Entry:
    if entry.mode == _SYMLINK:
        raise SourceMisconfigured(f"{shown}: {name} is a symbolic link; let path name the file it points to")
    if entry.mode == _SUBMODULE:
        raise SourceMisconfigured(f"{shown}: {name} is a submodule; open the submodule's own repository")
    return entry


def _refuse_submodule(git: Git, commit: str, path: str, shown: str) -> None:
    parts = path.split("/")
    for length in range(1, len(parts)):
        for entry in entries(git, commit, "/".join(parts[:length])):
            check_entry(entry, entry.name, shown)


def texts(git: Git, revisions: Sequence[Sequence[Entry]], layout: Layout, shown: str) -> list[tuple[SourceText, ...]]:
    """The contents of each revision's files, as committed: no line-end conversion, no filters. What several revisions
    have alike is read, and kept, once."""
    for entries_ in revisions:
        check_size(sum(entry.size for entry in entries_), shown)
    hashes = list(dict.fromkeys(entry.hash for entries_ in revisions for entry in entries_))
    contents = dict(zip(hashes, (content for _, content in read_objects(git, hashes)), strict=True))
    for entry in (entry for entries_ in revisions for entry in entries_):
        if contents[entry.hash].startswith(_LFS):
            raise SourceMisconfigured(f"{shown}: {entry.name} is a Git LFS pointer; commit the rules themselves")
    return [tuple(SourceText(e.name, contents[e.hash], layout.format) for e in entries_) for entries_ in revisions]


def read_objects(git: Git, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Hash and content of objects, by whatever name Git knows them. Raises SourceUnavailable when one is not there."""
    out = git.run("cat-file", "--batch", stdin=lines(names)) if names else b""
    answers, start = [], 0
    for _ in names:
        head = out.index(b"\n", start)
        try:
            hash_, _type, size = out[start:head].split()
        except ValueError as error:
            said = out[start:head].decode("utf-8", "replace")
            raise SourceUnavailable(
                f"{git.shown}: the repository is not whole: git says {said!r}; look at it with "
                f"git -C {git.folder} fsck, and fetch what it lacks"
            ) from error
        end = head + 1 + int(size)
        answers.append((hash_.decode("ascii"), out[head + 1 : end]))
        start = end + 1
    return answers


def lines(names: Iterable[str]) -> bytes:
    """Names as Git reads them from its standard input."""
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")

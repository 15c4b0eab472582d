"""Many commits at once: the files of a whole history, by a few processes instead of some for each commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from sentinel_core.datasources.git.command import Git
from sentinel_core.datasources.git.objects import Entry, check_entry, document, lines, read_objects
from sentinel_core.rules.overlay import FOLDER as OVERLAYS

_TYPES = {"040000": "tree", "160000": "commit"}


def files_of(git: Git, commits: Sequence[str], path: str, overlays: Sequence[str], shown: str) -> list[list[Entry]]:
    """For each commit what `objects.files` gives; nothing where nothing stood."""
    kinds = [found and found[1] for found in _looked_up(git, [_named(commit, path) for commit in commits])]
    parent, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    _refuse_lost(git, [commit for commit, kind in zip(commits, kinds, strict=True) if kind is None], parent, name)
    # A file's mode, which tells a symbolic link, stands in the tree above it.
    wanted = {
        commit: _named(commit, path if kind == "tree" else parent)
        for commit, kind in zip(commits, kinds, strict=True)
        if kind in ("tree", "blob")
    }
    trees = _trees(git, wanted.values())
    laid_over = _trees(git, {tree[OVERLAYS].hash for tree in trees.values() if _has_overlays(tree)})
    found: list[list[Entry]] = []
    for commit, kind in zip(commits, kinds, strict=True):
        tree = trees.get(wanted.get(commit, ""), {})
        if kind == "blob":
            found.append([check_entry(replace(tree[name], name=path), path, shown)])
        elif kind == "tree":
            below = laid_over[tree[OVERLAYS].hash] if _has_overlays(tree) else {}
            named = [replace(each, name=f"{OVERLAYS}/{each.name}") for each in below.values()]
            prefix = "" if path == "." else f"{path}/"
            found.append(document(tree, [each for each in named if each.name in overlays], prefix, shown))
        else:
            found.append([])
    return _sized(git, found)


def _refuse_lost(git: Git, commits: Sequence[str], parent: str, name: str) -> None:
    """Git calls missing what a commit does not have, and what it has and the repository has lost; only the former is
    no file. Raises SourceUnavailable for the latter."""
    above = [_named(commit, parent) for commit in commits]
    trees = [tree for tree, found in zip(above, _looked_up(git, above), strict=True) if found and found[1] == "tree"]
    lost = {tree[name].hash for tree in _trees(git, trees).values() if name in tree and tree[name].type != "commit"}
    read_objects(git, sorted(lost))


def _named(commit: str, path: str) -> str:
    return f"{commit}:{'' if path == '.' else path}"


def _has_overlays(tree: Mapping[str, Entry]) -> bool:
    return OVERLAYS in tree and tree[OVERLAYS].type == "tree"


def _sized(git: Git, found: list[list[Entry]]) -> list[list[Entry]]:
    hashes = list({entry.hash for entries in found for entry in entries})
    sizes = {hash_: each[2] for hash_, each in zip(hashes, _looked_up(git, hashes), strict=True) if each}
    return [[replace(entry, size=sizes.get(entry.hash, 0)) for entry in entries] for entries in found]


def _looked_up(git: Git, names: Sequence[str]) -> list[tuple[str, str, int] | None]:
    """(hash, type, size) of each object; None for one that is not there."""
    out = git.run("cat-file", "--batch-check", stdin=lines(names)).decode("utf-8", "surrogateescape")
    rows = [line.rsplit(" ", 2) for line in out.split("\n")[: len(names)]]
    return [(row[0], row[1], int(row[2])) if len(row) == 3 and row[2].isdigit() else None for row in rows]


def _trees(git: Git, names: Iterable[str]) -> dict[str, dict[str, Entry]]:
    """By the name that was asked for: the entries of a tree, by their names. Sizes are not known."""
    wanted = list(dict.fromkeys(names))
    return {name: _entries(*answer) for name, answer in zip(wanted, read_objects(git, wanted), strict=True)}


def _entries(hash_: str, content: bytes) -> dict[str, Entry]:
    """A tree as Git stores it: `mode name NUL hash`, the hash in bytes."""
    width = len(hash_) // 2
    entries, start = {}, 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].decode("utf-8", "surrogateescape").partition(" ")
        start = end + 1 + width
        mode = mode.zfill(6)
        entries[name] = Entry(mode, _TYPES.get(mode, "blob"), content[end + 1 : start].hex(), 0, name)
    return entries

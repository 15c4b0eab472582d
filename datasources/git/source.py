"""`git+file://`, `git+ssh://`, `git+https://`, `git:path`: rules as code, with the commit as provenance.

The version of an item is the commit that last touched its path, not the tip of the ref: commits elsewhere in the
repository are no change of rules.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path, PurePosixPath

from sentinel_core.datasources.contract import (
    Absent,
    Condition,
    Item,
    Reading,
    SourceConflict,
    SourceMisconfigured,
    SourceRewound,
    StopSignal,
    Wake,
    Written,
    note_conflict,
)
from sentinel_core.datasources.git.batch import files_of
from sentinel_core.datasources.git.command import GitFailedError
from sentinel_core.datasources.git.commit import (
    Author,
    check_clean,
    check_identity,
    make_commit,
    update_work_tree,
    work_trees,
)
from sentinel_core.datasources.git.objects import (
    Commit,
    Entry,
    check_word,
    commits,
    entries,
    files,
    is_shallow,
    pathspecs,
    read_objects,
    texts,
)
from sentinel_core.datasources.git.repository import (
    ClonedRepository,
    LocalRepository,
    Repository,
    Tip,
    branch_ref,
    resolve,
)
from sentinel_core.datasources.layout import Layout
from sentinel_core.datasources.names import YAML_SUFFIXES, is_rule_file
from sentinel_core.datasources.uri import mask_uri
from sentinel_core.locks import renew_lock_after_fork
from sentinel_core.rules import Kind, Provenance, Revision, SourceText
from sentinel_core.rules.overlay import FOLDER as OVERLAYS


class GitSource:
    """One path on one ref. Items: the document, or one per kind for JSON lists."""

    notes_in_history = True

    def __init__(
        self,
        location: Path | str,
        *,
        ref: str = "HEAD",
        path: str = ".",
        kind: Kind | None = None,
        format: str | None = None,  # noqa: A002 - the query parameter's name
        clone: bool = False,
        cache: Path | None = None,
        interval_s: float = 5.0,
        poll_s: float | None = None,
        allow_rewind: bool = False,
        environment: str = "default",
    ) -> None:
        """`location`: a repository's folder, or a URL (`ssh://`, `https://`; `file://` with `clone`). A URL is asked
        every `interval_s`. `allow_rewind` accepts a history that went back, and records it."""
        self._ref = check_word("ref", ref)
        path = str(PurePosixPath(check_word("path", path.strip("/") or ".")))
        if ".." in PurePosixPath(path).parts:
            raise SourceMisconfigured(f"path {path!r} leaves the repository")
        self._layout = Layout.of(PurePosixPath(path), kind, format, environment)
        text = str(location)
        is_url = "://" in text
        where = text if is_url else f"file://{Path(text).absolute()}"
        self.uri = f"git+{mask_uri(where)}?ref={ref}&path={path}"
        shown = mask_uri(where)
        self._repository: Repository
        if is_url and (clone or not text.startswith("file://")):
            self._repository = ClonedRepository(text, shown, cache=cache, interval_s=interval_s)
        elif clone:
            self._repository = ClonedRepository(where, shown, cache=cache, interval_s=interval_s)
        else:
            self._repository = LocalRepository(Path(text.removeprefix("file://")), shown, poll_s=poll_s)
        self._git = self._repository.git
        self._allow_rewind = allow_rewind
        self._prefix = f"/{environment}/git/{_without_user(where)}@{ref}"
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._tips: dict[str, tuple[str, str]] = {}
        """By item: the version last read and the tip it was read at."""

    @property
    def folder(self) -> Path | None:
        """The repository that is read and written in place; None where commits are pushed to it from a clone."""
        return self._git.folder if isinstance(self._repository, LocalRepository) else None

    def items(self, kinds: Sequence[Kind]) -> Sequence[Item]:
        return tuple(Item(key, f"{self._prefix}/{key}", owned) for key, owned in self._layout.keys(kinds, self.uri))

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, item: Item) -> Reading:
        tip = self._repository.tip(self._ref)
        if tip.commit is None:
            return Absent(f"{tip.ref.removeprefix('refs/heads/')} has no commit yet")
        reading = self._at(item, tip.commit)
        with self._lock:
            self._tips[item.key] = (reading.version, tip.commit)
        return reading

    def inspect(self, item: Item) -> Condition:  # noqa: ARG002 - of the contract
        """Whether a remote takes a push is known to nobody before the push."""
        return Condition(may_write=self._repository.may_write())

    def _at(self, item: Item, commit: str) -> Reading:
        found = self._files(item, commit)
        if isinstance(found, Absent):
            return found
        if not found:
            return Absent(f"{item.key} holds no rule files in commit {commit[:12]}", commit)
        (commit_,) = commits(self._git, commit, self._where(item, found), limit=1)
        return self._revisions(item, [commit_], [found])[0]

    def _files(self, item: Item, commit: str) -> list[Entry] | Absent:
        return files(self._git, commit, item.key, self._layout.overlays, self.uri)

    def _where(self, item: Item, found: Sequence[Entry] | Absent) -> list[str]:
        """The path specs of an item; where nothing stands, its name says whether it was a file."""
        names = [] if isinstance(found, Absent) else [entry.name for entry in found]
        is_file = item.key in names if names else PurePosixPath(item.key).suffix.lower() in (*YAML_SUFFIXES, ".json")
        return pathspecs(item.key, self._layout.overlays, is_file=is_file)

    def _revisions(self, item: Item, commits_: Sequence[Commit], found: Sequence[Sequence[Entry]]) -> list[Revision]:
        contents = texts(self._git, found, self._layout, self.uri)
        return [
            Revision(texts_, item.source, commit.hash, commit.provenance)
            for commit, texts_ in zip(commits_, contents, strict=True)
        ]

    def watch(self, item: Item, seen: Reading | None, wake: Wake, stop: StopSignal) -> None:  # noqa: ARG002 - see below
        """The first turn of a folder's watch always wakes; a URL's starts from the tip that was read."""
        self._repository.watch(self._ref, wake, stop)

    def admit(self, item: Item, seen: Revision, new: Revision) -> Revision:
        """A revision follows `seen` when the ref it was read from still contains `seen`."""
        with self._lock:
            version, tip = self._tips.get(item.key, (new.version, new.version))
        if version != new.version:
            tip = new.version
        if self._contains(tip, seen.version):
            return new
        what = f"the history was rewound from {seen.version} to {new.version}"
        if self._allow_rewind:
            reason = "; ".join(part for part in (f"{what} (allowed)", new.provenance.reason) if part)
            return replace(new, provenance=replace(new.provenance, reason=reason))
        branch = self._ref.removeprefix("refs/heads/")
        cut = " (the clone is shallow, so this may be a cut and no rewind: git fetch --unshallow)"
        raise SourceRewound(
            f"{self.uri}: {what}: {self._ref} at {tip[:12]} no longer contains what is active"
            f"{cut if is_shallow(self._git) else ''}. To go on, push the lost commits again "
            f"(git push origin {seen.version}:{branch}; to undo a change, commit the older text on top of them), or "
            "open with &allow_rewind=true to follow. A commit on top of the rewound branch is not enough"
        )

    def _contains(self, tip: str, commit: str) -> bool:
        try:
            self._git.attempt("merge-base", "--is-ancestor", commit, tip)
        except GitFailedError as failed:
            if failed.code == 1 or "Not a valid" in failed.stderr or "bad object" in failed.stderr:
                return False
            raise self._git.explain(failed) from failed
        return True

    # -- history -----------------------------------------------------------------------------------------------------

    def history(self, item: Item, *, limit: int = 50) -> Sequence[Revision]:
        """Commits that touched the path under its present name; those that removed it have no content and are left
        out."""
        tip = self._repository.tip(self._ref)
        if tip.commit is None:
            return ()
        where = self._where(item, self._files(item, tip.commit))
        touched = commits(self._git, tip.commit, where, limit=limit)
        found = files_of(self._git, [each.hash for each in touched], item.key, self._layout.overlays, self.uri)
        standing = [(commit, entries) for commit, entries in zip(touched, found, strict=True) if entries]
        return self._revisions(item, [commit for commit, _ in standing], [entries for _, entries in standing])

    def at(self, item: Item, version: str) -> Reading:
        """`version` is any revision as Git understands it: a hash, `HEAD~2`, a tag."""
        self._repository.tip(self._ref)
        commit = resolve(self._git, check_word("revision", version))
        if commit is None:
            raise SourceMisconfigured(f"{self.uri}: there is no revision {version}; git log lists them")
        return self._at(item, commit)

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(
        self, item: Item, texts: Sequence[SourceText], *, expected: str | None, provenance: Provenance
    ) -> Written:
        """A new commit by the caller's own Git identity; in a folder, files that are not among `texts` are removed.
        A work tree that has the branch checked out is brought along, if those files are clean in it; a URL is pushed
        to. Texts equal to what stands there make no commit. An empty `texts` removes the item."""
        return self.commit(item, texts, expected=expected, provenance=provenance)

    def commit(
        self,
        item: Item,
        texts: Sequence[SourceText],
        *,
        expected: str | None,
        provenance: Provenance,
        author: Author | None = None,
        branch: str | None = None,
    ) -> Written:
        """As `write`, of a change that somebody else made: `author`. `branch`: a new one, which begins where the ref
        stands, is made instead of moving the ref; no work tree is touched. Raises SourceConflict where it exists."""
        tip = self._repository.tip(self._ref)
        if branch is None and not tip.is_branch:
            raise SourceMisconfigured(f"{self.uri}: {self._ref} is not a branch, and only branches can be written")
        ref = None if branch is None else self.check_new(branch)
        old = self._expected(item, tip, expected)
        check_identity(self._git)
        places = self._places(texts, item, old)
        writes = {places[text.name]: text.content for text in texts}
        commit = self._commit(tip, writes, old, provenance, author, ref)
        written = self._at(item, commit or str(tip.commit))
        return Written(written.version, written.texts if isinstance(written, Revision) else ())

    def check_new(self, branch: str) -> str:
        """The full name of a branch to be made. Raises SourceMisconfigured for what is no name of one, SourceConflict
        where there is one of that name."""
        ref = branch_ref(self._git, branch)
        if self._repository.has(ref):
            raise SourceConflict(
                f"{self.uri}: there is a branch {branch} already; write the name of a new one, or delete that one first"
            )
        return ref

    def follows(self, branch: str) -> bool:
        """Whether that is the branch it reads. Raises DatasourceError only where `ref` does not name one."""
        if self._ref.removeprefix("refs/heads/") == branch:
            return True
        return self._ref == "HEAD" and self._repository.tip("HEAD").ref == f"refs/heads/{branch}"

    def on(self, branch: str) -> GitSource:
        """The same path on another branch."""
        other = copy(self)
        other._ref = branch_ref(self._git, branch)  # noqa: SLF001 - of the same class
        other._tips = {}  # noqa: SLF001
        return other

    def exists(self) -> bool:
        """Whether the ref is there."""
        return self._repository.has(self._ref)

    def others(self, item: Item) -> tuple[str, ...]:
        """Environments that have an overlay of the same base, other than this source's own."""
        tip = self._repository.tip(self._ref)
        if tip.commit is None or self._layout.format == "json":
            return ()
        folder = "" if item.key == "." else f"{item.key}/"
        found = entries(self._git, tip.commit, f"{folder}{OVERLAYS}/")
        names = {entry.name.removeprefix(folder) for entry in found if is_rule_file(entry.name.rpartition("/")[2])}
        return tuple(sorted(PurePosixPath(name).stem for name in names - set(self._layout.overlays)))

    # -- notes -------------------------------------------------------------------------------------------------------

    def note(self, item: Item, name: str) -> bytes | None:
        """In a hidden folder beside the rules, on the same branch."""
        tip = self._repository.tip(self._ref)
        found = [] if tip.commit is None else entries(self._git, tip.commit, _note_place(item, name))
        return read_objects(self._git, [found[0].hash])[0][1] if found else None

    def write_note(self, item: Item, name: str, content: bytes, *, expected: bytes | None, why: str) -> None:
        """A commit of its own."""
        tip = self._repository.tip(self._ref)
        if not tip.is_branch:
            raise SourceMisconfigured(f"{self.uri}: {self._ref} is not a branch, and only branches can be written")
        place = _note_place(item, name)
        old = [] if tip.commit is None else entries(self._git, tip.commit, place)
        stands = read_objects(self._git, [old[0].hash])[0][1] if old else None
        if stands != expected:
            raise note_conflict(item, name)
        check_identity(self._git)
        self._commit(tip, {place: content}, old, Provenance(message=why, channel="cli"))

    def _commit(
        self,
        tip: Tip,
        writes: Mapping[str, bytes],
        old: Sequence[Entry],
        provenance: Provenance,
        author: Author | None = None,
        branch: str | None = None,
    ) -> str | None:
        """On top of the tip; a work tree that has the branch checked out is brought along. None: nothing changed."""
        paths = sorted({*writes, *(entry.name for entry in old)})
        is_local = isinstance(self._repository, LocalRepository)
        trees = work_trees(self._git, tip.ref) if is_local and branch is None else []
        for folder in trees:
            check_clean(self._git, folder, paths, tip.commit)
        commit = make_commit(self._git, tip.commit, writes, old, provenance, author)
        if commit is not None and branch is not None:
            self._repository.move(branch, None, commit)
        elif commit is not None:
            self._repository.move(tip.ref, tip.commit, commit)
            for folder in trees:
                update_work_tree(self._git, folder, commit, paths)
        return commit

    def _expected(self, item: Item, tip: Tip, expected: str | None) -> list[Entry]:
        """The files that stand there, if they are those of the expected version."""
        current = Absent("no commit") if tip.commit is None else self._at(item, tip.commit)
        stands = current.version if isinstance(current, Revision) else None
        if expected is not None and (named := resolve(self._git, check_word("revision", expected))) is not None:
            expected = named
        if stands != expected:
            raise SourceConflict(
                f"{self.uri} stands at {(stands or 'absent')[:12]}, not at {(expected or 'absent')[:12]}: somebody "
                "else committed meanwhile; read it again and repeat the change on top"
            )
        if tip.commit is None:
            return []
        found = self._files(item, tip.commit)
        return [] if isinstance(found, Absent) else found

    def _places(self, texts: Sequence[SourceText], item: Item, old: Sequence[Entry]) -> dict[str, str]:
        """Where each text goes: to the path it was read from, else by its bare name into the folder."""
        is_file = [entry.name for entry in old] == [item.key] or (not old and PurePosixPath(item.key).suffix != "")
        if is_file:
            return {text.name: item.key for text in texts}
        folder = "" if item.key == "." else f"{item.key}/"
        places = self._layout.places([text.name for text in texts], self.uri)
        return {name: check_word("name", f"{folder}{place}") for name, place in places.items()}

    def close(self) -> None:
        """Nothing is held between calls."""


def _note_place(item: Item, name: str) -> str:
    """`teams/rules.yaml` → `teams/.sentinel/rules.yaml.quarantine`; `.` → `.sentinel/rules.quarantine`."""
    path = PurePosixPath(item.key)
    return str(path.parent / ".sentinel" / f"{path.name or 'rules'}.{name}")


def _without_user(url: str) -> str:
    """A source's id must not change when a token does."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"

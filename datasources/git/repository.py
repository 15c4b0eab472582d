"""The two ways to a repository: a folder of this machine, read in place, and a URL, read through a clone of our own."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sentinel_core.datasources.contract import SourceConflict, SourceMisconfigured, StopSignal, Wake
from sentinel_core.datasources.git.command import Git, GitFailedError
from sentinel_core.datasources.git.objects import check_word, is_hash
from sentinel_core.datasources.notify import watch_folders
from sentinel_core.locks import renew_lock_after_fork

_NETWORK_TIMEOUT_S = 60.0
_REMOTE = "sentinel"


@dataclass(frozen=True, slots=True)
class Tip:
    """Where a ref stands. `commit` is None on a branch without commits."""

    ref: str
    """The full name, e.g. `refs/heads/main`; a hash where a commit was named."""
    commit: str | None

    @property
    def is_branch(self) -> bool:
        return self.ref.startswith("refs/heads/")


class Repository(Protocol):
    """What the source needs of either."""

    git: Git

    def tip(self, ref: str) -> Tip:
        """Where `ref` stands now, with its objects at hand. Raises DatasourceError."""

    def has(self, ref: str) -> bool:
        """Whether there is a branch or tag of that name. Raises DatasourceError."""

    def move(self, branch: str, old: str | None, new: str) -> None:
        """Compare-and-set of a branch. Raises SourceConflict."""

    def may_write(self) -> bool | None:
        """Whether this user could; None where only a push would show it."""

    def watch(self, ref: str, wake: Wake, stop: StopSignal) -> None:
        """As `Readable.watch`."""


class LocalRepository:
    """Bare, or with a work tree."""

    def __init__(self, folder: Path, shown: str, *, poll_s: float | None = None) -> None:
        self.git = Git(folder, shown)
        self._poll_s = poll_s

    def tip(self, ref: str) -> Tip:
        return local_tip(self.git, ref)

    def has(self, ref: str) -> bool:
        return any(resolve(self.git, name) is not None for name in _candidates(self.git, ref))

    def move(self, branch: str, old: str | None, new: str) -> None:
        move_branch(self.git, branch, old, new)

    def may_write(self) -> bool:
        common = self.git.folder / self.git.line("rev-parse", "--git-common-dir")
        return all(os.access(common / name, os.W_OK | os.X_OK) for name in ("objects", "refs"))

    def watch(self, ref: str, wake: Wake, stop: StopSignal) -> None:
        folder = self.git.folder
        own = folder / self.git.line("rev-parse", "--git-dir")
        common = folder / self.git.line("rev-parse", "--git-common-dir")
        last: object = None

        def changed(_: object) -> None:
            nonlocal last
            now = _stamps(own, common, ref)
            if now != last:
                last = now
                wake()

        watch_folders(lambda: _ref_folders(own, common, ref), changed, stop, poll_s=self._poll_s)


class ClonedRepository:
    """A bare clone under a cache folder, brought up to date before each read. The URL is never stored in it."""

    def __init__(self, url: str, shown: str, *, cache: Path | None = None, interval_s: float = 5.0) -> None:
        folder = (cache or default_cache()) / hashlib.sha256(url.encode()).hexdigest()[:24]
        self.git = Git(folder, shown)
        self._interval_s = interval_s
        self._env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"remote.{_REMOTE}.url", "GIT_CONFIG_VALUE_0": url}
        self._lock = threading.Lock()
        """Held while the clone is made and while refs are fetched into it."""
        renew_lock_after_fork(self)
        self._read_at: dict[str, Tip | None] = {}

    def tip(self, ref: str) -> Tip:
        with self._lock:
            self._make_locked()
            tip = self._remote_tip(ref)
            if tip is None:
                tip = self._other_tip_locked(ref)
            elif tip.commit is not None and self._local(tip.ref) != tip.commit:
                self._network("fetch", "--no-tags", "--quiet", _REMOTE, f"+{tip.ref}:{tip.ref}")
                tip = Tip(tip.ref, self._local(tip.ref))
            self._read_at[ref] = tip
            return tip

    def has(self, ref: str) -> bool:
        with self._lock:
            self._make_locked()
            return self._remote_tip(ref) is not None

    def _make_locked(self) -> None:
        if not (self.git.folder / "HEAD").is_file():
            self.git.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.git.run("init", "--quiet", "--bare", ".")

    def _remote_tip(self, ref: str) -> Tip | None:
        """As the remote says; None when it has no branch or tag of that name."""
        names = [ref] if ref == "HEAD" or ref.startswith("refs/") else [f"refs/heads/{ref}", f"refs/tags/{ref}"]
        peeled = [f"{name}^{{}}" for name in names]
        out = self._network("ls-remote", "--symref", _REMOTE, *names, *peeled)
        symbolic: dict[str, str] = {}
        hashes: dict[str, str] = {}
        for line in out.decode("utf-8", "replace").splitlines():
            value, _, name = line.partition("\t")
            if value.startswith("ref: "):
                symbolic[name] = value.removeprefix("ref: ")
            else:
                hashes[name] = value
        for name in names:
            if name in hashes:
                return Tip(symbolic.get(name, name), hashes.get(f"{name}^{{}}", hashes[name]))
        return None

    def _other_tip_locked(self, ref: str) -> Tip:
        """A commit's hash, or a branch of a repository that has no commits yet."""
        if is_hash(ref):
            self._network("fetch", "--no-tags", "--quiet", _REMOTE, "+refs/heads/*:refs/heads/*")
            return local_tip(self.git, ref)
        branches = self._network("ls-remote", "--heads", _REMOTE).decode("utf-8", "replace").splitlines()
        if branches:
            raise _no_such_ref(self.git, ref, [line.partition("\trefs/heads/")[2] for line in branches])
        return Tip("refs/heads/main" if ref == "HEAD" else f"refs/heads/{ref}", None)

    def _local(self, ref: str) -> str | None:
        return resolve(self.git, ref)

    def move(self, branch: str, old: str | None, new: str) -> None:
        try:
            self._attempt("push", f"--force-with-lease={branch}:{old or ''}", _REMOTE, f"{new}:{branch}")
        except GitFailedError as failed:
            if any(words in failed.stderr for words in ("stale info", "non-fast-forward", "fetch first")):
                raise _moved(self.git, branch, old) from failed
            raise self.git.explain(failed) from failed
        with self._lock:
            self.git.run("update-ref", branch, new)

    def may_write(self) -> None:
        return None

    def watch(self, ref: str, wake: Wake, stop: StopSignal) -> None:
        last = self._read_at.get(ref)
        while not stop.wait(self._interval_s):
            now = self._remote_tip(ref)
            if now != last:
                last = now
                wake()

    def _network(self, *arguments: str) -> bytes:
        return self.git.run(*arguments, env=self._env, timeout_s=_NETWORK_TIMEOUT_S)

    def _attempt(self, *arguments: str) -> bytes:
        return self.git.attempt(*arguments, env=self._env, timeout_s=_NETWORK_TIMEOUT_S)


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sentinel" / "git"


def resolve(git: Git, revision: str) -> str | None:
    """The commit a revision names; None when there is none of that name."""
    try:
        out = git.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except GitFailedError as failed:
        if failed.stderr:
            raise git.explain(failed) from failed
        return None
    return out.decode("ascii").strip()


def local_tip(git: Git, ref: str) -> Tip:
    """A branch goes before a tag of the same name."""
    for name in _candidates(git, ref):
        if (commit := resolve(git, name)) is not None:
            return Tip(name, commit)
    branches = git.line("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    unborn = ref == "HEAD" or f"refs/heads/{ref.removeprefix('refs/heads/')}" == _head(git)
    if unborn or not branches:
        return Tip(_head(git) or "HEAD" if ref == "HEAD" else f"refs/heads/{ref.removeprefix('refs/heads/')}", None)
    raise _no_such_ref(git, ref, branches)


def _candidates(git: Git, ref: str) -> Iterator[str]:
    if ref == "HEAD":
        yield _head(git) or "HEAD"
    elif ref.startswith("refs/"):
        yield ref
    else:
        yield f"refs/heads/{ref}"
        yield f"refs/tags/{ref}"
        if is_hash(ref):
            yield ref


def _head(git: Git) -> str | None:
    """The branch HEAD stands on; None when it is detached."""
    try:
        return git.attempt("symbolic-ref", "--quiet", "HEAD").decode("utf-8", "replace").strip()
    except GitFailedError as failed:
        if failed.stderr:
            raise git.explain(failed) from failed
        return None


def branch_ref(git: Git, name: str) -> str:
    """The full name of the branch. Raises SourceMisconfigured for what Git takes for none, and for what it takes for
    something else as well."""
    if name in ("", "HEAD", "@") or name.startswith(("refs/", "-")):
        raise _no_branch(name)
    try:
        git.attempt("check-ref-format", f"refs/heads/{check_word('branch', name)}")
    except GitFailedError as failed:
        raise _no_branch(name) from failed
    return f"refs/heads/{name}"


def _no_branch(name: str) -> SourceMisconfigured:
    return SourceMisconfigured(f"{name!r} is no name for a branch; write one such as fix-rules")


def move_branch(git: Git, branch: str, old: str | None, new: str) -> None:
    try:
        git.attempt("update-ref", "-m", "sentinel: rules", branch, new, old or "0" * len(new))
    except GitFailedError as failed:
        if "cannot lock ref" in failed.stderr or "reference already exists" in failed.stderr:
            raise _moved(git, branch, old) from failed
        raise git.explain(failed) from failed


def _moved(git: Git, branch: str, old: str | None) -> SourceConflict:
    return SourceConflict(
        f"{git.shown}: {branch} is no longer at {(old or 'no commit')[:12]}: somebody else committed meanwhile; "
        "read it again and repeat the change on top"
    )


def _no_such_ref(git: Git, ref: str, branches: list[str]) -> SourceMisconfigured:
    known = ", ".join(sorted(branches)[:8]) or "none"
    return SourceMisconfigured(f"{git.shown} has no branch or tag {ref} (branches: {known}); name one with ?ref=")


def _ref_folders(own: Path, common: Path, ref: str) -> Iterator[Path]:
    yield from {own, common}
    yield from (folder for folder in (common / "reftable",) if folder.is_dir())
    name = _loose_name(own, ref)
    for parent in (common / name).parents:
        if parent == common:
            break
        if parent.is_dir():
            yield parent


def _loose_name(own: Path, ref: str) -> str:
    """The file of a loose ref, below the common folder; a bare name is taken for a branch."""
    if ref == "HEAD":
        head = (own / "HEAD").read_text(encoding="utf-8", errors="replace") if (own / "HEAD").is_file() else ""
        return head.removeprefix("ref: ").strip() if head.startswith("ref: ") else "refs/heads/-"
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"


def _stamps(own: Path, common: Path, ref: str) -> tuple[object, ...]:
    """What changes on disk when the ref moves."""
    loose = _loose_name(own, ref)
    tag = loose.replace("refs/heads/", "refs/tags/", 1)
    files = (own / "HEAD", common / loose, common / tag, common / "packed-refs", common / "reftable" / "tables.list")
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino

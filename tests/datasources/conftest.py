"""Stores under test, each with the outside world that changes it, and the engine's place taken by a recorder."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import (
    Applied,
    FileSource,
    GitSource,
    MemorySource,
    Outcome,
    Readable,
    Subscription,
    SubscriptionOptions,
)
from sentinel_core.rules import Problem, Revision, RuleRejected
from tests.services import etcd, nacos
from tests.services.server import wait_until

QUICK = SubscriptionOptions(debounce_s=0.01, compare_s=30, backoff_base_s=0.02, backoff_cap_s=0.1)
"""Real time, but short; the periodic compare is out of the way so that it cannot hide a deaf watch."""
SOON = 5.0
"""Upper bound of every wait, in seconds; none is ever slept through."""


class Recorder:
    """Stands where the engine stands: takes what can be read, refuses what says `invalid`, and `null` as empty."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bool]] = []
        self.versions: list[str] = []
        self.refused: list[bytes] = []
        self.revisions: list[Revision] = []
        self.failures: list[Exception] = []
        """Raised, one per call, before anything is taken."""
        self._changed = threading.Condition()

    def __call__(self, revision: Revision, restored: bool) -> Applied:
        content = b"\n".join(text.content for text in revision.texts)
        with self._changed:
            try:
                if self.failures:
                    raise self.failures.pop(0)
                if b"invalid" in content or content.strip() == b"null":
                    self.refused.append(content)
                    code = "SR010" if b"invalid" in content else "SR001"
                    raise RuleRejected([Problem(code, "error", "this is not a list of rules", file="rules")])
                self.seen.append((content, restored))
                self.versions.append(revision.version)
                self.revisions.append(revision)
            finally:
                self._changed.notify_all()
        return Applied(Outcome.ACTIVATED, frozenset({"flow"}))

    @property
    def contents(self) -> list[bytes]:
        return [content for content, _ in self.seen]

    @property
    def active(self) -> bytes | None:
        return self.seen[-1][0] if self.seen else None

    def wait(self, condition: Callable[[Recorder], bool], timeout_s: float = SOON) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout_s)

    def wait_active(self, content: bytes) -> None:
        assert self.wait(lambda me: me.active == content), f"{self.contents[-3:]} are active, not {content[:80]!r}"


class World(Protocol):
    """What changes a store from outside."""

    source: Readable

    def put(self, content: bytes) -> None: ...
    def delete(self) -> None: ...


@dataclass
class MemoryWorld:
    source: MemorySource = field(default_factory=MemorySource)

    def put(self, content: bytes) -> None:
        self.source.set("flow", content)

    def delete(self) -> None:
        self.source.delete("flow")


@dataclass
class FileWorld:
    source: FileSource
    path: Path

    def put(self, content: bytes) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(content)

    def delete(self) -> None:
        self.path.unlink()


def git(folder: Path, *arguments: str) -> str:
    """Git as a person uses it, in a work tree."""
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class GitWorld:
    """A work tree in which a person commits."""

    def __init__(self, tmp: Path) -> None:
        self.work = self.repository = tmp / "work"
        git(tmp, "init", "-q", "-b", "main", "work")
        self.source = GitSource(self.work, ref="main", path="rules.yaml")

    def commit(self, message: str = "change", **files: bytes | None) -> str:
        """Commits files (`None` removes one; `a__b_yaml` is `a/b.yaml`) and returns the hash."""
        for name, content in files.items():
            file = self.work / file_name(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                file.unlink()
            else:
                file.write_bytes(content)
        self._commit(message)
        return git(self.work, "rev-parse", "HEAD")

    def _commit(self, message: str) -> None:
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "--allow-empty", "-m", message)

    def put_file(self, path: str, content: bytes | None) -> None:
        files: dict[str, Any] = {path.replace("/", "__").replace(".", "_"): content}
        self.commit(**files)

    def put(self, content: bytes) -> None:
        (self.work / "rules.yaml").write_bytes(content)
        self._commit("change")

    def delete(self) -> None:
        self.commit(rules_yaml=None)


class BareGitWorld(GitWorld):
    """A bare repository that people push to; with `clone`, read and written by its URL."""

    def __init__(self, tmp: Path, *, clone: bool = False) -> None:
        self.repository = tmp / "rules.git"
        git(tmp, "init", "-q", "--bare", "-b", "main", "rules.git")
        self.source = GitSource(
            self.repository, ref="main", path="rules.yaml", clone=clone, cache=tmp / "cache", interval_s=0.05
        )
        self._last = ""

    def put(self, content: bytes) -> None:
        self.commit(rules_yaml=content)

    def commit(self, message: str = "change", **files: bytes | None) -> str:
        lines = [
            b"commit refs/heads/main\nmark :1\ncommitter Ada Example <ada@example.com> 1795588200 +0000\n",
            b"data %d\n%s\n" % (len(message.encode()), message.encode()),
            b"from refs/heads/main^0\n" if self._last else b"",
        ]
        for name, content in files.items():
            path = file_name(name).encode()
            lines.append(b"D %s\n" % path if content is None else b"M 644 inline %s\n" % path)
            lines.append(b"" if content is None else b"data %d\n%s\n" % (len(content), content))
        lines.append(b"\nget-mark :1\n")
        command = ["git", "fast-import", "--quiet", "--force"]
        done = subprocess.run(command, cwd=self.repository, input=b"".join(lines), check=True, capture_output=True)
        self._last = done.stdout.decode().strip()
        return self._last


def file_name(name: str) -> str:
    return name.replace("__", "/").replace("_", ".")


@pytest.fixture(autouse=True, scope="module")
def git_identity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Git reads no settings of the machine; whoever commits is Ada."""
    config = tmp_path_factory.mktemp("git") / "config"
    config.write_text(
        "[user]\n\tname = Ada Example\n\temail = ada@example.com\n"
        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[core]\n\tfsync = none\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(config))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


class EtcdWorld:
    """A key of its own in the one server of this process and version."""

    def __init__(self, tmp: Path, program: str = etcd.PACKAGED, **query: str) -> None:
        etcd.needed(program)
        self.server = etcd.shared(program)
        self.source = datasources.open(self.server.uri(f"/tests/{tmp.name}", **query))
        (item,) = self.source.items(["flow"])
        self.key = item.key

    def put(self, content: bytes) -> None:
        put = self.server.put_large if len(content) > 2**20 else self.server.put
        put(self.key, content)

    def delete(self) -> None:
        self.server.delete(self.key)


class NacosWorld:
    """A group of its own in the one server of this process."""

    def __init__(self, tmp: Path, major: int, transport: str) -> None:
        nacos.needed(major)
        self.server = nacos.shared(major)
        self.group = tmp.name
        self.source = datasources.open(self.server.uri(group=self.group, transport=transport, interval="50ms"))
        (item,) = self.source.items(["flow"])
        self.key = item.key

    def put(self, content: bytes) -> None:
        if not content:
            pytest.skip("Nacos takes no empty content, whoever writes it")
        self.server.put(self.key, content, group=self.group)
        self._until_told(content)

    def delete(self) -> None:
        self.server.delete(self.key, group=self.group)
        self._until_told(None)

    def _until_told(self, content: bytes | None) -> None:
        """Nacos tells a little later what was written; the contract begins there."""
        assert wait_until(lambda: self.server.read(self.key, group=self.group) == content)


WORLDS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: MemoryWorld(),
    "file": lambda tmp: FileWorld(FileSource(tmp / "rules.yaml"), tmp / "rules.yaml"),
    "file-polled": lambda tmp: FileWorld(FileSource(tmp / "rules.yaml", poll_s=0.01), tmp / "rules.yaml"),
    "folder": lambda tmp: FileWorld(FileSource(tmp / "rules"), tmp / "rules" / "flow.yaml"),
    "git-work-tree": GitWorld,
    "git-bare": BareGitWorld,
    "git-url": lambda tmp: BareGitWorld(tmp, clone=True),
    "etcd": EtcdWorld,
    "etcd-newest": lambda tmp: EtcdWorld(tmp, etcd.NEWEST),
    "nacos-3-http": lambda tmp: NacosWorld(tmp, 3, "http"),
    "nacos-2-http": lambda tmp: NacosWorld(tmp, 2, "http"),
    "nacos-3-grpc": lambda tmp: NacosWorld(tmp, 3, "grpc"),
    "nacos-2-grpc": lambda tmp: NacosWorld(tmp, 2, "grpc"),
}
"""One line per store: with it a new store joins the whole contract suite (and with a mark, if it needs a server)."""
if etcd.ETCD3:
    WORLDS = {"etcd3": lambda tmp: EtcdWorld(tmp, client="etcd3")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Nacos takes 500 MB and ten seconds of two cores to start: tests that share one run in one process."""
    for item in items:
        if "nacos" in item.nodeid:
            shares = item.path.stem in {"test_contract", "test_nacos", "test_nacos_store"}
            item.add_marker(pytest.mark.xdist_group("nacos" if shares else item.path.stem))


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    # How long a file must be quiet is the subject of test_file.py; here it would only be waited for.
    monkeypatch.setattr("sentinel_core.datasources.file._QUIET_UNTOLD_S", 0.05)
    made: World = WORLDS[request.param](tmp_path)
    yield made
    made.source.close()


@pytest.fixture
def work(tmp_path: Path) -> GitWorld:
    """A repository with a work tree."""
    return GitWorld(tmp_path)


@pytest.fixture
def remote(tmp_path: Path) -> BareGitWorld:
    """A repository that is read and written by URL."""
    return BareGitWorld(tmp_path, clone=True)


@pytest.fixture(name="git")
def git_in_work_tree(tmp_path: Path) -> Callable[..., str]:
    """Git as that somebody uses it."""
    return lambda *arguments: git(tmp_path / "work", *arguments)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def other_recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def wait_reason() -> Callable[[Subscription, str], None]:
    """Blocks until the first item's reason says `words`."""

    def wait(subscription: Subscription, words: str) -> None:
        changed = threading.Event()
        remove = subscription.on_state(lambda _: changed.set())
        while words not in (subscription.status()[0].reason or ""):
            assert changed.wait(SOON), subscription.status()
            changed.clear()
        remove()

    return wait


Subscribe = Callable[..., Subscription]


@pytest.fixture
def subscribe() -> Iterator[Subscribe]:
    """Starts subscriptions and closes them at the end of the test."""
    with ExitStack() as stack:

        def start(source: Readable, apply: Any, **options: Any) -> Subscription:
            options = {"kinds": ("flow",), "options": QUICK, **options}
            subscription = Subscription(source, apply=apply, **options)
            stack.callback(subscription.close)
            return subscription.start()

        yield start

"""Changes as an engine would report them, made from the rules and revisions of the real parser."""

from __future__ import annotations

import json
import os
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sentinel_core.audit.events import Event, rule_changed, rule_rejected
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.audit.retention.contract import PurgingStore
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store._os_target import Target
from sentinel_core.audit.store.contract import AuditStore
from sentinel_core.audit.store.opensearch import OpenSearchStore
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.rules import Problem, Provenance, Revision, RuleRejected, RuleSet, SourceText, parse_rules
from tests.services import opensearch
from tests.services.opensearch import OpenSearch

START = datetime(2026, 11, 25, 6, 30, 0, 123000, tzinfo=UTC)
"""14:30:00.123 in Shanghai, a Wednesday."""


@dataclass
class History:
    """A document in Git that changes commit by commit; each commit gives the events an instance would emit."""

    source: str = "/prod/git/file:///srv/rules.git@main/rules"
    instance: str = "i-1"
    environment: str = "prod"
    observed: bool = False
    commits: int = 0
    at: datetime = START
    active: dict[str, RuleSet] = field(default_factory=dict)
    redaction: Redaction = NONE

    def commit(
        self,
        kind: str = "flow",
        rules: list[dict[str, Any]] | None = None,
        *,
        after: timedelta = timedelta(seconds=1),
        author: str = "chen <chen@example.com>",
        version: str | None = None,
        **provenance: Any,
    ) -> Event:
        """The next commit: rules of one kind become `rules`."""
        self.commits += 1
        self.at += after
        return self.see(kind, rules or [], version or f"{self.commits:040x}", author=author, **provenance)

    def see(self, kind: str, rules: list[dict[str, Any]], version: str, **provenance: Any) -> Event:
        """A kind as a revision has it, which may be the revision of the kind before."""
        made_by = Provenance(**{"commit_hash": version, "channel": "git", **provenance})
        text = SourceText("sentinel-rules.yaml", b"", "yaml")
        revision = Revision((text,), self.source, version, made_by, self.observed)
        old = self.active.get(kind, RuleSet.empty(kind))
        new = parse_rules(kind, rules).with_revision(revision)
        self.active[kind] = new
        return rule_changed(
            environment=self.environment,
            app="order-service",
            old=old,
            new=new,
            revision=revision,
            at=self.at,
            instance=self.instance,
            redaction=self.redaction,
        )

    def reject(self, problem: Problem, text: str = "", version: str = "bad") -> Event:
        """A revision that is refused because of one problem."""
        texts = (SourceText("sentinel-rules.yaml", text.encode()),)
        return rule_rejected(
            environment=self.environment,
            app="order-service",
            kind_or_subject=problem.kind or "flow",
            revision=Revision(texts, self.source, version, Provenance(commit_hash=version, channel="git")),
            rejection=RuleRejected([problem], total=7),
            at=self.at,
            instance=self.instance,
            redaction=self.redaction,
        )


def as_told_by(event: Event, instance: str, after: timedelta) -> Event:
    """The same event as another instance emits it."""
    data = json.dumps({**event.payload, "instance": instance}).encode()
    return replace(event, time=event.time + after, data=data)


def flow_rule(resource: str = "payment_invoke", count: float = 20, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "grade": 1, "count": count, **more}


@pytest.fixture
def flow() -> Callable[..., dict[str, Any]]:
    return flow_rule


@pytest.fixture
def told_by() -> Callable[[Event, str, timedelta], Event]:
    return as_told_by


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def events(history: History) -> list[Event]:
    """Ten changes of one rule, oldest first; the first is the first sight of it."""
    return [history.commit("flow", [flow_rule(count=count)]) for count in range(1, 11)]


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "outbox.db")


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "audit.db")


@pytest.fixture
def node() -> OpenSearch:
    """A real one, shared with other tests."""
    opensearch.needed()
    return opensearch.shared()


@pytest.fixture
def index(node: OpenSearch) -> Iterator[str]:
    """What the names of a test's own indices begin with."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    node.forget(name)


@pytest.fixture
def remote(node: OpenSearch, index: str) -> Iterator[OpenSearchStore]:
    """An audit store in OpenSearch."""
    store = OpenSearchStore(Target.parse(node.uri(index).removeprefix("opensearch://")))
    yield store
    store.close()


@pytest.fixture
def opened() -> Iterator[Callable[..., OpenSearchStore]]:
    """Opens a store at an address, with the options of a URI; it is closed when the test ends."""
    stores: list[OpenSearchStore] = []

    def open_one(address: str, *, read_only: bool = False, **options: str) -> OpenSearchStore:
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        stores.append(OpenSearchStore(Target.parse(f"{address}/?{asked}"), read_only=read_only))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture(params=["sqlite", pytest.param("remote", marks=pytest.mark.service("opensearch"))])
def store(request: pytest.FixtureRequest) -> AuditStore:
    """Each back end in turn."""
    made: AuditStore = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def child() -> Callable[..., int]:
    """Runs a call in a forked process; its exit code (negative: the signal that ended it), or its id without `wait`."""

    def run(call: Callable[..., object], *args: object, wait: bool = True) -> int:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                call(*args)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) if wait else process

    return run


@pytest.fixture
def filled(sqlite: SqliteStore, events: list[Event]) -> SqliteStore:
    """Ten events of one source, numbers 1 to 10 in rows 1 to 10; then two of another."""
    sqlite.ingest(events)
    sqlite.ingest([replace(event, source="/staging/file/rules/flow") for event in events[:2]])
    return sqlite


@pytest.fixture
def stocked(store: PurgingStore, events: list[Event]) -> PurgingStore:
    """The same in each back end."""
    store.ingest(events)
    store.ingest([replace(event, source="/staging/file/rules/flow") for event in events[:2]])
    return store


@pytest.fixture
def cut(events: list[Event]) -> datetime:
    """Just before the sixth event."""
    return events[5].time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of segments; not made yet."""
    return tmp_path / "segments"


@pytest.fixture(scope="session")
def new_key() -> Callable[[], SigningKey]:
    def make() -> SigningKey:
        private = Ed25519PrivateKey.generate()
        return SigningKey.from_pem(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())

    return make


@pytest.fixture(scope="session")
def key(new_key: Callable[[], SigningKey]) -> SigningKey:
    return new_key()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs all tests of a server that takes 500 MB."""
    for item in items:
        if "[remote" in item.nodeid or "test_opensearch" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("opensearch"))

"""Synchronising: a store is kept at what is committed, and never against a person's decision."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import MemorySource, Readable, SourceUnavailable
from sentinel_core.publishing.quarantine import Quarantined, add
from sentinel_core.publishing.sync import Settings, Synced, sync
from sentinel_core.rules import Provenance, Revision, SourceText, parse_rules
from sentinel_core.settings import Guards
from tests.services import etcd, nacos

SETTINGS = Settings("store", "prod", Guards(), 10**6, published_by="chen (GitLab job 42)")
HEAL = replace(SETTINGS, drift="heal")
RULES = "flowRules:\n  - {resource: a, grade: qps, count: 5}\n"


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-qb", "main")
        self.commit(RULES, "First rules")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ada Example", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", str(self.folder), *who, *arguments], capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, text: str | None, message: str) -> str:
        path = self.folder / "rules.yaml"
        path.unlink() if text is None else path.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD")

    def source(self) -> Readable:
        return datasources.open(f"git+file://{self.folder}?ref=main&path=rules.yaml")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


@pytest.fixture(params=["memory", "lists", "etcd", "nacos"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Readable]:
    if request.param == "memory":
        made: Readable = MemorySource()
    elif request.param == "lists":
        (tmp_path / "lists").mkdir()
        made = datasources.open(f"file://{tmp_path}/lists?format=json")
    elif request.param == "etcd":
        etcd.needed()
        made = datasources.open(etcd.shared().uri(f"/sync/{tmp_path.name}"))
    else:
        nacos.needed(3)
        made = datasources.open(nacos.shared(3).uri(group=tmp_path.name, transport="http"))
    yield made
    made.close()


@pytest.fixture
def plain() -> MemorySource:
    return MemorySource()


def standing(store: Readable) -> list[float]:
    reading = store.read(store.items(["flow"])[0])
    assert isinstance(reading, Revision)
    return [rule.count for rule in parse_rules("flow", reading.texts[0].content)]


def edit(store: Any, count: int, provenance: Provenance) -> None:
    """As somebody does by hand or by another tool."""
    (item,) = store.items(["flow"])
    reading = store.read(item)
    texts = (SourceText(item.key, json.dumps([{"resource": "a", "grade": 1, "count": count}]).encode(), "json"),)
    store.write(item, texts, expected=reading.version, provenance=provenance)


def looks(repository: Repository, store: Readable) -> Callable[..., Synced]:
    return lambda settings=SETTINGS: sync(repository.source(), store, settings)


BY_HAND = Provenance(author="ops-li", channel="console", reason="incident")
BACK = Provenance(channel="cli", published_by="chen", rollback_of="1", reason="queues grew")


def test_what_is_committed_is_published_with_its_author_and_once(repository: Repository, store: Readable) -> None:
    look = looks(repository, store)
    assert look().state == "published"
    assert standing(store) == [5]
    reading = store.read(store.items(["flow"])[0])
    assert isinstance(reading, Revision)
    assert reading.provenance.author == "Ada Example <ada@example.org>"
    assert reading.provenance.commit_hash == repository.git("rev-parse", "HEAD")
    assert look().state == "in sync"
    repository.commit(RULES.replace("5", "7"), "Raise it")
    assert (look().state, standing(store)) == ("published", [7])


def test_an_edit_in_the_store_is_reported_and_stays_whatever_git_says(repository: Repository, store: Readable) -> None:
    look = looks(repository, store)
    look()
    edit(store, 6, BY_HAND)
    found = look()
    assert (found.state, found.changes, standing(store)) == ("drifted", 1, [6])
    repository.commit(RULES.replace("5", "7"), "Raise it")
    assert (look().state, standing(store)) == ("drifted", [6])
    assert (look(HEAL).state, standing(store)) == ("healed", [7])
    assert look().state == "in sync"


def test_a_rollback_is_not_fought(repository: Repository, store: Readable) -> None:
    look = looks(repository, store)
    look()
    repository.commit(RULES.replace("5", "7"), "Raise it")
    look()
    (item,) = store.items(["flow"])
    bad = parse_rules("flow", b'[{"resource": "a", "grade": 1, "count": 7}]')
    add(store, item, [Quarantined("flow", bad.digest, "2", datetime.now(UTC), "chen", "queues grew")])
    edit(store, 5, BACK)
    assert look().state == "drifted"
    refused = look(HEAL)
    assert (refused.state, "queues grew" in refused.text, standing(store)) == ("refused", True, [5])
    repository.commit(RULES.replace("5", "6"), "Raise it less")
    assert (look(HEAL).state, standing(store)) == ("healed", [6])


def test_who_edited_is_told(repository: Repository, plain: MemorySource) -> None:
    look = looks(repository, plain)
    look()
    edit(plain, 6, BY_HAND)
    assert look().text == "edited in the store, not in Git: flow edited by ops-li (console): incident"
    edit(plain, 4, BACK)
    assert look().text == "changed in the store, not in Git: flow rolled back by chen (cli): queues grew"


@pytest.mark.parametrize("drift", ["report", "heal", "adopt"])
def test_a_credential_in_what_a_store_says_is_shown_nowhere(
    repository: Repository, plain: MemorySource, drift: Any
) -> None:
    look = looks(repository, plain)
    look()
    for count, said in enumerate((
        Provenance(author="etcd://u:sekret@h/x", channel="console", reason="etcd://u:sekret@h/x password=sekret"),
        Provenance(published_by="ops token=sekret", channel="console", reason="see https://sekret@h/?token=sekret"),
    )):  # fmt: skip
        edit(plain, 6 + count, said)
        found = look(replace(SETTINGS, drift=drift))
        assert found.state in ("drifted", "healed", "adopted")
        assert "flow edited by" in found.text or drift == "heal"
        assert "sekret" not in found.text
        reading = plain.read(plain.items(["flow"])[0])
        assert isinstance(reading, Revision)
        assert drift != "heal" or "sekret" not in repr(reading.provenance)
    assert "sekret" not in repository.git("log", "--format=fuller")


def test_what_somebody_published_from_git_is_no_edit(repository: Repository, plain: MemorySource) -> None:
    look = looks(repository, plain)
    look()
    edit(plain, 6, Provenance(channel="git", author="Ada", commit_hash="c0ffee"))
    repository.commit(RULES.replace("5", "7"), "Raise it")
    assert (look().state, standing(plain)) == ("published", [7])


def test_a_branch_that_went_back_is_refused(repository: Repository, plain: MemorySource) -> None:
    look = looks(repository, plain)
    repository.commit(RULES.replace("5", "7"), "Raise it")
    look()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    found = look()
    assert (found.state, "rewound" in found.text, standing(plain)) == ("failed", True, [7])


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("flowRules: [{resource: a, count: 2O}]\n", "invalid"),
        ("{{{", "invalid"),
        ("", "invalid"),
        (None, "absent"),
        ("flowRules: []\n", "refused"),
        (RULES.replace("5", "500"), "refused"),
    ],
)
def test_what_is_not_fit_is_told_and_the_store_stays(
    repository: Repository, plain: MemorySource, text: str | None, state: str
) -> None:
    look = looks(repository, plain)
    look()
    commit = repository.commit(text, "A mistake")
    for _ in range(2):
        found = look()
        assert (found.state, standing(plain)) == (state, [5])
        assert found.commit == (None if text is None else commit)
    repository.commit(RULES.replace("5", "6"), "Mended")
    assert (look().state, standing(plain)) == ("published", [6])


def test_a_store_that_is_down_is_told_and_found_again(repository: Repository, plain: MemorySource) -> None:
    plain.fail(SourceUnavailable("the store is down"))
    look = looks(repository, plain)
    assert (look().state, look().text) == ("failed", "the store is down")
    assert look().commit == repository.git("rev-parse", "HEAD")
    plain.recover()
    assert look().state == "published"


def test_rules_that_nobody_published_from_git_are_not_written_over(repository: Repository, store: Readable) -> None:
    (item,) = store.items(["flow"])
    texts = (SourceText(item.key, b'[{"resource": "a", "grade": 1, "count": 6}]', "json"),)
    store.write(item, texts, expected=None, provenance=BY_HAND)  # type: ignore[attr-defined]
    look = looks(repository, store)
    assert (look().state, standing(store)) == ("drifted", [6])
    assert (look(HEAL).state, standing(store)) == ("healed", [5])


def test_a_store_that_is_in_git_itself_tells_its_own_commits_from_ours(repository: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.commit(None, "Begin")
    store = other.source()
    look = looks(repository, store)
    assert look().state == "published"
    other.commit(RULES.replace("5", "6"), "Bob's edit")
    assert look().state == "drifted"
    assert look(HEAL).state == "healed"


def test_a_deletion_in_the_store_is_an_edit(repository: Repository, plain: MemorySource) -> None:
    look = looks(repository, plain)
    look()
    plain.delete("flow")
    assert (look().state, look().text) == ("drifted", "edited in the store, not in Git: flow deleted by somebody")
    assert (look(HEAL).state, standing(plain)) == ("healed", [5])


def test_a_note_of_somebody_else_counts_as_none(repository: Repository, plain: MemorySource) -> None:
    look = looks(repository, plain)
    look()
    (item,) = plain.items(["flow"])
    plain.write_note(item, "sync", b"[]", expected=plain.note(item, "sync"), why="by hand")
    edit(plain, 6, BY_HAND)
    assert look().state == "drifted"


COMMITS = [
    "",
    "HEAD",
    "--help",
    "--fork-point",
    "main",
    "0" * 39,
    "c0ffee",
    "0" * 40 + ":main",
    "0" * 40 + "\n",
    7,
    None,
]


@pytest.mark.parametrize("commit", COMMITS)
def test_a_note_whose_commit_is_none_counts_as_none_and_is_written_anew(
    repository: Repository, plain: MemorySource, commit: object
) -> None:
    """Nothing of it reaches Git, or a command that somebody is told to type."""
    look = looks(repository, plain)
    look()
    (item,) = plain.items(["flow"])
    ours = plain.note(item, "sync")
    assert ours is not None
    forged = json.dumps(json.loads(ours) | {"commit": commit}).encode()
    plain.write_note(item, "sync", forged, expected=ours, why="by hand")
    assert (look().state, plain.note(item, "sync")) == ("in sync", ours)
    repository.commit(RULES.replace("5", "7"), "Raise it")
    plain.write_note(item, "sync", forged, expected=ours, why="by hand")
    assert (look().state, standing(plain)) == ("published", [7])


def test_healing_is_no_jump_however_far_the_edit_went(repository: Repository, store: Readable) -> None:
    look = looks(repository, store)
    assert look().state == "published"
    edit(store, 600, BY_HAND)
    assert look(HEAL).state == "healed"
    assert standing(store) == [5]
    edit(store, 600, BY_HAND)
    repository.commit(RULES.replace("5", "9000"), "Open the gates")
    assert look(HEAL).state == "refused", "what is new in Git is guarded"

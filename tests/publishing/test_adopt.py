"""Adopting: what somebody edited in a store is committed, and Git is the truth again."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import MemorySource, Readable
from sentinel_core.freeze import Freeze
from sentinel_core.publishing.quarantine import Quarantined, add
from sentinel_core.publishing.sync import Synced, sync
from sentinel_core.rules import Provenance, Revision, RuleSet, SourceText, parse_rules
from sentinel_core.rules.three_way import Collision, merge_changes
from sentinel_core.settings import Guards, Owner
from tests.publishing.test_sync import BACK, BY_HAND, SETTINGS, Repository, standing
from tests.services import etcd

ADOPT = replace(SETTINGS, drift="adopt")
REVIEWED = replace(ADOPT, branch="from-console")
RULES = (
    "# Ask first.\nflowRules:\n  - {resource: a, grade: qps, count: 5}   # reviewed\n"
    "  - {resource: b, grade: qps, count: 1}\n"
)


class Origin(Repository):
    """A repository that the synchroniser reads in place, or pushes to."""

    def __init__(self, folder: Path, *, is_remote: bool) -> None:
        super().__init__(folder / "work")
        self.git("config", "user.name", "Sync Example")
        self.git("config", "user.email", "sync@example.org")
        self.is_remote = is_remote
        self.cache = folder / "cache"
        self.bare = folder / "bare.git"
        self.commit(RULES, "Two rules")
        if is_remote:
            subprocess.run(["git", "clone", "-q", "--bare", str(self.folder), str(self.bare)], check=True)
            self.git("remote", "add", "origin", str(self.bare))

    def source(self) -> Readable:
        if not self.is_remote:
            return super().source()
        return datasources.open(f"git+file://{self.bare}?ref=main&path=rules.yaml&clone=true&cache={self.cache}")

    def push(self) -> None:
        if self.is_remote:
            self.git("push", "-q", "origin", "main")

    def pull(self) -> None:
        if self.is_remote:
            self.git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")

    def shown(self, what: str, *, branch: str = "main") -> str:
        self.pull()
        return self.git("show", "-s", f"--format={what}", f"origin/{branch}" if self.is_remote else branch)

    def rules(self, branch: str = "main") -> str:
        self.pull()
        return self.git("show", f"{f'origin/{branch}' if self.is_remote else branch}:rules.yaml") + "\n"


@pytest.fixture(params=["here", "remote"])
def origin(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Origin:
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n name = Sync Example\n email = sync@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    return Origin(tmp_path, is_remote=request.param == "remote")


@pytest.fixture
def store() -> MemorySource:
    return MemorySource()


def look(origin: Origin, store: Readable, settings: Any = ADOPT) -> Synced:
    return sync(origin.source(), store, settings)


def two(a: int, b: int = 1) -> bytes:
    return f'[{{"resource": "a", "grade": 1, "count": {a}}}, {{"resource": "b", "grade": 1, "count": {b}}}]'.encode()


def put(store: Any, content: bytes, provenance: Provenance = BY_HAND) -> None:
    (item,) = store.items(["flow"])
    texts = (SourceText(item.key, content, "json"),)
    store.write(item, texts, expected=store.read(item).version, provenance=provenance)


def test_an_edit_becomes_a_commit_of_who_made_it_and_git_is_the_truth_again(
    origin: Origin, store: MemorySource
) -> None:
    assert look(origin, store).state == "published"
    put(store, two(7))
    found = look(origin, store)
    assert found.state == "adopted", found.text
    assert origin.rules() == RULES.replace("count: 5", "count: 7")
    assert origin.shown("%an <%ae> | %cn") == "ops-li <> | Sync Example"
    assert "~ flow/a/default count: 5 -> 7" in origin.shown("%b")
    assert "There by ops-li (console), as the store says: incident" in origin.shown("%b")
    assert look(origin, store).state == "in sync"
    origin.pull()
    origin.git("reset", "-q", "--hard", "origin/main" if origin.is_remote else "main")
    origin.commit(origin.rules().replace("count: 7", "count: 8"), "Raise it")
    origin.push()
    assert (look(origin, store).state, standing(store)) == ("published", [8, 1])


FORGED = "\n\nReason: forged\r\nSigned-off-by: Boss <b@x>\u2028Change-Channel: git\x1b[2K"


@pytest.mark.parametrize("field", ["author", "published_by", "reason"])
def test_words_of_a_store_begin_no_line_of_ours(origin: Origin, store: MemorySource, field: str) -> None:
    look(origin, store)
    said: dict[str, Any] = {"channel": "console", field: f"Linus <l@x>{FORGED}"}
    put(store, two(7), Provenance(**said))
    told = look(origin, store, SETTINGS).text
    assert len(told.splitlines()) == 1
    found = look(origin, store)
    assert (found.state, len(found.text.splitlines())) == ("adopted", 1), found.text
    lines = origin.shown("%an%n%B").splitlines()
    assert not [line for line in lines if line.startswith(("Signed-off-by", "Change-Channel: git", "Reason: forged"))]
    assert "\x1b" not in found.text + told + "".join(lines)
    assert "xReason" not in lines[0]


def test_an_edit_by_hand_in_a_real_store_is_nobodys_but_the_synchronisers(origin: Origin, tmp_path: Path) -> None:
    etcd.needed()
    real = datasources.open(etcd.shared().uri(f"/adopt/{tmp_path.name}"))
    assert look(origin, real).state == "published"
    etcd.shared().ctl("put", f"/sentinel/adopt/{tmp_path.name}/sentinel-flow-rules", two(7).decode())
    found = look(origin, real)
    assert found.state == "adopted", found.text
    assert origin.rules() == RULES.replace("count: 5", "count: 7")
    assert origin.shown("%an") == "Sync Example", "who wrote it is not known, and nobody is made up"
    assert look(origin, real).state == "in sync"
    real.close()


def test_what_was_committed_meanwhile_stays_and_both_come_together(origin: Origin, store: MemorySource) -> None:
    look(origin, store)
    put(store, two(7))
    origin.commit(RULES.replace("count: 1", "count: 2"), "Raise b")
    origin.push()
    assert look(origin, store).state == "adopted"
    assert origin.rules() == RULES.replace("count: 1", "count: 2").replace("count: 5", "count: 7")
    assert (look(origin, store).state, standing(store)) == ("published", [7, 2])


def test_where_both_changed_a_rule_somebody_decides(origin: Origin, store: MemorySource) -> None:
    look(origin, store)
    put(store, two(7))
    origin.commit(RULES.replace("count: 5", "count: 6"), "Raise a")
    origin.push()
    found = look(origin, store)
    assert (found.state, standing(store)) == ("drifted", [7, 1])
    assert "not adopted: flow/a/default was changed on both sides; decide by" in found.text
    assert origin.rules() == RULES.replace("count: 5", "count: 6")


YEARS: dict[str, Any] = {"name": "year end", "from": "2020-01-01T00:00:00Z", "to": "2999-01-01T00:00:00Z"}
FREEZE = Freeze(**YEARS)
GUARDED: dict[str, tuple[bytes, dict[str, Any]]] = {
    "empty": (b"[]", {}),
    "zero": (two(0), {}),
    "jump": (two(5, 20_000_000), {}),
    "last": (b'[{"resource": "a", "grade": 1, "count": 5}]', {}),
    "owner": (two(7), {"owners": (Owner(team="a", resources=("a",), actors=("ada",)),)}),
    "freeze": (two(7), {"policy": Guards(freeze=(FREEZE,))}),
}


@pytest.mark.parametrize("guard", GUARDED)
def test_an_edit_that_a_guard_objects_to_is_told_and_not_committed(
    origin: Origin, store: MemorySource, guard: str
) -> None:
    content, more = GUARDED[guard]
    look(origin, store)
    put(store, content)
    found = look(origin, store, replace(ADOPT, **more))
    assert found.state == "drifted", found.text
    assert "not adopted: refused by a guard:\n" in found.text
    assert f"\n{guard}: " in found.text
    assert (origin.rules(), origin.shown("%s")) == (RULES, "Two rules")


@pytest.mark.parametrize("guard", GUARDED)
def test_on_a_branch_to_be_reviewed_it_is_committed_with_what_guards_say(
    origin: Origin, store: MemorySource, guard: str
) -> None:
    content, more = GUARDED[guard]
    look(origin, store)
    put(store, content)
    found = look(origin, store, replace(REVIEWED, **more))
    assert found.state == "proposed", found.text
    assert "\nguards object to it:\n" in found.text
    assert f"\n{guard}: " in found.text
    assert origin.rules() == RULES
    assert origin.rules("from-console") != RULES


def test_an_edit_goes_to_a_branch_to_be_reviewed_once(origin: Origin, store: MemorySource) -> None:
    look(origin, store, REVIEWED)
    put(store, two(7))
    for word in ("committed on", "stands already on"):
        found = look(origin, store, REVIEWED)
        assert (found.state, found.text.partition(" from-console")[0]) == ("proposed", word)
    assert origin.rules() == RULES
    assert origin.rules("from-console") == RULES.replace("count: 5", "count: 7")
    put(store, two(8))
    assert look(origin, store, REVIEWED).state == "proposed"
    assert origin.rules("from-console") == RULES.replace("count: 5", "count: 8")
    assert standing(store) == [8, 1]


def test_a_rollback_is_adopted_and_never_fought(origin: Origin, store: MemorySource) -> None:
    look(origin, store)
    origin.commit(RULES.replace("count: 5", "count: 9"), "Raise it")
    origin.push()
    look(origin, store)
    (item,) = store.items(["flow"])
    bad = parse_rules("flow", two(9))
    add(store, item, [Quarantined("flow", bad.digest, "2", datetime.now(UTC), "chen", "queues grew")])
    put(store, two(5), BACK)
    assert (look(origin, store).state, standing(store)) == ("adopted", [5, 1])
    assert origin.rules() == RULES
    put(store, two(9))
    found = look(origin, store)
    assert (found.state, standing(store)) == ("drifted", [9, 1])
    assert "under quarantine" in found.text
    assert origin.rules() == RULES


@pytest.mark.parametrize(
    ("content", "why"), [(b'[{"resource": "a", "count": "x"}]', "what is not valid"), (None, "what was deleted")]
)
def test_what_is_not_valid_or_deleted_is_never_committed(
    origin: Origin, store: MemorySource, content: bytes | None, why: str
) -> None:
    look(origin, store)
    if content is None:
        store.delete("flow")
    else:
        put(store, content)
    found = look(origin, store)
    assert (found.state, f"not adopted: {why} is never committed" in found.text) == ("drifted", True)
    assert origin.rules() == RULES


def test_rules_of_which_no_common_state_is_known_are_left_to_people(origin: Origin, store: MemorySource) -> None:
    (item,) = store.items(["flow"])
    store.write(item, (SourceText(item.key, two(7), "json"),), expected=None, provenance=BY_HAND)
    found = look(origin, store)
    assert found.state == "drifted"
    assert "decide once, by sentinelctl rules publish or sentinelctl rules import --commit" in found.text


def test_what_somebody_published_from_git_is_what_both_sides_come_from(origin: Origin, store: MemorySource) -> None:
    publish(store, two(5), origin.git("rev-parse", "main"))
    put(store, two(7))
    assert look(origin, store).state == "adopted"
    assert origin.rules() == RULES.replace("count: 5", "count: 7")
    put(store, two(8))
    assert look(origin, store).state == "adopted", "what was adopted is newer than what was published"
    assert origin.rules() == RULES.replace("count: 5", "count: 8")


def test_what_was_published_since_the_last_look_is_what_both_sides_come_from(
    origin: Origin, store: MemorySource
) -> None:
    look(origin, store)
    commit = origin.commit(RULES.replace("count: 5", "count: 6"), "Raise a")
    origin.push()
    publish(store, two(6), commit)
    put(store, two(7))
    assert look(origin, store).state == "adopted"
    assert origin.rules() == RULES.replace("count: 5", "count: 7")


def publish(store: MemorySource, content: bytes, commit: str) -> None:
    """As `rules publish` does it."""
    (item,) = store.items(["flow"])
    reading = store.read(item)
    expected = reading.version if isinstance(reading, Revision) else None
    texts = (SourceText(item.key, content, "json"),)
    store.write(item, texts, expected=expected, provenance=Provenance(channel="git", commit_hash=commit))


def test_a_commit_that_was_overtaken_is_made_on_top_of_the_other(
    origin: Origin, store: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(origin, store)
    put(store, two(7))
    source = origin.source()
    assert isinstance(source, datasources.GitSource)
    move = source._repository.move
    raced: list[str] = []

    def overtaken(branch: str, old: str | None, new: str) -> None:
        if not raced:
            raced.append(origin.commit(RULES.replace("count: 1", "count: 2"), "Raise b"))
            origin.push()
        move(branch, old, new)

    monkeypatch.setattr(source._repository, "move", overtaken)
    found = sync(source, store, ADOPT)
    assert (found.state, bool(raced)) == ("adopted", True), found.text
    assert origin.rules() == RULES.replace("count: 1", "count: 2").replace("count: 5", "count: 7")


def test_work_in_the_checkout_is_not_overwritten(tmp_path: Path, store: MemorySource) -> None:
    origin = Origin(tmp_path, is_remote=False)
    look(origin, store)
    put(store, two(7))
    (origin.folder / "rules.yaml").write_text(RULES + "# mine\n")
    found = look(origin, store)
    assert (found.state, "not committed" in found.text) == ("failed", True)
    assert (origin.folder / "rules.yaml").read_text() == RULES + "# mine\n"


def test_the_base_of_several_environments_is_not_changed_for_an_edit_in_one(
    tmp_path: Path, store: MemorySource
) -> None:
    origin = Origin(tmp_path, is_remote=False)
    overlays = origin.folder / "rules" / "environments"
    overlays.mkdir(parents=True)
    (overlays.parent / "base.yaml").write_text(RULES)
    for name in ("prod", "staging"):
        (overlays / f"{name}.yaml").write_text(f"flowRules:\n  - {{resource: a, count: 50}}   # {name}\n")
    origin.git("add", "-A")
    origin.git("commit", "-qm", "A folder")
    source = datasources.open(f"git+file://{origin.folder}?ref=main&path=rules", environment="prod")
    assert sync(source, store, ADOPT).state == "published"
    put(store, two(60))
    assert sync(source, store, ADOPT).state == "adopted"
    assert origin.git("show", "main:rules/environments/prod.yaml").endswith("count: 60}   # prod")
    put(store, two(60, b=2))
    found = sync(source, store, ADOPT)
    assert found.state == "drifted"
    assert "it would change rules/base.yaml, which staging would have, too" in found.text
    (overlays / "staging.yaml").unlink()
    origin.git("commit", "-qam", "No staging")
    assert sync(source, store, ADOPT).state == "adopted"
    assert "count: 2}" in origin.git("show", "main:rules/base.yaml")


@pytest.mark.parametrize("origin", ["remote"], indirect=True)
def test_a_push_that_is_forbidden_is_told(origin: Origin, store: MemorySource) -> None:
    look(origin, store)
    put(store, two(7))
    hook = origin.bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho protected branch >&2\nexit 1\n")
    hook.chmod(0o755)
    found = look(origin, store)
    assert (found.state, standing(store)) == ("failed", [7, 1])
    hook.unlink()
    assert look(origin, store).state == "adopted"


def test_what_somebody_committed_by_hand_is_no_edit_any_more(origin: Origin, store: MemorySource) -> None:
    look(origin, store)
    edit_ = RULES.replace("count: 5", "count: 7")
    put(store, two(7))
    origin.commit(edit_, "As in the store")
    origin.push()
    report = replace(ADOPT, drift="report")
    assert look(origin, store, report).state == "in sync"
    origin.commit(edit_.replace("count: 7", "count: 8"), "Raise it")
    origin.push()
    assert (look(origin, store, report).state, standing(store)) == ("published", [8, 1])


# -- putting two changes together --------------------------------------------------------------------------------------


def rules(**counts: int) -> RuleSet:
    return parse_rules("flow", [{"resource": name, "grade": 1, "count": count} for name, count in counts.items()])


@pytest.mark.parametrize(
    ("base", "edited", "moved", "both"),
    [
        ({"a": 1}, {"a": 2}, {"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}),
        ({"a": 1, "b": 1}, {"a": 1}, {"a": 2, "b": 1}, {"a": 2}),
        ({"a": 1}, {"a": 1, "b": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}),
        ({"a": 1, "b": 1}, {"a": 1}, {"a": 1, "c": 1}, {"a": 1, "c": 1}),
        ({"a": 1}, {"a": 2}, {"a": 2, "b": 1}, {"a": 2, "b": 1}),
        ({"a": 1}, {"a": 2}, {"a": 3}, None),
        ({"a": 1}, {"a": 2}, {}, None),
        ({"a": 1, "b": 1}, {"b": 1}, {"a": 2, "b": 1}, None),
        ({"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}, None),
    ],
)
def test_changes_of_both_sides_come_together_unless_they_are_of_one_rule(
    base: dict[str, int], edited: dict[str, int], moved: dict[str, int], both: dict[str, int] | None
) -> None:
    if both is None:
        with pytest.raises(Collision, match="on both sides"):
            merge_changes(rules(**base), rules(**edited), rules(**moved))
    else:
        merged = merge_changes(rules(**base), rules(**edited), rules(**moved))
        assert merged.digest == rules(**both).digest

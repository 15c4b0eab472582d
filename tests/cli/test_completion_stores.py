"""Completion of what stands in stores: revisions, rules, locks, quarantine. Asked of real ones."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Complete, Project, Run, Shop, git, ok


@pytest.fixture
def published(shop: Shop) -> Shop:
    """Two revisions: 20, and then 25."""
    ok(shop.run("rules", "publish", "--yes"))
    shop.commit(25, "Raise it\n\nReason: token=hunter2 sale, at noon")
    ok(shop.run("rules", "publish", "--yes"))
    return shop


def remembers(shop: Shop) -> bool:
    """Whether the store itself knows what stood there before."""
    return not shop.store.startswith("file")


def test_revisions_are_offered_the_newest_first_with_who_when_and_why(published: Shop, complete: Complete) -> None:
    told = complete("rules rollback --kind flow --to ")
    if not remembers(published):
        assert list(told) == ["1"], "without a memory, and nobody was told of anything: what stands there"
        return
    assert list(told) == ["2", "1"]
    assert told["2"].startswith("Ada Example, ")
    assert told["2"].endswith(" ago: token=*** sale, at noon")
    assert list(complete("rules history --kind flow --before ")) == ["2", "1"]
    assert list(complete("rules diff --kind flow history:")) == ["history:2", "history:1"]


def test_versions_are_offered_as_the_history_has_them(published: Shop, complete: Complete) -> None:
    if not remembers(published):
        return
    names = ok(published.run("rules", "history", "--kind", "flow", "-o", "name")).out.split()
    offered = list(complete("rules rollback --kind flow --to-commit "))
    assert [name for name in names if any(name.startswith(each) for each in offered)] == names
    ok(published.run("rules", "rollback", "--kind", "flow", "--to-commit", offered[-1], "--dry-run"))


def test_plans_are_offered_that_a_rollback_can_undo(published: Shop, complete: Complete) -> None:
    if not remembers(published):
        return
    told = complete("rules rollback --plan ")
    entries = json.loads(ok(published.run("rules", "history", "-o", "json")).out)["revisions"]
    assert list(told) == list(dict.fromkeys(each["planId"] for each in entries if each["planId"]))
    assert len(told) == 2
    ok(published.run("rules", "rollback", "--plan", next(iter(told)), "--dry-run"))


def test_rules_that_stand_in_the_store_alone_have_their_names_offered(published: Shop, complete: Complete) -> None:
    (published.here / "rules.yaml").write_text("flowRules:\n  - {resource: new, grade: qps, count: 1}\n")
    assert sorted(complete("rules show --resource ")) == ["coupon", "new", "payment_invoke"]
    assert list(complete("rules explain coup")) == ["coupon"]


def test_locks_are_offered_with_their_holder_and_reason(published: Shop, complete: Complete) -> None:
    lock = ok(published.run("lock", "hold", "--reason", "incident 42", "-o", "name")).out.strip()
    for line in ("lock release ", "lock break ", "rules publish --lock ", f"lock break --store {published.store} "):
        told = complete(line)
        assert list(told) == [lock], line
        assert re.search(r" \(hold\), \d+ s ago: incident 42$", told[lock])


def test_what_is_under_quarantine_is_offered_in_short(published: Shop, complete: Complete) -> None:
    if not remembers(published):
        return
    ok(published.run("rules", "rollback", "--kind", "flow", "--reason", "too much", "--yes"))
    (held,) = json.loads(ok(published.run("rules", "quarantine", "-o", "json")).out)["quarantined"]
    told = complete("rules release ")
    assert list(told) == [held["digest"][:12]]
    assert told[held["digest"][:12]].endswith(" ago: too much")
    if not published.store.startswith("git"):  # where one document holds every kind
        assert complete("rules release --kind degrade ") == {}


def test_the_store_that_is_named_on_the_line_is_asked(plain: Shop, complete: Complete) -> None:
    other = plain.here / "other"
    other.mkdir()
    uri = f"file://{other}?format=json"
    (lock,) = ok(plain.run("lock", "hold", "--reason", "x", "--store", uri, "-o", "name")).out.split()
    assert complete("lock release ") == {}
    assert list(complete(f"lock release --store {uri} ")) == [lock]


def test_the_context_that_is_written_to_is_asked(plain: Shop, complete: Complete) -> None:
    """`TO` stands before an option whose value is not written yet."""
    (plain.here / "other").mkdir()
    uri = f"file://{plain.here}/other?format=json"
    ok(plain.run("config", "set-context", "prod", f"stores={uri}"))
    (lock,) = ok(plain.run("lock", "hold", "--reason", "x", "--context", "prod", "-o", "name")).out.split()
    assert list(complete("rules promote staging prod --lock ")) == [lock]
    assert list(complete("lock release --context prod ")) == [lock]
    assert complete("rules publish --lock ") == {}


def test_commits_are_told_with_who_when_and_what(project: Project, complete: Complete) -> None:
    git(project.repo, "tag", "v1", "HEAD~1")
    told = complete("rules diff git:")
    assert list(told)[:3] == ["git:HEAD", "git:main", "git:v1"]
    head = f"git:{project.head()[:12]}"
    assert told[head].startswith("Ada Example, ")
    assert told[head].endswith(": Raise it again")


def test_commits_are_those_of_the_store_where_the_rules_are_in_no_repository(
    project: Project, complete: Complete
) -> None:
    settings = project.folder / "sentinel.yaml"
    settings.write_text(settings.read_text().replace("rules: repo/sentinel-rules.yaml", "rules: elsewhere.yaml"))
    assert f"git:{project.head()[:12]}" in complete("rules diff git:")


def test_no_repository_is_cloned_for_an_answer(project: Project, complete: Complete) -> None:
    uri = f"git+file://{project.repo}?ref=main&path=sentinel-rules.yaml&clone=true&cache={project.folder}/clones"
    (project.folder / "sentinel.yaml").write_text(f"stores: ['{uri}']\n")
    for line in ("rules rollback --to ", "rules rollback --to-commit ", "rules show --resource ", "lock release "):
        assert complete(line) == {}
    assert not (project.folder / "clones").exists()


def test_nothing_is_written_for_an_answer(project: Project, complete: Complete, sentinelctl: Run) -> None:
    before = {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()}
    for line in ("rules rollback --to ", "rules show --resource ", "rules release ", "lock release ", "audit who "):
        complete(line)
    assert {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()} == before


def test_no_credential_is_offered(plain: Shop, complete: Complete) -> None:
    (plain.here / "rules.yaml").write_text("flowRules:\n  - {resource: 'token=hunter2', grade: qps, count: 1}\n")
    (plain.here / "sentinel.yaml").write_text("rules: rules.yaml\nstores: ['etcd://chen:hunter2@127.0.0.1:1/x']\n")
    for line in ("rules explain ", "rules drift --store ", "config set-context prod stores=", "rules diff "):
        assert "hunter2" not in str(complete(line)), line

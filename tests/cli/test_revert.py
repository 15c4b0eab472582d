"""`rules rollback --open-revert`: what is rolled back in a store is reverted in the repository that it came from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sentinel_core.cli.exits import Exit
from tests.cli.conftest import RULES, Run, Shop, git, ok
from tests.services import etcd

COMMENTED = RULES.replace("flowRules:\n", "# Ask first.\nflowRules:\n  # the bank takes 30\n")


class Revertible(Shop):
    """Whose rules carry comments, and which knows who commits."""

    def write(self, count: float) -> None:
        (self.here / "rules.yaml").write_text(COMMENTED.replace("20", str(count)), encoding="utf-8")

    def text(self, rev: str) -> str:
        return git(self.here, "show", f"{rev}:rules.yaml") + "\n"


@pytest.fixture(params=["etcd", "git"])
def shop(request: pytest.FixtureRequest, here: Path, sentinelctl: Run) -> Revertible:
    if request.param == "etcd":
        etcd.needed()
        store = etcd.shared().uri(f"/revert/{here.parent.name}")
    else:
        (here / "repo").mkdir()
        git(here / "repo", "init", "-qb", "main")
        git(here / "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
        store = f"git+file://{here}/repo?ref=main&path=sentinel-rules.yaml"
    made = Revertible(here, store, sentinelctl)
    ok(made.run("rules", "publish", "--yes"))
    return made


def rollback(shop: Shop, *more: str) -> list[str]:
    kind = [] if shop.store.startswith("git") else ["--kind", "flow"]
    return ["rules", "rollback", *kind, "--yes", *more]


def branches(shop: Shop) -> list[str]:
    return git(shop.here, "branch", "--format=%(refname:short)").split()


def test_the_revert_waits_on_a_branch_of_its_own(shop: Revertible) -> None:
    bad = shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    done = ok(shop.run(*rollback(shop, "--open-revert", "--reason", "queues grew")))
    (branch,) = [name for name in branches(shop) if name != "main"]
    assert f"git -C {shop.here} show {branch}    (the repository has no remote to push it to)" in done.err
    assert shop.text(branch) == COMMENTED
    assert shop.text("main") == COMMENTED.replace("20", "25")
    assert (shop.here / "rules.yaml").read_text() == COMMENTED.replace("20", "25")
    assert git(shop.here, "rev-parse", f"{branch}~1") == bad
    message = git(shop.here, "show", "-s", "--format=%B", branch)
    assert "Reason: queues grew" in message
    assert "~ flow/payment_invoke/default" in message
    if shop.store.startswith("etcd"):
        assert branch == f"revert-{bad[:12]}"
        assert f"Rollback-of: {bad}" in message
    assert shop.standing()["count"] == 20


def test_what_was_committed_after_the_bad_commit_stays(shop: Revertible) -> None:
    shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    later = COMMENTED.replace("20", "25").replace("count: 5}", "count: 6}   # more")
    (shop.here / "rules.yaml").write_text(later)
    git(shop.here, "commit", "-qam", "Raise coupon")
    ok(shop.run(*rollback(shop, "--open-revert")))
    (branch,) = [name for name in branches(shop) if name != "main"]
    assert shop.text(branch) == later.replace("25", "20")


def test_a_conflict_is_told_and_the_rollback_stands(shop: Revertible) -> None:
    shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    shop.commit(30, "Raise it again")
    ended = shop.run(*rollback(shop, "--open-revert"))
    assert ended.code == Exit.CONFLICT
    assert "the rollback in the store stands, but no revert was opened: " in ended.err
    assert "flow/payment_invoke/default was changed on both sides" in ended.err
    assert branches(shop) == ["main"]
    assert shop.standing()["count"] == 20


def test_a_branch_that_is_there_is_not_moved(shop: Revertible) -> None:
    shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    ok(shop.run(*rollback(shop)))
    ok(shop.run(*rollback(shop, "--open-revert")))
    (branch,) = [name for name in branches(shop) if name != "main"]
    stands = git(shop.here, "rev-parse", branch)
    again = shop.run(*rollback(shop, "--open-revert"))
    assert again.code == Exit.CONFLICT
    assert git(shop.here, "rev-parse", branch) == stands


def test_rules_that_git_does_not_hold_need_no_revert(shop: Revertible) -> None:
    shop.write(25)
    ok(shop.run("rules", "publish", "--yes", "--reason", "incident"))
    git(shop.here, "checkout", "-q", "--", "rules.yaml")
    done = ok(shop.run(*rollback(shop, "--open-revert")))
    assert "holds nothing of what was undone; there is nothing to revert" in done.err
    assert branches(shop) == ["main"]


DEGRADE = "degradeRules:\n  - {resource: gateway, grade: error_count, count: 5, timeWindow: 5}\n"


@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped", "added"])
def test_a_section_that_went_comes_back_and_one_that_came_goes(shop: Revertible, *, is_dropped: bool) -> None:
    if shop.store.startswith("etcd"):
        pytest.skip("one kind at a time, each of which stands by itself")
    everything = ["--allow-empty", "--allow-last", "--reason", "tidy"]
    good, bad = (COMMENTED + DEGRADE, COMMENTED) if is_dropped else (COMMENTED, COMMENTED + DEGRADE)
    for content in (good, bad):
        (shop.here / "rules.yaml").write_text(content)
        git(shop.here, "commit", "-qam", "Change sections", "--allow-empty")
        ok(shop.run("rules", "publish", "--yes", *everything))
    (shop.here / "repo" / "sentinel-rules.yaml").write_text(bad)  # a document is published with all of its kinds
    if git(shop.here / "repo", "status", "--porcelain"):
        git(shop.here / "repo", "commit", "-qam", "Drop a section")
    done = ok(shop.run(*rollback(shop, "--open-revert", "--reason", "tidy")))
    (branch,) = [name for name in branches(shop) if name != "main"]
    assert ("gateway" in shop.text(branch)) == is_dropped
    assert COMMENTED in shop.text(branch)
    assert f"show {branch}" in done.err


def test_a_remote_gets_the_branch_pushed(shop: Revertible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shop.store.startswith("git"):
        pytest.skip("the same with every store")
    shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(shop.here), str(bare)], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    origin = f"git+file://{bare}?ref=main&path=rules.yaml&clone=true"
    (shop.here / "sentinel.yaml").write_text(f"rules: none.yaml\nstores: ['{shop.store}', '{origin}']\n")
    done = ok(shop.run(*rollback(shop, "--open-revert")))
    assert "revert-" in git(bare, "branch")
    assert "It is pushed; open the request for revert-" in done.err
    assert "To have it reviewed" not in done.err

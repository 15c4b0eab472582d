"""`rules promote`: the rules of one environment into another, by the path that every publish takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ended, Run, git
from tests.cli.test_process import on_terminal
from tests.services import etcd, nacos

RULES = (
    "flowRules:\n  - {resource: payment_invoke, grade: qps, count: 20}\n  - {resource: coupon, grade: qps, count: 5}\n"
)


class Two:
    """A repository with rules as code, and two contexts with a store each."""

    def __init__(self, here: Path, stores: tuple[str, str], run: Run) -> None:
        self.here, self.stores, self.run = here, stores, run
        (here / "sentinel.yaml").write_text(
            "rules: rules.yaml\ncontexts:\n"
            f"  staging: {{environment: staging, stores: ['{stores[0]}']}}\n"
            f"  prod: {{environment: prod, stores: ['{stores[1]}'], production: true}}\n",
            encoding="utf-8",
        )
        git(here, "init", "-qb", "main")

    def commit(self, text: str, message: str) -> str:
        (self.here / "rules.yaml").write_text(text, encoding="utf-8")
        git(self.here, "add", "rules.yaml")
        git(self.here, "commit", "-qm", message)
        return git(self.here, "rev-parse", "HEAD")

    def stage(self, count: int, reason: str = "sale") -> str:
        commit = self.commit(RULES.replace("20", str(count)), f"Payment at {count}\n\nReason: {reason}")
        ok(self.run("rules", "publish", "--context", "staging", "--yes"))
        return commit

    def standing(self, context: str) -> dict[str, Any]:
        found = json.loads(ok(self.run("rules", "show", "-o", "json", "--context", context)).out)
        (revision,) = found["revisions"]
        return {**{each["rule"]["resource"]: each["rule"]["count"] for each in found["rules"]}, **revision}


def ok(ended: Ended) -> Ended:
    assert ended.code == 0, ended.err
    return ended


@pytest.fixture(params=["lists to file", "git to git", "etcd to nacos-3"])
def two(request: pytest.FixtureRequest, here: Path, sentinelctl: Run) -> Two:
    own = here.parent.name
    if request.param == "etcd to nacos-3":
        etcd.needed()
        nacos.needed(3)
        return Two(here, (etcd.shared().uri(f"/promote/{own}"), nacos.shared(3).uri(group=own)), sentinelctl)
    if request.param == "git to git":
        for name in ("one", "two"):
            (here / name).mkdir()
            git(here / name, "init", "-qb", "main")
            git(here / name, "commit", "-q", "--allow-empty", "-m", "Begin")
        one, other = (f"git+file://{here}/{name}?ref=main&path=sentinel-rules.yaml" for name in ("one", "two"))
        return Two(here, (one, other), sentinelctl)
    return plain_stores(here, sentinelctl)


def plain_stores(here: Path, sentinelctl: Run) -> Two:
    (here / "lists").mkdir()
    return Two(here, (f"file://{here}/lists?format=json", f"file://{here}/prod.yaml"), sentinelctl)


@pytest.fixture
def plain(here: Path, sentinelctl: Run) -> Two:
    return plain_stores(here, sentinelctl)


def test_what_stands_in_one_is_shown_and_written_into_the_other(two: Two) -> None:
    commit = two.stage(21)
    shown = ok(two.run("rules", "promote", "staging", "prod", "--dry-run"))
    assert "+ payment_invoke  qps ≤ 21" in shown.out
    assert two.run("rules", "show", "--context", "prod").code == 2, "nothing was written"
    ok(two.run("rules", "promote", "staging", "prod", "--yes"))
    stands = two.standing("prod")
    assert (stands["payment_invoke"], stands["coupon"]) == (21, 5)
    assert "Nothing to do" in ok(two.run("rules", "promote", "staging", "prod")).err
    assert stands["author"] == "Ada Example <ada@example.org>"
    assert stands["reason"] == "sale (promoted from staging)"
    if not two.stores[1].startswith("git"):  # a Git store is told by a commit of its own
        assert (stands["commitHash"], stands["environment"]) == (commit, "prod")
        assert stands["publishedBy"]


def test_two_uris_do_as_well(plain: Two) -> None:
    plain.stage(21)
    ok(plain.run("rules", "promote", *plain.stores, "--yes", "--kind", "flow"))
    assert plain.standing("prod")["payment_invoke"] == 21


def test_the_guards_are_those_of_where_it_goes(plain: Two) -> None:
    plain.stage(20)
    ok(plain.run("rules", "promote", "staging", "prod", "--yes"))
    ok(plain.run("config", "set-context", "prod", "guards.maxJump=2"))
    plain.stage(90)
    refused = plain.run("rules", "promote", "staging", "prod", "--yes")
    assert (refused.code, "jump: " in refused.err) == (3, True)
    assert plain.standing("prod")["payment_invoke"] == 20
    assert plain.run("rules", "promote", "staging", "prod", "--yes", "--allow-jump").code == 64
    ok(plain.run("rules", "promote", "staging", "prod", "--yes", "--allow-jump", "--reason", "the sale"))
    assert plain.standing("prod")["payment_invoke"] == 90


def test_a_plan_is_saved_and_applied_as_any_other(plain: Two) -> None:
    plain.stage(21)
    saved = ok(plain.run("rules", "promote", "staging", "prod", "-o", "release.plan"))
    assert "sentinelctl rules apply release.plan" in saved.err
    assert not (plain.here / "prod.yaml").exists()
    ok(plain.run("rules", "apply", "release.plan", "--yes", "--context", "prod"))
    assert plain.standing("prod")["payment_invoke"] == 21
    again = ok(plain.run("rules", "promote", "staging", "prod", "-o", "again.plan")).err
    assert "Nothing to do: these rules stand there." in again
    assert "Carry it out" not in again
    (plain.here / "prod.yaml").write_text("flowRules: []\n", encoding="utf-8")
    assert plain.run("rules", "apply", "release.plan", "--yes", "--context", "prod").code == 5


def test_into_production_its_name_is_typed(plain: Two) -> None:
    plain.stage(21)
    assert plain.run("rules", "promote", "staging", "prod").code == 64
    for answer, code in (("y\n", 2), ("prod\n", 0)):
        ended, shown = on_terminal("rules", "promote", "staging", "prod", cwd=plain.here, answer=answer)
        assert "[prod] Write this to file://" in shown
        assert ended == code, shown


@pytest.mark.parametrize(
    ("names", "code", "said"),
    [
        (("staging", "staging"), 64, "are the same store"),
        (("stagin", "prod"), 78, "there is no context stagin; did you mean staging?"),
        (("staging", "prud"), 78, "there is no context prud; did you mean prod?"),
        (("staging", "prod", "--reason", " "), 64, "the reason is blank"),
        (("prod", "staging"), 2, "nothing stands in the store"),
        (("both", "prod"), 78, "the context both names 2 stores"),
        (("staging", "none"), 78, "no store is configured"),
        (("staging", "consul://h"), 78, "consul"),
    ],
)
def test_what_cannot_be_promoted_is_told(plain: Two, names: tuple[str, ...], code: int, said: str) -> None:
    plain.stage(21)
    ok(plain.run("config", "set-context", "both", "stores=file:///a.yaml file:///b.yaml"))
    ok(plain.run("config", "set-context", "none"))
    ended = plain.run("rules", "promote", *names, "--yes")
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert not (plain.here / "prod.yaml").exists()


def test_kinds_of_several_commits_name_each_of_them(here: Path, sentinelctl: Run) -> None:
    etcd.needed()
    own = here.parent.name
    two = Two(here, (etcd.shared().uri(f"/from/{own}"), etcd.shared().uri(f"/to/{own}")), sentinelctl)
    two.stage(20, "first")
    degrade = "degradeRules:\n  - {resource: payment_invoke, grade: slow_ratio, count: 500, timeWindow: 5}\n"
    two.commit(RULES + degrade, "Breaker\n\nReason: second")
    ok(two.run("rules", "publish", "--context", "staging", "--yes"))
    ok(two.run("rules", "promote", "staging", "prod", "--yes"))
    found = json.loads(ok(two.run("rules", "show", "-o", "json", "--context", "prod")).out)
    for each in found["revisions"]:
        assert "of Ada Example" in each["reason"]
        assert ": first; " in each["reason"] or ": second; " in each["reason"]
        assert each["reason"].endswith("(promoted from staging)")


def test_a_kind_that_is_written_alone_keeps_its_own_author(here: Path, sentinelctl: Run) -> None:
    etcd.needed()
    own = here.parent.name
    two = Two(here, (etcd.shared().uri(f"/from/{own}"), etcd.shared().uri(f"/to/{own}")), sentinelctl)
    degrade = "degradeRules:\n  - {resource: payment_invoke, grade: slow_ratio, count: 500, timeWindow: 5}\n"
    two.commit(RULES + degrade, "Both\n\nReason: first")
    ok(two.run("rules", "publish", "--context", "staging", "--yes"))
    ok(two.run("rules", "promote", "staging", "prod", "--yes"))
    commit = two.commit(RULES.replace("20", "25") + degrade, "Raise it\n\nReason: second")
    ok(two.run("rules", "publish", "--context", "staging", "--yes"))
    ok(two.run("rules", "promote", "staging", "prod", "--yes"))
    found = json.loads(ok(two.run("rules", "show", "-o", "json", "--context", "prod", "--kind", "flow")).out)
    (stands,) = found["revisions"]
    assert stands["author"] == "Ada Example <ada@example.org>"
    assert (stands["reason"], stands["commitHash"]) == ("second (promoted from staging)", commit)

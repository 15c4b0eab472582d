"""`rules rollback` of a publish that wrote several kinds, in stores that keep each by itself: all at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.cli.exits import Exit
from sentinel_core.datasources.contract import SourceUnavailable
from sentinel_core.datasources.etcd.source import EtcdSource
from tests.cli.conftest import RULES, Run, Shop, git, new_store, ok, shop_with


def breakers(count: int) -> str:
    return f"degradeRules:\n  - {{resource: payment_invoke, grade: slow_ratio, count: {count}, timeWindow: 5}}\n"


class Two(Shop):
    """Whose rules are of two kinds."""

    def write(self, count: float) -> None:
        text = RULES.replace("20", str(count)) + breakers(int(count) * 10)
        (self.here / "rules.yaml").write_text(text, encoding="utf-8")

    def counts(self) -> dict[str, float]:
        """What stands for payment_invoke, by kind."""
        found = json.loads(ok(self.run("rules", "show", "--resource", "payment_invoke", "-o", "json")).out)
        return {each["kind"]: each["rule"]["count"] for each in found["rules"]}

    def history(self, *more: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(ok(self.run("rules", "history", "-o", "json", *more)).out)["revisions"]
        return found

    def publish(self, count: int) -> str:
        """Commits and publishes both kinds; the plan."""
        self.commit(count, f"To {count}\n\nReason: more load")
        ok(self.run("rules", "publish", "--yes"))
        return str(self.history()[0]["planId"])


OLD, NEW = {"flow": 20, "degrade": 200}, {"flow": 25, "degrade": 250}


def made(name: str, here: Path, run: Run) -> Two:
    two = Two(here, new_store(name, here), run)
    ok(run("rules", "publish", "--yes"))
    return two


@pytest.fixture(params=["etcd", "nacos-3-http", "nacos-2-http"])
def two(request: pytest.FixtureRequest, here: Path, sentinelctl: Run) -> Two:
    return made(request.param, here, sentinelctl)


@pytest.fixture
def one(here: Path, sentinelctl: Run) -> Two:
    """A store, for what is the same with all."""
    return made("etcd", here, sentinelctl)


def test_what_was_published_at_once_is_undone_at_once(two: Two) -> None:
    plan = two.publish(25)
    assert two.counts() == NEW
    done = ok(two.run("rules", "rollback", "--reason", "queues grew", "--yes", "-o", "json"))
    assert two.counts() == OLD
    assert f"Undoing the publish {plan}" in done.err
    document = json.loads(done.out)
    assert document["plan"] == plan
    assert {step["kinds"][0]: (step["written"], step["number"]) for step in document["steps"]} == {
        "flow": (True, 3),
        "degrade": (True, 3),
    }
    held = json.loads(ok(two.run("rules", "quarantine", "-o", "json")).out)["quarantined"]
    assert {each["kind"] for each in held} == {"flow", "degrade"}
    again = ok(two.run("rules", "rollback", "--yes"))
    assert f"Already rolled back: nothing of {plan} stands any more" in again.err
    assert two.counts() == OLD


def test_the_history_shows_the_kinds_of_a_publish_together(two: Two) -> None:
    plan = two.publish(25)
    newest = two.history()[:2]
    assert {each["kinds"][0]: each["planId"] for each in newest} == {"flow": plan, "degrade": plan}
    table = ok(two.run("rules", "history")).out
    assert table.splitlines()[0].split()[:3] == ["N", "KIND", "PLAN"]
    assert table.count(plan) == 2
    assert {each["kinds"][0] for each in two.history("--kind", "flow")} == {"flow"}


def test_a_publish_is_named_by_its_plan(two: Two) -> None:
    plan = two.publish(25)
    dry = ok(two.run("rules", "rollback", "--plan", plan, "--dry-run"))
    assert "count  25 → 20" in dry.err
    assert "count  250 → 200" in dry.err
    assert two.counts() == NEW
    ok(two.run("rules", "rollback", "--plan", plan, "--yes"))
    assert two.counts() == OLD


def test_what_was_written_over_it_since_is_not_undone_unseen(one: Two) -> None:
    plan = one.publish(25)
    one.write(25)
    text = (one.here / "rules.yaml").read_text().replace("250", "260")
    (one.here / "rules.yaml").write_text(text, encoding="utf-8")
    ok(one.run("rules", "publish", "--kind", "degrade", "--reason", "slower", "--yes"))
    ended = one.run("rules", "rollback", "--plan", plan, "--yes")
    assert ended.code == Exit.CONFLICT
    assert "degrade was written again since" in ended.err
    assert one.counts() == {"flow": 25, "degrade": 260}


def test_only_the_kinds_that_the_last_publish_wrote_go_back(one: Two) -> None:
    one.publish(25)
    one.write(25)
    text = (one.here / "rules.yaml").read_text().replace("250", "260")
    (one.here / "rules.yaml").write_text(text, encoding="utf-8")
    ok(one.run("rules", "publish", "--reason", "slower", "--yes"))
    ok(one.run("rules", "rollback", "--yes"))
    assert one.counts() == NEW


def test_a_rollback_that_breaks_off_is_finished_by_the_next(one: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = one.publish(25)
    write, written = EtcdSource.write, []

    def second_fails(source: EtcdSource, *arguments: Any, **named: Any) -> Any:
        written.append(1)
        if len(written) == 2:
            raise SourceUnavailable("gone")
        return write(source, *arguments, **named)

    monkeypatch.setattr(EtcdSource, "write", second_fails)
    broken = one.run("rules", "rollback", "--yes", "-o", "json")
    assert broken.code == Exit.UNREACHABLE
    assert "not everything was rolled back: gone" in broken.err
    assert f"sentinelctl rules rollback --plan {plan} --store {one.store}" in broken.err
    assert sorted(step["written"] for step in json.loads(broken.out)["steps"]) == [False, True]
    assert one.counts() not in (OLD, NEW)
    rest = ok(one.run("rules", "rollback", "--yes"))
    assert "undone already, by revision 3" in rest.err
    assert one.counts() == OLD


def test_a_kind_that_came_with_the_publish_goes_with_it(here: Path, sentinelctl: Run) -> None:
    shop = shop_with("etcd", here, sentinelctl)
    ok(shop.run("rules", "publish", "--yes"))
    (here / "rules.yaml").write_text(RULES.replace("20", "25") + breakers(250), encoding="utf-8")
    ok(shop.run("rules", "publish", "--reason", "breakers", "--yes"))
    asked = shop.run("rules", "rollback", "--no-input")
    assert asked.code == Exit.USAGE
    assert "→  no rules, as before it" in asked.err
    ok(shop.run("rules", "rollback", "--yes"))
    found = json.loads(ok(shop.run("rules", "show", "-o", "json")).out)
    assert {each["kind"] for each in found["rules"]} == {"flow"}
    assert len(found["revisions"]) == 2  # an empty list: an engine would keep the breakers of one that is absent


def test_an_edit_by_hand_is_no_publish(one: Two) -> None:
    from tests.services import etcd

    plan = one.publish(25)
    key = f"/sentinel/publish/{one.here.parent.name}/sentinel-flow-rules"
    etcd.shared().put(key, b'[{"resource": "payment_invoke", "grade": 1, "count": 9}]')
    ended = one.run("rules", "rollback", "--yes")
    assert ended.code == Exit.USAGE
    assert "it is not known when flow revision 3 was written" in ended.err
    assert one.run("rules", "rollback", "--plan", plan, "--yes").code == Exit.CONFLICT
    assert one.counts() == {"flow": 9, "degrade": 250}


def test_an_unknown_plan_says_where_plans_are_listed(one: Two) -> None:
    ended = one.run("rules", "rollback", "--plan", "p-000000000000", "--yes")
    assert (ended.code, "sentinelctl rules history" in ended.err) == (Exit.USAGE, True)


def test_one_revert_in_git_undoes_all_kinds(one: Two) -> None:
    one.publish(25)
    ok(one.run("rules", "rollback", "--yes", "--open-revert"))
    (branch,) = [name for name in git(one.here, "branch", "--format=%(refname:short)").split() if name != "main"]
    assert git(one.here, "show", f"{branch}:rules.yaml") == (RULES + breakers(200)).strip()

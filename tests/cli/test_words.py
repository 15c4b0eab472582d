"""What is said where nothing else tells: what to type next, whose revision is shown."""

from __future__ import annotations

from pathlib import Path

from sentinel_core.cli.exits import Exit
from tests.cli.conftest import RULES, Run, Shop, ok, shop_with


def test_a_dry_run_shows_the_plan_once(plain: Shop) -> None:
    ended = ok(plain.run("rules", "publish", "--dry-run"))
    assert (ended.out + ended.err).count("Plan: 2 to add") == 1
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    ended = ok(plain.run("rules", "apply", "x.plan", "--dry-run"))
    assert (ended.out + ended.err).count("Plan: 2 to add") == 1


def test_what_to_type_about_contexts_is_what_helps(here: Path, sentinelctl: Run) -> None:
    (here / "sentinel.yaml").write_text(
        "contexts:\n  staging: {stores: ['file:///a.yaml'], environment: staging}\n", encoding="utf-8"
    )
    nothing = sentinelctl("lock", "list")
    assert "next: sentinelctl config use-context staging" in nothing.err
    (here / "a.yaml").write_text(RULES, encoding="utf-8")
    named = sentinelctl("rules", "diff", str(here / "a.yaml"), "staging")
    assert named.code == Exit.USAGE
    assert "staging is a context" in named.err
    assert "sentinelctl rules show --context staging" in named.err


def test_what_lists_the_revisions_of_a_list_names_its_kind(here: Path, sentinelctl: Run) -> None:
    made = shop_with("etcd", here, sentinelctl)
    ok(made.run("rules", "publish", "--yes"))
    one = made.run("rules", "rollback", "--kind", "flow", "--dry-run")
    assert "there is no valid revision to go back to" in one.err
    assert "sentinelctl rules history --kind flow" in one.err
    assert "sentinelctl rules history --kind flow" in made.run("rules", "rollback", "--kind", "flow", "--to", "99").err


def test_a_resource_that_has_no_rule_is_told(plain: Shop) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    shown = ok(plain.run("rules", "show", "--resource", "payment_invok"))
    assert "has no rule of payment_invok; did you mean payment_invoke?" in shown.err


def test_beside_each_other_revisions_say_of_which_kind_they_are(plain: Shop) -> None:
    text = f"{RULES}degradeRules:\n  - {{resource: a, grade: error_count, count: 3, timeWindow: 5}}\n"
    (plain.here / "rules.yaml").write_text(text, encoding="utf-8")
    ok(plain.run("rules", "publish", "--yes", "--reason", "first"))
    shown = ok(plain.run("rules", "show")).out
    assert "(flow)" in shown
    assert "(degrade)" in shown

"""`rules plan`, `apply` and `publish` into stores of every kind."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from sentinel_core import datasources
from sentinel_core.cli.exits import Exit
from sentinel_core.publishing import PlanStale, carry_out, make_plan
from sentinel_core.publishing.make import Wanted
from sentinel_core.rules import Provenance, parse_rules
from sentinel_core.settings import Guards
from tests.cli.conftest import RULES, Project, Run, Shop, git, ok
from tests.services import etcd


def test_a_plan_is_reviewed_and_applied_exactly(shop: Shop) -> None:
    planned = ok(shop.run("rules", "plan", "-o", "release.plan"))
    assert "+ payment_invoke  qps ≤ 20" in planned.out
    assert "Plan: 2 to add, 0 to change, 0 to remove." in planned.out
    assert "guards: ok" in planned.err
    applied = ok(shop.run("rules", "apply", "release.plan", "--yes", "-o", "json"))
    (step,) = json.loads(applied.out)["steps"]
    assert step["state"] == "written"
    assert shop.standing()["count"] == 20
    again = ok(shop.run("rules", "apply", "release.plan", "--yes"))
    assert "already there" in again.out
    assert again.err == "Nothing to do: this plan is applied already.\n"
    assert "Nothing to do" in ok(shop.run("rules", "plan")).err


def test_publishing_tells_the_store_who_committed_and_why(shop: Shop) -> None:
    commit = shop.commit(21, "Raise it\n\nReason: sale")
    ok(shop.run("rules", "publish", "--yes"))
    found = shop.standing()
    assert found["count"] == 21
    assert found["author"] == "Ada Example <ada@example.org>"
    assert found["reason"] == "sale"
    if not shop.store.startswith("git"):  # which is told by a commit of its own
        assert (found["commitHash"], found["channel"]) == (commit, "git")


def test_a_store_that_has_moved_on_makes_the_plan_stale(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    shop.commit(25, "Raise it")
    ok(shop.run("rules", "plan", "-o", "release.plan"))
    shop.commit(30, "Raise it again")
    ok(shop.run("rules", "publish", "--yes"))
    stale = shop.run("rules", "apply", "release.plan", "--yes")
    assert stale.code == Exit.CONFLICT
    assert "nothing was written" in stale.err
    assert shop.standing()["count"] == 30


def test_a_guard_refuses_and_is_overruled_with_a_reason_that_is_kept(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    shop.commit(500, "Open the gates")
    refused = shop.run("rules", "publish", "--yes")
    assert refused.code == Exit.REFUSED
    assert "jump: flow/payment_invoke/default count 20 → 500 (25×); the limit is 10×" in refused.err
    assert "--allow-jump --reason" in refused.err
    assert shop.standing()["count"] == 20
    bare = shop.run("rules", "publish", "--yes", "--allow-jump")
    assert bare.code == Exit.USAGE
    done = ok(shop.run("rules", "publish", "--yes", "--allow-jump", "--reason", "load test"))
    assert "guard jump is overruled" in done.err
    found = shop.standing()
    assert found["count"] == 500
    assert found["reason"] == "load test (overruled: jump)"


def test_a_check_that_is_not_installed_cannot_be_overruled(plain: Shop) -> None:
    ended = plain.run("rules", "publish", "--yes", "--allow-check", "nosuch", "--reason", "just in case")
    assert ended.code == Exit.USAGE
    assert "there is no check nosuch" in ended.err
    assert "no checks are installed here" in ended.err


def test_a_flag_that_was_not_needed_has_overruled_nothing(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes", "--allow-jump", "--allow-shrink", "--reason", "just in case"))
    shop.commit(500, "Open the gates")
    assert shop.standing()["reason"] == "just in case"
    ok(shop.run("rules", "publish", "--yes", "--allow-jump", "--allow-shrink", "--reason", "load test"))
    assert shop.standing()["reason"] == "load test (overruled: jump)"


def test_drift_tells_what_was_changed_by_whom(shop: Shop) -> None:
    commit = git(shop.here, "rev-parse", "HEAD")
    ok(shop.run("rules", "publish", "--yes"))
    assert ok(shop.run("rules", "drift")).out == ""
    shop.write(25)
    ok(shop.run("rules", "publish", "--yes", "--reason", "incident"))
    found = shop.run("rules", "drift", "-o", "json")
    assert found.code == Exit.DIFFERENCES
    (difference,) = json.loads(found.out)["differences"]
    assert (difference["direction"], difference["field"]) == ("changed", "count")
    assert (difference["git"], difference["store"]) == (20, 25)
    assert difference["owner"]["reason"] == "incident"
    assert difference["owner"]["channel"] == "cli"
    assert commit[:12] in json.loads(found.out)["git"]


def test_what_was_rolled_back_does_not_come_back_until_it_is_released(shop: Shop) -> None:
    if shop.store.startswith("file"):
        pytest.skip("a file keeps no history: the audit store has it, see test_files.py")
    ok(shop.run("rules", "publish", "--yes"))
    bad = shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    kind = [] if shop.store.startswith("git") else ["--kind", "flow"]
    back = ok(shop.run("rules", "rollback", *kind, "--reason", "queues grew", "--yes"))
    assert "Under quarantine until released: flow" in back.err
    assert shop.standing()["count"] == 20
    for line in (["rules", "publish", "--yes"], ["rules", "publish", f"git:{bad}", "--yes"]):
        again = shop.run(*line)
        assert again.code == Exit.REFUSED
        assert "queues grew" in again.err
        assert "sentinelctl rules release" in again.err
    listed = json.loads(ok(shop.run("rules", "quarantine", "-o", "json")).out)["quarantined"]
    assert [(each["kind"], each["reason"]) for each in listed] == [("flow", "queues grew")]
    digest = listed[0]["digest"][:12]
    ok(shop.run("rules", "release", digest, "--reason", "the pool is larger now", "--yes"))
    assert "Nothing is under quarantine" in ok(shop.run("rules", "quarantine")).err
    ok(shop.run("rules", "publish", "--yes"))
    assert shop.standing()["count"] == 25


# -- the same with every store -----------------------------------------------------------------------------------------


def test_rules_that_are_not_committed_need_a_reason(plain: Shop) -> None:
    plain.write(22)
    ok(plain.run("rules", "plan"))
    refused = plain.run("rules", "publish", "--yes")
    assert (refused.code, "not as it was committed" in refused.err) == (Exit.USAGE, True)
    assert plain.run("rules", "plan", "-o", "x.plan").code == Exit.USAGE
    assert not (plain.here / "x.plan").exists()
    ok(plain.run("rules", "publish", "--yes", "--reason", "incident"))


def test_any_side_can_be_published(plain: Shop) -> None:
    first = git(plain.here, "rev-parse", "HEAD")
    plain.commit(25, "Raise it")
    ok(plain.run("rules", "publish", "--yes"))
    ok(plain.run("rules", "publish", f"git:{first}", "--yes"))
    assert plain.standing()["count"] == 20
    assert "count  20 → 25" in ok(plain.run("rules", "plan", "git:HEAD")).out


def test_drift_tells_on_which_side_a_rule_is(plain: Shop) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    (plain.here / "rules.yaml").write_text(RULES.replace("coupon", "voucher"))
    git(plain.here, "commit", "-qam", "Call it voucher")
    found = plain.run("rules", "drift")
    assert found.code == Exit.DIFFERENCES
    assert sorted(line.split()[:2] for line in found.out.splitlines()[2:]) == [["+", "coupon"], ["-", "voucher"]]
    assert "only in git" in found.out
    assert "only in store" in found.out
    assert "1 only in store, 1 only in git" in found.err


def test_what_runs_in_one_environment_goes_to_the_next_with_its_author(here: Path, sentinelctl: Run) -> None:
    etcd.needed()
    staging, prod = (etcd.shared().uri(f"/{name}/{here.parent.name}") for name in ("staging", "prod"))
    shop = Shop(here, staging, sentinelctl)
    ok(shop.run("rules", "publish", "--yes"))
    shop.commit(25, "Not there yet")
    promoted = ok(shop.run("rules", "publish", staging, "--store", prod, "--env", "prod", "--yes"))
    assert "+ payment_invoke  qps ≤ 20" in promoted.err
    (revision,) = json.loads(ok(shop.run("rules", "show", prod, "-o", "json")).out)["revisions"]
    assert revision["author"] == "Ada Example <ada@example.org>"
    assert (revision["reason"], revision["channel"]) == ("opening day", "git")
    assert "Nothing to do" in ok(shop.run("rules", "plan", staging, "--store", prod)).err


def test_a_store_that_holds_nothing_is_said_to(plain: Shop) -> None:
    found = plain.run("rules", "drift")
    assert found.code == 1
    assert f"file://{plain.here}/lists holds no rules; sentinelctl rules publish writes what was comm" in found.err
    ok(plain.run("rules", "publish", "--yes"))
    plain.write(21)
    assert "holds no rules" not in plain.run("rules", "drift").err


def test_a_whole_kind_or_everything_that_is_gone_is_drift(plain: Shop) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    for path in (plain.here / "lists").iterdir():
        path.unlink()
    found = plain.run("rules", "drift", "-o", "json")
    assert found.code == Exit.DIFFERENCES
    assert {each["direction"] for each in json.loads(found.out)["differences"]} == {"only_in_git"}


def test_a_plan_is_kept_in_a_file_and_in_nothing_else(plain: Shop) -> None:
    os.mkfifo(plain.here / "fifo")
    for name in ("fifo", "-", "json", "lists"):
        assert plain.run("rules", "plan", "-o", name).code == Exit.USAGE, name
    assert (plain.here / "fifo").is_fifo()
    (plain.here / "link").symlink_to("real.plan")
    ok(plain.run("rules", "plan", "-o", "link"))
    assert (plain.here / "real.plan").is_file()
    assert (plain.here / "link").is_symlink()


def test_a_plan_for_another_environment_is_applied_there(plain: Shop) -> None:
    ok(plain.run("rules", "plan", "--env", "staging", "-o", "x.plan"))
    ok(plain.run("rules", "apply", "x.plan", "--yes"))
    assert plain.standing()["count"] == 20


def test_a_plan_with_nothing_to_do_is_one_too(plain: Shop) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    planned = ok(plain.run("rules", "plan", "-o", "x.plan"))
    assert planned.err.endswith("Saved to x.plan. There is nothing to carry out.\n")
    assert "Nothing to do" in ok(plain.run("rules", "apply", "x.plan", "--yes")).err


def test_a_plan_of_what_is_not_committed_says_that_publishing_it_needs_a_reason(plain: Shop) -> None:
    note = 'note: it is not as it was committed: commit it, or publish it with --reason "why"'
    assert note not in ok(plain.run("rules", "plan")).err
    plain.write(25)
    assert note in ok(plain.run("rules", "plan")).err
    assert note not in ok(plain.run("rules", "plan", "--reason", "sale")).err


def test_a_dry_run_says_that_a_plan_is_stale(plain: Shop) -> None:
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    plain.commit(25, "Raise it")
    ok(plain.run("rules", "publish", "--yes"))
    assert plain.run("rules", "apply", "x.plan", "--dry-run").code == Exit.CONFLICT


def test_a_stale_plan_is_refused_before_anybody_is_asked(plain: Shop) -> None:
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    plain.commit(25, "Raise it")
    ok(plain.run("rules", "publish", "--yes"))
    ended = plain.run("rules", "apply", "x.plan")  # without --yes: a question would end it with 64
    assert ended.code == Exit.CONFLICT
    assert ended.err.startswith("error: the store has changed since the plan was made")


def test_a_plan_that_is_applied_already_asks_nothing(plain: Shop) -> None:
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    ok(plain.run("rules", "publish", "--yes"))
    for dry in ([], ["--dry-run"]):
        ended = ok(plain.run("rules", "apply", "x.plan", "-o", "json", *dry))
        assert json.loads(ended.out)["steps"][0]["state"] == "already there"
        assert "applied already" in ended.err


@pytest.mark.parametrize("reason", ["", "  ", "\t"])
def test_a_blank_reason_is_none(plain: Shop, reason: str) -> None:
    plain.write(22)
    assert plain.run("rules", "publish", "--yes", "--reason", reason).code == Exit.USAGE
    assert plain.run("rules", "release", "a" * 12, "--reason", reason, "--yes").code == Exit.USAGE


def test_no_credential_of_a_message_or_a_reason_goes_into_a_store_or_a_plan(here: Path, sentinelctl: Run) -> None:
    etcd.needed()
    shop = Shop(here, etcd.shared().uri(f"/publish/{here.parent.name}"), sentinelctl)
    shop.commit(21, "Raise it, see https://ops:hunter2@wiki.example/why")
    ended = ok(shop.run("rules", "plan", "-o", "x.plan", "--reason", "password=hunter2", "--output", "json"))
    ended = ok(shop.run("rules", "apply", "x.plan", "--yes", "-o", "json"))
    shop.commit(22, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    back = ok(shop.run("rules", "rollback", "--kind", "flow", "--reason", "token=hunter2", "--yes"))
    told = [ended.out, ended.err, back.out, back.err, (here / "x.plan").read_text()]
    told += [ok(shop.run("rules", "quarantine", "-o", form)).out for form in ("table", "json")]
    told.append(etcd.shared().ctl("get", "--prefix", f"/sentinel/publish/{here.parent.name}"))
    assert not [text for text in told if "hunter2" in text]
    assert "***" in told[-1]


def test_the_history_of_the_store_that_is_named_is_meant(here: Path, sentinelctl: Run) -> None:
    etcd.needed()
    shop = Shop(here, etcd.shared().uri(f"/publish/{here.parent.name}"), sentinelctl)
    ok(shop.run("rules", "publish", "--yes"))
    shop.commit(25, "Raise it")
    ok(shop.run("rules", "publish", "--yes"))
    (here / "sentinel.yaml").write_text("environment: prod\n")
    planned = ok(shop.run("rules", "plan", "history:1", "--kind", "flow", "--store", shop.store))
    assert "count  25 → 20" in planned.out


def test_a_look_at_what_is_no_repository_is_refused(plain: Shop) -> None:
    assert plain.run("sync", "rules.yaml", "--once").code == Exit.BAD_SETTINGS
    assert plain.run("sync", plain.store, "--once").code == Exit.BAD_SETTINGS


def test_a_write_is_confirmed(plain: Shop) -> None:
    refused = plain.run("rules", "publish")
    assert refused.code == Exit.USAGE
    assert "must be confirmed" in refused.err
    assert not list((plain.here / "lists").iterdir())


def test_a_dry_run_writes_nothing(plain: Shop) -> None:
    assert "Dry run" in ok(plain.run("rules", "publish", "--dry-run")).err
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    assert "Dry run" in ok(plain.run("rules", "apply", "x.plan", "--dry-run")).err
    assert not list((plain.here / "lists").iterdir())


@pytest.mark.parametrize("count", [20, 21])
def test_exit_codes_as_terraform_has_them(plain: Shop, count: int) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    plain.commit(count, "Maybe raise it") if count != 20 else None
    assert plain.run("rules", "plan", "--detailed-exitcode").code == (0 if count == 20 else 2)
    assert plain.run("rules", "plan", "missing.yaml", "--detailed-exitcode").code == 1
    assert plain.run("rules", "plan", "missing.yaml").code == Exit.USAGE


def test_several_stores_are_not_written_at_once(plain: Shop) -> None:
    text = (plain.here / "sentinel.yaml").read_text().replace("]", f', "file://{plain.here}/other.yaml"]')
    (plain.here / "sentinel.yaml").write_text(text)
    refused = plain.run("rules", "publish", "--yes")
    assert (refused.code, "--store with one of them" in refused.err) == (Exit.BAD_SETTINGS, True)
    ok(plain.run("rules", "publish", "--yes", "--store", f"file://{plain.here}/other.yaml"))
    assert (plain.here / "other.yaml").read_text() == RULES


def test_a_kind_that_loses_all_its_rules_is_typed_by_name(plain: Shop, sentinelctl: Run) -> None:
    ok(plain.run("rules", "publish", "--yes"))
    (plain.here / "rules.yaml").write_text("flowRules: []\n")
    assert plain.run("rules", "publish", "--yes", "--reason", "x").code == Exit.REFUSED
    allowed = ("--allow-empty", "--allow-last", "--reason", "closing")
    assert plain.run("rules", "publish", *allowed).code == Exit.USAGE, "it is asked for"
    ok(plain.run("rules", "publish", "--yes", *allowed))
    assert json.loads((plain.here / "lists/sentinel-flow-rules.json").read_text()) == []


def test_who_published_is_the_pipeline_where_there_is_one(
    here: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd.needed()
    shop = Shop(here, etcd.shared().uri(f"/publish/{here.parent.name}"), sentinelctl)
    monkeypatch.setenv("GITHUB_ACTOR", "chen")
    monkeypatch.setenv("GITHUB_RUN_ID", "42")
    ok(shop.run("rules", "publish", "--yes"))
    key = f"/sentinel/publish/{here.parent.name}/sentinel-flow-rules.provenance"
    kept = json.loads(etcd.shared().ctl("get", "--print-value-only", key))
    assert kept["publishedBy"] == "chen (GitHub Actions run 42)"
    assert kept["planId"].startswith("p-")


def test_of_two_who_publish_at_once_each_change_stands_in_the_history_or_was_refused(
    here: Path,
) -> None:
    """A hundred changes by two pipelines that know nothing of each other."""
    etcd.needed()
    store = etcd.shared().uri(f"/publish/{here.parent.name}")
    done: dict[int, str] = {}
    both = threading.Barrier(2)

    def pipeline(offset: int) -> None:
        source = datasources.open(store)
        for round_number in range(50):
            count = 1000 + 2 * round_number + offset
            rules = parse_rules("flow", json.dumps([{"resource": "a", "grade": 1, "count": count}]).encode())
            plan = make_plan(
                source, store, Wanted("r", {"flow": rules}), environment="prod",
                provenance=Provenance(channel="cli", reason=str(count)), policy=Guards(), max_bytes=10**6,
            ).plan  # fmt: skip
            both.wait(10)
            try:
                (outcome,) = carry_out(plan, source)
                done[count] = outcome.state if outcome.error is None else type(outcome.error).__name__
            except PlanStale:
                done[count] = "stale"
        source.close()

    threads = [threading.Thread(target=pipeline, args=(offset,)) for offset in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    source = datasources.open(store)
    (item,) = source.items(["flow"])
    kept = {int(revision.provenance.reason or 0) for revision in source.history(item, limit=1000)}  # type: ignore[attr-defined]
    source.close()
    assert len(done) == 100
    assert kept == {count for count, state in done.items() if state == "written"}
    assert set(done.values()) <= {"written", "stale", "SourceConflict"}
    assert 50 <= len(kept) < 100, "of each pair one was first"


def test_a_project_in_git_is_published_to_its_own_store(project: Project, sentinelctl: Run) -> None:
    assert "Nothing to do" in ok(sentinelctl("rules", "publish", "--yes")).err


def test_an_edit_in_the_store_comes_back_as_a_commit(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    shop.write(25)
    ok(shop.run("rules", "publish", "--yes", "--reason", "incident"))
    git(shop.here, "checkout", "-q", "--", "rules.yaml")
    ok(shop.run("rules", "import", "--commit", "--yes"))
    assert git(shop.here, "diff", "-U0", "HEAD~1", "--", "rules.yaml").splitlines()[-2:] == [
        "-  - {resource: payment_invoke, grade: qps, count: 20}",
        "+  - {resource: payment_invoke, grade: qps, count: 25}",
    ]
    assert ok(shop.run("rules", "drift")).out == ""
    message = git(shop.here, "show", "-s", "--format=%b")
    assert "(cli)" in message
    assert "as the store says: incident" in message


def test_what_no_repetition_mends_is_not_to_be_repeated(here: Path, sentinelctl: Run) -> None:
    shop = Shop(here, f"git+file://{here}?ref=v1&path=rules.yaml", sentinelctl)
    git(here, "tag", "v1")
    shop.commit(25, "Raise it")
    ended = shop.run("rules", "publish", "--yes")
    assert ended.code == Exit.BAD_SETTINGS
    assert "v1 is not a branch, and only branches can be written" in ended.err
    assert "next: mend that first; then run it again" in ended.err

"""Commands on a store that is a real Git repository: show, diff, history, rollback, explain."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core import Engine, context
from sentinel_core.collectors.function import FunctionCollector
from sentinel_core.datasources import FileSource
from sentinel_core.settings import load_settings
from sentinel_core.status_file import StatusFile
from sentinel_core.testing import FakeClock
from tests.cli.conftest import FIRST, Project, Run, git


def with_count(count: int | str) -> str:
    return FIRST.replace("20", str(count))


# -- sides -------------------------------------------------------------------------------------------------------------


def test_by_default_git_head_is_compared_with_live(project: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "diff")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_a_commit_on_another_branch_than_the_live_one_is_a_difference(project: Project, sentinelctl: Run) -> None:
    git(project.repo, "checkout", "-qb", "proposal")
    head = project.commit(with_count(40), "Propose 40")
    ended = sentinelctl("rules", "diff")
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0].startswith(f"git HEAD@{head[:12]} (sentinel-rules.yaml)  →  git main@")
    assert lines[1:] == ["flow", "  ~ payment_invoke  count  40 → 30"]


@pytest.mark.parametrize(
    ("side", "count"),
    [
        ("live", 30),
        ("git:HEAD~1", 25),
        ("git", 30),
        ("history:1", 20),
        ("history:3", 30),
        ("repo/sentinel-rules.yaml", 30),
        ("git+file://{repo}?ref=main&path=sentinel-rules.yaml", 30),
        ("git:{repo}?path=sentinel-rules.yaml", 30),
        ("file://{repo}/sentinel-rules.yaml", 30),
    ],
)
def test_a_side_is_a_revision_live_a_number_a_uri_or_a_path(
    project: Project, sentinelctl: Run, side: str, count: int
) -> None:
    ended = sentinelctl("rules", "show", side.format(repo=project.repo), "-o", "json")
    assert ended.code == 0, ended.err
    assert [each["rule"]["count"] for each in json.loads(ended.out)["rules"]] == [count, 5]


@pytest.mark.parametrize(
    ("side", "code", "said"),
    [
        ("git:nope", 64, "there is no revision nope"),
        ("history:9", 64, "history:9: there is no such revision; the newest is 3"),
        ("history:x", 64, "history:x: there is no such revision"),
        ("git+file:///nowhere/repo", 78, "/nowhere/repo"),
        ("nacos://h:8848/a/b", 78, "the path is /namespace"),
        ("zookeeper://h", 78, "unknown scheme zookeeper"),
        ("git+file://{repo}?ref=gone&path=sentinel-rules.yaml", 78, "gone"),
        ("git+file://{repo}?ref=main&path=missing.yaml", 2, "missing.yaml"),
    ],
)
def test_a_side_that_cannot_be_read_says_why_and_ends_with_its_code(
    project: Project, sentinelctl: Run, side: str, code: int, said: str
) -> None:
    ended = sentinelctl("rules", "show", side.format(repo=project.repo))
    assert (ended.code, said in ended.err, "\n  next: " in ended.err) == (code, True, True), ended.err


def test_show_tells_who_wrote_what_stands_there(project: Project, sentinelctl: Run) -> None:
    first = sentinelctl("rules", "show").out.splitlines()[0]
    assert first.startswith(f"revision {project.head()[:12]}, Ada Example <ada@example.org>, ")
    assert first.endswith("channel git, Raise it again")


def test_c05_a_checkout_with_windows_line_ends_is_no_difference(project: Project, sentinelctl: Run) -> None:
    project.rules.write_bytes(project.rules.read_bytes().replace(b"\n", b"\r\n"))
    ended = sentinelctl("rules", "diff", "repo/sentinel-rules.yaml", "live")
    assert (ended.code, ended.out) == (0, "")


# -- history -----------------------------------------------------------------------------------------------------------


def test_history_numbers_from_the_oldest_and_tells_who_when_why(project: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "history", "-o", "json")
    revisions = json.loads(ended.out)["revisions"]
    assert [(each["number"], each["reason"] or each["message"]) for each in revisions] == [
        (3, "Raise it again"),
        (2, "Raise payment"),
        (1, "First rules"),
    ]
    assert {each["author"] for each in revisions} == {"Ada Example <ada@example.org>"}
    assert all(each["digest"] and each["committedAt"] and each["rules"] == {"flow": 2} for each in revisions)


def test_a_number_keeps_its_meaning_when_revisions_are_added_or_fewer_are_shown(
    project: Project, sentinelctl: Run
) -> None:
    before = json.loads(sentinelctl("rules", "history", "-o", "json").out)["revisions"]
    project.commit(with_count(99), "One more")
    limited = sentinelctl("rules", "history", "-o", "json", "--limit", "2")
    assert json.loads(limited.out)["revisions"][1] == before[0]
    assert "2 of 4 revisions" in limited.err


def test_a_commit_elsewhere_in_the_repository_is_no_revision_of_the_rules(project: Project, sentinelctl: Run) -> None:
    (project.repo / "README.md").write_text("x", encoding="utf-8")
    git(project.repo, "add", ".")
    git(project.repo, "commit", "-qm", "Words")
    assert len(sentinelctl("rules", "history", "-o", "name").out.splitlines()) == 3


def test_an_invalid_revision_stays_in_the_history_and_says_so(project: Project, sentinelctl: Run) -> None:
    project.commit(with_count("2O"), "A typo")
    assert "   invalid   " in sentinelctl("rules", "history").out.splitlines()[1]


@pytest.mark.parametrize(
    ("arguments", "reason"), [([], "to revision 2 ("), (["--reason", "sale is over"], "sale is over")]
)
def test_c03_the_history_says_of_a_rollback_that_it_is_one_and_of_what(
    project: Project, sentinelctl: Run, arguments: list[str], reason: str
) -> None:
    undone = project.head()
    sentinelctl("rules", "rollback", "--yes", *arguments)
    for form in ("table", "wide"):
        newest = sentinelctl("rules", "history", "-o", form).out.splitlines()[1]
        assert f"   rollback of 3 ({undone[:12]}): {reason}" in newest
    newest, *older = json.loads(sentinelctl("rules", "history", "-o", "json").out)["revisions"]
    assert (newest["rollbackOf"], newest["rollbackOfNumber"], newest["channel"]) == (undone, 3, "cli")
    assert {(each["rollbackOf"], each["rollbackOfNumber"], each["channel"]) for each in older} == {(None, None, "git")}


# -- rollback ----------------------------------------------------------------------------------------------------------


def test_c03_rollback_makes_a_new_revision_by_the_caller_that_says_what_it_undoes(
    project: Project, sentinelctl: Run
) -> None:
    undone = project.head()
    ended = sentinelctl("rules", "rollback", "--to", "1", "--yes")
    assert ended.code == 0, ended.err
    assert "  ~ payment_invoke  count  30 → 20" in ended.err
    assert ended.out.startswith("Rolled back to revision 1 (")
    assert git(project.repo, "log", "--format=%an <%ae>", "-1") == "Ada Example <ada@example.org>"
    newest = json.loads(sentinelctl("rules", "history", "-o", "json").out)["revisions"][0]
    assert newest["number"] == 4
    assert newest["rollbackOf"] == undone
    assert newest["reason"].startswith("rollback to revision 1 (")
    assert project.rules.read_text(encoding="utf-8") == with_count(20)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([], 25),
        (["--steps", "1"], 25),
        (["--steps", "2"], 20),
        (["--to", "1"], 20),
        (["--to-commit", "HEAD~2"], 20),
        (["--to-commit", "{oldest}"], 20),
    ],
)
def test_the_target_is_a_number_a_commit_or_steps_back(
    project: Project, sentinelctl: Run, arguments: list[str], count: int
) -> None:
    oldest = git(project.repo, "rev-parse", "--short", "HEAD~2")
    filled = [each.format(oldest=oldest) for each in arguments]
    assert sentinelctl("rules", "rollback", "--yes", *filled).code == 0
    assert project.rules.read_text(encoding="utf-8") == with_count(count)


def test_the_reason_stands_in_the_commit(project: Project, sentinelctl: Run) -> None:
    sentinelctl("rules", "rollback", "--yes", "--reason", "sale is over")
    assert "sale is over" in git(project.repo, "log", "-1", "--format=%B")


@pytest.mark.parametrize("arguments", [["--to", "1"], [], ["--steps", "1"]])
def test_running_it_again_writes_nothing_and_says_so(project: Project, sentinelctl: Run, arguments: list[str]) -> None:
    sentinelctl("rules", "rollback", "--yes", *arguments)
    head = project.head()
    again = sentinelctl("rules", "rollback", "--yes", *arguments)
    assert (again.code, project.head()) == (0, head)
    assert "already" in again.err.lower()
    assert "Nothing was written." in again.err


def test_rules_that_stand_already_in_another_spelling_are_not_written_again(project: Project, sentinelctl: Run) -> None:
    project.commit(with_count(30) + "# a remark\n", "Only a remark")
    head = project.head()
    ended = sentinelctl("rules", "rollback", "--steps", "1", "--yes")
    assert (ended.code, project.head()) == (0, head)
    assert "already. Nothing was written." in ended.err


def test_dry_run_shows_the_difference_and_writes_nothing(project: Project, sentinelctl: Run) -> None:
    head = project.head()
    ended = sentinelctl("rules", "rollback", "--dry-run", "-o", "json")
    assert (ended.code, project.head()) == (0, head)
    assert "count  30 → 25" in ended.err
    document = json.loads(ended.out)
    assert (document["written"], len(document["changes"])) == (False, 1)


def test_an_invalid_head_is_rolled_back_from_what_engines_run(project: Project, sentinelctl: Run) -> None:
    project.commit(with_count("2O"), "A typo")
    ended = sentinelctl("rules", "rollback", "--to", "1", "--yes")
    assert ended.code == 0
    assert "note: the rules that stand are not valid; engines run older ones, so revision 3 (" in ended.err
    assert "  ~ payment_invoke  count  30 → 20" in ended.err
    assert project.rules.read_text(encoding="utf-8") == with_count(20)


@pytest.mark.parametrize(("target", "change"), [([], "0 changed"), (["--to", "2"], "count  30 → 25")])
@pytest.mark.parametrize(("flag", "then"), [("--dry-run", "Dry run"), ("--no-input", "next: add --yes"), ("--yes", "")])
def test_from_an_invalid_head_the_difference_is_shown_before_anything_is_asked_or_done(
    project: Project, sentinelctl: Run, flag: str, then: str, target: list[str], change: str
) -> None:
    project.commit(with_count("2O"), "A typo")
    err = sentinelctl("rules", "rollback", *target, flag).err
    assert err.startswith("note: the rules that stand are not valid; engines run older ones, so revision 3 (")
    assert change in err.partition(then or "no such words")[0]


def test_deleted_rules_come_back(project: Project, sentinelctl: Run) -> None:
    git(project.repo, "rm", "-q", "sentinel-rules.yaml")
    git(project.repo, "commit", "-qm", "Oops")
    ended = sentinelctl("rules", "rollback", "--yes")
    assert ended.code == 0, ended.err
    assert "note: the rules that stand are deleted" in ended.err
    assert project.rules.read_text(encoding="utf-8") == with_count(30)


def test_an_invalid_revision_cannot_come_back(project: Project, sentinelctl: Run) -> None:
    project.commit(with_count("2O"), "A typo")
    project.commit(with_count(31), "Mended")
    head = project.head()
    ended = sentinelctl("rules", "rollback", "--to", "4", "--yes")
    assert (ended.code, project.head()) == (65, head)
    assert 'count is "2O"' in ended.err


@pytest.mark.parametrize("mended", [True, False], ids=["valid head", "invalid head"])
def test_steps_count_valid_revisions_only(project: Project, sentinelctl: Run, mended: bool) -> None:
    """History: …, 30, a typo, and maybe 31. What engines ran before is 30, whatever stands now."""
    project.commit(with_count("2O"), "A typo")
    if mended:
        project.commit(with_count(31), "Mended")
    ended = sentinelctl("rules", "rollback", "--steps", "1", "--yes")
    assert ended.code == 0, ended.err
    assert project.rules.read_text(encoding="utf-8") == with_count(30)


def test_more_steps_than_there_are_revisions_say_how_many_there_are(project: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "rollback", "--steps", "50", "--yes")
    assert ended.code == 64
    assert "there are only 2 valid revisions to go back to" in ended.err


def test_a_kind_that_was_added_since_is_cleared_by_the_rollback(project: Project, sentinelctl: Run) -> None:
    """Engines keep the rules of a kind that is merely absent, so the new revision must say that there are none."""
    authority = "authorityRules:\n  - {resource: added_since, limitApp: app}\n"
    project.commit(with_count(30) + authority, "Let only app in")
    ended = sentinelctl("rules", "rollback", "--steps", "1", "--yes")
    assert ended.code == 0, ended.err
    assert "has no authority rules at all; the new revision says so with an empty list" in ended.err
    assert project.rules.read_text(encoding="utf-8") == with_count(30) + "authorityRules: []\n"


@pytest.mark.parametrize("flag", [[], ["--no-input"]])
def test_without_a_terminal_it_refuses_and_names_the_flag(project: Project, sentinelctl: Run, flag: list[str]) -> None:
    head = project.head()
    ended = sentinelctl("rules", "rollback", *flag)
    assert (ended.code, project.head()) == (64, head)
    assert "nothing was changed\n  next: add --yes" in ended.err


def test_uncommitted_work_in_the_rules_is_never_overwritten(project: Project, sentinelctl: Run) -> None:
    project.rules.write_text(with_count(77), encoding="utf-8")
    ended = sentinelctl("rules", "rollback", "--yes")
    assert ended.code == 5
    assert project.rules.read_text(encoding="utf-8") == with_count(77)


def test_an_unknown_commit_is_looked_up_where_the_rules_are_committed(project: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "show", "git:nope")
    assert ended.code == 64
    step = f"  next: git -C {project.repo} log --oneline -- sentinel-rules.yaml    (lists the commits)"
    assert ended.err.splitlines()[-1] == step


def test_two_targets_at_once_are_a_usage_error(project: Project, sentinelctl: Run) -> None:
    assert sentinelctl("rules", "rollback", "--to", "1", "--steps", "1").code == 64


@pytest.mark.parametrize("arguments", [["--to", "9"], ["--steps", "3"], ["--to-commit", "deadbeef"], ["--to", "0"]])
def test_a_target_that_does_not_exist_is_a_usage_error(
    project: Project, sentinelctl: Run, arguments: list[str]
) -> None:
    ended = sentinelctl("rules", "rollback", "--yes", *arguments)
    assert ended.code == 64
    assert project.rules.read_text(encoding="utf-8") == with_count(30)


def test_a_store_without_history_says_what_would_have_one(project: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "rollback", "--store", f"file://{project.rules}", "--yes")
    assert ended.code == 2
    assert "keeps no history, and the audit store cannot be asked: " in ended.err
    assert "next: use a Git store" in ended.err


def test_a_repository_without_identity_is_told_how_to_set_one(
    project: Project, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    ended = sentinelctl("rules", "rollback", "--yes")
    assert ended.code == 78
    assert "git config --global user.name" in ended.err


# -- explain -----------------------------------------------------------------------------------------------------------


def test_explain_lists_what_applies_in_slot_order_and_why(project: Project, sentinelctl: Run) -> None:
    project.commit(
        "flowRules:\n  - {resource: pay, grade: 1, count: 20}\n"
        "  - {resource: 'p.*', regex: true, grade: 1, count: 200}\n"
        "  - {resource: coupon, grade: 0, count: 5, strategy: relate, refResource: pay}\n"
        "systemRules:\n  - {qps: 1000}\n"
        "degradeRules:\n  - {resource: pay, grade: 2, count: 10, timeWindow: 10}\n",
        "All about pay",
    )
    document = json.loads(sentinelctl("rules", "explain", "pay", "-o", "json").out)
    assert [each["slot"] for each in document["slots"]] == [
        "authority",
        "system",
        "flow",
        "biz_metric",
        "degrade",
        "param_flow",
    ]
    told = [(each["slot"], rule["why"]) for each in document["slots"] for rule in each["rules"]]
    assert told == [
        ("system", "applies to every inbound call"),
        ("flow", "names this resource"),
        ("flow", "its pattern p.* matches"),
        ("degrade", "names this resource"),
    ]
    assert [each["path"] for each in document["related"]] == ["flow/coupon/default"]


def test_explain_tells_what_rules_stand_at_in_running_services(
    project: Project, sentinelctl: Run, tmp_path: Path
) -> None:
    text = (
        "bizMetricRules:\n"
        "  - {resource: pay, bizMetricType: PAY_FAIL_RATE, threshold: 5}\n"
        "  - {resource: pay, bizMetricType: STOCK_DEPTH, threshold: 7, staleAfterMs: 60000}\n"
        "  - {resource: pay, bizMetricType: COUPON_POOL, threshold: 7, minRequestAmount: 1, dimension: shop}\n"
        "degradeRules:\n  - {resource: pay, grade: 2, count: 10, timeWindow: 10}\n"
    )
    project.commit(text, "All about pay")
    settings = load_settings()
    clock = FakeClock(start_ms=int(datetime.now(UTC).timestamp() * 1000))
    engine = Engine(app=settings.app, environment=settings.environment, instance="shop-1", clock=clock)
    engine.subscribe(("biz_metric", "degrade"), FileSource(project.rules)).wait_ready(5)
    engine.report("PAY_FAIL_RATE", ok=False, resource="pay", count=10)
    engine.gauge("STOCK_DEPTH", 42, resource="pay")
    engine.gauge("COUPON_POOL", 3, dimension="north")
    with context(tags={"shop": "north"}):
        assert not engine.try_entry("pay")
        engine.control("biz_metric/pay/PAY_FAIL_RATE", "closed")
        assert not engine.try_entry("pay")
        engine.control("biz_metric/pay/PAY_FAIL_RATE", None)
    clock.advance(ms=1500)

    def warehouse() -> float:
        raise OSError("the warehouse is down")

    engine.collectors.register(FunctionCollector("STOCK_DEPTH", warehouse, resource="pay"), thread=False)
    engine.collectors.refresh()
    assert settings.status is not None
    status = StatusFile(engine, Path(settings.status), every_s=0)
    status.flush()
    told = sentinelctl("rules", "explain", "pay").out
    assert "OPEN at 100, threshold 5, 10 samples, next try in 28.5 s  on shop-1, " in told
    assert "CLOSED at 42, threshold 7, 1.5 s old  on shop-1, " in told
    assert "          north: OPEN at 3, threshold 7, 1.5 s old, next try in 28.5 s\n" in told
    assert "is failing: OSError: the warehouse is down\n" in told
    live = json.loads(sentinelctl("rules", "explain", "pay", "-o", "json").out)["live"]
    assert [each["rule"].rpartition("/")[2] for each in live] == [
        "PAY_FAIL_RATE",
        "STOCK_DEPTH",
        "COUPON_POOL",
        "default",
    ]
    project.commit("flowRules:\n  - {resource: pay, count: x}\n", "A typo")
    ended = sentinelctl("rules", "explain", "pay")
    assert (ended.code, "SR102" in ended.err) == (65, True)
    assert "in running services; the store cannot tell its rules" in ended.out
    assert "OPEN at 100, threshold 5" in ended.out
    project.commit(text, "Mend it")
    status.close()
    assert json.loads(sentinelctl("rules", "explain", "pay", "-o", "json").out)["live"] == []
    engine.close()


def test_explain_of_a_resource_without_rules_says_that_every_call_passes(project: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "explain", "payment_invok")
    assert ended.code == 0
    assert ended.err == "No rule applies to payment_invok; every call passes. Did you mean payment_invoke?\n"


def test_engine_slots_prints_the_chain_in_order(sentinelctl: Run) -> None:
    ended = sentinelctl("engine", "slots", "-o", "name")
    assert ended.out.split() == ["authority", "system", "flow", "biz_metric", "degrade", "param_flow"]

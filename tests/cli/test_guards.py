"""Freezes, owners and own words of guards, from the settings to the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core import datasources
from sentinel_core.cli.exits import Exit
from sentinel_core.datasources import Writable
from sentinel_core.publishing.quarantine import Quarantined, add, noted, quarantined
from sentinel_core.rules import KINDS, Provenance, Revision, SourceText, parse_revision, parse_rules
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from tests.cli.conftest import RULES, Project, Run, Shop, git, ok

Service = Callable[..., ServiceEngine]
ROOT = Path(__file__).parents[2]
SALE = "guards:\n  freeze:\n    - {name: 双十一, from: 2026-11-10 18:00, to: 2026-11-12 09:00, zone: Asia/Shanghai, environments: [pro*]}\n"  # noqa: E501
DURING = datetime(2026, 11, 11, tzinfo=UTC)
AFTER = datetime(2026, 11, 13, tzinfo=UTC)


def settings(made: Shop, text: str) -> None:
    path = made.here / "sentinel.yaml"
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def clock(patch: pytest.MonkeyPatch, now: datetime) -> None:
    for module in ("rules.proposing", "rules.apply", "rules.rollback", "sync"):
        patch.setattr(f"sentinel_core.cli.{module}.utc_now", lambda: now)


def in_git(here: Path, run: Run) -> Shop:
    """A store that keeps who published."""
    (here / "repo").mkdir()
    git(here / "repo", "init", "-qb", "main")
    git(here / "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
    return Shop(here, f"git+file://{here}/repo?ref=main&path=sentinel-rules.yaml", run)


def test_a_freeze_refuses_and_is_overruled_with_a_reason_that_is_kept(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings(shop, SALE)
    clock(monkeypatch, DURING)
    for line in (["rules", "publish", "--yes"], ["rules", "publish", "--dry-run"]):
        refused = shop.run(*line)
        assert refused.code == Exit.REFUSED
        assert "freeze: prod is frozen until Thu 2026-11-12 09:00 +08:00 (Asia/Shanghai): 双十一" in refused.err
        assert '--allow-freeze --reason "why"' in refused.err
    assert shop.run("rules", "publish", "--yes", "--allow-freeze").code == Exit.USAGE
    done = ok(shop.run("rules", "publish", "--yes", "--allow-freeze", "--reason", "payments are down"))
    assert "guard freeze is overruled: prod is frozen" in done.err
    assert shop.standing()["reason"] == "payments are down (overruled: freeze)"


def test_another_environment_and_another_time_are_free(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(plain, SALE)
    path = plain.here / "sentinel.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("environment: prod", "environment: staging"), encoding="utf-8")
    clock(monkeypatch, DURING)
    ok(plain.run("rules", "publish", "--yes"))
    path.write_text(text, encoding="utf-8")
    plain.commit(30, "Raise it")
    clock(monkeypatch, AFTER)
    ok(plain.run("rules", "publish", "--yes", "--allow-environment", "--reason", "renamed"))


@pytest.mark.parametrize("named", ["staging", "Prod", "PRODUCTION"])
def test_no_name_that_is_published_under_is_a_way_around_a_freeze(
    plain: Shop, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    settings(plain, SALE)
    clock(monkeypatch, DURING)
    refused = plain.run("rules", "publish", "--env", named, "--yes")
    assert (refused.code, "is frozen until" in refused.err) == (Exit.REFUSED, True)
    clock(monkeypatch, AFTER)
    ok(plain.run("rules", "plan", "--env", named, "-o", "x.plan"))
    clock(monkeypatch, DURING)
    assert plain.run("rules", "apply", "x.plan", "--yes").code == Exit.REFUSED


def test_whose_rules_stand_in_the_store_decides_about_a_freeze_too(
    here: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = in_git(here, sentinelctl)
    ok(made.run("rules", "publish", "--yes"))
    made.commit(25, "Raise it")
    path = here / "sentinel.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("environment: prod", "environment: staging") + SALE)
    clock(monkeypatch, AFTER)
    leave = ("--allow-environment", "--reason", "renamed")
    assert "frozen" not in ok(made.run("rules", "plan", "-o", "x.plan", *leave)).err
    clock(monkeypatch, DURING)
    for line in (["publish"], ["apply", "x.plan"]):
        refused = made.run("rules", *line, "--yes")
        assert (refused.code, "prod is frozen until" in refused.err) == (Exit.REFUSED, True)


def test_a_plan_of_before_is_not_applied_during_a_freeze(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(plain, SALE)
    clock(monkeypatch, datetime(2026, 11, 9, tzinfo=UTC))
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    clock(monkeypatch, DURING)
    refused = plain.run("rules", "apply", "x.plan", "--yes")
    assert (refused.code, "prod is frozen until" in refused.err) == (Exit.REFUSED, True)
    assert plain.run("rules", "apply", "x.plan", "--dry-run").code == Exit.REFUSED
    assert plain.run("rules", "apply", "x.plan", "--yes", "--allow-freeze").code == Exit.USAGE
    done = ok(plain.run("rules", "apply", "x.plan", "--yes", "--allow-freeze", "--reason", "it burns", "-o", "json"))
    assert json.loads(done.out)["reason"] == "opening day; it burns (overruled: freeze)"
    assert json.loads(done.out)["allowed"] == ["freeze"]


def test_a_plan_is_made_during_a_freeze_to_be_applied_after_it(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(plain, SALE)
    clock(monkeypatch, DURING)
    planned = ok(plain.run("rules", "plan", "-o", "x.plan"))
    assert "note: prod is frozen until Thu 2026-11-12 09:00" in planned.err
    assert "guards: ok" not in planned.err
    clock(monkeypatch, AFTER)
    ok(plain.run("rules", "apply", "x.plan", "--yes"))


def test_a_request_during_a_freeze_is_no_failure_of_its_pipeline(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(plain, SALE)
    clock(monkeypatch, DURING)
    comment = ok(plain.run("rules", "plan", "--output", "markdown")).out
    assert "**Frozen:** prod is frozen until Thu 2026-11-12 09:00" in comment
    assert "refused" not in comment.lower()
    assert ok(plain.run("rules", "plan", "--output", "github")).out.startswith(
        "::warning file=rules.yaml,title=guard-freeze::"
    )


def test_a_plan_that_was_made_with_leave_is_applied_during_a_freeze(
    plain: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(plain, SALE)
    clock(monkeypatch, DURING)
    ok(plain.run("rules", "plan", "-o", "x.plan", "--allow-freeze", "--reason", "it burns"))
    ok(plain.run("rules", "apply", "x.plan", "--yes"))


def test_leave_of_before_a_freeze_is_told_when_it_is_used(
    here: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "repo").mkdir()
    git(here / "repo", "init", "-qb", "main")
    git(here / "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
    made = Shop(here, f"git+file://{here}/repo?ref=main&path=sentinel-rules.yaml", sentinelctl)
    settings(made, SALE)
    clock(monkeypatch, datetime(2026, 11, 1, tzinfo=UTC))
    ok(made.run("rules", "plan", "-o", "x.plan", "--allow-freeze", "--reason", "it burns"))
    clock(monkeypatch, DURING)
    assert "guard freeze is overruled" in ok(made.run("rules", "apply", "x.plan", "--yes")).err
    assert made.standing()["reason"] == "it burns (overruled: freeze)"


def test_a_rollback_goes_on_during_a_freeze_and_says_so(
    here: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = in_git(here, sentinelctl)
    ok(made.run("rules", "publish", "--yes"))
    made.commit(25, "Raise it")
    ok(made.run("rules", "publish", "--yes"))
    settings(made, SALE)
    clock(monkeypatch, DURING)
    back = ok(made.run("rules", "rollback", "--reason", "queues grew", "--yes"))
    assert "note: prod is frozen until Thu 2026-11-12 09:00 +08:00" in back.err
    assert made.standing()["count"] == 20


def test_sync_waits_for_the_end_of_a_freeze(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(plain, SALE)
    look = ["sync", f"git+file://{plain.here}?ref=main&path=rules.yaml", "--once"]
    clock(monkeypatch, DURING)
    waiting = plain.run(*look)
    assert (waiting.code, "frozen" in waiting.out, "双十一" in waiting.out) == (Exit.REFUSED, True, True)
    assert "next: wait" in waiting.err
    clock(monkeypatch, AFTER)
    assert "published" in ok(plain.run(*look)).out


OWNERS = (
    "owners:\n  - {team: payments, resources: [payment_*], paths: [pay.yaml]}\n"
    "  - {team: marketing, resources: [coupon], paths: [market.yaml]}\n"
)


def folder(made: Shop, **texts: str) -> None:
    (made.here / "rules").mkdir(exist_ok=True)
    for name, text in texts.items():
        (made.here / "rules" / f"{name}.yaml").write_text(text, encoding="utf-8")


def test_a_team_changes_its_own_resources_alone(plain: Shop) -> None:
    settings(plain, OWNERS)
    head, pay, coupon = RULES.splitlines(keepends=True)
    folder(plain, pay=head + pay, market="degradeRules: []\n" + head + coupon)
    publish = ["rules", "publish", "rules", "--yes", "--reason", "opening"]
    ok(plain.run(*publish))
    folder(plain, market="degradeRules: []\n" + head + coupon + pay.replace("20", "30"), pay=f"{head}  []\n")
    refused = plain.run(*publish)
    assert refused.code == Exit.REFUSED
    assert (
        "owner: payment_invoke (flow) belongs to payments, and rules/market.yaml:4 is a file of marketing"
        in refused.err
    )
    assert '--allow-owner --reason "why"' in refused.err
    shown = plain.run("rules", "plan", "rules", "--output", "github").out
    assert "::error file=rules/market.yaml,line=4,title=guard-owner::" in shown
    done = ok(plain.run("rules", "publish", "rules", "--yes", "--allow-owner", "--reason", "agreed"))
    assert "guard owner is overruled" in done.err


def test_owners_are_told_with_drift_and_with_rules(plain: Shop) -> None:
    settings(plain, OWNERS)
    ok(plain.run("rules", "publish", "--yes"))
    assert "payments" in ok(plain.run("rules", "show", "-o", "wide")).out
    plain.write(25)
    ok(plain.run("rules", "publish", "--yes", "--reason", "incident"))
    found = plain.run("rules", "drift", "-o", "json")
    assert [each["team"] for each in json.loads(found.out)["differences"]] == ["payments"]
    assert "owner payments" in plain.run("rules", "drift").out


def test_a_window_that_cannot_be_read_is_refused_with_its_line(plain: Shop) -> None:
    settings(plain, SALE.replace("zone: Asia/Shanghai", "zone: Asia/Shanghay"))
    refused = plain.run("rules", "plan")
    assert refused.code == Exit.BAD_SETTINGS
    assert "sentinel.yaml:7:7: guards.freeze.0: there is no such zone; did you mean Asia/Shanghai?" in refused.err


def test_windows_and_owners_in_variables_are_json(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_GUARDS__FREEZE", '[{"name": "always", "days": "mon-sun", "zone": "UTC"}]')
    assert "always" in plain.run("rules", "plan").err
    monkeypatch.setenv("SENTINEL_GUARDS__FREEZE", "[{name: x}]")
    refused = plain.run("rules", "plan")
    assert refused.code == Exit.BAD_SETTINGS
    assert "SENTINEL_GUARDS__FREEZE: guards.freeze: write a list" in refused.err


def test_a_plan_brings_nothing_back_that_was_rolled_back_since(plain: Shop) -> None:
    ok(plain.run("rules", "plan", "-o", "x.plan"))
    source = datasources.open(plain.store)
    (item,) = source.items(["flow"])
    digest = parse_rules("flow", parse_list(plain)).digest
    add(source, item, [Quarantined("flow", digest, "1", DURING, "chen", "queues grew")])
    refused = plain.run("rules", "apply", "x.plan", "--yes")
    assert refused.code == Exit.REFUSED
    assert "queues grew" in refused.err
    assert f"sentinelctl rules release {digest[:12]}" in refused.err
    dry = ok(plain.run("rules", "release", digest[:12], "--reason", "the pool is larger", "--dry-run", "-o", "json"))
    assert [each["digest"] for each in json.loads(dry.out)["quarantined"]] == [digest]
    assert json.loads(ok(plain.run("rules", "quarantine", "-o", "json")).out)["released"] == []
    released = ok(plain.run("rules", "release", digest[:12], "--reason", "the pool is larger", "--yes"))
    assert "Released: 1." in released.err
    (kept,) = json.loads(ok(plain.run("rules", "quarantine", "-o", "json")).out)["released"]
    assert (kept["reason"], kept["rules"]["digest"]) == ("the pool is larger", digest)
    assert "the pool is larger" in ok(plain.run("rules", "quarantine", "-o", "wide")).out
    ok(plain.run("rules", "apply", "x.plan", "--yes"))


def parse_list(made: Shop) -> bytes:
    """The flow rules of the plan, as they would be written."""
    plan = json.loads((made.here / "x.plan").read_text(encoding="utf-8"))
    return str(plan["steps"][0]["texts"][0]["content"]).encode()


def test_a_store_whose_folder_is_misspelt_is_told_and_no_folder_is_made(plain: Shop) -> None:
    refused = plain.run("rules", "publish", "--yes", "--store", f"file://{plain.here}/lsits/rules.yaml")
    assert refused.code == Exit.BAD_SETTINGS
    assert "there is no folder" in refused.err
    assert not (plain.here / "lsits").exists()


@pytest.mark.parametrize(
    ("change", "code", "step"),
    [
        ("flowRules: 5\n", Exit.INVALID_RULES, "next: mend the rules and commit them"),
        (RULES.replace("20", "5000"), Exit.REFUSED, "next: if it is meant: sentinelctl rules publish"),
        (None, Exit.ERROR, "next: check ref and path"),
    ],
)
def test_a_look_that_ends_badly_says_what_to_do(plain: Shop, change: str | None, code: int, step: str) -> None:
    look = ["sync", f"git+file://{plain.here}?ref=main&path=rules.yaml", "--once"]
    ok(plain.run(*look))
    path = plain.here / "rules.yaml"
    path.unlink() if change is None else path.write_text(change, encoding="utf-8")
    git(plain.here, "commit", "-qam", "Change it")
    found = plain.run(*look)
    assert found.code == code
    assert step in found.err


def test_a_look_that_is_refused_names_the_flags_of_the_guards_that_objected(plain: Shop) -> None:
    look = ["sync", f"git+file://{plain.here}?ref=main&path=rules.yaml", "--once"]
    ok(plain.run(*look))
    plain.commit(5000, "Open the gates")
    assert f"--store file://{plain.here}/lists?format=json" in plain.run(*look).err.replace("'", "")
    assert ' --allow-jump --reason "why"' in plain.run(*look).err


def test_a_look_at_what_was_rolled_back_names_the_release(here: Path, sentinelctl: Run) -> None:
    (here / "repo").mkdir()
    git(here / "repo", "init", "-qb", "main")
    git(here / "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
    made = Shop(here, f"git+file://{here}/repo?ref=main&path=sentinel-rules.yaml", sentinelctl)
    look = ["sync", f"git+file://{here}?ref=main&path=rules.yaml", "--once", "--drift", "heal"]
    ok(made.run(*look))
    made.commit(25, "Raise it")
    ok(made.run(*look))
    ok(made.run("rules", "rollback", "--reason", "queues grew", "--yes"))
    refused = made.run(*look)
    assert refused.code == Exit.REFUSED
    (held,) = json.loads(ok(made.run("rules", "quarantine", "-o", "json")).out)["quarantined"]
    assert f"next: sentinelctl rules release {held['digest'][:12]} --store" in refused.err
    assert "--allow-" not in refused.err


def test_a_look_at_a_store_that_is_down_ends_as_other_commands_do(plain: Shop) -> None:
    look = ["sync", f"git+file://{plain.here}?ref=main&path=rules.yaml", "--once", "--store"]
    down = plain.run(*look, "nacos://127.0.0.1:9/public?transport=http&timeout=200ms")
    assert down.code == Exit.UNREACHABLE
    assert "next: sentinelctl doctor" in down.err


def test_only_the_kind_that_is_named_is_released_from_a_document(project: Project, sentinelctl: Run) -> None:
    source = datasources.open(f"git+file://{project.repo}?ref=main&path=sentinel-rules.yaml")
    (item,) = source.items(KINDS)
    digest = "0123456789ab" * 5  # of no rules at all every kind has the same
    add(source, item, [Quarantined(kind, digest, "1", DURING, "chen", "queues grew") for kind in ("flow", "degrade")])
    shown = json.loads(ok(sentinelctl("rules", "quarantine", "--kind", "flow", "-o", "json")).out)["quarantined"]
    assert [each["kind"] for each in shown] == ["flow"]
    line = ["rules", "release", digest, "--reason", "mended", "--yes", "--kind"]
    assert "Released: 1." in ok(sentinelctl(*line, "degrade")).err
    assert [each.kind for each in quarantined(source, item)] == ["flow"]
    none = sentinelctl(*line, "system")
    assert (none.code, "nothing under quarantine of system begins with" in none.err) == (Exit.USAGE, True)


def test_a_rollback_that_fails_leaves_what_was_under_quarantine_before(project: Project, sentinelctl: Run) -> None:
    source = datasources.open(f"git+file://{project.repo}?ref=main&path=sentinel-rules.yaml")
    (item,) = source.items(KINDS)
    reading = source.read(item)
    assert isinstance(reading, Revision)
    bad = parse_revision(reading, KINDS)["flow"].digest
    add(source, item, [Quarantined("flow", bad, "1", DURING, "chen", "queues grew")])
    project.rules.write_text("# not committed\n" + project.rules.read_text())
    failed = sentinelctl("rules", "rollback", "--yes", "--to", "1")
    assert failed.code == Exit.CONFLICT
    assert [each.digest for each in quarantined(source, item)] == [bad]
    assert noted(source, item).released == ()
    git(project.repo, "checkout", "-q", "sentinel-rules.yaml")
    ok(sentinelctl("rules", "rollback", "--yes", "--to", "1"))
    assert [each.digest for each in quarantined(source, item)] == [bad]


EXAMPLES = re.findall(r"```yaml\n(# sentinel\.yaml\n.*?)```", (ROOT / "docs/guards.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_documentation_is_read(here: Path, example: str) -> None:
    (here / "sentinel.yaml").write_text(example, encoding="utf-8")
    found = load_settings()
    assert (len(found.guards.freeze), len(found.owners)) in {(3, 0), (0, 2)}


# -- where the store does not tell what engines run --------------------------------------------------------------------


def by_hand(made: Shop, content: bytes | None) -> None:
    """Somebody writes this into the store, or deletes what is there."""
    if made.store.startswith("file"):
        path = made.here / ("lists/sentinel-flow-rules.json" if (made.here / "lists").is_dir() else "live.yaml")
        path.unlink() if content is None else path.write_bytes(content)
        return
    with closing(datasources.open(made.store)) as source:
        assert isinstance(source, Writable)
        (item,) = source.items(KINDS) if len(source.items(KINDS)) == 1 else source.items(["flow"])
        reading = source.read(item)
        assert isinstance(reading, Revision)
        texts = () if content is None else (SourceText(reading.texts[0].name, content, reading.texts[0].format),)
        source.write(item, texts, expected=reading.version, provenance=Provenance(channel="console"))


def has_history(made: Shop) -> bool:
    return not made.store.startswith("file")


@pytest.mark.parametrize("left", [b"[{'", b"flowRules: 5", None])
def test_no_text_that_is_broken_or_gone_is_a_way_around_the_guards(shop: Shop, left: bytes | None) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    by_hand(shop, left)
    shop.commit(500, "Open the gates")
    (shop.here / "none.yaml").write_text("flowRules: []\n", encoding="utf-8")
    raised = shop.run("rules", "publish", "--yes")
    emptied = shop.run("rules", "publish", "none.yaml", "--reason", "oops", "--yes")
    assert (raised.code, emptied.code) == (Exit.REFUSED, Exit.REFUSED)
    if has_history(shop):
        assert "jump: flow/payment_invoke/default count 20 → 500" in raised.err
        assert "engines run older rules, so " in raised.err
        assert "Plan: 0 to add, 1 to change, 0 to remove." in raised.err
        assert "empty: all 2 flow rules would disappear" in emptied.err
    else:
        assert f"unknown: what {'was published' if left is None else 'stands'} at" in raised.err
        assert "nobody remembers" in raised.err
        assert "--allow-unknown" in raised.err
        ok(shop.run("rules", "publish", "--yes", "--allow-unknown", "--reason", "it was 20"))
        assert shop.standing()["count"] == 500


def test_a_kind_that_was_taken_out_of_a_document_still_runs_and_is_compared(here: Path, sentinelctl: Run) -> None:
    made = in_git(here, sentinelctl)
    ok(made.run("rules", "publish", "--yes"))
    by_hand(made, b"degradeRules: []\n")
    (here / "none.yaml").write_text("flowRules: []\n", encoding="utf-8")
    refused = made.run("rules", "plan", "none.yaml", "--reason", "oops")
    assert (refused.code, "empty: all 2 flow rules would disappear" in refused.err) == (Exit.REFUSED, True)
    assert "tells nothing of some rules" in refused.err


def test_what_stood_beside_a_broken_text_is_written_back_with_what_is_published(here: Path, sentinelctl: Run) -> None:
    made = in_git(here, sentinelctl)
    text = f"{RULES}degradeRules:\n  - {{resource: a, grade: error_count, count: 3, timeWindow: 5}}\n"
    (here / "rules.yaml").write_text(text, encoding="utf-8")
    ok(made.run("rules", "publish", "--yes", "--reason", "first"))
    by_hand(made, b"[{")
    ok(made.run("rules", "publish", "--kind", "flow", "--yes", "--reason", "again"))
    shown = ok(made.run("rules", "show", "-o", "json"))
    assert [each["kind"] for each in json.loads(shown.out)["rules"]].count("degrade") == 1


def test_the_audit_store_remembers_what_a_file_does_not(service: Service, here: Path, sentinelctl: Run) -> None:
    engine = service(RULES, "status: null\naudit: {store: 'sqlite:///audit.db', outbox: outbox.db}\n")
    engine.close()
    (here / "rules.yaml").write_text("[{", encoding="utf-8")
    (here / "new.yaml").write_text(RULES.replace("20", "500"), encoding="utf-8")
    refused = sentinelctl("rules", "publish", "new.yaml", "--yes", "--reason", "oops")
    assert refused.code == Exit.REFUSED
    assert "jump: flow/payment_invoke/default count 20 → 500" in refused.err


def test_going_back_to_what_was_published_last_is_no_jump(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    with closing(datasources.open(shop.store)) as source:
        item = source.items(["flow"])[0]
        reading = source.read(item)
        assert isinstance(reading, Revision)
    by_hand(shop, reading.texts[0].content.replace(b"20", b"2000"))
    ok(shop.run("rules", "publish", "--yes"))
    assert shop.standing()["count"] == 20
    shop.commit(2000, "As the console had it")
    assert shop.run("rules", "publish", "--yes").code == Exit.REFUSED

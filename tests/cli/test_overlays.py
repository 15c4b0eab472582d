"""A folder of rules with its overlays: each is validated, and every command says which one it reads with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.cli.conftest import Run, git

BASE = "flowRules:\n  - {resource: pay, grade: qps, count: 20}\n  - {resource: order, grade: qps, count: 5}\n"
PROD = "flowRules:\n  - {resource: pay, count: 200}\n"
STAGING = "flowRules:\n  - {resource: order, $delete: true}\n"


@pytest.fixture
def rules(here: Path) -> Path:
    """A folder under Git with a base and two overlays, which is the rules of the settings and the store of `prod`."""
    folder = here / "rules"
    (folder / "environments").mkdir(parents=True)
    for name, text in (("base", BASE), ("environments/prod", PROD), ("environments/staging", STAGING)):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    (here / "sentinel.yaml").write_text(
        "environment: prod\nrules: rules\nstores: ['git:.?ref=main&path=rules']\n", encoding="utf-8"
    )
    git(here, "init", "-qb", "main")
    git(here, "add", "rules")
    git(here, "commit", "-qm", "Rules")
    return folder


def test_validate_looks_at_the_base_and_at_the_base_with_each_overlay(rules: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "validate", "-o", "json")
    assert (ended.code, ended.err) == (0, "2 rules and 2 overlays valid.\n")
    assert [(each["name"], each["rules"]) for each in json.loads(ended.out)["inputs"]] == [
        ("rules/base.yaml", 2),
        ("rules with rules/environments/prod.yaml", 2),
        ("rules with rules/environments/staging.yaml", 1),
    ]


def test_a_fault_is_told_once_in_the_file_in_which_it_stands(rules: Path, sentinelctl: Run) -> None:
    (rules / "base.yaml").write_text(BASE.replace("count: 5", "count: 5O"), encoding="utf-8")
    (rules / "environments" / "prod.yaml").write_text(PROD + "  - {resource: gone, $delete: true}\n", encoding="utf-8")
    ended = sentinelctl("rules", "validate", "rules")
    assert ended.code == 65
    assert [line.split(" ")[0] for line in ended.out.splitlines()] == [
        "rules/base.yaml:3:42:",
        "rules/environments/prod.yaml:3:5:",
    ]
    assert ended.err == "2 errors in 2 rules and 2 overlays. Nothing was changed.\n"


def test_an_overlay_that_is_named_alone_is_read_with_its_base(rules: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "validate", "rules/environments/staging.yaml")
    assert (ended.code, ended.err) == (0, "1 rule valid.\n")


def test_two_files_of_one_environment_are_refused(rules: Path, sentinelctl: Run) -> None:
    (rules / "environments" / "prod.yml").write_text(PROD, encoding="utf-8")
    ended = sentinelctl("rules", "validate")
    assert ended.code == 64
    assert "prod.yaml and rules/environments/prod.yml are of the same environment; keep one" in ended.err


@pytest.mark.parametrize(
    ("what", "flags", "count", "said"),
    [
        ("rules", [], 200, "rules is read with the overlay rules/environments/prod.yaml"),
        ("rules", ["--env", "staging"], 20, "rules is read with the overlay rules/environments/staging.yaml"),
        ("rules", ["--env", "test"], 20, "rules has no overlay for the environment test; the base alone is read"),
        ("live", [], 200, "(rules) is read with the overlay rules/environments/prod.yaml"),
        ("git:HEAD", ["--env", "staging"], 20, "(rules) is read with the overlay rules/environments/staging.yaml"),
    ],
)
def test_show_and_explain_say_which_overlay_they_read_with(
    rules: Path, sentinelctl: Run, what: str, flags: list[str], count: int, said: str
) -> None:
    shown = sentinelctl("rules", "show", what, "-o", "json", *flags)
    explained = sentinelctl("rules", "explain", "pay", "--from", what, *flags)
    assert json.loads(shown.out)["rules"][0]["rule"]["count"] == count
    assert f"qps ≤ {count}" in explained.out
    for ended in (shown, explained):
        assert said in ended.err


def test_diff_reads_both_sides_as_the_environment(rules: Path, sentinelctl: Run) -> None:
    (rules / "environments" / "prod.yaml").write_text(PROD.replace("200", "300"), encoding="utf-8")
    assert "~ pay  count  200 → 300" in sentinelctl("rules", "diff", "live", "rules").out
    assert sentinelctl("rules", "diff", "live", "rules", "--env", "staging").code == 0


def test_fmt_takes_the_overlays_too(rules: Path, sentinelctl: Run) -> None:
    overlay = rules / "environments" / "staging.yaml"
    overlay.write_text(STAGING.replace(": ", ":   ") + "\n\n", encoding="utf-8")
    sentinelctl("rules", "fmt")
    assert "$delete: true" in overlay.read_text(encoding="utf-8")
    assert sentinelctl("rules", "fmt", "--check").out == ""


def test_doctor_says_which_overlay_is_in_use(rules: Path, here: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("doctor")
    assert "rules: 2 rules, valid, with the overlay rules/environments/prod.yaml" in ended.out
    assert "2 rules, valid, with the overlay rules/environments/prod.yaml" in ended.out.partition("store ")[2]
    settings = here / "sentinel.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace("prod", "test"), encoding="utf-8")
    assert "2 rules, valid, without an overlay: there is none for test" in sentinelctl("doctor").out


def test_history_and_rollback_take_the_overlay_along_and_leave_the_others_alone(
    rules: Path, here: Path, sentinelctl: Run
) -> None:
    for name, text in (("prod", PROD.replace("200", "300")), ("staging", PROD)):
        (rules / "environments" / f"{name}.yaml").write_text(text, encoding="utf-8")
        git(here, "commit", "-qam", f"Change {name}")
    revisions = json.loads(sentinelctl("rules", "history", "-o", "json").out)["revisions"]
    assert [each["message"] for each in revisions] == ["Change prod", "Rules"]
    assert sentinelctl("rules", "rollback", "--yes").code == 0
    assert (rules / "environments" / "prod.yaml").read_text(encoding="utf-8") == PROD
    assert (rules / "environments" / "staging.yaml").read_text(encoding="utf-8") == PROD


def test_a_service_runs_the_rules_of_its_environment(rules: Path) -> None:
    engine = start(load_settings())
    assert engine.wait_ready(10)
    assert [(rule.resource, rule.count) for rule in engine.rules("flow")] == [("pay", 200), ("order", 5)]
    engine.close()

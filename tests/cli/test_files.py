"""Rules in files, published and rolled back: who, when and why is kept beside them, and told wherever that is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.cli.exits import Exit
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.cli.conftest import RULES, Run, Shop, ok, shop_with
from tests.services.server import wait_until

AUDITED = "audit: {store: 'sqlite:///audit.db', outbox: outbox.db}\n"
Follow = Callable[[Shop], ServiceEngine]


@pytest.fixture(params=["file", "lists", "folder"])
def shop(request: pytest.FixtureRequest, here: Path, sentinelctl: Run) -> Shop:
    if request.param != "folder":
        return shop_with(request.param, here, sentinelctl)
    (here / "live").mkdir()
    return Shop(here, f"file://{here}/live", sentinelctl)


@pytest.fixture
def one(here: Path, sentinelctl: Run) -> Shop:
    return shop_with("file", here, sentinelctl)


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Starts services that follow the store of a shop, with an audit store; closed at the end."""
    running: list[ServiceEngine] = []

    def begin(shop: Shop) -> ServiceEngine:
        path = shop.here / "sentinel.yaml"
        path.write_text(path.read_text(encoding="utf-8") + AUDITED, encoding="utf-8")
        engine = start(load_settings())
        running.append(engine)
        assert engine.wait_ready(10)
        return engine

    yield begin
    for engine in running:
        engine.close()


def counts(engine: ServiceEngine) -> dict[str, float]:
    return {rule.resource: rule.count for rule in engine.rules("flow").rules}


def events(shop: Shop) -> list[dict[str, Any]]:
    """What was told of changes of flow rules, oldest first."""
    told = [json.loads(line) for line in ok(shop.run("audit", "export", "type:changed")).out.splitlines()]
    return [each["data"] for each in told if each["subject"] == "flow"]


def rules_file(shop: Shop) -> Path:
    """What an editor opens."""
    if "lists" in shop.store:
        return shop.here / "lists" / "sentinel-flow-rules.json"
    return shop.here / "live.yaml" if shop.store.endswith(".yaml") else next((shop.here / "live").glob("*.yaml"))


def edit(shop: Shop, old: str, new: str) -> None:
    path = rules_file(shop)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_what_a_service_tells_of_a_change_names_author_commit_plan_and_overruled_guards(
    shop: Shop, follow: Follow
) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    engine = follow(shop)
    commit = shop.commit(500, "Open the gates\n\nReason: sale")
    ok(shop.run("rules", "publish", "--yes", "--allow-jump", "--reason", "load test"))
    assert wait_until(lambda: engine.subscriptions[0].status()[0].commit_hash == commit)
    assert counts(engine)["payment_invoke"] == 500
    assert engine.subscriptions[0].status()[0].author == "Ada Example <ada@example.org>"
    engine.close()
    newest = events(shop)[-1]
    assert newest["author"] == "Ada Example <ada@example.org>"
    assert newest["reason"] == "load test (overruled: jump)"
    assert (newest["commitHash"], newest["channel"]) == (commit, "git")
    assert newest["planId"] == shop.standing()["planId"]
    assert newest["publishedBy"]


def test_an_edit_in_an_editor_is_told_as_one_and_its_author_is_not_known(shop: Shop, follow: Follow) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    engine = follow(shop)
    edit(shop, "20", "25")
    assert wait_until(lambda: counts(engine)["payment_invoke"] == 25)
    engine.close()
    newest = events(shop)[-1]
    assert (newest["channel"], newest["author"], newest["reason"], newest["planId"]) == ("file", None, None, None)
    found = shop.standing()
    assert (found["count"], found["author"], found["channel"]) == (25, None, "file")


def test_a_history_of_what_stands_says_who_and_why(one: Shop) -> None:
    ok(one.run("rules", "publish", "--yes"))
    ended = ok(one.run("rules", "history"))
    assert "Ada Example" in ended.out
    assert "opening day" in ended.out
    edit(one, "20", "25")
    assert "Ada Example" not in ok(one.run("rules", "history")).out


def test_a_rollback_leaves_its_trace_and_holds_until_it_is_released(one: Shop, follow: Follow) -> None:
    ok(one.run("rules", "publish", "--yes"))
    engine = follow(one)
    one.commit(25, "Raise it")
    ok(one.run("rules", "publish", "--yes"))
    assert wait_until(lambda: counts(engine)["payment_invoke"] == 25)
    assert wait_until(lambda: len(events(one)) == 2)
    undone = one.standing()["version"]
    back = ok(one.run("rules", "rollback", "--reason", "queues grew", "--yes"))
    assert "Under quarantine until released: flow" in back.err
    found = one.standing()
    assert (found["count"], found["reason"], found["rollbackOf"]) == (20, "queues grew", undone)
    assert found["publishedBy"]
    assert wait_until(lambda: counts(engine)["payment_invoke"] == 20)
    engine.close()
    assert (events(one)[-1]["reason"], events(one)[-1]["rollbackOf"]) == ("queues grew", undone)
    assert "Already rolled back" in ok(one.run("rules", "rollback", "--yes")).err
    refused = one.run("rules", "publish", "--yes")
    assert (refused.code, "queues grew" in refused.err) == (Exit.REFUSED, True)
    (held,) = json.loads(ok(one.run("rules", "quarantine", "-o", "json")).out)["quarantined"]
    ok(one.run("rules", "release", held["digest"][:12], "--reason", "the pool is larger now", "--yes"))
    ok(one.run("rules", "publish", "--yes"))
    assert (one.standing()["count"], one.standing()["rollbackOf"]) == (25, None)


def test_rules_of_another_environment_are_replaced_only_by_whoever_means_it(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    shop.commit(25, "Raise it")
    refused = shop.run("rules", "publish", "--env", "staging", "--yes")
    assert (refused.code, shop.standing()["count"]) == (Exit.REFUSED, 20)
    assert "was published for the environment prod and would be replaced by the rules for staging" in refused.err
    assert "--allow-environment" in refused.err
    ok(shop.run("rules", "publish", "--env", "staging", "--allow-environment", "--reason", "moved", "--yes"))
    assert (shop.standing()["environment"], shop.standing()["reason"]) == (
        "staging",
        "moved (overruled: environment)",
    )


def test_drift_names_whoever_published_what_differs(shop: Shop) -> None:
    ok(shop.run("rules", "publish", "--yes"))
    shop.write(25)
    ok(shop.run("rules", "publish", "--yes", "--reason", "incident"))
    (difference,) = json.loads(shop.run("rules", "drift", "-o", "json").out)["differences"]
    assert (difference["owner"]["reason"], difference["owner"]["channel"]) == ("incident", "cli")


def test_doctor_says_what_beside_the_rules_cannot_be_read_and_publishing_mends_it(one: Shop) -> None:
    ok(one.run("rules", "publish", "--yes"))
    beside = one.here / ".live.yaml.provenance"
    beside.write_bytes(b"{'")
    ended = ok(one.run("doctor"))
    assert "2 rules, valid" in ended.out
    assert "whose they are is not known: " in ended.out
    assert "next: mend it, or publish again" in ended.out
    assert ok(one.run("rules", "show")).out.count("payment_invoke") == 1
    one.commit(25, "Raise it")
    ok(one.run("rules", "publish", "--yes"))
    assert "whose they are" not in ok(one.run("doctor")).out
    assert one.standing()["author"] == "Ada Example <ada@example.org>"


def test_a_service_says_why_it_is_not_known_whose_its_rules_are(one: Shop, follow: Follow) -> None:
    ok(one.run("rules", "publish", "--yes"))
    (one.here / ".live.yaml.provenance").write_bytes(b"{'")
    engine = follow(one)
    assert engine._status is not None
    engine._status.flush()
    shown = ok(one.run("instances", "show", engine.instance)).out
    assert "whose the rules are is not known: " in shown
    assert ".live.yaml.provenance is damaged; remove it, or publish again" in shown


def test_rules_that_are_gone_are_said_to_be_with_who_published_them(shop: Shop) -> None:
    assert "is gone" not in ok(shop.run("doctor")).out
    ok(shop.run("rules", "publish", "--yes"))
    rules_file(shop).unlink()
    found = ok(shop.run("doctor"))
    assert "is gone: rules of Ada Example <ada@example.org> were published there at" in found.out
    assert "next: sentinelctl rules publish" in found.out
    ok(shop.run("rules", "publish", "--yes"))
    assert shop.standing()["count"] == 20


def test_doctor_says_how_a_missing_folder_is_made(here: Path, sentinelctl: Run) -> None:
    settings = here / "sentinel.yaml"
    for store, step in (
        (f"file://{here}/rulse/live.yaml", f"correct the path, or make it: mkdir -p {here}/rulse"),
        (f"file://{here}/lists?format=json", f"correct the path, or make it: mkdir -p {here}/lists"),
        (f"file://{here}/live", f"where it is to be a folder: mkdir -p {here}/live; then: sentinelctl rules publish"),
    ):
        settings.write_text(f"stores: ['{store}']\n", encoding="utf-8")
        assert step in ok(sentinelctl("doctor")).out


def test_rules_that_were_never_published_are_whose_they_were(one: Shop) -> None:
    (one.here / "live.yaml").write_text(RULES, encoding="utf-8")
    found = one.standing()
    assert (found["channel"], found["author"]) == ("file", None)
    assert not (one.here / ".live.yaml.provenance").exists()


def test_a_kind_that_is_new_in_a_document_is_added_and_one_that_an_editor_took_out_is_asked_for(one: Shop) -> None:
    degrade = "degradeRules:\n  - {resource: a, grade: error_count, count: 3, timeWindow: 5}\n"
    ok(one.run("rules", "publish", "--yes"))
    for text in (RULES + degrade, RULES.replace("20", "21") + degrade):
        (one.here / "rules.yaml").write_text(text, encoding="utf-8")
        ok(one.run("rules", "publish", "--yes", "--reason", "more"))
    (one.here / "live.yaml").write_text(RULES, encoding="utf-8")
    (one.here / "none.yaml").write_text("degradeRules: []\n", encoding="utf-8")
    refused = one.run("rules", "publish", "none.yaml", "--yes", "--reason", "oops")
    assert (refused.code, "--allow-unknown" in refused.err) == (Exit.REFUSED, True)
    assert "says nothing of some rules that were published there" in refused.err

"""`start(settings)`: one call wires stores, engine, outbox and audit store, and `close` takes them down in order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import BlockException, default_engine, entry
from sentinel_core.audit.events import RuleApplied
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import Query
from sentinel_core.datasources import SourceMisconfigured, State
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import Settings, SettingsError, load_settings
from sentinel_core.starting import start
from tests.cli.conftest import FIRST, Project


@pytest.fixture
def settings(project: Project) -> Settings:
    return load_settings()


def ready(settings: Settings) -> ServiceEngine:
    engine = start(settings)
    assert all(subscription.wait_ready(10) for subscription in engine.subscriptions)
    return engine


def test_rules_of_the_store_are_enforced_and_the_change_is_in_the_audit_store_after_close(settings: Settings) -> None:
    engine = ready(settings)
    for _ in range(5):
        engine.entry("coupon").exit()
    with pytest.raises(BlockException):
        engine.entry("coupon")
    engine.close()
    store = open_store(settings.audit.store, read_only=True)
    rows = store.query(Query()).rows
    assert {row.resource for row in rows} == {"payment_invoke", "coupon", None}
    (applied,) = [row.event for row in rows if row.event.type == RuleApplied.TYPE]
    assert (applied.instance, applied.new_digest) == (engine.instance, engine.rules("flow").digest)
    store.close()
    outbox = Outbox(settings.audit.outbox)
    assert outbox.depth() == 0
    outbox.close()


def test_p24_a_document_that_says_nothing_yet_is_no_refusal(
    settings: Settings, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """Comments alone, as a template has them: waited for, not told as an event, and not an ERROR."""
    project.commit("# flowRules:\n#   - {resource: a, grade: 1, count: 1}\n", "Nothing yet")
    engine = start(settings)
    (subscription,) = engine.subscriptions
    subscription.refresh(10)
    assert subscription.state is State.INIT
    assert "sentinel-rules.yaml says nothing; waiting for it" in str(subscription.status()[0].reason)
    assert engine.outbox.depth() == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"], "one warning, of the state"
    engine.close()


def test_it_becomes_the_default_engine_of_the_process(settings: Settings) -> None:
    engine = ready(settings)
    assert default_engine() is engine
    for _ in range(5):
        entry("coupon").exit()
    with pytest.raises(BlockException):
        entry("coupon")
    engine.close()


def test_a_start_that_fails_leaves_the_default_engine_as_it_was(here: Path) -> None:
    before = default_engine()
    with pytest.raises(SourceMisconfigured):
        start(Settings(stores=("consul://h",)))
    assert default_engine() is before


def test_a_store_that_is_gone_leaves_the_last_known_good_rules(settings: Settings, project: Project) -> None:
    ready(settings).close()
    project.repo.rename(project.folder / "away")
    engine = start(settings)
    assert len(engine.rules("flow")) == 2
    deadline = time.monotonic() + 10
    while engine.subscriptions[0].state is State.STALE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert engine.subscriptions[0].state in {State.STALE, State.ERROR}
    engine.close()


def test_an_outbox_that_cannot_be_written_does_not_stop_protection(settings: Settings, project: Project) -> None:
    blocked = project.folder / "file"
    blocked.write_text("", encoding="utf-8")
    audit = settings.audit.replace(outbox=str(blocked / "outbox.db"))
    engine = ready(settings.replace(audit=audit, timeout=0.5))
    assert len(engine.rules("flow")) == 2
    assert engine.status()["audit"]["lateEvents"] > 0
    engine.close()


def test_close_is_idempotent_and_entries_go_on(settings: Settings) -> None:
    engine = ready(settings)
    engine.close()
    engine.close()
    engine.entry("payment_invoke").exit()


def test_close_is_bounded_when_the_audit_store_is_down(settings: Settings, project: Project) -> None:
    audit = settings.audit.replace(store=f"sqlite:///{project.repo}")
    engine = ready(settings.replace(audit=audit, timeout=0.5))
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 10
    outbox = Outbox(settings.audit.outbox)
    assert outbox.depth() == 2
    outbox.close()


def test_the_next_start_delivers_what_the_last_one_could_not(settings: Settings, project: Project) -> None:
    audit = settings.audit.replace(store=f"sqlite:///{project.repo}")
    ready(settings.replace(audit=audit, timeout=0.5)).close()
    ready(settings).close()
    store = open_store(settings.audit.store, read_only=True)
    assert store.query(Query()).rows
    store.close()


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"stores": ("file:///a.yaml", "/a.yaml")}, SourceMisconfigured, "name it once"),
        ({"stores": ("nacos://h:8848/a/b",)}, SourceMisconfigured, "the path is /namespace"),
        ({"audit": {"kafka": {"bootstrap": "broker"}}}, SettingsError, "write host:port"),
        ({"audit": {"store": "mongodb://h"}}, SettingsError, "there is no audit store for mongodb://"),
    ],
)
def test_what_can_never_work_is_refused_at_once(
    here: Path, change: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        start(Settings(**change))


def test_two_stores_may_share_the_kinds(here: Path) -> None:
    (here / "flow.yaml").write_text('[{"resource": "a", "grade": 1, "count": 1}]', encoding="utf-8")
    (here / "sentinel-system-rules.json").write_text('[{"qps": 100}]', encoding="utf-8")
    (here / "flow.yaml").rename(here / "sentinel-flow-rules.json")
    stores = (f"file://{here}/sentinel-flow-rules.json", f"file://{here}/sentinel-system-rules.json")
    engine = ready(Settings(stores=stores, last_known_good=str(here / "lkg")))
    assert (len(engine.rules("flow")), len(engine.rules("system"))) == (1, 1)
    engine.close()


def test_a_commit_is_active_soon_after(settings: Settings, project: Project) -> None:
    engine = ready(settings)
    project.commit(FIRST.replace("20", "44"), "Raise it")
    deadline = time.monotonic() + 10
    while engine.rules("flow").rules[0].count != 44 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert engine.rules("flow").rules[0].count == 44
    engine.close()

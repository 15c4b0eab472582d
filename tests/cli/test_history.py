"""`rules history` and what it names, where the audit store knows more than the store itself."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine, datasources, start
from sentinel_core.audit.event import Event
from sentinel_core.audit.events import rule_applied, rule_changed, rule_rejected
from sentinel_core.audit.redaction import Redaction
from sentinel_core.audit.store._packing import pack, unpack
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.cli.exits import Exit
from sentinel_core.datasources.contract import HasHistory
from sentinel_core.rules import Problem, Revision, RuleRejected, RuleSet, SourceText, parse_revision
from sentinel_core.settings import load_settings
from tests.cli.conftest import FIRST, Ended, Project, Run, git
from tests.services import etcd, nacos
from tests.services.server import wait_until

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
FLEET = ("pod-1", "pod-2")


def ok(ended: Ended) -> Ended:
    assert ended.code == 0, ended.err
    return ended


def listed(sentinelctl: Run, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ok(sentinelctl("rules", "history", "-o", "json", *arguments)).out)[
        "revisions"
    ]
    return found


def tell(project: Project, *, redaction: Redaction | None = None) -> list[Revision]:
    """The audit store hears of every revision of the project's store, as two instances would tell. Oldest first."""
    with closing(datasources.open(load_settings(None).stores[0], environment="prod")) as source:
        assert isinstance(source, HasHistory)
        (item,) = source.items(("flow",))
        revisions = list(reversed(source.history(item)))
    with closing(SqliteStore(project.folder / ".sentinel" / "audit.db")) as store:
        store.ingest(list(events(revisions, redaction)))
    return revisions


def events(revisions: Sequence[Revision], redaction: Redaction | None) -> Iterator[Event]:
    before = RuleSet.empty("flow")
    hidden: dict[str, Any] = {} if redaction is None else {"redaction": redaction}
    for hour, revision in enumerate(revisions):
        new = parse_revision(revision, ["flow"])["flow"]
        for late, name in enumerate(FLEET):
            told: dict[str, Any] = {
                "environment": "prod",
                "app": "shop",
                "revision": revision,
                "at": NOON + timedelta(hours=hour, seconds=late),
                "instance": name,
            }
            yield rule_changed(old=before, new=new, **told, **hidden)
            yield rule_applied(ruleset=new, activation_ms=1.5, **told)
        before = new


def forget(project: Project) -> None:
    """The repository keeps its newest commit alone, as a shallow clone or a squash leaves it."""
    git(project.repo, "checkout", "-q", "--orphan", "squashed")
    git(project.repo, "commit", "-qm", "Raise it once more")
    git(project.repo, "branch", "-qM", "main")


@pytest.fixture
def forgetful(project: Project) -> Project:
    """A store that has one revision left of four; the audit store was told of three."""
    tell(project)
    project.commit(FIRST.replace("20", "35"), "Not told of")
    forget(project)
    return project


def test_a_store_alone_says_that_it_is_alone(project: Project, sentinelctl: Run) -> None:
    ended = ok(sentinelctl("rules", "history"))
    assert "only what the store itself remembers" in ended.err
    assert "there is no audit store yet" in ended.err
    assert len(listed(sentinelctl)) == 3
    assert all(each["ran"] is None and each["from"] == "store" for each in listed(sentinelctl))


def test_a_file_that_nobody_told_of_yet_has_what_stands_there_as_its_past(here: Path, sentinelctl: Run) -> None:
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/live.yaml']\n", encoding="utf-8")
    (here / "live.yaml").write_text(FIRST, encoding="utf-8")
    ended = ok(sentinelctl("rules", "history"))
    assert "only what the store itself remembers" in ended.err
    assert "there is no audit store yet" in ended.err
    assert [each["number"] for each in listed(sentinelctl)] == [1]
    back = sentinelctl("rules", "rollback", "--yes")
    assert (back.code, "sentinel.yaml" in back.err) == (2, False)
    assert "or let a service follow this one: what it applies is recorded from then on" in back.err


def test_a_file_whose_audit_store_does_not_answer_has_no_numbers(here: Path, sentinelctl: Run) -> None:
    """They would be others as soon as it answers."""
    (here / "sentinel.yaml").write_text(
        f"stores: ['file://{here}/live.yaml']\naudit: {{store: 'sqlite:///live.yaml'}}\n", encoding="utf-8"
    )
    (here / "live.yaml").write_text(FIRST, encoding="utf-8")
    ended = sentinelctl("rules", "history")
    assert (ended.code, ended.out) == (2, "")
    assert "let audit.store in sentinel.yaml name one that answers" in ended.err


@pytest.mark.parametrize(
    "line", [("history", "--before", "2"), ("rollback", "--to", "1", "--yes"), ("show", "history:1")]
)
def test_a_store_that_keeps_every_kind_by_itself_wants_to_know_which(
    here: Path, sentinelctl: Run, line: tuple[str, ...]
) -> None:
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/lists?format=json']\n", encoding="utf-8")
    (here / "lists").mkdir()
    ended = sentinelctl("rules", *line)
    assert (ended.code, "next: add --kind with one of flow" in ended.err) == (Exit.USAGE, True), ended.err


def test_each_revision_tells_who_ran_it_and_when(project: Project, sentinelctl: Run) -> None:
    tell(project)
    newest = listed(sentinelctl)[0]
    assert newest["from"] == "both"
    assert newest["ran"] == {
        "instances": ["pod-1", "pod-2"],
        "first": "2026-11-25T14:00:00+00:00",
        "last": "2026-11-25T14:00:01+00:00",
        "rejected": [],
        "rejectedAt": None,
    }
    ended = ok(sentinelctl("rules", "history"))
    assert "audit" not in ended.err
    assert re.search(r"^3 +[-\d]+ [:\d]+ [+-]\d\d:\d\d +Ada .*  2 +Raise it again$", ended.out, re.MULTILINE)
    assert "pod-1, pod-2" in ok(sentinelctl("rules", "history", "-o", "wide")).out


def test_who_ran_what_was_purged_is_not_known(project: Project, sentinelctl: Run) -> None:
    tell(project)
    line = ("audit", "purge", "--to", "segments", "--before")
    ok(sentinelctl(*line, (NOON + timedelta(days=1)).isoformat(), "--yes"))  # after the events, before the commits
    assert {each["ran"] and len(each["ran"]["instances"]) for each in listed(sentinelctl)} == {0}
    with closing(SqliteStore(project.folder / ".sentinel" / "audit.db")) as store:
        store.ingest([Event("later", "/prod/x", "sentinel.rules.changed.v1", "flow", datetime.now(UTC), b"{}")])
    ok(sentinelctl(*line, datetime.now(UTC).isoformat(), "--yes"))
    assert {each["ran"] for each in listed(sentinelctl)} == {None}


def test_who_refused_a_revision_is_named(project: Project, sentinelctl: Run) -> None:
    revisions = tell(project)
    problem = Problem("SR102", "error", "count is not a number")
    with closing(SqliteStore(project.folder / ".sentinel" / "audit.db")) as store:
        for name in ("pod-3", "pod-4"):
            store.ingest(
                [
                    rule_rejected(
                        environment="prod",
                        app="shop",
                        kind_or_subject="sentinel-rules.yaml",
                        revision=revisions[2],
                        rejection=RuleRejected([problem]),
                        at=NOON,
                        instance=name,
                    )
                ]
            )
    refused = listed(sentinelctl)[0]["ran"]
    assert (refused["rejected"], refused["rejectedAt"]) == (["pod-3", "pod-4"], NOON.isoformat())
    assert "2, 2 refused it" in ok(sentinelctl("rules", "history")).out


def test_what_the_store_forgot_is_still_listed_and_keeps_its_number(forgetful: Project, sentinelctl: Run) -> None:
    found = listed(sentinelctl)
    assert [(each["number"], each["from"]) for each in found] == [
        (4, "store"), (3, "audit"), (2, "audit"), (1, "audit")
    ]  # fmt: skip
    assert [each["message"] for each in found[1:]] == ["Raise it again", "Raise payment", "First rules"]
    ended = ok(sentinelctl("rules", "history"))
    assert "3 revisions (1 to 3) from the audit store: the store has them no more" in ended.err
    assert ended.out.count("audit store") == 3


def test_a_forgotten_revision_is_compared_and_comes_back(forgetful: Project, sentinelctl: Run) -> None:
    compared = sentinelctl("rules", "diff", "history:1", "live")
    assert compared.code == Exit.DIFFERENCES
    assert "count  20 → 35" in compared.out
    ok(sentinelctl("rules", "rollback", "--to", "1", "--yes"))
    assert "count: 20" in forgetful.rules.read_text()
    again = listed(sentinelctl)
    assert (again[0]["number"], again[0]["rollbackOfNumber"]) == (5, 4)


def test_a_forgotten_revision_is_found_by_its_commit(forgetful: Project, sentinelctl: Run) -> None:
    commit = listed(sentinelctl)[2]["commitHash"]
    ok(sentinelctl("rules", "rollback", "--to-commit", commit[:10], "--yes"))
    assert "count: 25" in forgetful.rules.read_text()


def test_one_step_back_reaches_what_the_store_forgot(forgetful: Project, sentinelctl: Run) -> None:
    ended = ok(sentinelctl("rules", "rollback", "--yes"))
    assert "count  35 → 30" in ended.err


def test_a_revision_whose_branch_was_set_back_is_no_step(project: Project, sentinelctl: Run) -> None:
    """It ran, so it is listed; going back one step is what the store says."""
    tell(project)
    git(project.repo, "reset", "-q", "--hard", "HEAD~1")
    assert [(each["number"], each["from"]) for each in listed(sentinelctl)] == [(3, "audit"), (2, "both"), (1, "both")]
    assert "count  25 → 20" in ok(sentinelctl("rules", "rollback", "--yes")).err
    assert [each["number"] for each in listed(sentinelctl)] == [4, 3, 2, 1]


def test_rules_that_are_hidden_in_the_events_do_not_come_back(project: Project, sentinelctl: Run) -> None:
    tell(project, redaction=Redaction(("count",), "k" * 32))
    project.commit(FIRST.replace("20", "35"), "Not told of")
    forget(project)
    refused = sentinelctl("rules", "rollback", "--to", "1", "--yes")
    assert refused.code == Exit.ERROR
    assert "are not what its digest says" in refused.err
    assert "audit show" in refused.err
    assert [each["message"] for each in listed(sentinelctl)][-1] == "First rules"


@pytest.mark.parametrize(
    "body", ["x", b"x", b"{", b"{}", b'{"newRules": [{"resource": "payment_invoke", "grade": 1, "count": 9}]}']
)
def test_an_event_that_was_altered_brings_nothing_back(forgetful: Project, sentinelctl: Run, body: str | bytes) -> None:
    database = sqlite3.connect(forgetful.folder / ".sentinel" / "audit.db")
    with closing(database), database:
        database.execute("UPDATE bodies SET data = ?", [body])
    refused = sentinelctl("rules", "rollback", "--to", "1", "--yes")
    assert refused.code == Exit.ERROR
    assert "are not what its digest says" in refused.err
    told = sentinelctl("rules", "history", "-o", "json")
    assert [each["number"] for each in json.loads(told.out)["revisions"]] == [4, 3, 2, 1]
    assert told.code == Exit.ERROR
    assert "TAMPERED WITH" in told.err


FORGED = [{"resource": "payment_invoke", "grade": 1, "count": 9999}, {"resource": "evil", "grade": 1, "count": 1}]
WAYS_BACK = [("rollback", "--to", "2", "--yes"), ("diff", "history:2", "live"), ("show", "history:2")]


@pytest.mark.parametrize("command", WAYS_BACK, ids=lambda command: command[0])
def test_rules_that_were_put_into_an_event_with_their_digest_bring_nothing_back(
    forgetful: Project, sentinelctl: Run, command: Sequence[str]
) -> None:
    """Everything in the store agrees, but for the hash in the chain."""
    text = SourceText("forged", json.dumps(FORGED).encode(), "json")
    digest = parse_revision(Revision((text,), "", ""), ("flow",))["flow"].digest
    database = sqlite3.connect(forgetful.folder / ".sentinel" / "audit.db")
    altered = 0
    with closing(database), database:
        for event, held in database.execute("SELECT event, data FROM bodies").fetchall():
            plain = json.loads(unpack(held))
            if not any(rule.get("count") == 25 for rule in plain.get("newRules", ())):
                continue
            altered += 1
            plain |= {"newRules": FORGED, "newDigest": digest}
            database.execute("UPDATE bodies SET data = ? WHERE event = ?", [pack(json.dumps(plain).encode()), event])
            database.execute("UPDATE events SET new_digest = ? WHERE seq = ?", [digest, event])
    assert altered
    before = forgetful.rules.read_text()
    ended = sentinelctl("rules", *command)
    assert ended.code == Exit.ERROR
    assert "not as it was written" in ended.err
    assert "sentinelctl audit verify" in ended.err
    assert "9999" not in ended.out + ended.err
    assert forgetful.rules.read_text() == before
    assert sentinelctl("audit", "verify").code == Exit.ERROR


def test_the_patch_of_each_revision(project: Project, sentinelctl: Run) -> None:
    tell(project)
    shown = ok(sentinelctl("rules", "history", "-p", "--limit", "2")).out
    assert re.search(r"revision 3 \([0-9a-f]{40}\)\nWho: +Ada Example .*\nWhen: .*\nWhy: +Raise it again\n", shown)
    assert "  ~ payment_invoke  count  25 → 30" in shown
    assert "  ~ payment_invoke  count  20 → 25" in shown
    assert re.search(r"Ran: +2 instances, first 2026-11-2", shown)
    first = listed(sentinelctl, "--patch")[-1]
    assert [each["action"] for each in first["changes"]] == ["add", "add"]


def test_the_patch_of_what_the_store_forgot(forgetful: Project, sentinelctl: Run) -> None:
    shown = ok(sentinelctl("rules", "history", "-p")).out
    assert "count  30 → 35" in shown
    assert "count  25 → 30" in shown


def test_older_ones_follow_page_by_page(project: Project, sentinelctl: Run) -> None:
    ended = ok(sentinelctl("rules", "history", "--limit", "1"))
    assert "1 of 3 revisions; --before 3 shows older ones, --limit 3 shows all" in ended.err
    assert [each["number"] for each in listed(sentinelctl, "--limit", "1", "--before", "3")] == [2]
    assert [each["number"] for each in listed(sentinelctl, "--before", "2")] == [1]


def test_a_file_has_the_past_that_was_told(here: Path, sentinelctl: Run) -> None:
    served(here, f"file://{here}/live.yaml")
    (here / "live.yaml").write_text(FIRST, encoding="utf-8")
    engine = start(load_settings(here / "sentinel.yaml"))
    try:
        for count in (20, 25, 30):
            (here / "live.yaml").write_text(FIRST.replace("20", str(count)), encoding="utf-8")
            assert wait_until(partial(counts, engine, count))
        assert wait_until(lambda: sentinelctl("audit", "query", "type:applied", "-o", "ndjson").out.count("pod-1") == 3)
        found = listed(sentinelctl)
        assert [(each["number"], each["from"]) for each in found] == [(3, "both"), (2, "audit"), (1, "audit")]
        assert found[0]["ran"]["instances"] == ["pod-1"]
        ok(sentinelctl("rules", "rollback", "--yes"))
        assert wait_until(partial(counts, engine, 25))
        assert "rolled back" in sentinelctl("rules", "publish", "history:3", "--yes", "--reason", "again").err
    finally:
        engine.close()


def served(here: Path, uri: str) -> None:
    """Settings of a service, with an audit store."""
    (here / "sentinel.yaml").write_text(
        f'app: shop\nenvironment: prod\ninstance: pod-1\nstores: ["{uri}"]\nstatus: null\n'
        "audit: {store: 'sqlite:///audit.db', outbox: out.db}\n",
        encoding="utf-8",
    )


def flow(count: int) -> bytes:
    return json.dumps([{"resource": "payment_invoke", "grade": 1, "count": count}]).encode()


def counts(engine: Engine, count: int) -> bool:
    return count in [rule.count for rule in engine.rules("flow").rules]


def test_etcd_compacts_and_nothing_is_lost(here: Path, sentinelctl: Run) -> None:
    etcd.needed()
    server = etcd.shared()
    key = f"/sentinel/cli/{here.parent.name}/sentinel-flow-rules"
    served(here, server.uri(f"/cli/{here.parent.name}"))
    server.put(key, flow(20))
    engine = start(load_settings(here / "sentinel.yaml"))
    try:
        assert wait_until(partial(counts, engine, 20))
        for count in (25, 30):
            server.put(key, flow(count))
            assert wait_until(partial(counts, engine, count))
        assert wait_until(lambda: sentinelctl("audit", "query", "type:applied", "-o", "ndjson").out.count("pod-1") == 3)
        server.compact()
        found = listed(sentinelctl, "--kind", "flow")
        assert [(each["number"], each["ran"]["instances"]) for each in found] == [
            (number, ["pod-1"]) for number in (3, 2, 1)
        ]
        assert [each["from"] for each in found] == ["both", "audit", "audit"]
        ok(sentinelctl("rules", "rollback", "--kind", "flow", "--to", "1", "--yes"))
        assert wait_until(partial(counts, engine, 20))
    finally:
        engine.close()


@pytest.mark.parametrize("major", [2, 3])
def test_what_nacos_and_the_audit_store_tell_is_one_revision(here: Path, sentinelctl: Run, major: int) -> None:
    """Their versions and times of the same write differ a little."""
    nacos.needed(major)
    server, group = nacos.shared(major), here.parent.name
    served(here, server.uri(group=group, transport="http"))
    server.put("sentinel-flow-rules", flow(20), group=group)
    engine = start(load_settings(here / "sentinel.yaml"))
    try:
        assert wait_until(partial(counts, engine, 20))
        server.put("sentinel-flow-rules", flow(25), group=group)
        assert wait_until(partial(counts, engine, 25))
        assert wait_until(lambda: sentinelctl("audit", "query", "type:applied", "-o", "ndjson").out.count("pod-1") == 2)
        found = listed(sentinelctl, "--kind", "flow")
        assert [(each["from"], each["ran"]["instances"]) for each in found] == [("both", ["pod-1"])] * 2
    finally:
        engine.close()

"""`--wait` of `rules publish`, `apply` and `rollback`: who counts, who lags, who refuses, and what cannot be asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core import datasources, start
from sentinel_core.audit.events import rule_rejected
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.cli.exits import Exit
from sentinel_core.rules import KINDS, Problem, Revision, RuleRejected
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from tests.cli.conftest import Ended, Run, git
from tests.services.server import wait_until

RULES = "flowRules:\n  - {resource: payment_invoke, grade: qps, count: 20}\n"


class Fleet:
    """Services that follow a Git store, all with one audit store."""

    def __init__(self, here: Path, undo: ExitStack) -> None:
        self.here = here
        self._undo = undo
        (here / "repo").mkdir()
        git(here / "repo", "init", "-qb", "main")
        git(here / "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
        (here / "sentinel.yaml").write_text(
            "app: shop\nenvironment: prod\nrules: rules.yaml\nstatus: null\n"
            f"stores: ['git+file://{here}/repo?ref=main&path=sentinel-rules.yaml&poll_ms=50']\n"
            "audit: {store: 'sqlite:///audit.db', outbox: none.db}\n",
            encoding="utf-8",
        )
        self.write(20)

    def write(self, count: float) -> None:
        (self.here / "rules.yaml").write_text(RULES.replace("20", str(count)), encoding="utf-8")

    def starts(self, *names: str) -> list[ServiceEngine]:
        """Services of these names; returns when each has told what it runs."""
        found = []
        for name in names:
            settings = load_settings(self.here / "sentinel.yaml")
            audit = settings.audit.replace(outbox=str(self.here / f"{name}.db"))
            own = {"instance": name, "audit": audit, "last_known_good": str(self.here / f"last-good-{name}")}
            engine = start(settings.replace(**own))
            self._undo.callback(engine.close)
            found.append(engine)
        return found

    def refuses(self, name: str, before: str) -> None:
        """An instance tells that it refuses the revision after `before`."""
        with closing(datasources.open(load_settings(self.here / "sentinel.yaml").stores[0], environment="prod")) as git:
            (item,) = git.items(KINDS)
            found: list[Revision] = []

            def is_written() -> bool:
                reading = git.read(item)
                if isinstance(reading, Revision) and reading.version != before:
                    found.append(reading)
                return bool(found)

            assert wait_until(is_written)
        problem = Problem("SR102", "error", "count is not a number", file="sentinel-rules.yaml")
        event = rule_rejected(
            environment="prod",
            app="shop",
            kind_or_subject=item.key,
            revision=found[0],
            rejection=RuleRejected([problem]),
            at=datetime.now(UTC),
            instance=name,
        )
        with closing(SqliteStore(self.here / "audit.db")) as store:
            store.ingest([event])


@pytest.fixture
def fleet(here: Path) -> Iterator[Fleet]:
    with ExitStack() as undo:
        yield Fleet(here, undo)


def ok(ended: Ended) -> Ended:
    assert ended.code == 0, ended.err
    return ended


def tells_what_it_runs(sentinelctl: Run, *names: str) -> bool:
    def heard() -> bool:
        ended = sentinelctl("audit", "query", "type:applied", "-o", "ndjson")
        return all(f'"{name}"' in ended.out for name in names)

    return wait_until(heard)


def test_it_ends_when_every_instance_runs_what_was_written(fleet: Fleet, sentinelctl: Run) -> None:
    ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    fleet.starts("pod-1", "pod-2")
    assert tells_what_it_runs(sentinelctl, "pod-1", "pod-2")
    fleet.write(25)
    ended = ok(sentinelctl("rules", "publish", "--yes", "--reason", "sale", "--wait", "--timeout", "20s", "-o", "json"))
    assert "Converged: 2 of 2 instances run it." in ended.err
    found = json.loads(ended.out)["convergence"]
    assert found == {"converged": True, "needed": 2, "arrived": ["pod-1", "pod-2"], "lagging": [], "rejected": []}


def test_what_stands_already_is_waited_for_too(fleet: Fleet, sentinelctl: Run) -> None:
    ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    fleet.starts("pod-1")
    assert tells_what_it_runs(sentinelctl, "pod-1")
    again = ok(sentinelctl("rules", "publish", "--yes", "--reason", "first", "--wait"))
    assert "Nothing to do" in again.err
    assert "1 of 1 instance runs it" in again.err


@pytest.mark.parametrize(
    ("command", "told"), [("publish --reason sale", "written "), ("rollback", "Rolled back to revision 1")]
)
def test_what_was_written_is_told_before_the_wait(
    fleet: Fleet, sentinelctl: Run, process: Run, command: str, told: str
) -> None:
    for count in (20, 25):
        fleet.write(count)
        ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    fleet.starts("pod-1")
    assert tells_what_it_runs(sentinelctl, "pod-1")
    fleet.write(30)
    ended = ok(process(script=f"$SENTINELCTL rules {command} --yes --wait --timeout 20s 2>&1"))
    assert ended.out.index(told) < ended.out.index("of 1 instance runs it")


def test_who_does_not_come_is_named_and_the_code_is_6(fleet: Fleet, sentinelctl: Run) -> None:
    ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    _, asleep = fleet.starts("pod-1", "pod-2")
    assert tells_what_it_runs(sentinelctl, "pod-1", "pod-2")
    asleep.close()
    fleet.write(25)
    publish = ("rules", "publish", "--yes", "--reason", "sale", "--wait", "--timeout", "3s")
    ended = sentinelctl(*publish)
    assert ended.code == Exit.NOT_CONVERGED
    assert "not converged within 3 s: 1 of 2 instances run it; the rules stand in the store" in ended.err
    assert "  pod-2 runs " in ended.err
    assert "  pod-1" not in ended.err
    # It had missed that one already: whoever is gone is waited for once.
    fleet.write(30)
    assert "Converged: 1 of 1 instance" in ok(sentinelctl(*publish)).err


def test_a_service_of_this_machine_that_was_closed_does_not_count(fleet: Fleet, sentinelctl: Run) -> None:
    path = fleet.here / "sentinel.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("status: null", "status: status"), encoding="utf-8")
    publish = ("rules", "publish", "--yes", "--reason", "sale", "--wait", "--timeout", "20s")
    ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    stays, goes = fleet.starts("pod-1", "pod-2")
    assert tells_what_it_runs(sentinelctl, "pod-1", "pod-2")
    goes.close()
    assert "Converged: 1 of 1 instance" in ok(sentinelctl(*publish)).err, "of what stands already"
    fleet.write(25)
    assert "Converged: 1 of 1 instance" in ok(sentinelctl(*publish)).err
    stays.close()
    fleet.write(30)
    nobody = sentinelctl(*publish)
    assert (nobody.code, "no instance is known to run" in nobody.err) == (Exit.USAGE, True)


@pytest.mark.parametrize("share", ["1", "50%"])
def test_a_share_of_them_is_enough_where_that_is_said(fleet: Fleet, sentinelctl: Run, share: str) -> None:
    ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    _, asleep = fleet.starts("pod-1", "pod-2")
    assert tells_what_it_runs(sentinelctl, "pod-1", "pod-2")
    asleep.close()
    fleet.write(25)
    ended = ok(sentinelctl("rules", "publish", "--yes", "--reason", "sale", "--wait", "--min-converged", share))
    assert "Converged: 1 of 2 instances run it (1 are enough)." in ended.err


def test_the_first_rules_need_to_be_told_how_many_will_come(fleet: Fleet, sentinelctl: Run) -> None:
    fleet.starts("pod-1")
    SqliteStore(fleet.here / "audit.db").ingest([])
    publish = ("rules", "publish", "--yes", "--reason", "first", "--wait", "--timeout", "20s")
    refused = sentinelctl(*publish)
    assert refused.code == Exit.USAGE
    assert "nothing was written" in refused.err
    assert "--instances N" in refused.err
    assert "nothing stands in the store" in sentinelctl("rules", "show").err
    assert "1 of 1 instance" in ok(sentinelctl(*publish, "--instances", "1")).err


def test_a_rollback_waits_as_well(fleet: Fleet, sentinelctl: Run) -> None:
    for count in (20, 25):
        fleet.write(count)
        ok(sentinelctl("rules", "publish", "--yes", "--reason", "sale"))
    (engine,) = fleet.starts("pod-1")
    assert tells_what_it_runs(sentinelctl, "pod-1")
    ended = ok(sentinelctl("rules", "rollback", "--yes", "--wait", "-o", "json"))
    assert json.loads(ended.out)["convergence"]["arrived"] == ["pod-1"]
    assert engine.rules("flow").rules[0].count == 20


def test_a_plan_that_is_applied_waits_as_well(fleet: Fleet, sentinelctl: Run) -> None:
    ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    fleet.starts("pod-1")
    assert tells_what_it_runs(sentinelctl, "pod-1")
    fleet.write(25)
    ok(sentinelctl("rules", "plan", "-o", "release.plan", "--reason", "sale"))
    ended = ok(sentinelctl("rules", "apply", "release.plan", "--yes", "--wait", "-o", "json"))
    assert json.loads(ended.out)["convergence"]["arrived"] == ["pod-1"]


def test_an_instance_that_refuses_the_rules_ends_the_wait(fleet: Fleet, sentinelctl: Run) -> None:
    """As an older version does that does not know a field yet."""
    ok(sentinelctl("rules", "publish", "--yes", "--reason", "first"))
    (engine,) = fleet.starts("pod-1")
    assert tells_what_it_runs(sentinelctl, "pod-1")
    engine.close()
    before = git(fleet.here / "repo", "rev-parse", "main")
    fleet.write(25)
    refusing = threading.Thread(target=fleet.refuses, args=("pod-1", before))
    refusing.start()
    ended = sentinelctl("rules", "publish", "--yes", "--reason", "sale", "--wait", "--timeout", "20s")
    refusing.join()
    assert ended.code == Exit.NOT_CONVERGED
    assert "1 instance refused the rules" in ended.err
    assert "  pod-1 refused it" in ended.err
    assert "type:rejected" in ended.err


def test_without_an_audit_store_nothing_is_written(fleet: Fleet, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "publish", "--yes", "--reason", "first", "--wait")
    assert ended.code == Exit.UNREACHABLE
    assert "audit.db: there is no audit store yet" in ended.err
    assert "nothing stands in the store" in sentinelctl("rules", "show").err


@pytest.mark.parametrize("flag", [("--timeout", "3s"), ("--min-converged", "95%"), ("--instances", "3")])
def test_how_to_wait_needs_a_wait(fleet: Fleet, sentinelctl: Run, flag: tuple[str, str]) -> None:
    ended = sentinelctl("rules", "publish", "--yes", *flag)
    assert ended.code == Exit.USAGE
    assert "add --wait" in ended.err


@pytest.mark.parametrize("share", ["0", "-1", "101%", "0%", "many", "nan%", ""])
def test_a_share_that_is_none_is_refused(fleet: Fleet, sentinelctl: Run, share: str) -> None:
    ended = sentinelctl("rules", "publish", "--yes", "--wait", "--min-converged", share)
    assert ended.code == Exit.USAGE

"""`sentinelctl instances`: what services on this machine say of themselves, and how far that can be believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.cli.exits import Exit
from sentinel_core.cli.moments import utc_now
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from sentinel_core.status_file import read
from tests.cli.conftest import Project, Run

SERVICE = (
    "import time\nfrom sentinel_core import start\nfrom sentinel_core.settings import load_settings\n"
    "engine = start(load_settings())\nengine.wait_ready(20)\nengine._status.flush()\nprint('up', flush=True)\n"
    "time.sleep(60)\n"
)


@pytest.fixture
def service(project: Project) -> Iterator[ServiceEngine]:
    """A service in this process, which has just told of itself."""
    engine = start(load_settings())
    assert engine.wait_ready(10)
    tell(engine)
    yield engine
    engine.close()


def tell(engine: ServiceEngine) -> None:
    assert engine._status is not None
    engine._status.flush()


@pytest.fixture
def process_of_a_service(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A service as a process of its own, which has just told of itself."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVICE], cwd=project.folder, stdout=subprocess.PIPE, text=True
    ) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == "up\n"
        yield made
        made.kill()


def listed(ended: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ended.out)["instances"]
    return found


def rewrite(folder: Path, **change: Any) -> Path:
    """The one status file with other facts in it, as another process would have written it."""
    (status,) = read(folder)
    copy = folder / "another.1.json"
    copy.write_text(json.dumps({**status.document, "instance": "another", **change}), encoding="utf-8")
    return copy


def test_a_service_is_listed_with_its_rules_its_state_and_its_age(
    service: ServiceEngine, project: Project, sentinelctl: Run
) -> None:
    ended = sentinelctl("instances", "list", "-o", "json")
    assert ended.code == 0
    (one,) = listed(ended)
    assert (one["instance"], one["app"], one["state"], one["lagSeconds"]) == (service.instance, "app", "ready", 0)
    assert one["ageSeconds"] < 6
    flow = one["kinds"]["flow"]
    assert (flow["digest"], flow["commit"], flow["rules"]) == (service.rules("flow").digest, project.head(), 2)
    assert "Services on other machines, or with another folder, are not seen here." in ended.err
    assert f"flow:{flow['digest'][:12]}@{project.head()[:12]}" in sentinelctl("instances", "list").out
    assert sentinelctl("instances", "list", "-o", "name").out == f"{service.instance}\n"
    assert json.loads(sentinelctl("instances", "list", "-o", "ndjson").out)["pid"] == os.getpid()
    assert "git+file" in sentinelctl("instances", "list", "-o", "wide").out


def test_a_store_that_is_gone_is_told_with_its_error_and_for_how_long(
    service: ServiceEngine, project: Project, sentinelctl: Run
) -> None:
    project.repo.rename(project.folder / "away")
    service.subscriptions[0].refresh(10)
    tell(service)
    (one,) = listed(sentinelctl("instances", "list", "-o", "json"))
    assert one["state"] in {"stale", "error"}
    assert one["lagSeconds"] >= 0
    shown = sentinelctl("instances", "show", service.instance).out
    assert "last error, " in shown
    assert "over git+file" in shown


def test_a_killed_service_is_told_as_dead(
    process_of_a_service: subprocess.Popen[str], project: Project, sentinelctl: Run
) -> None:
    (alive,) = listed(sentinelctl("instances", "list", "-o", "json"))
    assert alive["state"] == "ready"
    process_of_a_service.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while not read(project.folder / ".sentinel" / "status")[0].ended and time.monotonic() < deadline:
        time.sleep(0.01)  # it is a zombie first, which is dead as well
    (dead,) = listed(sentinelctl("instances", "list", "-o", "json"))
    assert dead["state"] == "dead"
    assert f"its process {process_of_a_service.pid} has ended" in sentinelctl("instances", "show", dead["instance"]).out
    ended = sentinelctl("instances", "list", "--not-at", "nothing")
    assert ended.code == 0, "who does not run need not converge"
    assert "0 of 0 running instances are not at nothing." in ended.err


def test_a_service_that_no_longer_writes_is_told_as_silent(
    service: ServiceEngine, project: Project, sentinelctl: Run
) -> None:
    then = (utc_now() - timedelta(minutes=5)).isoformat()
    rewrite(project.folder / ".sentinel" / "status", writtenAt=then, host="elsewhere")
    states = {each["instance"]: each["state"] for each in listed(sentinelctl("instances", "list", "-o", "json"))}
    assert states == {service.instance: "ready", "another": "silent"}
    assert "it has said nothing for 5 min" in sentinelctl("instances", "show", "another").out


@pytest.mark.parametrize("which", ["commit", "short commit", "digest", "short digest"])
def test_who_is_not_at_a_revision(service: ServiceEngine, project: Project, sentinelctl: Run, which: str) -> None:
    old = service.rules("flow")
    assert old.revision is not None
    revision = old.digest if "digest" in which else str(old.revision.provenance.commit_hash)
    revision = revision[:7] if "short" in which else revision
    assert sentinelctl("instances", "list", "--not-at", revision).code == 0
    rewrite(project.folder / ".sentinel" / "status", kinds={}, subscriptions=[], pid=os.getpid())
    ended = sentinelctl("instances", "list", "--not-at", revision, "-o", "name")
    assert (ended.code, ended.out) == (6, "another\n")
    assert f"1 of 2 running instances is not at {revision}." in ended.err


def test_an_instance_may_be_named_in_short_or_by_its_process(service: ServiceEngine, sentinelctl: Run) -> None:
    for name in (service.instance, service.instance[:-1], str(os.getpid())):
        assert sentinelctl("instances", "show", name, "-o", "name").out == f"{service.instance}\n"


def test_show_has_the_whole_status_for_programs(service: ServiceEngine, sentinelctl: Run) -> None:
    document = json.loads(sentinelctl("instances", "show", service.instance, "-o", "json").out)
    assert document["subscriptions"][0]["items"][0]["state"] == "ready"
    assert document["activations"]["activated"] == 1
    assert document["state"] == "ready"


def test_names_that_fit_none_or_several(service: ServiceEngine, project: Project, sentinelctl: Run) -> None:
    rewrite(project.folder / ".sentinel" / "status", instance=f"{service.instance}-2", pid=1)
    ended = sentinelctl("instances", "show", service.instance[:4])
    assert (ended.code, "stands for 2 instances" in ended.err) == (2, True)
    ended = sentinelctl("instances", "show", f"{service.instance}x")
    assert (ended.code, f"did you mean {service.instance}" in ended.err) == (2, True)
    assert sentinelctl("instances", "show", "").code == 2


def test_where_nothing_runs_that_is_said(here: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("instances", "list", "-o", "json")
    assert (ended.code, listed(ended)) == (0, [])
    assert "none runs on this machine with these settings" in ended.err


def test_services_that_tell_nothing_are_bad_settings(here: Path, sentinelctl: Run) -> None:
    (here / "sentinel.yaml").write_text("status: null\n", encoding="utf-8")
    ended = sentinelctl("instances", "list")
    assert ended.code == 78
    assert "leave `status` out" in ended.err


@pytest.mark.parametrize("revision", ["", "  "])
def test_a_revision_must_be_one(here: Path, sentinelctl: Run, revision: str) -> None:
    assert sentinelctl("instances", "list", "--not-at", revision).code == 64


ODD: list[dict[str, Any]] = [
    {"kinds": {"flow": {}}},
    {"kinds": {"flow": {"rules": "x", "digest": 7, "version": [], "commit": {}, "sources": 3}}},
    {"subscriptions": [{}]},
    {"subscriptions": [{"items": 3, "state": [], "transport": None}]},
    {"subscriptions": [{"items": [{"state": 1, "since": "soon", "lastRead": 5, "lastError": [1]}, 4]}]},
    {"instance": 'a\u202e\x1b[2Jb"', "audit": {"error": "\x1b[31m"}},
    {"kinds": []},
    {"pid": "x"},
    {"pid": 2**80},
    {"pid": -1},
    {"writtenAt": "9999-12-31T23:59:59+00:00"},
    {"audit": 3},
]


@pytest.mark.parametrize("change", ODD, ids=str)
@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "ndjson", "name"])
def test_files_that_say_odd_things_are_shown_or_passed_over(
    service: ServiceEngine, project: Project, sentinelctl: Run, change: dict[str, Any], form: str
) -> None:
    rewrite(project.folder / ".sentinel" / "status", **{"pid": os.getpid(), **change})
    for line in (["list"], ["list", "--not-at", "9f1c"], ["show", str(change.get("instance", "another"))]):
        ended = sentinelctl("instances", *line, "-o", form)
        assert ended.code in {0, 2, 6}
        assert "error: unexpected" not in ended.err
        assert not {"\x1b", "\u202e"} & set(ended.out + ended.err) or form in {"json", "yaml", "ndjson"}


@pytest.mark.parametrize("name", ["HEAD", "git:HEAD~1", "main^"])
def test_a_name_of_git_is_no_revision_of_a_service(sentinelctl: Run, name: str) -> None:
    refused = sentinelctl("instances", "list", "--not-at", name)
    assert (refused.code, "--not-at $(git rev-parse" in refused.err) == (Exit.USAGE, True)

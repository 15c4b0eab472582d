"""`sentinelctl doctor`: what is wrong, where, and what to do next; the exit code is that of the first failure."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel_core.audit.outbox import Outbox
from sentinel_core.settings import load_settings
from sentinel_core.start import start
from tests.cli.conftest import Ended, Project, Run, git


def health(ended: Ended) -> dict[str, str]:
    return {each["check"]: each["health"] for each in json.loads(ended.out)["checks"]}


def test_a_sound_project_is_ok_from_end_to_end(project: Project, sentinelctl: Run) -> None:
    engine = start(load_settings())
    assert engine.subscriptions[0].wait_ready(10)
    engine.close()
    ended = sentinelctl("doctor", "-o", "json")
    assert ended.code == 0
    assert health(ended) == dict.fromkeys(
        ("python", "git", "engine", "settings", "rules", "store", "outbox", "audit", "last-good"), "ok"
    )
    what = {each["check"]: each["what"] for each in json.loads(ended.out)["checks"]}
    assert f"at {project.head()[:12]}, 2 rules, valid" in what["store"]
    assert what["outbox"].endswith("outbox.db: 0 waiting")
    assert re.search(r"readable, 2 events, the newest \S+ \S+ ago$", what["audit"])
    assert what["last-good"].endswith("1 saved revision")


def test_nothing_is_made_by_looking(project: Project, sentinelctl: Run) -> None:
    sentinelctl("doctor")
    assert not (project.folder / ".sentinel").exists()


def test_without_settings_it_says_how_to_name_a_store(here: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("doctor")
    assert ended.code == 0
    assert "next: write `stores: [URI]` into sentinel.yaml" in ended.out


@pytest.mark.parametrize(
    ("settings", "code", "failed", "said"),
    [
        ("stors: []\n", 78, "settings", "unknown setting; did you mean stores?"),
        ("stores: ['nacos://h:8848']\n", 78, "store", "not supported by this version"),
        ("stores: ['git+file:///nowhere']\n", 78, "store", "/nowhere"),
        ("stores: ['git+file://{repo}?ref=gone']\n", 78, "store", "gone"),
        ("stores: ['file://{repo}/sentinel-rules.yaml', 'git+file://{repo}']\n", 78, "store", "both carry flow rules"),
        ("rules: bad.yaml\n", 65, "rules", "bad.yaml:1:44: error SR102"),
        ("stores: ['file://{folder}/bad.yaml']\n", 65, "store", "bad.yaml"),
        ("audit: {{outbox: /proc/none/outbox.db}}\n", 2, "outbox", "/proc"),
        ("audit: {{kafka: {{bootstrap: 'broker'}}}}\n", 78, "kafka", "write host:port"),
        ("audit: {{kafka: {{bootstrap: '127.0.0.1:1'}}}}\ntimeout: 0.2\n", 69, "kafka", "does not answer"),
        ("audit: {{kafka: {{bootstrap: '127.0.0.1:1', ca: none.pem}}}}\n", 78, "kafka", "none.pem cannot be read"),
        ("audit: {{kafka: {{bootstrap: '127.0.0.1:1', user: u}}}}\n", 78, "kafka", "SENTINEL_KAFKA_PASSWORD"),
        ("audit: {{store: 'mongodb://h/x'}}\n", 69, "audit", "there is no audit store for mongodb://"),
        ("audit: {{store: 'bad.yaml'}}\n", 69, "audit", "bad.yaml"),
    ],
)
def test_a_failure_has_its_line_its_next_step_and_its_exit_code(
    project: Project, sentinelctl: Run, settings: str, code: int, failed: str, said: str
) -> None:
    (project.folder / "bad.yaml").write_text("flowRules: [{resource: a, grade: 1, count: 2O}]\n", encoding="utf-8")
    text = (
        settings.format(repo=project.repo, folder=project.folder) if "{{" in settings or "{" in settings else settings
    )
    (project.folder / "sentinel.yaml").write_text(text, encoding="utf-8")
    ended = sentinelctl("doctor", "-o", "json")
    checks = json.loads(ended.out)["checks"]
    (failure,) = [each for each in checks if each["health"] == "fail"]
    assert (ended.code, failure["check"]) == (code, failed), checks
    assert said in failure["what"]
    assert failure["next"]


def test_settings_that_nothing_acts_on_are_told_once(
    here: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "sentinel.yaml").write_text("namespace: public\nguards: {maxJump: 2}\n", encoding="utf-8")
    monkeypatch.setenv("SENTINEL_GUARDS__FORBID_ZERO", "true")
    ended = sentinelctl("doctor", "-o", "json")
    assert ended.code == 0
    (warning,) = [each for each in json.loads(ended.out)["checks"] if each["check"] == "settings" and each["next"]]
    assert warning["health"] == "warn"
    assert warning["what"] == (
        f"namespace ({here}/sentinel.yaml:1:1), guards.maxJump ({here}/sentinel.yaml:2:10), "
        "guards.forbidZero (SENTINEL_GUARDS__FORBID_ZERO): are not acted on by this version"
    )


def test_a_store_that_holds_nothing_is_a_warning(project: Project, sentinelctl: Run) -> None:
    (project.folder / "sentinel.yaml").write_text(
        f"stores: ['git+file://{project.repo}?path=missing']\n", encoding="utf-8"
    )
    ended = sentinelctl("doctor")
    assert ended.code == 0
    assert "warn  store      " in ended.out
    assert "it holds no rules" in ended.out


def test_events_that_wait_are_counted_with_the_age_of_the_oldest(project: Project, sentinelctl: Run) -> None:
    settings = load_settings()
    engine = start(settings)
    assert engine.subscriptions[0].wait_ready(10)
    engine.close()
    outbox = Outbox(settings.audit.outbox)
    with outbox._database.write() as connection:
        connection.execute("UPDATE events SET state = 0, time = time - 7200000")
    outbox.close()
    ended = sentinelctl("doctor")
    assert ended.code == 0
    assert "warn  outbox     " in ended.out
    assert "2 waiting, the oldest for 2 h" in ended.out


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_store_that_never_answers_is_left_after_the_time_out(
    project: Project, sentinelctl: Run, silent_port: int
) -> None:
    (project.folder / "sentinel.yaml").write_text(
        f"stores: ['git+https://127.0.0.1:{silent_port}/rules.git?path=rules']\n", encoding="utf-8"
    )
    began = time.monotonic()
    ended = sentinelctl("doctor", "--timeout", "300ms")
    assert ended.code == 69
    assert "no answer within 0.3 s" in ended.out
    assert time.monotonic() - began < 10


def test_a04_a_password_in_a_store_address_is_never_shown(
    here: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_STORES", "git+https://ops:hunter2@127.0.0.1:9/rules.git")
    for command in (
        ["doctor"],
        ["rules", "show"],
        ["rules", "diff"],
        ["doctor", "-o", "json"],
        ["--debug", "rules", "show"],
    ):
        ended = sentinelctl(*command)
        assert ended.code != 0
        assert "hunter2" not in ended.out + ended.err


def ran_once(project: Project) -> str:
    """A service of this machine has run the rules of the head."""
    engine = start(load_settings())
    assert engine.subscriptions[0].wait_ready(10)
    engine.close()
    return project.head()


def test_a_store_that_went_back_behind_what_services_ran_is_told(project: Project, sentinelctl: Run) -> None:
    """They keep their rules, which nobody else would notice."""
    ran = ran_once(project)
    git(project.repo, "reset", "-q", "--hard", "HEAD~1")
    ended = sentinelctl("doctor")
    said = f"services here last ran {ran[:12]}, the store stands at {project.head()[:12]}: refused because "
    assert f"{said}the history was rewound" in ended.out
    assert "push the lost commits again, or add &allow_rewind=true" in ended.out
    assert ended.code == 0


def test_a_head_that_services_refuse_is_told_with_what_they_run(project: Project, sentinelctl: Run) -> None:
    ran = ran_once(project)
    bad = project.commit("flowRules: [{resource: a, grade: 1, count: 2O}]\n", "Bad")
    ended = sentinelctl("doctor")
    assert f"services here last ran {ran[:12]}, the store stands at {bad[:12]}: refused because " in ended.out
    assert ended.code == 65


@pytest.mark.parametrize("time", ["0", "0ms", "-1", "soon"])
def test_a_time_that_is_none_is_a_wrong_command_line(sentinelctl: Run, time: str) -> None:
    ended = sentinelctl("doctor", "--timeout", time)
    assert ended.code == 64
    assert f"--timeout {time}: " in ended.err

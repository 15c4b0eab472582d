"""`sentinelctl doctor`: what is wrong, where, and what to do next; the exit code is that of the first failure."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.outbox import Outbox
from sentinel_core.cli.moments import utc_now
from sentinel_core.datasources import Condition, FileSource, Item, MemorySource, Scheme, SourceDenied, schemes
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.cli.conftest import Ended, Project, Run, git
from tests.unprivileged import exit_code_as_nobody, folder_for_all


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
    assert re.search(r"readable, 2 events, the newest \S+ \S+ ago; SQLite 3\S+; may be written$", what["audit"])
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
        ("stores: ['nacos://h:8848/a/b']\n", 78, "store", "the path is /namespace"),
        ("stores: ['git+file:///nowhere']\n", 78, "store", "/nowhere"),
        ("stores: ['git+file://{repo}?ref=gone']\n", 78, "store", "gone"),
        ("stores: ['file://{repo}/a.yaml', '{repo}/a.yaml']\n", 78, "store", "name it once"),
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


def test_settings_that_nothing_acts_on_are_told_once(here: Path, sentinelctl: Run) -> None:
    (here / "sentinel.yaml").write_text("namespace: public\n", encoding="utf-8")
    ended = sentinelctl("doctor", "-o", "json")
    assert ended.code == 0
    (warning,) = [each for each in json.loads(ended.out)["checks"] if each["check"] == "settings" and each["next"]]
    assert warning["health"] == "warn"
    assert warning["what"] == f"namespace ({here}/sentinel.yaml:1:1): is not acted on by this version"


def test_a_store_that_holds_nothing_is_a_warning(project: Project, sentinelctl: Run) -> None:
    (project.folder / "sentinel.yaml").write_text(
        f"stores: ['git+file://{project.repo}?path=missing']\n", encoding="utf-8"
    )
    ended = sentinelctl("doctor")
    assert ended.code == 0
    assert "warn  store      " in ended.out
    assert "it holds no rules" in ended.out
    assert "next: check its ref and path" in ended.out


def test_on_the_first_day_a_store_is_new_and_publishing_fills_it(here: Path, sentinelctl: Run) -> None:
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/live.yaml']\n", encoding="utf-8")
    ended = sentinelctl("doctor")
    assert "next: check its path; where it is new: sentinelctl rules publish " in ended.out


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


# -- what a store tells of itself, and how services here fare with it --------------------------------------------------


def doctor(sentinelctl: Run) -> Ended:
    return sentinelctl("doctor", "-o", "json")


def store_check(ended: Ended, name: str = "store") -> dict[str, Any]:
    return next(each for each in json.loads(ended.out)["checks"] if each["check"] == name)


def test_a_store_tells_its_transport_the_time_it_took_and_what_may_be_done(project: Project, sentinelctl: Run) -> None:
    check = store_check(sentinelctl("doctor", "-o", "json"))
    facts = check["facts"]
    assert (facts["transport"], facts["mayRead"], facts["mayWrite"], facts["services"]) == ("git+file", True, True, [])
    assert facts["tookMs"] > 0
    assert check["what"].endswith("; may be written")


def test_rights_are_found_out_without_writing() -> None:
    def look() -> int:
        return int(FileSource(path).inspect(Item(str(path), "", ())).may_write is not False)

    with folder_for_all() as folder:
        path = folder / "rules.yaml"
        assert FileSource(path).inspect(Item(str(path), "", ())).may_write
        folder.chmod(0o555)
        assert exit_code_as_nobody(look) == 0
        assert list(folder.iterdir()) == []


class Telling(MemorySource):
    """A store that tells of itself, an hour ahead."""

    def inspect(self, item: Item) -> Condition:
        return Condition("example 1.2.3", utc_now() + timedelta(hours=1), may_write=False)


class Dumb(MemorySource):
    """A store that fails to tell of itself."""

    def inspect(self, item: Item) -> Condition:
        raise SourceDenied("memory://x: password=hunter2 is not enough")


@pytest.fixture
def store_of(monkeypatch: pytest.MonkeyPatch, here: Path) -> Callable[[type[MemorySource]], None]:
    """Has the settings name a store of a class of ours, which holds a rule."""

    def use(kind: type[MemorySource]) -> None:
        source = kind("x")
        source.set("flow", '[{"resource": "a", "grade": 1, "count": 1}]')
        known = {**schemes(), "mine": Scheme(("mine",), lambda *_, **__: source, {"environment": str})}
        monkeypatch.setattr("sentinel_core.datasources.registry.schemes", lambda: known)
        (here / "sentinel.yaml").write_text("stores: ['mine://x']\n", encoding="utf-8")

    return use


def test_a_server_tells_its_version_and_its_clock(
    store_of: Callable[[type[MemorySource]], None], sentinelctl: Run
) -> None:
    store_of(Telling)
    check = store_check(sentinelctl("doctor", "-o", "json"))
    assert check["health"] == "warn"
    assert "; example 1.2.3; read only; its clock is 59 min ahead" in check["what"] or "is 1 h ahead" in check["what"]
    assert (check["facts"]["server"], check["facts"]["mayWrite"]) == ("example 1.2.3", False)
    assert check["facts"]["clockSkewSeconds"] > 3000


def test_what_is_dated_ahead_shows_a_clock_that_is(
    project: Project, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a store that tells no time, the dates of what stands there do."""
    assert re.search(r"valid, of \d+ \S+ ago; may be written$", store_check(doctor(sentinelctl))["what"])
    later = (utc_now() + timedelta(minutes=3, seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    monkeypatch.setenv("GIT_AUTHOR_DATE", later)
    monkeypatch.setenv("GIT_COMMITTER_DATE", later)
    project.commit("flowRules: [{resource: a, grade: 1, count: 1}]\n", "From a machine whose clock is ahead")
    check = store_check(doctor(sentinelctl))
    assert (check["health"], check["next"].startswith("set the clocks")) == ("warn", True)
    assert check["what"].endswith("; what stands there is dated 3 min ahead of this machine")


def test_the_audit_store_of_this_machine_tells_its_version_and_rights(project: Project, sentinelctl: Run) -> None:
    ran_once(project)
    facts = store_check(sentinelctl("doctor", "-o", "json"), "audit")["facts"]
    assert facts["server"].startswith("SQLite 3.")
    assert (facts["mayWrite"], facts["clockSkewSeconds"]) == (True, None)


def test_a_store_that_fails_to_tell_of_itself_is_still_read(
    store_of: Callable[[type[MemorySource]], None], sentinelctl: Run
) -> None:
    store_of(Dumb)
    ended = sentinelctl("doctor", "-o", "json")
    check = store_check(ended)
    assert (check["health"], "1 rule, valid" in check["what"]) == ("ok", True)
    assert "it tells nothing of itself: " in check["what"]
    assert "hunter2" not in ended.out


def test_services_that_cannot_follow_a_store_are_told_though_it_can_be_reached(
    project: Project, sentinelctl: Run
) -> None:
    engine = start(load_settings())
    try:
        assert engine.wait_ready(10)
        tell(engine)
        assert "; 1 service here: ready, read 0 s ago" in store_check(sentinelctl("doctor", "-o", "json"))["what"]
        project.repo.rename(project.folder / "away")
        engine.subscriptions[0].refresh(10)
        tell(engine)
        (project.folder / "away").rename(project.repo)
        check = store_check(sentinelctl("doctor", "-o", "json"))
        assert (check["health"], check["next"]) == ("warn", f"sentinelctl instances show {engine.instance}")
        (service,) = check["facts"]["services"]
        assert service["state"] in {"stale", "error"}
        assert service["lastError"]
    finally:
        engine.close()


def tell(engine: ServiceEngine) -> None:
    assert engine._status is not None
    engine._status.flush()

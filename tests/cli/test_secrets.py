"""A04: what opens a store, or slipped into a commit, is in no output, file, log or event of ours."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.cli.conftest import FIRST, Project, Run, git, make_project
from tests.cli.test_help import ALL

SECRETS = ("hunter2", "pa/ss", "ghp_0123456789abcdefghij", "s3cr3t")
REMOTE = "https://ops:hunter2@git.example/rules.git"
STORE = f"git+{REMOTE}?ref=main&path=sentinel-rules.yaml"
NOWHERE = "git+https://ops:hunter2@127.0.0.1:9/rules.git"
ODD = "git+https://ops:hunter2pa/ss@127.0.0.1:9/rules.git?token=s3cr3t"
MESSAGE = (
    "Raise it, see https://ops:hunter2@wiki.example/why\n\nReason: token=s3cr3t\n"
    "Plan-id: ghp_0123456789abcdefghij\nRollback-of: ghp_0123456789abcdefghij"
)
FORMS = ("wide", "ndjson", "name")
"""With `--json-into` these are all that a view can show: for people, whole, by item and by name."""

COMMANDS = {
    "demo": None,  # opens no store but its own
    "doctor": ["doctor"],
    "serve": None,  # it does not end; what it tells is told by sync and audit ingest
    "sync": ["sync", "{uri}", "--store", "{uri}", "--once"],
    "rules validate": ["rules", "validate", "{uri}"],
    "rules fmt": ["rules", "fmt", "{uri}"],
    "rules schema": ["rules", "schema", "--kind", "{uri}"],
    "rules explain": ["rules", "explain", "coupon", "--from", "{uri}"],
    "rules show": ["rules", "show", "{uri}"],
    "rules get": ["rules", "get", "{uri}"],
    "rules diff": ["rules", "diff", "{uri}", "history:1"],
    "rules quarantine": ["rules", "quarantine", "--store", "{uri}"],
    "rules release": ["rules", "release", "{uri}", "--reason", "{uri}", "--store", "{uri}"],
    "rules drift": ["rules", "drift", "{uri}", "--store", "{uri}"],
    "rules import": ["rules", "import", "--store", "{uri}", "--dry-run", "--reason", "{uri}"],
    "rules plan": ["rules", "plan", "{uri}", "--store", "{uri}"],
    "rules apply": ["rules", "apply", "{uri}"],
    "rules publish": ["rules", "publish", "{uri}", "--store", "{uri}", "--reason", "{uri}", "--dry-run"],
    "rules promote": ["rules", "promote", "{uri}", "git+file:///nowhere.git?ref=main&path=r", "--reason", "{uri}"],
    "rules history": ["rules", "history", "--store", "{uri}"],
    "rules rollback": ["rules", "rollback", "--dry-run", "--to", "1", "--store", "{uri}"],
    "lock list": ["lock", "list", "--store", "{uri}"],
    "lock hold": ["lock", "hold", "--for", "1ms", "--reason", "{uri}", "--store", "{uri}"],
    "lock release": ["lock", "release", "{uri}", "--store", "{uri}"],
    "lock break": ["lock", "break", "{uri}", "--reason", "{uri}", "--store", "{uri}"],
    "audit query": ["audit", "query", "since:1h"],
    "audit who": ["audit", "who", "coupon"],
    "audit tail": ["audit", "tail", "{uri}"],
    "audit export": ["audit", "export"],
    "audit purge": ["audit", "purge", "--before", "2020-01-01", "--to", "{uri}", "--reason", "{uri}", "--dry-run"],
    "audit show": ["audit", "show", "{uri}"],
    "audit init": ["audit", "init"],
    "audit ingest": ["audit", "ingest", "--metrics", "{uri}"],
    "audit verify": ["audit", "verify", "--checkpoints", "{uri}"],
    "audit checkpoint": ["audit", "checkpoint"],
    "audit hash": ["audit", "hash", "{uri}"],
    "instances list": ["instances", "list", "--not-at", "{uri}"],
    "instances show": ["instances", "show", "{uri}"],
    "biz observe": ["biz", "observe", "{uri}", "--file", "{uri}"],
    "biz suggest": ["biz", "suggest", "{uri}", "--resource", "{uri}", "--file", "readings.db"],
    "config get-contexts": ["config", "get-contexts"],
    "config current-context": ["config", "current-context", "--context", "{uri}"],
    "config use-context": ["config", "use-context", "{uri}"],
    "config set-context": ["config", "set-context", "a", "bootstrap={uri}"],
    "config delete-context": ["config", "delete-context", "{uri}"],
    "config view": ["config", "view", "--context", "{uri}"],
    "engine slots": ["engine", "slots"],
    "completion": ["completion", "{uri}"],
    "version": ["version"],
}


def secrets_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def content(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def test_every_command_is_looked_at() -> None:
    groups = {" ".join(path) for path in ALL if any(other[:-1] == path for other in ALL)}
    assert COMMANDS.keys() == {" ".join(path) for path in ALL} - groups


def environment(patch: pytest.MonkeyPatch, project: Project) -> None:
    patch.setenv("HOME", str(project.folder))
    patch.setenv("SENTINEL_STORES", STORE)
    patch.chdir(project.folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The store of the settings is a URL with a password, behind which the repository lies. An engine has followed it:
    a commit whose message holds secrets, and one that was refused."""
    project = make_project(tmp_path_factory.mktemp("served"))
    (project.folder / ".gitconfig").write_text(
        f"[user]\n\tname = Ada Example\n\temail = ada@example.org\n"
        f'[url "file://{project.repo}"]\n\tinsteadOf = {REMOTE}\n',
        encoding="utf-8",
    )
    (project.folder / "sentinel.yaml").write_text("rules: repo/sentinel-rules.yaml\n", encoding="utf-8")
    records = io.StringIO()
    handler = logging.StreamHandler(records)
    logging.getLogger().addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        environment(patch, project)
        engine = start(load_settings())
        assert engine.wait_ready(10)
        for text in (FIRST.replace("20", "44"), FIRST.replace("count: 5", "count: 5O, url: 'http://a:hunter2@b'")):
            project.commit(text, MESSAGE)
            assert engine.subscriptions[0].refresh(10)
        told = f"{engine.status()} {engine.subscriptions[0].status()}"
        assert engine.subscriptions[0].status()[0].counters.rejected == 1
        engine.close()
    logging.getLogger().removeHandler(handler)
    assert "are refused, the active ones stay" in records.getvalue()
    assert secrets_in(records.getvalue() + told) == []
    git(project.repo, "checkout", "-q", "--detach")
    return project


@pytest.fixture
def told(served: Project, here: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """That project, as the working directory."""
    environment(monkeypatch, served)
    return served


def test_a_service_writes_no_secret_to_disk(told: Project) -> None:
    """But for the rules kept for a cold start, which only their owner reads, and the objects that were fetched."""
    kept = [path for folder in (".sentinel", ".cache") for path in (told.folder / folder).rglob("*") if path.is_file()]
    assert {"outbox.db", "audit.db", "FETCH_HEAD"} <= {path.name for path in kept}
    telling = [path for path in kept if path.suffix != ".last-good" and "objects" not in path.parts]
    assert {path.name: found for path in telling if (found := secrets_in(content(path)))} == {}


@pytest.mark.parametrize("name", [name for name, line in COMMANDS.items() if line])
def test_no_command_tells_a_secret(told: Project, sentinelctl: Run, name: str) -> None:
    for uri in (STORE, NOWHERE, ODD):
        line = [word.format(uri=uri) for word in COMMANDS[name] or []]
        forms = (
            FORMS if "--json-into" in {flag for each in ALL[tuple(name.split())].params for flag in each.opts} else ()
        )
        loud = [] if uri == STORE else [["--debug"]]
        for more in [*loud, *(["-o", form, "--json-into", "out.json"] for form in forms if uri == STORE), []]:
            ended = sentinelctl(*line, *more)
            assert secrets_in(ended.out + ended.err) == [], [*line, *more]
        if (told.folder / "out.json").exists():
            assert secrets_in(content(told.folder / "out.json")) == []


def test_a_rollback_through_such_a_store_tells_no_secret(told: Project, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "rollback", "--to", "1", "--yes", "--reason", "token=s3cr3t leaked")
    assert ended.code == 0, ended.err
    assert secrets_in(ended.out + ended.err) == []

"""The ready files for pipelines: their steps, run in a shell against a real store."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from ruamel.yaml import YAML

from tests.services import etcd

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "ci"
WHO = ("-c", "user.name=Chen Example", "-c", "user.email=chen@example.org", "-c", "commit.gpgsign=false")
RULES = "flowRules:\n  - {resource: payment_invoke, grade: qps, count: 20}\n"


def load(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


class Pipeline:
    """A checkout of a repository with rules whose store is an etcd, and a shell in it."""

    def __init__(self, folder: Path) -> None:
        etcd.needed()
        self.folder = folder / "checkout"
        self.folder.mkdir()
        self.key = f"/sentinel/ci/{folder.name}/sentinel-flow-rules"
        uri = etcd.shared().uri(f"/ci/{folder.name}")
        (self.folder / "sentinel.yaml").write_text(f"rules: rules.yaml\nenvironment: prod\nstores: ['{uri}']\n")
        (folder / "bin").mkdir()
        program = folder / "bin" / "sentinelctl"
        program.write_text(f"#!{sys.executable}\nfrom sentinel_core.cli.main import main\nmain()\n", encoding="utf-8")
        program.chmod(0o755)
        self.path = f"{folder / 'bin'}:{os.environ['PATH']}"
        self.git("init", "-qb", "main")
        self.commit(RULES, "First rules")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *WHO, *arguments], capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, text: str, message: str) -> str:
        (self.folder / "rules.yaml").write_text(text, encoding="utf-8")
        self.git("add", "-A", "rules.yaml")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD")

    def shell(self, script: str, **environment: str) -> tuple[int, str]:
        """As a runner does it: with `-e`, nobody at a terminal."""
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env={"PATH": self.path, "HOME": str(self.folder.parent), "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.decode()

    def stored(self, suffix: str = "") -> Any:
        return json.loads(etcd.shared().ctl("get", "--print-value-only", f"{self.key}{suffix}") or "null")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path)


@contextmanager
def notes() -> Iterator[tuple[str, list[tuple[str, str | None, str]]]]:
    """A server that takes comments: its URL, and (path, token, body) of each."""
    posted: list[tuple[str, str | None, str]] = []

    class Notes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            posted.append((self.path, self.headers["PRIVATE-TOKEN"], parse_qs(form)["body"][0]))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Notes) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", posted
        finally:
            server.shutdown()
            thread.join(10)


def github(job: str, step: str) -> str:
    (found,) = [each for each in load(DEPLOY / "github.yml")["jobs"][job]["steps"] if each.get("name") == step]
    return str(found["run"])


def gitlab(job: str) -> str:
    return "\n".join(load(DEPLOY / "gitlab.yml")[job]["script"])


def test_a_request_is_validated_planned_and_published_when_it_is_merged_on_github(pipeline: Pipeline) -> None:
    assert pipeline.shell(github("check", "validate"))[0] == 0
    code, told = pipeline.shell(github("check", "plan"), GITHUB_STEP_SUMMARY=str(pipeline.folder / "summary.md"))
    assert code == 0, told
    comment = (pipeline.folder / "comment.md").read_text()
    assert comment.startswith("### Rules for `prod`: 1 to add, 0 to change, 0 to remove\n")
    assert "\n+ payment_invoke  qps ≤ 20\n" in comment
    assert (pipeline.folder / "summary.md").read_text() == comment
    assert pipeline.stored() is None, "a plan writes nothing"
    code, told = pipeline.shell(github("publish", "publish"), GITHUB_ACTOR="chen", GITHUB_RUN_ID="42")
    assert code == 0, told
    assert pipeline.stored()[0]["count"] == 20
    beside = pipeline.stored(".provenance")
    assert (beside["commitHash"], beside["channel"]) == (pipeline.git("rev-parse", "HEAD"), "git")
    assert beside["publishedBy"] == "chen (GitHub Actions run 42)"


def test_a_request_that_a_guard_refuses_fails_with_the_reason_in_the_comment(pipeline: Pipeline) -> None:
    pipeline.shell(github("publish", "publish"))
    pipeline.commit(RULES.replace("20", "2000"), "Open the gates")
    code, _ = pipeline.shell(github("check", "plan"))
    assert code == 3
    comment = (pipeline.folder / "comment.md").read_text()
    assert "**Refused by the guard `jump`:** flow/payment\\_invoke/default" in comment
    assert '`--allow-jump --reason "…"`' in comment
    assert pipeline.shell(github("publish", "publish"))[0] == 3
    assert pipeline.stored()[0]["count"] == 20


def test_invalid_rules_fail_the_check(pipeline: Pipeline) -> None:
    pipeline.commit(RULES.replace("20", "2O"), "A typo")
    code, told = pipeline.shell(github("check", "validate"))
    assert code == 65
    assert "::error file=rules.yaml,line=2,col=51,title=SR102 payment_invoke::count is" in told
    assert pipeline.shell(github("check", "plan"))[0] == 65
    assert "### Rules: no plan" in (pipeline.folder / "comment.md").read_text()
    assert pipeline.shell(gitlab("rules-check"))[0] == 65
    assert "<failure " in (pipeline.folder / "validate.xml").read_text()


def test_a_request_is_checked_and_published_on_gitlab(pipeline: Pipeline) -> None:
    with notes() as (url, posted):
        code, told = pipeline.shell(
            gitlab("rules-check"),
            CI_API_V4_URL=url,
            CI_PROJECT_ID="7",
            CI_MERGE_REQUEST_IID="3",
            SENTINEL_COMMENT_TOKEN="glpat-example",
        )
    assert code == 0, told
    assert "glpat" not in told
    ((path, token, body),) = posted
    assert (path, token) == ("/projects/7/merge_requests/3/notes", "glpat-example")
    assert body == (pipeline.folder / "comment.md").read_text()
    assert 'failures="0"' in (pipeline.folder / "validate.xml").read_text()
    assert json.loads((pipeline.folder / "plan.json").read_text())["changes"][0]["action"] == "add"
    code, told = pipeline.shell(gitlab("rules-publish"), GITLAB_USER_LOGIN="chen", CI_JOB_ID="7")
    assert code == 0, told
    assert pipeline.stored(".provenance")["publishedBy"] == "chen (GitLab job 7)"
    assert pipeline.shell(gitlab("rules-publish"))[0] == 0, "a pipeline may run again"


@pytest.mark.parametrize("hook", load(ROOT / ".pre-commit-hooks.yaml"), ids=lambda hook: str(hook["id"]))
def test_hooks_take_the_files_that_hold_rules_and_run(pipeline: Pipeline, hook: dict[str, Any]) -> None:
    for name in ("sentinel-rules.yaml", "rules.yml", "a/rules-payment.yaml", "rules/environments/prod.yaml"):
        assert re.search(hook["files"], name), name
    for name in ("README.md", "values.yaml", "sentinel.yaml"):
        assert not re.search(hook["files"], name), name
    assert pipeline.shell(f"{hook['entry']} rules.yaml")[0] == 0

"""Every exit code of docs/cli.md, by a command that ends with it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sentinel_core.cli.exits import Exit
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.cli.conftest import FIRST, Project, Run
from tests.cli.test_interrupt import interrupted


def done(project: Project, run: Run) -> int:
    return run("rules", "diff", "git:HEAD", "live").code


def differences(project: Project, run: Run) -> int:
    return run("rules", "diff", "git:HEAD~1", "live").code


def error(project: Project, run: Run) -> int:
    return run("instances", "show", "order-1").code


def refused(project: Project, run: Run) -> int:
    (project.folder / "empty.yaml").write_text("flowRules: []\n", encoding="utf-8")
    return run("rules", "publish", "empty.yaml", "--reason", "why", "--yes").code


def denied(project: Project, run: Run) -> int:
    with answering(401) as port:
        keep_evidence_at(project, port)
        return run("audit", "query").code


def conflict(project: Project, run: Run) -> int:
    (project.folder / "new.yaml").write_text(FIRST.replace("20", "31"), encoding="utf-8")
    assert run("rules", "plan", "new.yaml", "--reason", "why", "-o", "a.plan").code == 0
    project.commit(FIRST.replace("20", "32"), "Somebody else")
    return run("rules", "apply", "a.plan", "--yes").code


def not_converged(project: Project, run: Run) -> int:
    engine = start(load_settings())
    try:
        assert engine.wait_ready(timeout_s=10)
        for _ in range(200):
            if json.loads(run("instances", "list", "-o", "json").out)["instances"]:
                break
            threading.Event().wait(0.05)
        return run("instances", "list", "--not-at", "00000000").code
    finally:
        engine.close()


def usage(project: Project, run: Run) -> int:
    return run("rules", "shwo").code


def invalid_rules(project: Project, run: Run) -> int:
    project.rules.write_text(FIRST.replace("20", "2O"), encoding="utf-8")
    return run("rules", "validate", project.rules).code


def unreachable(project: Project, run: Run) -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        keep_evidence_at(project, held.getsockname()[1])
        return run("audit", "query").code


def output(project: Project, run: Run) -> int:
    command = [sys.executable, "-m", "sentinel_core.cli", "rules", "show"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        return subprocess.run(command, cwd=project.folder, stdout=full, check=False).returncode


def bad_settings(project: Project, run: Run) -> int:
    return run("rules", "show", "--context", "nope").code


def interrupted_(project: Project, run: Run) -> int:
    return interrupted(project.folder, 0.3, "rules", "validate", "-")[0]


def keep_evidence_at(project: Project, port: int) -> None:
    with (project.folder / "sentinel.yaml").open("a", encoding="utf-8") as file:
        file.write(f"audit: {{store: 'opensearch://127.0.0.1:{port}/'}}\n")


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server that says the same to everybody; its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815 -- its word

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its word
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


CODES: dict[Exit, Callable[[Project, Run], int]] = {
    Exit.DONE: done,
    Exit.DIFFERENCES: differences,
    Exit.ERROR: error,
    Exit.REFUSED: refused,
    Exit.DENIED: denied,
    Exit.CONFLICT: conflict,
    Exit.NOT_CONVERGED: not_converged,
    Exit.USAGE: usage,
    Exit.INVALID_RULES: invalid_rules,
    Exit.UNREACHABLE: unreachable,
    Exit.OUTPUT: output,
    Exit.BAD_SETTINGS: bad_settings,
    Exit.INTERRUPTED: interrupted_,
}


def test_no_code_is_left_out() -> None:
    assert CODES.keys() == set(Exit)


@pytest.mark.parametrize("code", CODES, ids=lambda code: f"{code.value} {code.name.lower()}")
def test_a_command_ends_with(code: Exit, project: Project, sentinelctl: Run) -> None:
    assert CODES[code](project, sentinelctl) == code

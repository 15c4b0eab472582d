"""Every snippet of the READMEs runs, in a folder that is set up with the READMEs' own files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.git_identity import IDENTITY

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.zh-CN.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass
class Reader:
    """Somebody who does what a README says, in a folder of their own."""

    text: str
    folder: Path

    def blocks(self, language: str) -> list[str]:
        return [body for found, body in BLOCK.findall(self.text) if found == language]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **IDENTITY, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def commit(self, rules: str) -> None:
        (self.folder / "rules" / "sentinel-rules.yaml").write_text(rules, encoding="utf-8")
        for command in (["add", "."], ["commit", "--quiet", "--message", "Change rules"]):
            done = self.run("git", "-C", "rules", *command)
            assert done.returncode == 0, done.stderr


@pytest.fixture(params=READMES)
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Reader:
    reader = Reader((ROOT / request.param).read_text(encoding="utf-8"), tmp_path)
    rules, settings = reader.blocks("yaml")
    (tmp_path / "rules").mkdir()
    reader.run("git", "init", "--quiet", "--initial-branch=main", "rules")
    reader.commit(rules)
    reader.commit(rules.replace("count: 20", "count: 25"))
    (tmp_path / "sentinel.yaml").write_text(
        settings.replace("/srv/rules.git", f"{tmp_path}/rules").replace(
            "sqlite:///.sentinel", f"sqlite:///{tmp_path}/.sentinel"
        ),
        encoding="utf-8",
    )
    return reader


def test_python_snippets_run_and_print_what_is_said(reader: Reader) -> None:
    printed = []
    for snippet in reader.blocks("python"):
        done = reader.run(sys.executable, "-W", "error", "-c", snippet)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    first, second = printed
    assert re.fullmatch(
        r"order created\norder created\nrefused by flow/order:create/default, try again in \d+ ms\n", first
    )
    assert second == "order for tea | no coffee now, please try again later\n"


def test_commands_run(reader: Reader) -> None:
    service = reader.blocks("python")[1]
    assert reader.run(sys.executable, "-c", service).returncode == 0
    lines = [line[2:] for block in reader.blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(lines) >= 4
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "sentinelctl"
        done = reader.run(sys.executable, "-m", "sentinel_core.cli", *arguments)
        expected = 1 if arguments[:2] == ["rules", "diff"] else 0
        assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"


def test_the_two_commands_come_first_and_exist(reader: Reader) -> None:
    head = reader.text[:1200]
    for script in ("script/run", "script/test"):
        assert script in head
        assert os.access(ROOT / script, os.X_OK)
    assert head.index("script/run") < reader.text.index("```")

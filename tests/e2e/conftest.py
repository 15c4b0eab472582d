"""A service's folder: a rules repository, settings, and what a test does with them."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sentinel_core.rules import Revision, SourceText, parse_revision
from tests.git_identity import IDENTITY


@dataclass
class Site:
    """A folder with `rules/` (Git, branch main), `sentinel.yaml` and `.sentinel/`."""

    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / "sentinel.yaml"

    @property
    def rules(self) -> Path:
        return self.folder / "rules" / "sentinel-rules.yaml"

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.folder / "rules"), *arguments],
            env={**os.environ, **IDENTITY},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, text: str, message: str = "Change rules") -> str:
        """Commits the rules; gives the full hash."""
        self.rules.write_text(text, encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def sentinelctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sentinel_core.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, **IDENTITY},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    def digest(self, text: str, kind: str = "flow") -> str:
        """The digest of one kind of a rules document."""
        revision = Revision((SourceText("rules.yaml", text.encode()),), "test", "1")
        return parse_revision(revision, [kind])[kind].digest


def new_site(folder: Path) -> Site:
    """An empty repository and its settings."""
    site = Site(folder)
    (folder / "rules").mkdir()
    site.git("init", "--quiet", "--initial-branch=main")
    site.settings.write_text(
        f"""\
app: order-service
environment: test
stores:
  - git+file://{folder}/rules?ref=main&path=sentinel-rules.yaml
lastKnownGood: .sentinel/last-good
audit: {{outbox: .sentinel/outbox.db, store: "sqlite:///{folder}/.sentinel/audit.db"}}
""",
        encoding="utf-8",
    )
    return site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


@pytest.fixture(scope="module")
def module_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One for all tests of a file."""
    return new_site(tmp_path_factory.mktemp("site"))

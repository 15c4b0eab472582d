"""The places and processes of the demo: a Git repository with rules, a guarded service, this same program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from sentinel_core.cli.exits import CommandError

RULES = "sentinel-rules.yaml"
SETTINGS = """\
# Settings of the demo's service; sentinelctl in this folder uses them too.
app: order-service
environment: demo
stores:
  - git+file://{repository}?ref=main&path={rules}
rules: rules/{rules}
lastKnownGood: .sentinel/last-good
audit:
  outbox: .sentinel/outbox.db
  store: sqlite:///{folder}/.sentinel/audit.db
"""
Facts = Mapping[str, Any]


class Workshop:
    """The demo's folder: `rules/` (a Git repository), `sentinel.yaml`, `.sentinel/` and what the service said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "rules"
        self.rules = self.repository / RULES
        self.settings = folder / "sentinel.yaml"

    def build(self) -> None:
        """Makes the repository with its first commit, and the settings."""
        self.repository.mkdir(parents=True)
        self.rules.write_bytes(resources.files("sentinel_core.examples").joinpath(RULES).read_bytes())
        self.git("init", "--quiet", "--initial-branch=main", ".")
        self.settings.write_text(
            SETTINGS.format(repository=self.repository, rules=RULES, folder=self.folder), encoding="utf-8"
        )
        self.commit("Rules of the order service")

    def commit(self, message: str) -> str:
        """Commits the rules as they stand; gives the short hash."""
        self.git("add", RULES)
        self.git("commit", "--quiet", "--no-gpg-sign", "--message", message)
        return self.git("rev-parse", "--short", "HEAD")

    def edit(self, *replacements: tuple[str, str]) -> None:
        """Replaces texts of the rules, each of which must stand there exactly once."""
        text = self.rules.read_text(encoding="utf-8")
        for old, new in replacements:
            if text.count(old) != 1:
                raise CommandError(f"{old!r} does not stand once in {self.rules}", next_step="run the demo anew")
            text = text.replace(old, new)
        self.rules.write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> str:
        """Runs git in the repository and gives what it printed; the user's own hooks stay out."""
        command = ["git", "-C", str(self.repository), "-c", "core.hooksPath=/dev/null", *arguments]
        done = subprocess.run(command, env=self._identity(), capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise CommandError(f"git {arguments[0]}: {done.stderr.strip()}", next_step="check that git works here")
        return done.stdout.strip()

    def sentinelctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs this program in the folder, as a person would."""
        return subprocess.run(
            [sys.executable, "-m", "sentinel_core.cli", *arguments],
            cwd=self.folder,
            env=self._identity(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def _identity(self) -> dict[str, str]:
        """The caller's own Git identity; where there is none, one that says what it is."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SENTINEL_", "GIT_"))
            or name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_"))
        }
        known = subprocess.run(["git", "config", "user.email"], capture_output=True, check=False).returncode == 0
        if not known and "GIT_AUTHOR_EMAIL" not in environment:
            for role in ("AUTHOR", "COMMITTER"):
                environment[f"GIT_{role}_NAME"] = "sentinelctl demo"
                environment[f"GIT_{role}_EMAIL"] = "demo@localhost"
        return {**environment, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}


class Service:
    """The sample service as a process of its own. What it says is read by a thread and kept in `service.ndjson`."""

    def __init__(self, workshop: Workshop) -> None:
        self._heard: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._log = (workshop.folder / "service.ndjson").open("w", encoding="utf-8")
        self._errors = (workshop.folder / "service.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sentinel_core.examples.service", str(workshop.settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=workshop.folder,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self._log.write(line)
            self._log.flush()
            with self._news:
                self._heard.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for(self, wanted: Callable[[Facts], bool], *, since: int = 0, timeout_s: float = 15.0) -> Facts:
        """The first thing the service says at or after position `since` that is wanted."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while True:
                for facts in self._heard[since:]:
                    if wanted(facts):
                        return facts
                since = len(self._heard)
                left = deadline - time.monotonic()
                if left <= 0 or self._process.poll() is not None:
                    self._errors.flush()
                    raise CommandError(
                        "the sample service did not say what was awaited" if left <= 0 else "the sample service ended",
                        next_step=f"look at {self._errors.name}",
                    )
                self._news.wait(min(left, 0.5))

    @property
    def position(self) -> int:
        """How much was heard so far: a `since` that leaves the past out."""
        with self._news:
            return len(self._heard)

    def traffic(self, resource: str) -> Facts:
        """The calls of one whole second that begins after now."""
        position = self.position
        first = self.wait_for(lambda facts: _is_traffic(facts, resource), since=position)
        with self._news:
            position = self._heard.index(dict(first), position) + 1
        return self.wait_for(lambda facts: _is_traffic(facts, resource), since=position)

    def close(self) -> None:
        """Ends the service: by its standard input, and by force when it does not listen."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=10)
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
        self._errors.close()


def _is_traffic(facts: Facts, resource: str) -> bool:
    return bool(facts["event"] == "traffic" and facts["resource"] == resource)


def command_line(arguments: Sequence[str]) -> str:
    """A command as a person would type it."""
    return "sentinelctl " + " ".join(f'"{word}"' if " " in word else word for word in arguments)

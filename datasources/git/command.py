"""Running the `git` binary: never a shell, never a prompt, never without a time-out, never another language."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
)
from sentinel_core.datasources.uri import mask_uri

PROTOCOLS = ("file", "ssh", "https")
"""What may be fetched from; in particular not `ext`, which runs commands."""

_LOCAL_TIMEOUT_S = 15.0
_KEPT = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_|GIT_(SSH|SSH_COMMAND|ASKPASS|SSL_\w+|PROXY_\w+|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM)$"
)
"""Variables of Git that say who and how; those that say *where* (GIT_DIR, GIT_INDEX_FILE …) are ours to set: a hook or
a CI job that calls us has them set for its own repository."""

_SAFE = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
"""Programs that a repository names are not run: who may write there must not command who reads."""

_DENIED = re.compile(
    r"authentication failed|could not read (username|password)|permission denied|host key verification failed"
    r"|terminal prompts disabled|\b40[13]\b|hook declined|protected branch",
    re.IGNORECASE,
)
_HOPELESS = re.compile(
    r"not a git repository|does not appear to be a git repository|repository .* not found|transport .* not allowed",
    re.IGNORECASE,
)


class GitFailedError(Exception):
    """Git ended with an error; callers that expect one look at `stderr`, others turn it into a DatasourceError."""

    def __init__(self, code: int, stderr: str) -> None:
        super().__init__(stderr)
        self.code = code
        self.stderr = stderr


class Git:
    """Git in one repository. Stateless, so it may be used from any thread."""

    def __init__(self, folder: Path, shown: str, *, timeout_s: float = _LOCAL_TIMEOUT_S) -> None:
        """`shown` names the repository in messages, masked."""
        self.folder = folder
        self.shown = shown
        self._timeout_s = timeout_s

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """Standard output. Raises DatasourceError with what to do next."""
        try:
            return self.attempt(*arguments, stdin=stdin, env=env, timeout_s=timeout_s)
        except GitFailedError as failed:
            raise self.explain(failed) from failed

    def attempt(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """As `run`, but an error of Git's own is raised as GitFailedError."""
        limit = timeout_s or self._timeout_s
        # A session of its own: no terminal to prompt on, and helpers such as ssh end with it.
        try:
            process = subprocess.Popen(
                ["git", *_SAFE, *arguments],
                cwd=self.folder,
                env={**_environment(self.folder), **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise self._cannot_start() from error
        except (NotADirectoryError, PermissionError) as error:
            raise SourceDenied(f"{self.shown}: {error.strerror}; is it a folder this user may enter?") from error
        with process:
            try:
                out, err = process.communicate(stdin, limit)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise SourceUnavailable(f"{self.shown}: git {arguments[0]} took longer than {limit:g} s") from error
        if process.returncode:
            raise GitFailedError(process.returncode, err.decode("utf-8", "replace").strip())
        return out

    def line(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """One line of output, or of the last of it."""
        return self.run(*arguments, env=env).decode("utf-8", "replace").strip()

    @cached_property
    def shallow_file(self) -> Path:
        """Where Git writes down at which commits a shallow clone was cut; there is none in a whole one."""
        return self.folder / self.line("rev-parse", "--git-path", "shallow")

    def explain(self, failed: GitFailedError) -> DatasourceError:
        text = mask_uri(failed.stderr)
        if "dubious ownership" in text:
            return SourceDenied(
                f"{self.shown}: another user owns the repository, so git will not read it. If that is meant: "
                f"git config --global --add safe.directory {self.folder}"
            )
        if _DENIED.search(text):
            return SourceDenied(f"{self.shown}: {last_words(text)}; check the key, token or rights of this user")
        if _HOPELESS.search(text):
            return SourceMisconfigured(
                f"{self.shown}: {last_words(text)}; name the top folder of a repository or its URL"
            )
        return SourceUnavailable(f"{self.shown}: {last_words(text) or f'git ended with code {failed.code}'}")

    def _cannot_start(self) -> DatasourceError:
        if not self.folder.is_dir():
            return SourceMisconfigured(f"{self.shown}: there is no such folder")
        return SourceMisconfigured("git is not installed or not on PATH; install git 2.30 or later")


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _KEPT.match(name)}
    kept.pop("LANGUAGE", None)
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_OPTIONAL_LOCKS": "0",
        # What a commit holds is what its hash says, not what refs/replace puts in its place.
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
        "GIT_NO_LAZY_FETCH": "1",
        # The repository is the folder that was named, never one that happens to lie around it.
        "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
    }


def last_words(text: str) -> str:
    """The line that says what happened; Git's advice comes after it and before it."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    telling = [line for line in lines if line.startswith(" ! [")] or [
        line for line in lines if line.startswith(("fatal:", "error:", "remote:"))
    ]
    return (telling or lines or [""])[0].strip().removeprefix("fatal: ").removeprefix("error: ").rstrip(".")

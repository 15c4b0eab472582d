"""Questions to Git about the working directory. Stores are read by `datasources`, never here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TIMEOUT_S = 10


def version() -> str | None:
    """`2.39.5`; None where Git is not installed."""
    words = _git("--version").split()
    return words[2] if len(words) > 2 else None


def identity() -> str | None:
    """`Ada Example <ada@example.org>`, as commits made here are signed: of the environment, the repository, the user or
    the machine. None where nobody wrote who it is."""
    lines = _git("config", "--get-regexp", r"^(user|author)\.(name|email)$").splitlines()
    told = dict(line.split(" ", 1) for line in lines if " " in line)  # of several the last one counts
    name, address = (
        os.environ.get(f"GIT_AUTHOR_{part.upper()}") or told.get(f"author.{part}") or told.get(f"user.{part}")
        for part in ("name", "email")
    )
    return f"{name} <{address}>" if name and address else name


def top_of(path: Path) -> Path | None:
    """The top folder of the work tree that holds `path`, which need not exist."""
    folder = next((each for each in (path, *path.parents) if each.is_dir()), Path.cwd())
    top = _git("-C", str(folder), "rev-parse", "--show-toplevel").removesuffix("\n")
    return Path(top).resolve() if top else None


def is_tracked(top: Path, path: Path) -> bool:
    """Whether HEAD knows the path, a file or a folder."""
    resolved = path.resolve()
    if not resolved.is_relative_to(top):
        return False
    return bool(_git("-C", str(top), "ls-tree", "--name-only", "HEAD", "--", resolved.relative_to(top).as_posix()))


def remotes(folder: Path) -> list[str]:
    """The names of those that a repository has."""
    return _git("-C", str(folder), "remote").split()


def push_of(folder: Path, branch: str) -> str | None:
    """The command that hands a branch on; None where there is nobody to hand it to."""
    known = remotes(folder)
    if not known:
        return None
    return f"git -C {folder} push {'origin' if 'origin' in known else known[0]} {branch}"


def references(top: Path) -> list[tuple[str, str]]:
    """Branches and tags, the newest first; each with who made what stands there, when, and its subject."""
    form = f"%(refname:short)%09{_TOLD_OF_REF}"
    return _pairs(_git("-C", str(top), "for-each-ref", "--sort=-committerdate", f"--format={form}", "--count=50"))


def newest(top: Path, path: str, count: int) -> list[tuple[str, str]]:
    """The last commits that changed the path, which is relative to `top`: twelve digits; who, when, and the subject."""
    form = f"--format=%h%x09{_TOLD_OF_COMMIT}"
    return _pairs(_git("-C", str(top), "log", f"-{count}", "--abbrev=12", form, "--", path))


_TOLD_OF_COMMIT = "%an, %ar: %s"
_TOLD_OF_REF = "%(authorname), %(committerdate:relative): %(subject)"


def _pairs(told: str) -> list[tuple[str, str]]:
    return [(line.partition("\t")[0], line.partition("\t")[2].lstrip(", ")) for line in told.splitlines()]


def _git(*arguments: str) -> str:
    """stdout, or nothing when Git is missing, refuses or hangs."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, check=False, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""

"""Who runs this command: the pipeline where there is one, else the user of this machine. Never what a flag says."""

from __future__ import annotations

import getpass
import os


def actor() -> str | None:
    """`chen (GitHub Actions run 42)`, `chen (GitLab job 42)` or `chen`; None for a user without a name."""
    for name, who, run in (
        ("GitHub Actions run", "GITHUB_ACTOR", "GITHUB_RUN_ID"),
        ("GitLab job", "GITLAB_USER_LOGIN", "CI_JOB_ID"),
    ):
        if os.environ.get(who) and os.environ.get(run):
            return f"{os.environ[who]} ({name} {os.environ[run]})"
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number without an entry, as in containers
        return None

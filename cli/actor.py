"""Who runs this command: the pipeline's user where there is one, else whoever Git commits as, else the user of this
machine. Never what a flag says."""

from __future__ import annotations

import getpass
import os

from sentinel_core.cli import git


def actor() -> str | None:
    """`chen (GitHub Actions run 42)`, `Chen Li <chen@example.org> (GitLab job 42)`, `Chen Li <chen@example.org>` as
    commits have it, or `chen`; None for a user without a name."""
    return next(iter(names()), None)


def names() -> tuple[str, ...]:
    """The same, and what else this person is called here: what one of the names holds is the person's own."""
    return _of_pipeline() or tuple(name for name in (git.identity(), _login()) if name)


def _of_pipeline() -> tuple[str, ...]:
    told = os.environ.get
    if (who := told("GITHUB_ACTOR")) and (run := told("GITHUB_RUN_ID")):
        return (f"{who} (GitHub Actions run {run})",)
    if (who := told("GITLAB_USER_LOGIN")) and (run := told("CI_JOB_ID")):
        name, address = told("GITLAB_USER_NAME"), told("GITLAB_USER_EMAIL")
        whole = f"{name} <{address}>" if name and address else who
        return (f"{whole} (GitLab job {run})", who)
    return ()


def _login() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number without an entry, as in containers
        return None

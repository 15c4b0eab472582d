"""`sentinelctl sync`."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click

from sentinel_core import datasources
from sentinel_core.cli.actor import actor
from sentinel_core.cli.app import WORDS, App, env_option, output_options, pass_app
from sentinel_core.cli.durations import seconds
from sentinel_core.cli.exits import BadSettings, Exit, UsageProblem, code_of, next_step_of
from sentinel_core.cli.lock.holding import is_held
from sentinel_core.cli.moments import local, utc_now
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.proposing import overruled_by, target
from sentinel_core.cli.stores import opened
from sentinel_core.cli.text import Span, Styled
from sentinel_core.datasources import mask_uri
from sentinel_core.publishing.locks import LockHeld
from sentinel_core.publishing.sync import Settings, Synced
from sentinel_core.publishing.sync import sync as look

CODES = {
    "in sync": Exit.DONE,
    "published": Exit.DONE,
    "healed": Exit.DONE,
    "adopted": Exit.DONE,
    "proposed": Exit.DIFFERENCES,
    "drifted": Exit.DIFFERENCES,
    "refused": Exit.REFUSED,
    "frozen": Exit.REFUSED,
    "locked": Exit.CONFLICT,
    "invalid": Exit.INVALID_RULES,
    "absent": Exit.ERROR,
    "failed": Exit.ERROR,
}
COLOURS = {
    "drifted": "yellow",
    "frozen": "yellow",
    "locked": "yellow",
    "proposed": "yellow",
    "refused": "red",
    "invalid": "red",
    "absent": "red",
    "failed": "red",
}


Command = TypeVar("Command", bound=Callable[..., Any])
Looks = Callable[[], Synced]


def policy_options(command: Command) -> Command:
    """How a store is kept: `store`, `interval`, `drift`, `branch`."""
    for decorate in (
        click.option(
            "--branch",
            type=WORDS,
            metavar="NAME",
            help="Commit what is adopted there, to be merged, not to the branch of GIT.",
        ),
        click.option(
            "--drift",
            type=click.Choice(["report", "heal", "adopt"]),
            default="report",
            show_default=True,
            help="What happens to edits in the store: they are told and stay, are undone, or are committed.",
        ),
        click.option(
            "--interval",
            metavar="TIME",
            default="30s",
            show_default=True,
            callback=seconds,
            help="Pause between two looks.",
        ),
        click.option("--store", metavar="URI", help="Store to keep there (default: the only one of the settings)."),
    ):
        command = decorate(command)
    return command


@click.command()
@click.argument("git", metavar="GIT")
@click.option("--once", is_flag=True, help="Look once and end; the exit code says what was found.")
@policy_options
@env_option
@output_options
@pass_app
def sync(app: App, git: str, store: str | None, once: bool, interval: float, drift: Any, branch: str | None) -> int:
    """Keep a store at what is committed on a branch.

    \b
    sentinelctl sync "git+file:///srv/rules.git?ref=main&path=rules"
    sentinelctl sync "git+file:///srv/rules.git?ref=main&path=rules" --once      for a timer
    sentinelctl sync "git+file:///srv/rules.git?ref=main&path=rules" --drift heal

    GIT is the repository: git+file:///srv/rules.git?ref=main&path=rules, or its URL. What is valid and passes the
    guards is published; what is not is told and skipped. Rules under quarantine are never published, so a rollback
    stands. Without --once it goes on until it is interrupted, and tells only what is new.
    """
    with keeping(app, git, store, drift, branch) as (look_once, uri):
        for found in news(look_once, interval, threading.Event()):
            tell(app, found, git, uri)
            if once or app.out.closed:
                break
    return CODES[found.state] if found.error is None else code_of(found.error)


@contextmanager
def keeping(app: App, git: str, store: str | None, drift: Any, branch: str | None) -> Iterator[tuple[Looks, str]]:
    """One look at both sides, to be called again and again, and the store's URI. Raises UsageProblem, BadSettings."""
    if branch is not None and drift != "adopt":
        raise UsageProblem("--branch is where edits are committed", next_step="add --drift adopt")
    guards = app.settings.guards
    with opened(app, git) as source, target(app, store) as (uri, kept):
        settings = Settings(
            uri,
            app.environment,
            guards,
            guards.max_bytes,
            drift=drift,
            published_by=actor(),
            branch=branch,
            owners=app.settings.owners,
        )
        if not isinstance(source, datasources.GitSource):
            raise BadSettings(
                f"{source.uri} is no Git repository, so nothing is committed there",
                next_step="write git+file:///path/of/repository?ref=main&path=rules, or git+https://…",
            )
        _check_branch(source, branch)
        yield lambda: look(source, kept, settings, utc_now()), uri


def _check_branch(source: datasources.GitSource, branch: str | None) -> None:
    """A branch for a review is not the one that is followed. A repository that is out of reach may come back."""
    with suppress(datasources.DatasourceError):
        if branch is not None and source.follows(branch):
            raise UsageProblem(
                f"GIT is followed on {branch} itself, so nothing would be left to review",
                next_step="name another branch, or leave --branch away to commit to it",
            )


def news(look_once: Looks, interval: float, stop: threading.Event) -> Iterator[Synced]:
    """Looks every `interval` seconds until `stop` is set, and gives what is not as it was; the first look always."""
    found: Synced | None = None
    while found is None or not stop.wait(max(interval, 0.1)):
        before, found = found, look_once()
        if before is None or (found.state, found.commit, found.text) != (before.state, before.commit, before.text):
            yield found


def tell(app: App, found: Synced, git: str, store: str) -> None:
    """What a look found, and what to do about it."""
    app.out.show(_view(found))
    step = _next_step(found, mask_uri(git), store)
    if step is not None:
        for line in f"  next: {step}".splitlines():
            app.out.say(line)


def _next_step(found: Synced, git: str, store: str) -> str | None:
    """What to type, or what the next look waits for; None where all is well."""
    sides = f"{shlex.quote(git)} --store {shlex.quote(store)}"
    if isinstance(found.error, LockHeld):
        return is_held(found.error, store).next_step
    if found.error is not None:
        return next_step_of(found.error) or "sentinelctl doctor    (reaches every store and says which step fails)"
    if found.not_adopted:
        kept = f"sentinelctl rules import --store {shlex.quote(store)} --commit    (takes the edit over)"
        return f"{kept}\n  or: sentinelctl rules publish {sides}    (undoes it)"
    if found.objections:
        return overruled_by(found.objections, store, f"sentinelctl rules publish {sides}")
    if found.quarantined:
        return (
            f"sentinelctl rules drift {sides}    (shows who changed what); what is committed is under quarantine and "
            "does not come back: revert it in Git, or release it"
        )
    return {
        "drifted": f"sentinelctl rules drift {sides}    (shows who edited what; --drift heal undoes it)",
        "frozen": f'wait; if it cannot: sentinelctl rules publish {sides} --allow-freeze --reason "why"',
        "invalid": "mend the rules and commit them; sentinelctl rules validate PATH shows the same problems",
        "absent": "check ref and path of the repository with: sentinelctl doctor",
        "failed": "nothing: the next look decides; with --once run it again",
    }.get(found.state)


def _view(found: Synced) -> View:
    document = {"state": found.state, "commit": found.commit, "text": found.text, "changes": found.changes}
    first, *rest = found.text.splitlines()

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        state = Styled(found.state, COLOURS[found.state]) if found.state in COLOURS else found.state
        yield (local(utc_now()), "  ", (found.commit or "–")[:12], "  ", state, "  ", first)
        yield from ((f"  {line}",) for line in rest)

    return View(document=document, items=[document], names=[found.state], lines=lines)

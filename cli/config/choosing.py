"""`sentinelctl config use-context`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from sentinel_core.cli.app import WORDS, App, pass_app
from sentinel_core.cli.config.known import context_named
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.rules.inputs import shown
from sentinel_core.datasources.atomic import replace_file
from sentinel_core.settings import load_settings
from sentinel_core.settings_contexts import VARIABLE, choice_file


@click.command()
@click.argument("name", required=False, type=WORDS)
@click.option("--none", is_flag=True, help="Choose none: the settings are as they stand in the file.")
@pass_app
def use_context(app: App, name: str | None, none: bool) -> int:
    """Choose the context for this project.

    The choice counts for every sentinelctl in this project until another is chosen; --context and SENTINEL_CONTEXT
    stand above it. It is kept in .sentinel/context beside the project file, which belongs into no repository.

    \b
    sentinelctl config use-context staging
    sentinelctl config use-context --none
    """
    if none == (name is not None):
        raise UsageProblem("one context is chosen, or none", next_step="name a context, or write --none")
    path = choice_file(app.config)
    if name is None:
        _forget(path)
        app.out.say("No context is in use now.")
    else:
        context_named(app, name)
        settings = load_settings(app.config, context=name)
        _write(path, name)
        severe = ", which is production" if settings.production else ""
        app.out.say(f"Context {name} is in use now: environment {settings.environment}{severe}.")
    if app.context.origin in ("--context", VARIABLE):
        app.out.say(f"note: {app.context.origin} stands above the choice")
    return Exit.DONE


def _write(path: Path, name: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"{name}\n".encode(), mode=0o600)
    except OSError as error:
        raise CommandError(
            f"the choice cannot be kept in {shown(path)}: {error.strerror}",
            next_step="use --context NAME, or the variable SENTINEL_CONTEXT",
        ) from error


def _forget(path: Path) -> None:
    try:
        with suppress(FileNotFoundError):
            path.unlink()
    except OSError as error:
        raise CommandError(
            f"{shown(path)} cannot be removed: {error.strerror}", next_step='use --context ""'
        ) from error

"""The question before a store is written."""

from __future__ import annotations

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError


def confirm(app: App, question: str, typed: str) -> None:
    """`typed`: what must be typed as the answer. Where it is empty, that is y, and in production the name of the
    context. Raises CommandError where the answer is no."""
    wanted = typed or production_name(app)
    if not app.confirm(question, typed=wanted or None):
        raise CommandError(
            "not confirmed; nothing was changed", next_step=f"run it again and answer {wanted or 'y'}, or add --yes"
        )


def production_name(app: App) -> str:
    """What is typed for a write to everybody at once: the context's name, the environment's without a context; empty
    where the settings are not those of production."""
    return (app.context.name or app.environment) if app.settings.production else ""

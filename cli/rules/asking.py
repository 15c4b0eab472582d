"""The question before a store is written."""

from __future__ import annotations

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError


def confirm(app: App, question: str, typed: str) -> None:
    """`typed`: what must be typed as the answer; y where that is empty. Raises CommandError where the answer is no."""
    if not app.confirm(question, typed=typed or None):
        raise CommandError("not confirmed; nothing was changed", next_step="run it again and answer y, or add --yes")

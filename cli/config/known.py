"""The contexts that can be named."""

from __future__ import annotations

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import BadSettings
from sentinel_core.settings import SettingsError
from sentinel_core.settings_contexts import Context, contexts
from sentinel_core.settings_sources import is_context_name, near


def known_contexts(app: App) -> dict[str, Context]:
    """By name. Raises SettingsError where a file cannot be read."""
    try:
        return contexts(app.config)
    except (OSError, ValueError) as error:
        raise SettingsError([str(error)]) from error


def context_named(app: App, name: str) -> Context:
    """Raises BadSettings for one that is not there, with the nearest name that is."""
    known = known_contexts(app)
    if name in known:
        return known[name]
    shown = name if is_context_name(name) else "of that name"
    raise BadSettings(
        f"there is no context {shown}{near(name, known) if known else ''}",
        next_step="sentinelctl config get-contexts    (lists them)"
        if known
        else "sentinelctl config set-context prod environment=prod stores=URI production=true    (makes one)",
    )

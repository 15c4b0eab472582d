"""The question before something is written."""

from __future__ import annotations

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError
from sentinel_core.datasources.uri import mask_uri


def confirm(app: App, question: str, typed: str, *, store: str | None = None) -> None:
    """`typed`: what must be typed as the answer. Where it is empty, that is y, and for all that follow a `store` of
    production the name of its context. Raises CommandError where the answer is no."""
    wanted = typed or (production_name(app, store) if store is not None else "")
    if not app.confirm(question, typed=wanted or None):
        raise CommandError(
            "not confirmed; nothing was changed", next_step=f"run it again and answer {wanted or 'y'}, or add --yes"
        )


def production_name(app: App, store: str) -> str:
    """What is typed for a write to everybody at once: the name of the context in use (of the environment, where none
    is), or of another of production that names the same store; empty where none of them is production."""
    from sentinel_core.settings_contexts import contexts

    if app.settings.production:
        return app.context.name or app.environment
    for name, each in contexts(app.config).items():
        named = each.data.get("stores")
        uris = named if isinstance(named, list) else []
        if each.data.get("production") is True and mask_uri(store) in (mask_uri(str(uri)) for uri in uris):
            return name
    return ""

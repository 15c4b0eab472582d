"""What the settings say of the service that runs the rules, for remarks on rules that queue."""

from __future__ import annotations

from sentinel_core.cli.app import App
from sentinel_core.rules.queueing import Serving
from sentinel_core.settings import Settings, SettingsError


def serving_of(settings: Settings) -> Serving:
    """What the settings say of the service."""
    timeout = settings.request_timeout
    return Serving(settings.workers, None if timeout is None else round(timeout * 1000))


def serving_if_known(app: App) -> Serving | None:
    """None where settings cannot be used: rules may be looked through without any."""
    try:
        return serving_of(app.settings)
    except SettingsError:
        return None

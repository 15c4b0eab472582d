"""`sentinelctl config`: contexts, and the settings that come out."""

from __future__ import annotations

from sentinel_core.cli.app import shared_options
from sentinel_core.cli.lazy import Lazy, LazyGroup

_HERE = "sentinel_core.cli.config"
COMMANDS = {
    "get-contexts": Lazy(f"{_HERE}.looking:get_contexts", "Every context, and which one is in use."),
    "current-context": Lazy(f"{_HERE}.looking:current_context", "The name of the context in use."),
    "use-context": Lazy(f"{_HERE}.choosing:use_context", "Choose the context for this project."),
    "set-context": Lazy(f"{_HERE}.writing:set_context", "Write a context into a settings file."),
    "delete-context": Lazy(f"{_HERE}.writing:delete_context", "Remove a context from its settings file."),
    "view": Lazy(f"{_HERE}.looking:view", "Every setting, its value, and where it comes from."),
}

config = LazyGroup(
    "config",
    help="""Contexts: settings under a name, to choose from.

    \b
    sentinelctl config set-context prod environment=prod production=true
    sentinelctl config use-context prod
    sentinelctl config get-contexts
    """,
    lazy=COMMANDS,
    shared=shared_options,
)

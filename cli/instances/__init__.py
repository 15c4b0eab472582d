"""`sentinelctl instances`: services that run on this machine, from the files that they write."""

from __future__ import annotations

from sentinel_core.cli.app import shared_options
from sentinel_core.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("sentinel_core.cli.instances.list:list_", "Every service, the state of its stores, and what it runs."),
    "show": Lazy("sentinel_core.cli.instances.show:show", "One service: its kinds, its stores and their last errors."),
}

instances = LazyGroup(
    "instances",
    help="""Running services, and which rules they have.

    \b
    sentinelctl instances list
    sentinelctl instances list --not-at 9f1c2ab34d5e      who does not run it yet
    """,
    lazy=COMMANDS,
    shared=shared_options,
)

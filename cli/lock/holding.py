"""What writing commands share: the lock that they hold meanwhile, and what they say where somebody else holds one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sentinel_core.cli.actor import actor, names
from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError, Exit
from sentinel_core.datasources.contract import Item, Readable
from sentinel_core.publishing.holding import Holding, held
from sentinel_core.publishing.locks import Lock, LockHeld


@contextmanager
def locked(
    app: App,
    source: Readable,
    uri: str,
    items: Sequence[Item],
    command: str,
    reason: str | None,
    under: str | None,
) -> Iterator[Holding]:
    """See `held`. Raises CommandError (5) where somebody else holds a lock."""
    try:
        with held(
            source,
            uri,
            items,
            holder=actor(),
            command=command,
            reason=reason,
            under=under,
            names=names(),
            told=app.out.say,
        ) as holding:
            yield holding
    except LockHeld as taken:
        raise is_held(taken, uri) from taken


def is_held(taken: LockHeld, uri: str) -> CommandError:
    """Who holds it, and how to go on."""
    who = taken.lock.holder or "its holder"
    return CommandError(
        f"{taken}; nothing was written",
        next_step=f"wait, or ask {who}; if that is gone: {breaking(taken.lock, uri)}",
        code=Exit.CONFLICT,
    )


def breaking(lock: Lock, uri: str) -> str:
    """The command that ends somebody's lock."""
    return f'sentinelctl lock break {shlex.quote(lock.id)} --store {shlex.quote(uri)} --reason "why"'

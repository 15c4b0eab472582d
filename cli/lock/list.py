"""`sentinelctl lock list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.moments import local, utc_now
from sentinel_core.cli.output import View, table
from sentinel_core.cli.stores import opened, store_uris
from sentinel_core.cli.text import Span
from sentinel_core.datasources import mask_uri
from sentinel_core.datasources.contract import Readable
from sentinel_core.publishing import locks
from sentinel_core.publishing.locks import Broken, Lock
from sentinel_core.rules import KINDS, Kind


@dataclass(frozen=True, slots=True)
class Held:
    """A lock of a store."""

    store: str
    lock: Lock
    kinds: tuple[Kind, ...]

    @property
    def over(self) -> bool:
        """Whether it has run out, by the clock of this machine."""
        return self.lock.until <= utc_now()

    def to_json(self) -> dict[str, Any]:
        return {"store": self.store, "kinds": list(self.kinds), "over": self.over, **self.lock.to_json()}


@click.command("list")
@click.option("--store", metavar="URI", help="Store to look at (default: those of the settings).")
@output_options
@pass_app
def list_(app: App, store: str | None) -> None:
    """Locks of a store: who holds them, since when, why, until when.

    A lock that has run out keeps nobody from writing. With -o wide or json also those that were broken, by whom and
    why.

    \b
    sentinelctl lock list                       of the stores of the settings
    sentinelctl lock list -o wide               with those that were broken
    """
    held: list[Held] = []
    broken: list[tuple[str, Broken]] = []
    for uri in (store,) if store else store_uris(app):
        with opened(app, uri) as source:
            held += locks_of(source, uri)
            told = {each: None for item in source.items(KINDS) for each in locks.standing(source, item).broken}
            broken += [(mask_uri(uri), each) for each in told]
    app.out.show(_view(held, broken))
    if not held:
        app.out.say("Nothing is locked.")


def locks_of(source: Readable, uri: str) -> list[Held]:
    """Those of one store."""
    return [
        Held(mask_uri(uri), lock, tuple(kind for item in items for kind in item.kinds))
        for lock, items in locks.found(source, source.items(KINDS))
    ]


def _view(held: Sequence[Held], broken: Sequence[tuple[str, Broken]]) -> View:
    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        if held:
            headers = ("LOCK", "HOLDER", "FOR", "SINCE", "UNTIL", "REASON", *(("KINDS", "STORE") if wide else ()))
            yield from table(headers, [_row(each, wide=wide) for each in held])
        for store, each in broken if wide else ():
            who = each.lock.holder or "–"
            yield (f"broken {local(each.at)}: {each.lock.id} of {who}, by {each.by or '–'}: {each.reason}  {store}",)

    items = [each.to_json() for each in held]
    document = {"locks": items, "broken": [{"store": store, **each.to_json()} for store, each in broken]}
    return View(document=document, items=items, names=[each.lock.id for each in held], lines=lines)


def _row(held: Held, *, wide: bool) -> list[str]:
    lock = held.lock
    until = f"{local(lock.until)}{' (over)' if held.over else ''}"
    row = [lock.id, lock.holder or "–", lock.command, local(lock.since), until, lock.reason or "–"]
    return [*row, ",".join(held.kinds), held.store] if wide else row

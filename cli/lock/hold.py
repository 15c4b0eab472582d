"""`sentinelctl lock hold`, `release` and `break`."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta

import click

from sentinel_core.cli.actor import actor, names
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.durations import seconds
from sentinel_core.cli.exits import CommandError, UsageProblem
from sentinel_core.cli.lock.holding import breaking, is_held
from sentinel_core.cli.lock.list import Held, locks_of
from sentinel_core.cli.moments import local, utc_now
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.asking import confirm
from sentinel_core.cli.rules.options import kind_option, store_option
from sentinel_core.cli.rules.proposing import target
from sentinel_core.cli.text import Span
from sentinel_core.clock import Clock
from sentinel_core.datasources.contract import DatasourceError, HasNotes, Item, Readable
from sentinel_core.masking import mask_text
from sentinel_core.publishing import locks
from sentinel_core.publishing.holding import check_free
from sentinel_core.publishing.locks import Lock, LockHeld
from sentinel_core.rules import KINDS, Kind

NOTHING_WRITTEN = "Dry run: nothing was written. The same without --dry-run does it."
_LONGEST_S = 7 * 86400.0
"""What shall last longer is a freeze, which stands in the settings for everybody to see."""
SHORTEST_ID = 4
"""Characters of the beginning of an id, where only one lock begins so."""


@click.command()
@click.option("--reason", type=WORDS, required=True, metavar="TEXT", help="Why nobody else shall write.")
@click.option(
    "--for", "for_s", metavar="TIME", default="30m", show_default=True, callback=seconds, help="It ends by itself then."
)
@click.option("--dry-run", is_flag=True, help="Say whether it is free, and write nothing.")
@store_option
@kind_option("Of this kind only, in a store that keeps every kind by itself.")
@output_options
@pass_app
def hold(app: App, reason: str, for_s: float, dry_run: bool, store: str | None, kind: Kind | None) -> None:
    """Keep everybody else from writing a store for a while, as in an incident.

    Whoever publishes, applies, rolls back or synchronises meanwhile is told who holds it and why, and ends with exit
    code 5. To write under it yourself: --lock ID, with the id that is shown.

    \b
    sentinelctl lock hold --reason "incident 42" --for 1h
    sentinelctl rules rollback --lock 1f2e3d4c --yes
    sentinelctl lock release 1f2e3d4c
    """
    _check_reason(reason)
    if for_s > _LONGEST_S:
        raise UsageProblem(
            "a lock is held for 7 days at most", next_step="for longer, write a freeze into the settings"
        )
    now = utc_now()
    lock = Lock(
        secrets.token_hex(4), actor(), "hold", mask_text(reason), now, now + timedelta(seconds=for_s), renewed=False
    )
    with target(app, store) as (uri, source):
        items = _items(source, kind)
        held = Held(uri, lock, tuple(each for item in items for each in item.kinds))
        if dry_run:
            _noted(source)
            _dry_run(app, source, items, held)
            return
        try:
            for item in items:
                locks.take(_noted(source), item, lock, Clock(), uri, app.out.say)
        except DatasourceError as error:
            with suppress(DatasourceError):
                locks.release(source, items, lock.id)
            if isinstance(error, LockHeld):
                raise is_held(error, uri) from error
            raise
    app.out.show(_view([held], f"held until {local(lock.until)}"))
    app.out.say(f"To give it up: sentinelctl lock release {shlex.quote(lock.id)} --store {shlex.quote(uri)}")


def _dry_run(app: App, source: Readable, items: Sequence[Item], held: Held) -> None:
    try:
        check_free(source, held.store, items, held.lock.holder, None, Clock(), app.out.say)
    except LockHeld as error:
        raise is_held(error, held.store) from error
    app.out.show(_view([held], f"would be held until {local(held.lock.until)}"))
    app.out.say(NOTHING_WRITTEN)


@click.command()
@click.argument("lock", metavar="ID", type=WORDS)
@store_option
@output_options
@pass_app
def release(app: App, lock: str, store: str | None) -> None:
    """Give up a lock before its time: one that you hold.

    ID is what hold and list show, or its first four characters or more. The lock of somebody else is broken, with a
    reason.

    \b
    sentinelctl lock release 1f2e3d4c
    """
    with target(app, store) as (uri, source):
        held = _the(source, uri, lock)
        if not locks.is_same_person(held.lock.holder, names()):
            raise UsageProblem(
                f"the lock {held.lock.id} is held by {held.lock.holder or 'somebody'}, and you are {actor()}",
                next_step=breaking(held.lock, uri),
            )
        locks.release(source, _items(source, None), held.lock.id)
    app.out.show(_view([held], "released"))


@click.command("break")
@click.argument("lock", metavar="ID", type=WORDS)
@click.option("--reason", type=WORDS, required=True, metavar="TEXT", help="Why; kept beside the rules.")
@click.option("--dry-run", is_flag=True, help="Show what would be broken and write nothing.")
@store_option
@output_options
@pass_app
def break_(app: App, lock: str, reason: str, dry_run: bool, store: str | None) -> None:
    """End somebody's lock, when its holder is gone.

    ID is what list shows, or its first four characters or more. A command that still runs under it writes nothing more.
    Who broke it and why is kept beside the rules: lock list -o wide shows it.

    \b
    sentinelctl lock list
    sentinelctl lock break 1f2e3d4c --reason gone
    """
    _check_reason(reason)
    with target(app, store) as (uri, source):
        held = _the(source, uri, lock)
        if dry_run:
            app.out.show(_view([held], f"would be broken: held by {held.lock.holder or 'somebody'}"))
            app.out.say(NOTHING_WRITTEN)
            return
        told = f"{held.lock.holder or 'somebody'} ({held.lock.command}), until {local(held.lock.until)}"
        confirm(app, f"Break the lock of {told}?", "")
        locks.break_lock(source, _items(source, None), held.lock.id, by=actor(), reason=mask_text(reason), at=utc_now())
    app.out.show(_view([held], "broken"))


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise UsageProblem("the reason is blank", next_step='write --reason "why"')
    if len(reason) > locks.LONGEST_REASON:
        raise UsageProblem(
            f"the reason has {len(reason)} characters; the limit is {locks.LONGEST_REASON}",
            next_step='write --reason "why" in a line',
        )


def _the(source: Readable, uri: str, id_: str) -> Held:
    """The lock of this id, or the only one that begins so. Raises UsageProblem."""
    there = locks_of(source, uri)
    found = [each for each in there if each.lock.id == id_] or [each for each in there if each.lock.id.startswith(id_)]
    if len(id_) < SHORTEST_ID:
        problem = f"{id_!r} is too short; give at least {SHORTEST_ID} characters of the lock's id"
    elif len(found) == 1:
        return found[0]
    elif found:
        problem = f"several locks begin with {id_}: {', '.join(each.lock.id for each in found)}"
    else:
        problem = f"there is no lock {id_}"
    raise UsageProblem(problem, next_step=f"sentinelctl lock list --store {shlex.quote(uri)}")


def _items(source: Readable, kind: Kind | None) -> Sequence[Item]:
    return source.items((kind,) if kind else KINDS)


def _noted(source: Readable) -> HasNotes:
    if not isinstance(source, HasNotes):
        raise CommandError(f"{source.uri} keeps no locks", next_step="name another store with --store")
    return source


def _view(held: Sequence[Held], what: str) -> View:
    items = [each.to_json() for each in held]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        yield from ((f"{each.lock.id}  {what}  {each.store}",) for each in held)

    return View(document={"locks": items}, items=items, names=[each.lock.id for each in held], lines=lines)

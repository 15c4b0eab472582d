"""`sentinelctl audit purge`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

import click

from sentinel_core.audit.checkpoints import append, signed
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.query.interval import beginning
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.audit.retention.contract import PurgingStore
from sentinel_core.audit.retention.purge import Plan, Purged, Statement, plan
from sentinel_core.audit.retention.purge import purge as run
from sentinel_core.audit.signing import SigningKey
from sentinel_core.audit.store import open_store
from sentinel_core.cli.actor import actor
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.common import opened, zone_option
from sentinel_core.cli.exits import BadSettings, CommandError
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, plural, visible

TOLD = 10
"""Sources whose old events wait, each told by itself."""


@click.command()
@click.option("--before", "moment", required=True, type=WORDS, metavar="TIME", help='E.g. "90 days ago", 2026-09-01.')
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the sealed segments; the same each time.",
)
@click.option("--reason", type=WORDS, metavar="TEXT", help="Why; it stands in the record of the purge.")
@click.option(
    "--with-future",
    is_flag=True,
    help="Let events that are dated in the future hold nothing back; they go where older ones stand behind them.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be purged and change nothing.")
@zone_option
@output_options
@pass_app
def purge(
    app: App, moment: str, folder: Path, reason: str | None, with_future: bool, dry_run: bool, zone: str | None
) -> None:
    """Move events of before TIME out of the audit store, into a sealed segment.

    \b
    Example:
      sentinelctl audit purge --before "90 days ago" --to /var/lib/sentinel/segments

    The segment holds them whole, with their links; `audit verify` walks through both. The purge itself
    is an event, signed where audit.signingKey is set. It may be cut off at any time: the next one goes on.
    A chain leaves from its first event on, so what stands behind a younger event waits; which one that is is told.
    """
    now = utc_now()
    before, future = beginning(moment, now=now, zone=zone_named(zone)), now if with_future else None
    with opened(app) as store:
        planned = plan(_purging(store), before, future=future)
    app.out.say(_planned(planned))
    for note in (*_held(planned, now), *_elsewhere(planned, folder)):
        app.out.say(f"note: {note}")
    done = None
    if not dry_run:
        if planned.events and not app.confirm(f"Move them to {folder} and remove them from the store?"):
            raise CommandError(
                "not confirmed; nothing was changed", next_step="run it again and answer y, or add --yes"
            )
        done = _run(app, planned.before, folder, reason, future)
    app.out.show(_view(planned, done))
    app.out.say(_summary(done, folder))


def _purging(store: object) -> PurgingStore:
    if not isinstance(store, PurgingStore):
        raise BadSettings(
            "the audit store of the settings cannot be purged", next_step="use one of sqlite:/// or opensearch://"
        )
    return store


def _run(app: App, before: datetime, folder: Path, reason: str | None, future: datetime | None) -> Purged:
    settings = app.settings.audit
    key = None if settings.signing_key is None else SigningKey.from_pem(settings.signing_key)
    if key is None:
        app.out.say("note: audit.signingKey is not set, so the record of the purge is not signed")
    statement = Statement(app.environment, utc_now(), actor(), reason, key)
    with closing(open_store(settings.store)) as opened_store:
        store = _purging(opened_store)
        with app.out.waiting("sealing and removing events"):
            done = run(store, before, folder, statement, future=future)
        if key is not None and settings.checkpoints is not None and done.record is not None:
            append(Path(settings.checkpoints), signed(store.heads(), key, utc_now()))
    return done


def _planned(planned: Plan) -> str:
    if not planned.events:
        return f"No event of before {rfc3339(planned.before)} can be purged."
    return (
        f"{plural(planned.events, 'event')} of {plural(len(planned.ends), 'source')} "
        f"from before {rfc3339(planned.before)}"
    )


def _held(planned: Plan, now: datetime) -> Iterator[str]:
    """What keeps old events from leaving, the longest first."""
    holders = sorted(planned.holders, key=lambda holder: holder.time, reverse=True)
    for holder in holders[:TOLD]:
        text = f"event {holder.number} of {visible(holder.source)} is of {rfc3339(holder.time)}"
        waiting = f"{plural(holder.waiting, 'older event')} behind it"
        if holder.time > now:
            yield f"{text}, in the future: {waiting} must wait for that; --with-future passes it"
        else:
            yield f"{text}: {waiting} must wait until it is old enough, too"
    if len(holders) > TOLD:
        yield f"{plural(len(holders) - TOLD, 'other source')} must wait as well; -o json names them"


def _elsewhere(planned: Plan, folder: Path) -> Iterator[str]:
    """Where the segments of earlier purges are not beside the one that is made."""
    segments = planned.record.segments if planned.record is not None else ()
    missing = [segment.file for segment in segments if not (folder / segment.file).is_file()]
    if missing:
        yield (
            f"{folder} lacks {plural(len(missing), 'segment')} of earlier purges ({missing[-1]}): `audit verify "
            "--segments` needs all in one folder, so move them there, or give --to the folder that they are in"
        )


def _summary(done: Purged | None, folder: Path) -> str:
    if done is None:
        return "Dry run: nothing was changed. The same without --dry-run does it."
    if done.segment is None:
        return f"{plural(done.removed, 'event')} removed that an earlier purge had left." if done.removed else "Done."
    return f"Sealed in {folder / done.segment.file}; {plural(done.removed, 'event')} removed."


def _view(planned: Plan, done: Purged | None) -> View:
    counts = planned.counts
    chains = [{"source": source, "events": counts[source], "last": planned.ends[source]} for source in sorted(counts)]
    segment = done.segment if done is not None else None
    document = {
        "before": rfc3339(planned.before),
        "events": planned.events,
        "chains": chains,
        "held": [
            {"source": each.source, "number": each.number, "time": rfc3339(each.time), "waiting": each.waiting}
            for each in planned.holders
        ],
        "removed": 0 if done is None else done.removed,
        "segment": segment and {"file": segment.file, "sha256": segment.sha256, "events": segment.events},
        "record": done.record.id if done is not None and done.record is not None else None,
    }

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if chains:
            rows = [[str(chain["source"]), str(chain["events"]), str(chain["last"])] for chain in chains]
            yield from table(["SOURCE", "EVENTS", "LAST"], rows)

    return View(document=document, items=chains, names=[str(chain["source"]) for chain in chains], lines=lines)

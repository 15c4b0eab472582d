"""`sentinelctl audit hash`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from sentinel_core.audit.redaction import Redaction
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.common import opened
from sentinel_core.cli.exits import BadSettings, CommandError, Exit
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span


@click.command("hash")
@click.argument("value", type=WORDS)
@click.option("--event", "event_id", type=WORDS, metavar="ID", help="Whether the value stands in this event.")
@output_options
@pass_app
def hash_value(app: App, value: str, event_id: str | None) -> None:
    """What stands in events for VALUE, where its field is redacted with the key of audit.redactKey.

    \b
    sentinelctl audit hash mobile-app
    sentinelctl audit hash - --event 939b21ac < value.txt

    Where VALUE is a dash it is read from standard input, which keeps it out of the history of the shell. With --event
    the exit code tells whether it is there: 0 it is, 1 it is not.
    """
    settings = app.settings.audit
    if settings.redact_key is None:
        raise BadSettings(
            "audit.redactKey is not set, so no value can be told",
            next_step="set audit.redactKeyFile to the key that the services use",
        )
    text = sys.stdin.read().removesuffix("\n") if value == "-" else value
    hashed = str(Redaction((), settings.redact_key).keyed(text))
    is_there = None if event_id is None else _is_in(app, event_id, hashed)
    app.out.show(_view(hashed, event_id, is_there))
    if is_there is False:
        raise click.exceptions.Exit(Exit.DIFFERENCES)


def _is_in(app: App, event_id: str, hashed: str) -> bool:
    with opened(app) as store:
        event = store.get(event_id)
    if event is None:
        raise CommandError(
            f"there is no event {event_id} in the audit store",
            next_step="sentinelctl audit query    (lists events with their ids)",
        )
    is_there = hashed.encode() in event.data
    if not is_there and b'"hmac:' in event.data and hashed.rpartition(":")[0].encode() not in event.data:
        app.out.say("note: the event was redacted with another key, so its values cannot be told with this one")
    return is_there


def _view(hashed: str, event_id: str | None, is_there: bool | None) -> View:
    def lines(_: bool) -> Iterator[Sequence[Span]]:
        yield (hashed,)
        if event_id is not None:
            yield (f"{'stands' if is_there else 'does not stand'} in event {event_id}",)

    item = {"hash": hashed, "event": event_id, "found": is_there}
    return View(document=item, items=[item], names=[hashed], lines=lines)

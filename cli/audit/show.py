"""`sentinelctl audit show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from sentinel_core.audit.errors import EventDamaged
from sentinel_core.audit.event import Event
from sentinel_core.audit.query.zones import shown_in, zone_named
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.common import SIGNS, opened, value, zone_option
from sentinel_core.cli.audit.stands import head_of, say_tampered, stands_of
from sentinel_core.cli.exits import CommandError, Exit
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span, Styled

_INVERSE = {"add": "remove", "remove": "add", "change": "change"}
_FACTS = (
    "environment", "app", "kind", "author", "channel", "commitHash", "revision", "reason", "message", "planId",
    "rollbackOf", "oldDigest", "newDigest",
)  # fmt: skip


@click.command()
@click.argument("event_id", metavar="ID", type=WORDS)
@click.option("--source", type=WORDS, metavar="NAME", help="Its source, where events of several have this id.")
@zone_option
@output_options
@pass_app
def show(app: App, event_id: str, source: str | None, zone: str | None) -> None:
    """One change whole: every fact, the patch, and the inverse that would undo it.

    \b
    sentinelctl audit show 939b21ac
    sentinelctl audit show 939b21ac -o json

    ID as `audit query` and `audit who` print it; its first 8 characters are enough where they are unique.
    """
    with opened(app) as store:
        event = store.get(event_id, source)
        stands = stands_of(app, store, [head_of(event)] if event else [])
    if event is None:
        raise CommandError(
            f"there is no event {event_id} in the audit store",
            next_step="sentinelctl audit query    (lists events with their ids)",
        )
    document = _read(event)
    patch = document["data"].get("changes") or []
    inverse = [_inverse(change) for change in reversed(patch)]
    when = shown_in(event.time, zone_named(zone))
    app.out.show(_view(document, patch, inverse, f"{when:%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {when:%z}"))
    if say_tampered(app, stands):
        raise click.exceptions.Exit(Exit.ERROR)


def _read(event: Event) -> dict[str, Any]:
    """Raises EventDamaged."""
    try:
        document: dict[str, Any] = json.loads(event.to_json())
    except (ValueError, RecursionError) as error:
        raise EventDamaged(
            f"event {event.id}: its data is no JSON any more; sentinelctl audit verify tells more"
        ) from error
    return document


def _inverse(change: Mapping[str, Any]) -> dict[str, Any]:
    """The change that takes this one back."""
    return {
        **change,
        "action": _INVERSE.get(str(change.get("action")), change.get("action")),
        "old": change.get("new"),
        "new": change.get("old"),
    }


def _view(
    event: Mapping[str, Any], patch: Sequence[Mapping[str, Any]], inverse: Sequence[Mapping[str, Any]], when: str
) -> View:
    data = event["data"]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        yield (Styled(str(event["type"]), "bold"), f"  {event['id']}")
        yield (f"  time         {when}",)
        yield (f"  source       {event['source']}",)
        for name in _FACTS:
            if data.get(name):
                yield (f"  {name:<12} {data[name]}",)
        for problem in data.get("problems") or []:
            yield ("  ", SIGNS["rejected"], f" {problem.get('message', problem)}")
        if patch:
            yield ("patch",)
            yield from map(_line, patch)
            yield ("inverse",)
            yield from map(_line, inverse)

    return View(
        document={"event": event, "patch": list(patch), "inverse": list(inverse)},
        items=[*patch],
        names=[str(event["id"])],
        lines=lines,
    )


def _line(change: Mapping[str, Any]) -> Sequence[Span]:
    action, rule, field = (value(change.get(name)) for name in ("action", "rule", "field"))
    old, new = (change.get(name) for name in ("old", "new"))
    sign = SIGNS.get(action, action)
    if change.get("field") is None:
        return ("  ", sign, f" {rule}  {value(new if action == 'add' else old)}")
    return ("  ", sign, f" {rule}  {field}  {value(old)} → {value(new)}")

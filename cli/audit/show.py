"""`sentinelctl audit show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import click

from sentinel_core.audit.chain import Linked, LinkedStore
from sentinel_core.audit.errors import EventDamaged, EventRefused, QueryInvalid
from sentinel_core.audit.event import Event
from sentinel_core.audit.indexing import read_columns
from sentinel_core.audit.query.who import FieldChange, Seen, blame_of
from sentinel_core.audit.query.zones import shown_in, zone_named
from sentinel_core.audit.store.contract import AuditStore, EventHead
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.common import SIGNS, opened, value, zone_option
from sentinel_core.cli.audit.stands import head_of, say_tampered, stands_of
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span, Styled

_INVERSE = {"add": "remove", "remove": "add", "change": "change"}
_FACTS = (
    "environment", "app", "instance", "kind", "author", "committer", "publishedBy", "channel", "commitHash", "revision",
    "reason", "message", "planId", "rollbackOf", "oldDigest", "newDigest",
)  # fmt: skip
_LISTED = "sentinelctl audit query    (lists events with their ids)"
TOGETHER_SHOWN = 20
_ALWAYS = 2**62
"""Bytes of a body that is hashed: of this one event, whatever it takes."""


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
    place = zone_named(zone)
    with opened(app) as store:
        try:
            event = store.get(event_id, source)
        except QueryInvalid as error:
            raise UsageProblem(str(error), next_step=_LISTED) from error
        if event is None:
            raise CommandError(f"there is no event {event_id} in the audit store", next_step=_LISTED)
        head = head_of(event)
        stands, around = stands_of(app, store, [head]), _around(store, event, head)
    document = _read(event)
    patch = document["data"].get("changes") or []
    inverse = [_inverse(change) for change in reversed(patch)]
    app.out.show(_view(document, patch, inverse, around, _clock(event.time, place), place))
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


@dataclass(frozen=True, slots=True)
class Around:
    """What the store knows of an event beside the event itself."""

    seen: Seen
    """Which instances told of it: those that run a change, or refused it."""
    together: Sequence[FieldChange]
    """What else the same revision, commit or plan changed."""
    link: Linked | None
    """Its place in the chain; None in a store that keeps none."""

    def to_json(self) -> dict[str, Any]:
        """`seen`, `together`, and `chain` with `number`, `hash` (hexadecimal) and `holds`."""
        link = self.link
        chain = link and {"number": link.number, "hash": _hex(link.hash), "holds": link.is_whole()}
        return {"seen": self.seen.to_json(), "together": [each.to_json() for each in self.together], "chain": chain}


def _around(store: AuditStore, event: Event, head: EventHead) -> Around:
    try:
        _, rows, _ = read_columns(event)
    except EventRefused:  # somebody changed it; what it still says is shown
        return Around(Seen((), None, None), (), None)
    links = store.links([head], most_bytes=_ALWAYS) if isinstance(store, LinkedStore) else ()
    own = [FieldChange(*(getattr(row, name) for name in FieldChange.__slots__)) for row in rows]
    blame = blame_of(store, head, own)
    return Around(blame.seen, blame.together, next(iter(links), None))


def _hex(of: object) -> str:
    return of.hex() if isinstance(of, bytes) else "–"


def _clock(moment: datetime, zone: tzinfo) -> str:
    when = shown_in(moment, zone)
    return f"{when:%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {when:%z}"


def _inverse(change: Mapping[str, Any]) -> dict[str, Any]:
    """The change that takes this one back."""
    return {
        **change,
        "action": _INVERSE.get(str(change.get("action")), change.get("action")),
        "old": change.get("new"),
        "new": change.get("old"),
    }


def _view(
    event: Mapping[str, Any],
    patch: Sequence[Mapping[str, Any]],
    inverse: Sequence[Mapping[str, Any]],
    around: Around,
    when: str,
    zone: tzinfo,
) -> View:
    data = event["data"]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        yield (Styled(str(event["type"]), "bold"), f"  {event['id']}")
        yield (f"  time         {when}",)
        yield (f"  source       {event['source']}",)
        for name in _FACTS:
            if data.get(name):
                yield (f"  {name:<12} {data[name]}",)
        yield from _around_lines(around, zone, refused=bool(data.get("problems")))
        for problem in data.get("problems") or []:
            yield ("  ", SIGNS["rejected"], f" {problem.get('message', problem)}")
        if patch:
            yield ("patch",)
            yield from map(_line, patch)
            yield ("inverse",)
            yield from map(_line, inverse)
        if around.together:
            yield (f"with it ({len(around.together)})",)
            yield from (_line(each.to_json()) for each in around.together[:TOGETHER_SHOWN])

    return View(
        document={"event": event, "patch": list(patch), "inverse": list(inverse), **around.to_json()},
        items=[*patch],
        names=[str(event["id"])],
        lines=lines,
    )


def _around_lines(around: Around, zone: tzinfo, *, refused: bool) -> Iterator[Sequence[Span]]:
    seen = around.seen
    if seen.instances:
        yield (f"  {'refused by' if refused else 'seen by':<12} {', '.join(seen.instances)}",)
    if seen.first and seen.last:
        yield (f"  {'first':<12} {_clock(seen.first, zone)}",)
        yield (f"  {'last':<12} {_clock(seen.last, zone)}",)
    if around.link is not None:
        holds = "" if around.link.is_whole() else Styled("   NOT AS IT WAS WRITTEN: sentinelctl audit verify", "red")
        yield (f"  {'chain':<12} {around.link.number}   {_hex(around.link.hash)}", holds)


def _line(change: Mapping[str, Any]) -> Sequence[Span]:
    action, rule, field = (value(change.get(name)) for name in ("action", "rule", "field"))
    old, new = (change.get(name) for name in ("old", "new"))
    sign = SIGNS.get(action, action)
    if change.get("field") is None:
        return ("  ", sign, f" {rule}  {value(new if action == 'add' else old)}")
    return ("  ", sign, f" {rule}  {field}  {value(old)} → {value(new)}")

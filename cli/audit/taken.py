"""`sentinelctl audit ingest --file`: what `audit export` wrote goes into a store again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from sentinel_core.audit.each import ingest_each
from sentinel_core.audit.errors import EventInvalid
from sentinel_core.audit.event import MAX_BYTES, Event, parse_event
from sentinel_core.audit.store.contract import AuditStore
from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError, Exit
from sentinel_core.cli.output import View
from sentinel_core.cli.text import plural

BATCH = 500
BATCH_BYTES = 8 * 2**20
TOLD = 20
"""Lines that are no events, each told by itself; the others are counted."""


@dataclass(slots=True)
class Taken:
    """How far it has come."""

    stored: int = 0
    duplicates: int = 0
    refused: int = 0


def take_file(app: App, store: AuditStore, name: str) -> None:
    """Each line that is an event goes into the store, whatever the others are; ends with 2 where one was none."""
    taken = Taken()
    with _opened(name) as file:
        for place, lines in _batches(file):
            _take(app, store, lines, name, place, taken)
    done = {"stored": taken.stored, "duplicates": taken.duplicates, "refused": taken.refused}
    app.out.show(View(document=done, items=[done], names=[], lines=lambda _: iter(())))
    app.out.say(
        f"{taken.stored} stored, {taken.duplicates} were there already, {plural(taken.refused, 'line')} refused."
    )
    if taken.refused:
        raise click.exceptions.Exit(Exit.ERROR)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise CommandError(
            f"{name}: {error.strerror}", next_step="give --file the NDJSON that `sentinelctl audit export` wrote"
        ) from error
    with file:
        yield file


def _batches(file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Lines, and the number of the first of them."""
    first, lines, size = 1, list[bytes](), 0
    for line in _lines(file):
        lines.append(line)
        size += len(line)
        if len(lines) == BATCH or size > BATCH_BYTES:
            yield first, lines
            first, lines, size = first + len(lines), [], 0
    if lines:
        yield first, lines


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Each whole, or cut where it is longer than any event: no line takes the memory of this machine."""
    while line := file.readline(MAX_BYTES + 2):
        rest = line
        while len(rest) == MAX_BYTES + 2 and not rest.endswith(b"\n"):
            rest = file.readline(MAX_BYTES + 2)
        yield line


def _take(app: App, store: AuditStore, lines: list[bytes], name: str, first: int, taken: Taken) -> None:
    events: list[tuple[int, Event]] = []
    for place, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            events.append((place, parse_event(line)))
        except EventInvalid as error:
            _refuse(app, f"{name}:{place}: {error}", taken)
    if not events:
        return
    done = ingest_each(store, [event for _, event in events])
    taken.stored += done.new
    taken.duplicates += done.duplicate
    for each in done.refused:
        place, event = events[each.place]
        _refuse(app, f"{name}:{place}: event {event.id} is refused: {each.reason}", taken)


def _refuse(app: App, words: str, taken: Taken) -> None:
    taken.refused += 1
    if taken.refused <= TOLD:
        app.out.say(words)

"""How far an answer can be relied on, told in milliseconds: the hashes of the events that it shows, what a checkpoint
says of them, and whether older ones have left the store. The whole chain is walked by `verify.py` alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from sentinel_core.audit.beside import Look
from sentinel_core.audit.chain import Linked, LinkedStore
from sentinel_core.audit.errors import EventInvalid
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.retention.contract import PurgingStore
from sentinel_core.audit.store.contract import AuditStore, EventHead

if TYPE_CHECKING:
    from sentinel_core.audit.query.interval import Interval
    from sentinel_core.audit.retention.record import PurgeRecord
    from sentinel_core.audit.verify import Promise

MOST_EVENTS = 100
MOST_BYTES = 512 * 1024
"""Of bodies as they lie in the store: what can be hashed within some 30 ms."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Of the events that an answer shows."""

    shown: int
    checked: int
    """The newest of them, whose hashes were computed anew."""
    broken: tuple[str, ...]
    """Ids of those that are not as they were written, and of such that stand between them."""
    covered: int
    """Of the checked ones, those that stand before a checkpoint of their chain, which still has the hash it saw."""
    checkpoint: str | None
    """When the oldest of those checkpoints was made, RFC 3339. Its signature was not verified."""
    purged_before: datetime | None
    """Older events have left the store."""
    missing: int = 0
    """Events that are gone from between the checked ones, and from the window that they answer for."""
    contradicted: str | None = None
    """When a checkpoint was made that saw another chain, RFC 3339."""
    lost: str | None = None
    """When a checkpoint was made that saw more events than the store knows of, RFC 3339."""
    gapless: bool = False
    """All that stands between the checked ones, and in the window, was looked at, too."""
    between: tuple[Linked, ...] = ()
    """What was looked at there."""
    unfound: tuple[str, ...] = ()
    """Ids of those of them that a question should have found, and did not."""

    @property
    def is_sound(self) -> bool:
        """Nothing was found; more is for `verify`."""
        return not (self.broken or self.missing or self.contradicted or self.lost or self.unfound)

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return {
            "shown": self.shown,
            "checked": self.checked,
            "broken": list(self.broken),
            "missing": self.missing,
            "unfound": list(self.unfound),
            "contradicted": self.contradicted,
            "lost": self.lost,
            "covered": self.covered,
            "checkpoint": self.checkpoint,
            "gapless": self.gapless,
            "purgedBefore": self.purged_before and rfc3339(self.purged_before),
        }


def standing(
    store: AuditStore, shown: Iterable[EventHead], checkpoints: Mapping[str, Promise], window: Interval | None = None
) -> Standing | None:
    """None for a store that keeps no chains. `checkpoints`: the newest of each source, read before. With a window, the
    events shown are all that an answer found there: whether others belong to it is looked at. Raises
    StoreUnavailable."""
    if not isinstance(store, LinkedStore):
        return None
    ends = {head.source: head for head in store.heads()}
    heads = sorted({(head.id, head.source): head for head in shown}.values(), key=lambda head: head.time, reverse=True)
    links = store.links(heads[:MOST_EVENTS], most_bytes=MOST_BYTES)
    broken = [head.id for head in heads if head.damaged]
    broken += [event_id for event_id in map(_id_if_broken, links) if event_id and event_id not in broken]
    chains: dict[str, list[Linked]] = {}
    for event in sorted(links, key=lambda event: event.number if type(event.number) is int else 0):
        if event.is_whole():
            chains.setdefault(event.source, []).append(event)
    before = {
        source: [event for event in events if event.number <= checkpoints[source].number]
        for source, events in chains.items()
        if source in checkpoints
    }
    promised = {source: checkpoints[source].number for source, events in before.items() if events}
    covering: list[str] = []
    contradicted: list[str] = []
    for source, hashes in store.hashes_at(promised).items() if promised else ():
        if {*hashes} == {checkpoints[source].hash}:
            covering += [checkpoints[source].time] * len(before[source])
        else:
            contradicted.append(checkpoints[source].time)
            broken += [str(event.columns[0]) for event in before[source]]
    known = {source: head.number for source, head in ends.items()}
    lost = [each.time for each in checkpoints.values() if each.number > known.get(each.source, 0)]
    seen = {(str(event.columns[0]), event.source) for event in links}
    look = Look(store, chains, seen, MOST_EVENTS - len(links), MOST_BYTES // 2)
    last_purge = cache(lambda: _last_purge(store))
    beside = look.between() if window is None else look.around(window, ends, lambda: _purged(last_purge()))
    record = last_purge()
    return Standing(
        shown=len(heads),
        checked=len(links),
        broken=tuple(broken + [event_id for event_id in beside.broken if event_id not in broken]),
        covered=len(covering),
        checkpoint=min(covering, default=None),
        purged_before=record.before if record else None,
        missing=beside.missing,
        contradicted=min(contradicted, default=None),
        lost=min(lost, default=None),
        gapless=beside.is_whole,
        between=beside.events,
    )


def _id_if_broken(event: Linked) -> str | None:
    return None if event.is_whole() else str(event.columns[0])


def _purged(record: PurgeRecord | None) -> Mapping[str, int]:
    """How far each chain has left the store."""
    return {head.source: head.number for head in record.chains} if record else {}


def _last_purge(store: AuditStore) -> PurgeRecord | None:
    event = store.last_purge() if isinstance(store, PurgingStore) else None
    if event is None:
        return None
    from sentinel_core.audit.retention.record import read_record

    with suppress(EventInvalid):  # `verify` tells of it
        return read_record(event)
    return None

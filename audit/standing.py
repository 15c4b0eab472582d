"""How far an answer can be relied on, told in milliseconds: the hashes of the events that it shows, what a checkpoint
says of them, and whether older ones have left the store. The whole chain is walked by `verify.py` alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sentinel_core.audit.chain import Linked, LinkedStore
from sentinel_core.audit.errors import EventInvalid
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.retention.contract import PurgingStore
from sentinel_core.audit.store.contract import AuditStore, EventHead

if TYPE_CHECKING:
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
    """Events that are gone from between the checked ones."""
    contradicted: str | None = None
    """When a checkpoint was made that saw another chain, RFC 3339."""
    gapless: bool = False
    """All that stands between the checked ones was looked at, too."""
    between: tuple[Linked, ...] = ()
    """What was looked at there."""
    unfound: tuple[str, ...] = ()
    """Ids of those of them that a question should have found, and did not."""

    @property
    def is_sound(self) -> bool:
        """Nothing was found; more is for `verify`."""
        return not (self.broken or self.missing or self.contradicted or self.unfound)

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return {
            "shown": self.shown,
            "checked": self.checked,
            "broken": list(self.broken),
            "missing": self.missing,
            "unfound": list(self.unfound),
            "contradicted": self.contradicted,
            "covered": self.covered,
            "checkpoint": self.checkpoint,
            "gapless": self.gapless,
            "purgedBefore": self.purged_before and rfc3339(self.purged_before),
        }


def standing(store: AuditStore, shown: Iterable[EventHead], checkpoints: Mapping[str, Promise]) -> Standing | None:
    """None for a store that keeps no chains. `checkpoints`: the newest of each source. Raises StoreUnavailable."""
    if not isinstance(store, LinkedStore):
        return None
    heads = sorted({(head.id, head.source): head for head in shown}.values(), key=lambda head: head.time, reverse=True)
    links = store.links(heads[:MOST_EVENTS], most_bytes=MOST_BYTES)
    broken = [head.id for head in heads if head.damaged]
    broken += [event_id for event_id in map(_id_if_broken, links) if event_id and event_id not in broken]
    chains: dict[str, list[Linked]] = {}
    for event in links:
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
    seen = {(str(event.columns[0]), event.source) for event in links}
    others = [_between(store, events, seen, MOST_EVENTS - len(links)) for events in chains.values()]
    return Standing(
        shown=len(heads),
        checked=len(links),
        broken=tuple(broken + [each for other in others for each in other.broken]),
        covered=len(covering),
        checkpoint=min(covering, default=None),
        purged_before=_purged_before(store),
        missing=sum(other.missing for other in others),
        contradicted=min(contradicted, default=None),
        gapless=all(other.is_whole for other in others),
        between=tuple(event for other in others for event in other.events),
    )


def _id_if_broken(event: Linked) -> str | None:
    return None if event.is_whole() else str(event.columns[0])


@dataclass(frozen=True, slots=True)
class _Others:
    """What stands between events of a chain."""

    missing: int = 0
    broken: tuple[str, ...] = ()
    is_whole: bool = True
    """All of it was looked at."""
    events: tuple[Linked, ...] = ()


def _between(store: LinkedStore, events: Sequence[Linked], seen: Collection[tuple[str, str]], most: int) -> _Others:
    """A change that was taken from the events that are found by it stands there still, and its hash tells."""
    ordered = sorted(events, key=lambda event: event.number)
    first, last = ordered[0], ordered[-1]
    if last.number - first.number + 1 == len(ordered):
        return _Others()
    found = store.between(first, last, most + len(seen))
    if found is None:
        return _Others(is_whole=False)
    there = {*found.numbers} | {event.number for event in ordered}
    others = [head for head in found.newest if (head.id, head.source) not in seen]
    links = store.links(others[-most:] if most > 0 else (), most_bytes=MOST_BYTES // 2)
    broken = tuple(event_id for event_id in map(_id_if_broken, links) if event_id)
    missing = max(0, last.number - first.number + 1 - len(there))
    is_whole = len(found.newest) == len(found.numbers) and len(links) == len(others)
    return _Others(missing, broken, is_whole, tuple(links))


def _purged_before(store: AuditStore) -> datetime | None:
    event = store.last_purge() if isinstance(store, PurgingStore) else None
    if event is None:
        return None
    from sentinel_core.audit.retention.record import read_record

    with suppress(EventInvalid):  # `verify` tells of it
        return read_record(event).before
    return None

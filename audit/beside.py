"""What stands beside the events of an answer in their chains: whether one that belongs to it is gone or hidden."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

from sentinel_core.audit.chain import COLUMNS, Head, Linked, LinkedStore, Place, Stretch
from sentinel_core.audit.instants import milliseconds
from sentinel_core.audit.query.interval import Interval


@dataclass(frozen=True, slots=True)
class Beside:
    """What was found there."""

    missing: int = 0
    """Numbers without an event, up to the end that the store's own record of a chain knows."""
    broken: tuple[str, ...] = ()
    """Ids of those that are not as they were written."""
    is_whole: bool = True
    """All of it was looked at."""
    events: tuple[Linked, ...] = ()
    """Those whose hashes were computed."""


@dataclass(frozen=True, slots=True)
class Look:
    """At chains, from events of them on that are whole, in the order of their numbers. Methods raise
    StoreUnavailable."""

    store: LinkedStore
    chains: Mapping[str, Sequence[Linked]]
    seen: Collection[tuple[str, str]]
    """Ids and sources of what was looked at before."""
    most: int
    """Events whose hashes are computed."""
    most_bytes: int
    """Of their bodies."""

    def between(self) -> Beside:
        """What stands between the first and the last event of each chain."""
        spans = {source: events for source, events in self.chains.items() if _is_torn(events)}
        found = self.store.stretches(spans) if spans else {}
        parts = []
        for source, stretch in found.items():
            first, last = spans[source][0].number, spans[source][-1].number
            _, inside, _ = _divided(stretch.places, first, last)
            missing = last - first + 1 - len({place.number for place in inside})
            parts.append(_Part(missing, inside[::-1], is_whole=True))
        return self._at(parts, is_whole=len(found) == len(spans))

    def around(self, window: Interval, heads: Mapping[str, Head], purged: Callable[[], Mapping[str, int]]) -> Beside:
        """What stands in the window and at both of its ends, in these chains first and then in the others of `heads`,
        which were read before. `purged`: how far chains have left the store."""
        spans = {**self.chains, **{source: () for source in heads if source not in self.chains}}
        found, gone = self.store.stretches(spans), purged()
        start, end = milliseconds(window.start), milliseconds(window.end)
        parts = [
            _part(found[source], events, heads.get(source), gone.get(source, 0), start, end)
            for source, events in spans.items()
            if source in found
        ]
        return self._at(parts, is_whole=len(found) == len(spans))

    def _at(self, parts: Sequence[_Part], *, is_whole: bool) -> Beside:
        broken: list[str] = []
        named: dict[tuple[str, str], Place] = {}
        for place in (place for part in parts for place in part.places):
            if not isinstance(place.id, str):
                broken.append(repr(place.id))
            elif (place.id, place.source) not in self.seen:
                named[place.id, place.source] = place
            if len(named) > self.most:
                break
        links = self.store.links(list(named.values())[: max(0, self.most)], most_bytes=self.most_bytes)
        return Beside(
            sum(part.missing for part in parts),
            tuple(broken + [str(event.columns[_ID]) for event in links if not event.is_whole()]),
            is_whole and all(part.is_whole for part in parts) and len(links) == len(named),
            tuple(links),
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """Of one chain."""

    missing: int
    places: Sequence[Place]
    """Those to look at, what is most telling first."""
    is_whole: bool


def _part(stretch: Stretch, events: Sequence[Linked], head: Head | None, purged: int, start: int, end: int) -> _Part:
    """The window ends with the first event of another time, which is looked at too: somebody may have given it that
    time."""
    if events:
        told = [event.columns[_TIME] for event in events]
        start, end = min(start, *told), max(end, *(time + 1 for time in told))
        older, inside, newer = _divided(stretch.places, events[0].number, events[-1].number)
        after = [*takewhile(lambda place: _time(place, start) < end, newer)]
    else:
        older = [*dropwhile(lambda place: _time(place, start) >= end, reversed(stretch.places))][::-1]
        inside, after, newer = [], [], [*stretch.places[len(older) :]]
    before = [*takewhile(lambda place: _time(place, start) >= start, reversed(older))]
    rest = [*newer[len(after) :][:1], *older[: len(older) - len(before)][-1:]]
    ordered = [*reversed(after), *reversed(inside), *before]
    strange = [place for place in ordered if not start <= _time(place, end) < end]
    is_whole = (
        head is not None
        and (len(after) < len(newer) or stretch.to_end)
        and (len(before) < len(older) or stretch.from_start)
    )
    return _Part(_missing(stretch, head, purged), [*strange, *rest, *ordered], is_whole)


def _missing(stretch: Stretch, head: Head | None, purged: int) -> int:
    """Up to the end that is known; a purge that was cut off leaves older ones than it must."""
    if head is None:
        return 0
    _, inside, _ = _divided(stretch.places, 1, head.number)
    numbers = {place.number for place in inside}
    first = min(numbers, default=purged + 1)
    if stretch.from_start:
        first = min(first, purged + 1) if purged else 1
    last = head.number if stretch.to_end else max(numbers, default=0)
    return max(0, last - first + 1 - len(numbers))


_ID, _TIME = COLUMNS.index("id"), COLUMNS.index("time")


def _divided(places: Sequence[Place], first: int, last: int) -> tuple[list[Place], list[Place], list[Place]]:
    """Before, from and behind these numbers; what has no number is left out, and so its number is missing."""
    older: list[Place] = []
    inside: list[Place] = []
    newer: list[Place] = []
    for place in places:
        number = place.number
        if type(number) is int:
            (older if number < first else inside if number <= last else newer).append(place)
    return older, inside, newer


def _is_torn(events: Sequence[Linked]) -> bool:
    return events[-1].number - events[0].number >= len(events)


def _time(place: Place, otherwise: int) -> int:
    return place.time if type(place.time) is int else otherwise

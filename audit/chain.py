"""The hash chain of a source: each event's hash covers the hash before it, its number, its data and what is searched.

    hash = SHA-256(JCS([1, previous, number, SHA-256(data), columns, rows]))

`previous` and the digest of the data are hexadecimal; `data` is canonical (RFC 8785); `columns` are those of COLUMNS
and `rows` those of ROW in the order of `place`, as they are stored. So whoever edits what a question reads breaks the
hash as surely as whoever edits the body. The first event of a source has the previous hash START. No key is needed to
compute it, so a chain that was made anew is sound in itself: checkpoints (`audit/checkpoints.py`) show it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from sentinel_core.audit.encode import compact

FORMAT = 1
START = bytes(32)
COLUMNS = (
    "id", "source", "type", "subject", "environment", "app", "instance", "channel", "author", "commit", "reason",
    "message", "plan", "document", "revision", "old_digest", "new_digest", "rollback_of", "time", "initial", "late",
    "observed",
)  # fmt: skip
"""Part of the format: texts or null; `time` in ms since the epoch, the flags 0 or 1."""
ROW = ("place", "time", "action", "kind", "resource", "rule", "field", "old", "new")
"""Part of the format: `old` and `new` are JSON texts or null."""

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode
"""Of lists, texts, whole numbers below 2^53 and null, which it writes as RFC 8785 does; that differs only in the order
of keys and in numbers with fractions."""


@dataclass(frozen=True, slots=True)
class Head:
    """How far the chain of a source has come."""

    source: str
    number: int
    """Of its last event; they count from 1."""
    hash: bytes
    adopted: int = 0
    """How many of its events were there before the store kept a chain."""


class About(NamedTuple):
    """Which event something is about: of what was tampered with, what is left."""

    id: str
    time: str | None
    """RFC 3339."""
    resource: str | None
    """The first that it changes."""


class Entry(NamedTuple):
    """An event as a walk through a store meets it, in the order of arrival. What was tampered with may be of any
    type."""

    source: Any
    number: Any
    previous: Any
    hash: Any
    computed: bytes | None
    """What the hash must be for what is stored; None where that is nothing an event can hold."""
    about: About | None = None
    """For people, as far as it can be told."""


class Linked(NamedTuple):
    """An event with its link, and all that its hash covers."""

    number: int
    previous: bytes
    hash: bytes
    columns: tuple[Any, ...]
    """Values of COLUMNS."""
    rows: tuple[tuple[Any, ...], ...]
    """Values of ROW."""
    data: bytes
    sightings: tuple[tuple[str, int], ...]
    """Instance and time in ms; not covered."""

    @property
    def source(self) -> str:
        return str(self.columns[1])

    def is_whole(self) -> bool:
        """Whether it is what its hash says."""
        try:
            return link(self.previous, self.number, self.data, self.columns, self.rows) == self.hash
        except (ValueError, TypeError, AttributeError):
            return False


class Place(NamedTuple):
    """Where an event stands. What was tampered with may be of any type."""

    id: Any
    source: str
    number: Any
    time: Any
    """In ms since the epoch."""


class Stretch(NamedTuple):
    """A part of a chain, as far as it was looked at."""

    places: Sequence[Place]
    """In the order of the chain."""
    from_start: bool
    """Nothing of the chain stands before it."""
    to_end: bool
    """Nothing stood behind it."""


class Named(Protocol):
    """What an event is found by."""

    @property
    def id(self) -> str: ...
    @property
    def source(self) -> str: ...


class Run(NamedTuple):
    """Events of one source that follow one another and have the hashes they must have."""

    source: str
    first: int
    previous: bytes
    """The hash that the first was written after."""
    last: int
    hash: bytes
    """Of the last."""
    wanted: dict[int, bytes]
    """The hashes of those numbers that were asked for."""


class Fault(NamedTuple):
    """Something that is wrong with a store itself, beside its events."""

    kind: Literal["altered layout", "altered record", "damaged file"]
    source: str
    """Empty where it is of no single chain."""
    number: int
    text: str


Wanted = Mapping[str, Collection[int]]
"""Numbers of events whose hashes are asked for, by source."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the store: as runs where all is well within it, and event by event for who looks closer."""

    events: int
    runs: Sequence[Run] | None
    entries: Callable[[], Iterable[Entry]]


@runtime_checkable
class ChainedStore(Protocol):
    """A store that keeps a chain for each source. Methods block and raise StoreUnavailable."""

    def heads(self) -> Sequence[Head]:
        """Where the chain of each source stands."""

    def pages(self, wanted: Wanted) -> tuple[Sequence[Head], Iterator[Page]]:
        """The heads, and every event up to them in the order of arrival; events that arrive meanwhile are left out."""


@runtime_checkable
class FaultyStore(Protocol):
    """A store that can be wrong in itself. Methods block and raise StoreUnavailable."""

    def faults(self) -> Sequence[Fault]:
        """All that is wrong beside events. Takes as long as it takes to read everything once."""


@runtime_checkable
class LinkedStore(ChainedStore, Protocol):
    """A store that gives events with their links. Methods block and raise StoreUnavailable."""

    def links(self, heads: Sequence[Named], *, most_bytes: int) -> Sequence[Linked]:
        """The events with these names, in their order, as long as their bodies take no more bytes in the store; one is
        always given. Without their sightings; those that are gone are left out."""

    def hashes_at(self, numbers: Mapping[str, int]) -> Mapping[str, Sequence[bytes]]:
        """What stands at these numbers of chains, by source: one hash each in a store that is sound. Without those that
        would take too long to find."""

    def stretches(self, spans: Mapping[str, Sequence[Linked]]) -> Mapping[str, Stretch]:
        """What stands from before the first to behind the last of these events of each chain, and at its end where
        there are none. Without chains of which that is too much to look at."""


def link(
    previous: bytes, number: int, data: bytes, columns: Sequence[str | int | None], rows: Sequence[Sequence[Any]]
) -> bytes:
    """The hash of an event. Raises ValueError or TypeError for values that no event has."""
    return link_written(previous, number, data, _ENCODE((columns, rows))[1:-1].encode())


def link_new(
    previous: bytes, number: int, data: bytes, columns: Sequence[str | int | None], rows: Sequence[Sequence[Any]]
) -> bytes:
    """The same for an event that is being written; values are what `link` reads back. What verifies uses another
    encoder, so a fault of one is found."""
    return link_written(previous, number, data, compact((columns, rows))[1:-1])


def link_written(previous: bytes, number: int, data: bytes, asked: bytes) -> bytes:
    """The same for columns and rows that are JSON already, with a comma between them."""
    if type(number) is not int or len(previous) != len(START):
        raise TypeError("a number and a hash are needed")
    entry = sha256(f'[{FORMAT},"{previous.hex()}",{number},"{sha256(data).hexdigest()}",'.encode())
    entry.update(asked)
    entry.update(b"]")
    return entry.digest()

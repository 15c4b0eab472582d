"""Rules that were rolled back and must not come back by themselves: a note beside the item, for all who publish.

A digest is under quarantine until somebody releases it by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sentinel_core.datasources.contract import HasNotes, Item, Readable, SourceMisconfigured
from sentinel_core.publishing.notes import change_note
from sentinel_core.rules import Kind

NOTE = "quarantine"
FORMAT_VERSION = 1
_MOST = 1000
"""Digests that are kept an item; the oldest go."""
_MOST_RELEASED = 100
"""Releases that are remembered an item."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Rules of one kind that may not be published."""

    kind: Kind
    digest: str
    revision: str
    """At which they stood when they were rolled back."""
    since: datetime
    by: str | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Every field, the time as RFC 3339."""
        return {name: getattr(self, name) for name in self.__slots__} | {"since": self.since.isoformat()}


@dataclass(frozen=True, slots=True)
class Released:
    """Rules that may be published again, and whose decision that was."""

    rules: Quarantined
    at: datetime
    by: str | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Every field, times as RFC 3339."""
        return {"rules": self.rules.to_json(), "at": self.at.isoformat(), "by": self.by, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Note:
    """What stands beside an item."""

    held: tuple[Quarantined, ...] = ()
    released: tuple[Released, ...] = ()
    """Both oldest first."""


def quarantined(source: Readable, item: Item) -> list[Quarantined]:
    """Oldest first; nothing for a store that keeps no notes. Raises DatasourceError; SourceMisconfigured for a note
    that cannot be read: nobody knows then what it says."""
    return list(noted(source, item).held)


def noted(source: Readable, item: Item) -> Note:
    """The same with what was released. Raises as `quarantined`."""
    return _decoded(source.note(item, NOTE), item) if isinstance(source, HasNotes) else Note()


def add(source: Readable, item: Item, found: Sequence[Quarantined]) -> list[Quarantined] | None:
    """Puts rules under quarantine and returns them, without those that are there already and stay as they are. None for
    a store without notes. Raises DatasourceError."""
    if not isinstance(source, HasNotes):
        return None
    names = ", ".join(f"{each.kind} {each.digest[:12]}" for each in found)
    added: list[Quarantined] = []

    def grown(stands: Note) -> Note:
        known = {(each.kind, each.digest) for each in stands.held}
        added[:] = [each for each in found if (each.kind, each.digest) not in known]
        return replace(stands, held=(*stands.held, *added)[-_MOST:])

    _change(source, item, grown, f"Put {names} under quarantine")
    return added


def release(
    source: Readable,
    item: Item,
    digest: str,
    why: str,
    *,
    by: str | None,
    at: datetime,
    kinds: Collection[Kind] | None = None,
) -> list[Quarantined]:
    """Lets rules be published again, named by the beginning of their digest, and of these kinds alone where some are
    given; returns them. Who and why is kept. Raises DatasourceError."""
    if not isinstance(source, HasNotes):
        return []
    ended: list[Quarantined] = []

    def shrunk(stands: Note) -> Note:
        ended[:] = [
            each for each in stands.held if each.digest.startswith(digest) and (kinds is None or each.kind in kinds)
        ]
        told = (*stands.released, *(Released(each, at, by, why) for each in ended))
        return Note(tuple(each for each in stands.held if each not in ended), told[-_MOST_RELEASED:])

    _change(source, item, shrunk, f"Release {digest}: {why}")
    return ended


def take_back(source: Readable, item: Item, added: Sequence[Quarantined], why: str) -> None:
    """As if they had never been put there. Raises DatasourceError."""
    if added and isinstance(source, HasNotes):
        kept = set(added)
        _change(
            source,
            item,
            lambda stands: replace(stands, held=tuple(each for each in stands.held if each not in kept)),
            f"Take back a quarantine: {why}",
        )


def _change(source: HasNotes, item: Item, change: Callable[[Note], Note], why: str) -> None:
    def changed(stands: bytes | None) -> bytes | None:
        before = _decoded(stands, item)
        after = change(before)
        return None if after == before else _encoded(after)

    change_note(source, item, NOTE, changed, why)


def _encoded(note: Note) -> bytes:
    document = {
        "formatVersion": FORMAT_VERSION,
        "quarantined": [each.to_json() for each in note.held],
        "released": [each.to_json() for each in note.released],
    }
    return f"{json.dumps(document, ensure_ascii=False, indent=1)}\n".encode()


def _rules(each: Any) -> Quarantined:
    return Quarantined(
        str(each["kind"]),
        str(each["digest"]),
        str(each["revision"]),
        datetime.fromisoformat(each["since"]).astimezone(UTC),
        each["by"],
        each["reason"],
    )


def _decoded(content: bytes | None, item: Item) -> Note:
    if content is None:
        return Note()
    try:
        document = json.loads(content)
        found = Note(
            tuple(_rules(each) for each in document["quarantined"]),
            tuple(
                Released(
                    _rules(each["rules"]),
                    datetime.fromisoformat(each["at"]).astimezone(UTC),
                    each["by"],
                    str(each["reason"]),
                )
                for each in document.get("released", ())  # notes of older versions have none
            ),
        )
        version = document["formatVersion"]
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise _unreadable(item) from error
    if version != FORMAT_VERSION:
        raise _unreadable(item)
    return found


def _unreadable(item: Item) -> SourceMisconfigured:
    return SourceMisconfigured(
        f"{item.source}: its note {NOTE} cannot be read, so nobody knows which rules may not come back; mend it, or "
        "remove it to release them all"
    )

"""Rules that were rolled back and must not come back by themselves: a note beside the item, for all who publish.

A digest is under quarantine until somebody releases it by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sentinel_core.datasources.contract import HasNotes, Item, Readable, SourceConflict, SourceMisconfigured
from sentinel_core.rules import Kind

NOTE = "quarantine"
FORMAT_VERSION = 1
_TRIES = 5
_MOST = 1000
"""Digests that are kept an item; the oldest go."""


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


def quarantined(source: Readable, item: Item) -> list[Quarantined]:
    """Oldest first; nothing for a store that keeps no notes. Raises DatasourceError; SourceMisconfigured for a note
    that cannot be read: nobody knows then what it says."""
    return _decoded(source.note(item, NOTE), item) if isinstance(source, HasNotes) else []


def add(source: Readable, item: Item, found: Sequence[Quarantined]) -> bool:
    """Puts rules under quarantine; those that are there already stay as they are. False for a store without notes."""
    if not isinstance(source, HasNotes):
        return False
    names = ", ".join(f"{each.kind} {each.digest[:12]}" for each in found)

    def grown(stands: list[Quarantined]) -> list[Quarantined]:
        known = {(each.kind, each.digest) for each in stands}
        return [*stands, *(each for each in found if (each.kind, each.digest) not in known)][-_MOST:]

    _change(source, item, grown, f"Put {names} under quarantine")
    return True


def release(source: Readable, item: Item, digest: str, why: str) -> list[Quarantined]:
    """Lets rules be published again, named by the beginning of their digest; returns them. Raises DatasourceError."""
    if not isinstance(source, HasNotes):
        return []
    released = [each for each in quarantined(source, item) if each.digest.startswith(digest)]
    if released:
        _change(
            source, item, lambda stands: [each for each in stands if each not in released], f"Release {digest}: {why}"
        )
    return released


def _change(source: HasNotes, item: Item, change: Callable[[list[Quarantined]], list[Quarantined]], why: str) -> None:
    for tries_left in reversed(range(_TRIES)):
        stands = source.note(item, NOTE)
        before = _decoded(stands, item)
        after = change(before)
        if after == before:
            return
        try:
            source.write_note(item, NOTE, _encoded(after), expected=stands, why=why)
        except SourceConflict:
            if not tries_left:
                raise
        else:
            return


def _encoded(found: Sequence[Quarantined]) -> bytes:
    document = {"formatVersion": FORMAT_VERSION, "quarantined": [each.to_json() for each in found]}
    return f"{json.dumps(document, ensure_ascii=False, indent=1)}\n".encode()


def _decoded(content: bytes | None, item: Item) -> list[Quarantined]:
    if content is None:
        return []
    try:
        document = json.loads(content)
        found = [
            Quarantined(
                str(each["kind"]),
                str(each["digest"]),
                str(each["revision"]),
                datetime.fromisoformat(each["since"]).astimezone(UTC),
                each["by"],
                each["reason"],
            )
            for each in document["quarantined"]
        ]
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

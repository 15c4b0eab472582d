"""Locks: who writes a store now, or wants nobody to. A lock is a note beside each item that it covers.

It is a lease. One that a running command holds is renewed while it runs, and so ends soon after that was killed; one
that a person holds ends when it says. Clocks of machines differ, so a renewed lock counts as dead only when whoever
wants it has seen for himself that nobody renews it. Every write compares and sets, whoever holds what: a lock keeps
people out of each other's way and is not what keeps a store whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sentinel_core.clock import SECOND, Clock
from sentinel_core.datasources.contract import (
    HasNotes,
    Item,
    Readable,
    SourceConflict,
    SourceMisconfigured,
)
from sentinel_core.publishing.notes import change_note

NOTE = "lock"
LONGEST_REASON = 1000
"""Characters: a note stands beside rules and is read before each write."""
_LONG_BYTES = 2**19
_NAMED = re.compile(r"(?P<name>[^<>]*?) *<(?P<address>[^<>\s]+@[^<>\s]+)>")
_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_YEARS = range(1900, 9000)
"""Of times that stand in a note: each can be told in every zone."""
FORMAT_VERSION = 1
LEASE_S = 30.0
RENEW_S = 10.0
_LOOK_S = 1.0
_MOST_BROKEN = 20
"""Broken locks that are remembered an item."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Of one holder; the same over all the items that it covers."""

    id: str
    holder: str | None
    command: str
    """What holds it: `publish`, `apply`, `rollback`, `sync`, or `hold` for a person."""
    reason: str | None
    since: datetime
    until: datetime
    """By the holder's clock."""
    renewed: bool
    """Whether somebody moves `until` on, every `RENEW_S` seconds."""

    def to_json(self) -> dict[str, Any]:
        """Every field, times as RFC 3339."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Broken:
    """A lock that somebody broke, or that was dead and somebody took over."""

    lock: Lock
    by: str | None
    reason: str
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """Every field, times as RFC 3339."""
        return {"lock": self.lock.to_json(), "by": self.by, "reason": self.reason, "at": self.at.isoformat()}


@dataclass(frozen=True, slots=True)
class Standing:
    """What the note beside an item says."""

    lock: Lock | None = None
    broken: tuple[Broken, ...] = field(default=())
    """Oldest first."""


class LockHeld(SourceConflict):
    """Somebody else holds it."""

    def __init__(self, lock: Lock, uri: str) -> None:
        self.lock = lock
        super().__init__(f"{uri} is locked by {self.who} until {_said(lock.until)}; the lock is {lock.id}")

    @property
    def who(self) -> str:
        """`chen (hold: incident 42) since …`: the same for as long as it is held."""
        why = f": {self.lock.reason}" if self.lock.reason else ""
        return f"{self.lock.holder or 'somebody'} ({self.lock.command}{why}) since {_said(self.lock.since)}"


class LockLost(SourceConflict):
    """What was held is held no more."""

    def __init__(self, lock: Lock, uri: str) -> None:
        super().__init__(
            f"{uri}: the lock {lock.id} was broken or has run out; nothing more was written. Look at what stands, then "
            "run it again"
        )


def standing(source: Readable, item: Item) -> Standing:
    """Raises DatasourceError; SourceMisconfigured for a note that cannot be read."""
    return decoded(source.note(item, NOTE), item) if isinstance(source, HasNotes) else Standing()


def take(
    source: HasNotes,
    item: Item,
    lock: Lock,
    clock: Clock,
    uri: str,
    told: Callable[[str], None] = lambda _: None,
) -> bytes:
    """Writes the lock beside an item; the note as it stands then. A dead one is waited out, which may take half a
    minute: `told` hears of it. Raises LockHeld, DatasourceError."""

    def taken(stands: bytes | None) -> bytes:
        before = decoded(stands, item)
        broken = before.broken
        if before.lock is not None and before.lock.id != lock.id:
            wait_out(source, item, before.lock, clock, uri, told)
            over = Broken(before.lock, lock.holder, "it was dead", clock.wall())
            broken = (*broken, over)[-_MOST_BROKEN:] if before.lock.renewed else broken
        return encoded(Standing(lock, broken))

    why = f"Lock by {lock.holder or 'somebody'} ({lock.command}{f': {lock.reason}' if lock.reason else ''})"
    return change_note(source, item, NOTE, taken, " ".join(why.split()))


def wait_out(
    source: HasNotes, item: Item, lock: Lock, clock: Clock, uri: str, told: Callable[[str], None] = lambda _: None
) -> None:
    """Returns when the lock is dead. Raises LockHeld where it is not, or where nobody can tell."""
    left_s = (lock.until - clock.wall()).total_seconds()
    if not lock.renewed:
        if left_s > 0:
            raise LockHeld(lock, uri)
        return
    if 0 < left_s <= LEASE_S:
        raise LockHeld(lock, uri)
    # It has run out, or its holder's clock is far ahead: then its own words tell nothing, and only watching does.
    watch_s = 1.5 * RENEW_S if left_s <= 0 else LEASE_S + RENEW_S
    told(f"{uri}: the lock {lock.id} of {lock.holder or 'somebody'} looks dead; waiting {watch_s:g} s for a sign of it")
    end = clock.monotonic_ns() + int(watch_s * SECOND)
    while clock.monotonic_ns() < end:
        clock.sleep(int(_LOOK_S * SECOND))
        now = decoded(source.note(item, NOTE), item).lock
        if now is not None and now != lock:
            raise LockHeld(now, uri)
        if now is None:
            return


def renew(source: HasNotes, item: Item, note: bytes, until: datetime) -> bytes:
    """Moves the end on; the note as it stands then. Raises SourceConflict where it is another's, DatasourceError."""
    before = decoded(note, item)
    if before.lock is None:
        return note
    after = encoded(replace(before, lock=replace(before.lock, until=until)))
    source.write_note(item, NOTE, after, expected=note, why="Renew a lock")
    return after


def release(source: Readable, items: Iterable[Item], id_: str) -> list[Lock]:
    """Gives up a lock; what was given up, an item each. Raises DatasourceError."""
    return _end(source, items, id_, "Release a lock", None)


def break_lock(
    source: Readable, items: Iterable[Item], id_: str, *, by: str | None, reason: str, at: datetime
) -> list[Lock]:
    """Ends somebody's lock and keeps who did it and why; what was broken, an item each. Raises DatasourceError."""

    def told(lock: Lock) -> Broken:
        return Broken(lock, by, reason, at)

    return _end(source, items, id_, f"Break the lock {id_}: {reason}", told)


def _end(
    source: Readable, items: Iterable[Item], id_: str, why: str, told: Callable[[Lock], Broken] | None
) -> list[Lock]:
    if not isinstance(source, HasNotes):
        return []
    ended = [_end_one(source, item, id_, why, told) for item in items]
    return [lock for lock in ended if lock is not None]


def _end_one(source: HasNotes, item: Item, id_: str, why: str, told: Callable[[Lock], Broken] | None) -> Lock | None:
    ended: Lock | None = None

    def without(stands: bytes | None) -> bytes | None:
        nonlocal ended
        before = decoded(stands, item)
        ended = before.lock if before.lock is not None and before.lock.id == id_ else None
        if ended is None:
            return None
        kept = (*before.broken, told(ended))[-_MOST_BROKEN:] if told else before.broken
        return encoded(Standing(None, kept))

    change_note(source, item, NOTE, without, why)
    return ended


def found(source: Readable, items: Sequence[Item]) -> list[tuple[Lock, list[Item]]]:
    """The locks of a store, each with the items it covers; dead ones too. Raises DatasourceError."""
    locks: dict[str, tuple[Lock, list[Item]]] = {}
    for item in items:
        lock = standing(source, item).lock
        if lock is not None:
            locks.setdefault(lock.id, (lock, []))[1].append(item)
    return list(locks.values())


def is_same_person(holder: str | None, names: Iterable[str | None]) -> bool:
    """Whether one of these names is the holder's. `chen (GitLab job 42)` is chen, in the next job too, and is
    `Chen Li <chen@example.org>`: a login is the beginning of an address. Two addresses are two persons."""
    return any(_is_same(_person(holder or ""), _person(name or "")) for name in names)


def _is_same(one: tuple[str, str], other: tuple[str, str]) -> bool:
    (name, address), (other_name, other_address) = one, other
    if address and other_address:
        return address == other_address
    logins = {name, _login(address)} & {other_name, _login(other_address)}
    return bool(logins - {""}) or one == other


def _person(text: str) -> tuple[str, str]:
    """Name and address, without the run of a pipeline; empty where there is none."""
    found = _NAMED.match(text)
    return (found["name"], found["address"].casefold()) if found else (text.partition(" (")[0], "")


def _login(address: str) -> str:
    """`chen` of chen@example.org, and of 42+chen@users.noreply.github.com."""
    local, _, host = address.partition("@")
    return local.rpartition("+")[2] if host == "users.noreply.github.com" else local.partition("+")[0]


def lease(now: datetime) -> datetime:
    """The end of a lock that is renewed now."""
    return now + timedelta(seconds=LEASE_S)


def encoded(standing: Standing) -> bytes:
    """The note."""
    document = {
        "formatVersion": FORMAT_VERSION,
        "lock": standing.lock.to_json() if standing.lock else None,
        "broken": [each.to_json() for each in standing.broken],
    }
    return f"{json.dumps(document, ensure_ascii=False, indent=1)}\n".encode(errors="backslashreplace")


def decoded(content: bytes | None, item: Item) -> Standing:
    """Raises SourceMisconfigured for what is no such note: nobody knows then whether somebody writes."""
    if content is None:
        return Standing()
    try:
        document = json.loads(content)
        version, lock = document["formatVersion"], document["lock"]
        found = Standing(
            _lock(lock) if lock is not None else None,
            tuple(
                Broken(_lock(each["lock"]), _text(each["by"]), str(each["reason"]), _time(each["at"]))
                for each in document["broken"]
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise _unreadable(item, content) from error
    if version != FORMAT_VERSION:
        raise _unreadable(item, content)
    return found


def _unreadable(item: Item, content: bytes) -> SourceMisconfigured:
    size = len(content)
    how = "" if size < _LONG_BYTES else f": it is {size / 2**20:.1f} MiB or more, and what is too long is cut"
    return SourceMisconfigured(
        f"{item.source}: its note {NOTE} cannot be read{how}, so nobody knows who writes there; mend it, or remove it "
        "to let everybody write"
    )


def _lock(document: Any) -> Lock:
    texts = {name: _text(document[name]) for name in ("holder", "reason")}
    if not _ID.fullmatch(document["id"]):  # it is shown within commands that people paste into a shell
        raise ValueError("the id is none of ours")
    return Lock(
        id=document["id"],
        command=str(document["command"]),
        since=_time(document["since"]),
        until=_time(document["until"]),
        renewed=document["renewed"] is True,
        **texts,
    )


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("a text is none")
    return value


def _time(text: Any) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or moment.year not in _YEARS:
        raise ValueError("nobody knows when that is")
    return moment.astimezone(UTC)


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _said(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"

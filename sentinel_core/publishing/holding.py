"""Holding a lock while a command writes: taken before, renewed meanwhile, given up after."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from sentinel_core.clock import SECOND, Clock
from sentinel_core.datasources.contract import (
    DatasourceError,
    HasNotes,
    Item,
    NotesInHistory,
    Readable,
    SourceConflict,
    SourceDenied,
)
from sentinel_core.publishing.locks import (
    LEASE_S,
    LONGEST_REASON,
    RENEW_S,
    Lock,
    LockHeld,
    LockLost,
    is_same_person,
    lease,
    release,
    renew,
    standing,
    take,
    wait_out,
)


class Holding:
    """What is held. `check` may be called from any thread; the rest belongs to `held`."""

    def __init__(self, source: Readable, uri: str, lock: Lock, clock: Clock) -> None:
        self._source, self._uri, self._lock, self._clock = source, uri, lock, clock
        self._notes: list[tuple[Item, bytes]] = []
        self._confirmed_ns = clock.monotonic_ns()
        self._lost = False
        self._over = threading.Event()

    def check(self, item: Item) -> None:
        """Before each write. Raises LockLost where somebody broke it, or where it could not be renewed in time;
        DatasourceError."""
        if not self._notes:
            return
        late = self._clock.monotonic_ns() - self._confirmed_ns > LEASE_S * SECOND
        stands = standing(self._source, item).lock
        if self._lost or late or stands is None or stands.id != self._lock.id:
            raise LockLost(self._lock, self._uri)

    def take(self, items: Sequence[Item], told: Callable[[str], None]) -> None:
        """All of them or none. Raises LockHeld, DatasourceError."""
        try:
            for item in items:
                if isinstance(self._source, HasNotes):
                    self._notes.append((item, take(self._source, item, self._lock, self._clock, self._uri, told)))
        except BaseException:
            self._give_up(items)  # also the one of which it is not known whether it was written
            raise
        self._confirmed_ns = self._clock.monotonic_ns()

    def renew(self) -> None:
        """Once; what cannot be reached is tried again the next time."""
        began = self._clock.monotonic_ns()
        try:
            for place, (item, note) in enumerate(self._notes):
                if isinstance(self._source, HasNotes):
                    self._notes[place] = (item, renew(self._source, item, note, lease(self._clock.wall())))
        except SourceConflict:
            self._lost = True
        except DatasourceError:
            return
        else:
            self._confirmed_ns = began

    def renew_until_over(self) -> None:
        """The life of a thread."""
        while not self._over.wait(RENEW_S) and not self._lost:
            self.renew()

    def give_up(self) -> None:
        """What cannot be given up runs out by itself."""
        self._over.set()
        self._give_up([item for item, _ in self._notes])

    def _give_up(self, items: Sequence[Item]) -> None:
        self._notes = []
        for item in items:
            with suppress(DatasourceError):
                release(self._source, [item], self._lock.id)


@contextmanager
def held(
    source: Readable,
    uri: str,
    items: Sequence[Item],
    *,
    holder: str | None,
    command: str,
    reason: str | None,
    under: str | None = None,
    names: Sequence[str] = (),
    clock: Clock | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Iterator[Holding]:
    """The items are the caller's own within the block. `under`: the lock under which the caller writes, which he holds
    as a person, by whichever of his `names`: neither that of another nor that of a running command. A store whose notes
    stay in its history takes no lock of its own: that of others counts. A caller who may not write notes goes on
    without a lock, and `told` hears of it.

    Raises LockHeld, DatasourceError.
    """
    clock = clock or Clock()
    now = clock.wall()
    reason = reason and reason[:LONGEST_REASON]
    lock = Lock(secrets.token_hex(4), holder, command, reason, now, lease(now), renewed=True)
    holding = Holding(source, uri, lock, clock)
    if under is not None or isinstance(source, NotesInHistory) or not isinstance(source, HasNotes):
        check_free(source, uri, items, holder, under, clock, told, names)
        yield holding
        return
    try:
        holding.take(items, told)
    except SourceDenied as denied:
        check_free(source, uri, items, holder, under, clock, told, names)
        told(f"no lock was taken, because it may not be written ({denied}); each write still compares and sets")
        yield holding
        return
    thread = threading.Thread(target=holding.renew_until_over, name="sentinel-lock", daemon=True)
    thread.start()
    try:
        yield holding
    finally:
        holding.give_up()
        thread.join()


def check_free(
    source: Readable,
    uri: str,
    items: Sequence[Item],
    holder: str | None,
    under: str | None,
    clock: Clock,
    told: Callable[[str], None] = lambda _: None,
    names: Sequence[str] = (),
) -> None:
    """Raises LockHeld for a lock that is not `under` or is not the holder's own, LockLost where `under` is held on none
    of the items."""
    now = clock.wall()
    is_under = False
    for item in items:
        lock = standing(source, item).lock
        if lock is not None and lock.id == under:
            if lock.until <= now:
                continue
            if lock.renewed or not is_same_person(lock.holder, (holder, *names)):
                raise LockHeld(lock, uri)
            is_under = True
        elif lock is not None and isinstance(source, HasNotes):
            wait_out(source, item, lock, clock, uri, told)
    if under is not None and not is_under:
        raise LockLost(Lock(under, None, "hold", None, now, now, renewed=False), uri)


__all__ = ["Holding", "LockHeld", "held"]

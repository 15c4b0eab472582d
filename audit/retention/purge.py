"""The steps of a purge, each of which may be the last that a crash lets happen:

1. what an earlier purge left half removed is removed, if its segment is there and whole
2. the events go into a segment, and each link is looked at; the file is durable under its name
3. the record of the purge goes beside the segment, and into the store as an event
4. the events are removed, in short transactions

Before step 3 nothing has happened but a file that nobody names. After it the events are purged, whether they are
removed yet or not: `verify` expects none of them and the next purge removes what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sentinel_core.audit.chain import START, Head, Linked
from sentinel_core.audit.errors import PurgeFailed
from sentinel_core.audit.event import Event
from sentinel_core.audit.files import written_whole
from sentinel_core.audit.lease import Lease
from sentinel_core.audit.retention.contract import Ends, Holder, PurgingStore
from sentinel_core.audit.retention.record import PurgeRecord, Segment, purged, read_record
from sentinel_core.audit.retention.segment import digest_of, flush_folder, write_segment
from sentinel_core.audit.signing import SigningKey


@dataclass(frozen=True, slots=True)
class Plan:
    """What a purge would take away."""

    before: datetime
    ends: Ends
    """The last event of each source that is concerned."""
    counts: Mapping[str, int]
    """How many events of each."""
    holders: Sequence[Holder]
    """What keeps old events from leaving."""
    last: Event | None
    """The record of the last purge."""
    record: PurgeRecord | None
    """What it says."""

    @property
    def events(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge did."""

    segment: Segment | None
    """None where no event was old enough."""
    record: Event | None
    removed: int
    """What an earlier purge had left is counted, too."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Who purges, and with which key it is signed."""

    environment: str
    at: datetime
    by: str | None = None
    reason: str | None = None
    key: SigningKey | None = field(default=None, repr=False)


def plan(store: PurgingStore, before: datetime, *, future: datetime | None = None) -> Plan:
    """Reads only. Events of `future` or later hold nothing back, where that is given.

    Raises StoreUnavailable; EventInvalid where the record of the last purge is none.
    """
    last = store.last_purge()
    record = None if last is None else read_record(last)
    gone = {head.source: head.number for head in record.chains} if record else {}
    found = store.expired(before, future=future)
    ends = {source: end for source, end in found.ends.items() if end > gone.get(source, 0)}
    counts = {source: end - gone.get(source, 0) for source, end in ends.items()}
    return Plan(before, ends, counts, found.holders, last, record)


def purge(
    store: PurgingStore, before: datetime, folder: Path, statement: Statement, *, future: datetime | None = None
) -> Purged:
    """Moves the events of before that time into a segment in `folder`; `future` as for `plan`.

    Raises PurgeFailed, StoreUnavailable, EventInvalid.
    """
    lease = Lease(folder / ".purge.lock")
    try:
        if not lease.acquire():
            raise PurgeFailed(
                f"another purge writes to {folder} now", next_step="wait until it has ended, then run it again"
            )
        return _purge(store, plan(store, before, future=future), folder, statement)
    except OSError as error:
        raise PurgeFailed(
            f"{folder}: {error.strerror or error}", next_step="give --to a folder that this user may write"
        ) from error
    finally:
        lease.release()


def _purge(store: PurgingStore, planned: Plan, folder: Path, statement: Statement) -> Purged:
    for left in folder.glob(".audit-*.part"):  # by one that was killed: the lease is ours
        left.unlink()
    removed = _finish(store, planned.record, folder)
    if not planned.ends:
        return Purged(None, None, removed)
    begins = {head.source: head for head in planned.record.chains} if planned.record else {}
    earlier = planned.record.segments if planned.record else ()
    segment = write_segment(folder, len(earlier) + 1, _sound(store.linked(planned.ends), begins, planned.ends))
    record = purged(
        environment=statement.environment,
        before=planned.before if planned.record is None else max(planned.before, planned.record.before),
        at=statement.at,
        by=statement.by,
        reason=statement.reason,
        segments=(*earlier, segment),
        chains=sorted(begins.values(), key=lambda head: head.source),
        key=statement.key,
    )
    with written_whole(folder / f"{segment.file.partition('.')[0]}.json", mode=0o600) as file:
        file.write(record.to_json() + b"\n")
    flush_folder(folder)
    store.record_purge(record, after=planned.last)
    return Purged(segment, record, removed + sum(store.remove(planned.ends)))


def _finish(store: PurgingStore, record: PurgeRecord | None, folder: Path) -> int:
    """Removes what an earlier purge recorded and did not remove; how many those were."""
    if record is None:
        return 0
    ends = {head.source: head.number for head in record.chains}
    if next(iter(store.linked(ends)), None) is None:
        return 0
    segment = record.segments[-1]
    path = folder / segment.file
    if not path.is_file() or digest_of(path) != segment.sha256:
        raise PurgeFailed(
            f"an earlier purge has not ended, and its segment {segment.file} is not in {folder} as it was sealed; "
            "nothing was removed",
            next_step="give --to the folder that it is in; where it runs on another machine, wait until it has ended",
        )
    return sum(store.remove(ends))


def _sound(events: Iterable[Linked], begins: dict[str, Head], ends: Ends) -> Iterator[Linked]:
    """Lets events pass that follow one another as they were written, up to `ends`; `begins` moves along with them."""
    for event in events:
        source = event.source
        before = begins.get(source) or Head(source, 0, START)
        if not event.is_whole() or event.number != before.number + 1 or event.previous != before.hash:
            raise _not_sound(source, event.number)
        begins[source] = Head(source, event.number, event.hash)
        yield event
    for source, end in ends.items():
        if source not in begins or begins[source].number != end:
            raise _not_sound(source, end)


def _not_sound(source: str, number: int) -> PurgeFailed:
    return PurgeFailed(
        f"event {number} of {source} is not as it was written, or others are missing before it, so nothing was purged",
        next_step="sentinelctl audit verify    (says what is wrong)",
    )

"""Events on their way into OpenSearch, where no write covers two documents and several may write at once.

The record of a chain (one document a source, moved by compare-and-set) is the one place of decision. A batch of a
source becomes part of its chain when it stands in that record, whole and with its links; only then its documents are
made, each by an id that can be made once, and then the record is settled. Whoever finds a record that is not settled
makes the documents that are missing before anything else. So at any moment a writer may die or sleep: what stands in
the record is finished by the next one, in the same order and with the same hashes, and what does not never was.
"""

from __future__ import annotations

import base64
import random
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.store._os_client import Begun, Client, encode, refused, to_bytes
from sentinel_core.audit.store._os_fold import Folding, Told
from sentinel_core.audit.store._os_known import Known, ids_known, ids_stored
from sentinel_core.audit.store._os_layout import Names, document, key
from sentinel_core.audit.store._os_read import Read
from sentinel_core.audit.store._os_records import Record, changed, read_records
from sentinel_core.audit.store._os_restore import restored
from sentinel_core.audit.store._write import may_fold

CHUNK, CHUNK_BYTES = 334, 4 * 2**20
"""Events and bytes of data that are claimed at once; a single event may be larger. In a batch of 1000 all but the first
are read and planned while the server is busy."""
_AT_ONCE, _LEAST_ACTIONS = 2, 100
"""Requests that make the documents of a chunk, as the server gives each a thread, unless they are so small."""
HELP_AFTER_S = 0.25
"""How long another writer is given to settle what it has claimed before its work is done for it."""
_POLL_S = 0.02
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_MADE, _THERE = 201, 409


@dataclass(slots=True)
class _Plan:
    """What a batch means for one source."""

    record: Record
    number: int
    hash: bytes
    lines: list[str] = field(default_factory=list)
    new: int = 0
    sightings: list[Told] = field(default_factory=list)
    known: dict[str, Known] = field(default_factory=dict)
    reads: list[tuple[str, Read]] = field(default_factory=list)

    def claim(self) -> dict[str, Any]:
        """What the record holds from the claim on."""
        packed = base64.b64encode(zlib.compress(to_bytes("\n".join(self.lines)), 1)).decode()
        return {"number": self.number, "hash": self.hash.hex(), "lines": packed}


class Writer:
    """One thread at a time."""

    def __init__(self, client: Client, names: Names) -> None:
        self._client = client
        self._names = names
        self._records: dict[str, Record] = {}
        """As this writer left them: where somebody else has moved one, compare-and-set tells."""

    def write(self, batch: Iterable[Read]) -> int:
        """How many were new. Takes from the batch what it claims next, while the server is busy with what came before.

        Raises StoreUnavailable; part of the batch may then be stored, and a repeat stores the rest."""
        try:
            return _Batch(self._client, self._names, self._records).write(batch)
        except BaseException:
            self._records.clear()
            raise


class _Batch:
    """While the documents of one chunk are made, the next one is planned; it is claimed when they are there."""

    def __init__(self, client: Client, names: Names, records: dict[str, Record]) -> None:
        self._client = client
        self._names = names
        self._records = records
        self._begun: list[tuple[Sequence[str], Begun]] = []
        self._unsettled: dict[str, Record] = {}
        self._seen: dict[str, Known] = {}

    def write(self, batch: Iterable[Read]) -> int:
        try:
            new = sum(self._take([(key_of(read), read) for read in chunk]) for chunk in _chunks(batch))
            self._wait()
            self._settle()
        finally:
            for _, begun in self._begun:
                begun.drop()
        return new

    def _take(self, chunk: Sequence[tuple[str, Read]]) -> int:
        until, pause, new = time.monotonic() + self._client.target.timeout_s, _PAUSE_S, 0
        waiting = chunk
        while True:
            plans = self._planned(waiting)
            claims = [(plan, self._moved(plan.record, plan.claim())) for plan in plans.values() if plan.new]
            self._wait()
            lost = self._claimed(claims)
            for source in plans.keys() - lost:
                self._seen |= plans[source].known
            won = [plan for source, plan in plans.items() if source not in lost]
            self._carry_out(won)
            new += sum(plan.new for plan in won)
            waiting = [each for source in lost for each in plans[source].reads]
            if not waiting:
                return new
            self._wait()
            if time.monotonic() > until:
                busy = waiting[0][1].columns.source
                raise StoreUnavailable(f"{self._client.target}: others write events of {busy} all the time")
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _carry_out(self, plans: Sequence[_Plan]) -> None:
        """Begins to make what was claimed. No document waits for another one: the record has all of them."""
        lines = [line for plan in plans for line in plan.lines]
        for told in (told for plan in plans for told in plan.sightings):
            lines += (_create(self._names.state, told.key), encode(told.to_json()))
        self._begun += [(part, self._client.begin(part)) for part in _parts(lines)]

    def _wait(self) -> None:
        """Until what was claimed is made: nothing may be claimed before."""
        while self._begun:
            lines, begun = self._begun.pop()
            if not self._client.made(begun):
                self._make(lines)

    # -- planning ------------------------------------------------------------------------------------------------------

    def _planned(self, reads: Sequence[tuple[str, Read]]) -> dict[str, _Plan]:
        """First the records, then what is known: what came between the two moves a record, and the claim fails."""
        records = self._read({read.columns.source for _, read in reads})
        plans = {source: _Plan(record, record.number, record.hash) for source, record in records.items()}
        known = ids_known(self._client, self._names, [own for own, _ in reads]) | self._seen
        rebuilt = [own for own, read in reads if own not in known and records[read.columns.source].rebuilt]
        known |= ids_stored(self._client, self._names, rebuilt)
        unknown = [read for own, read in reads if own not in known]
        if any(may_fold(read.columns) for read in unknown):
            self._wait()
        folding = Folding(self._client, self._names, unknown)
        for own, read in reads:
            plan, instance = plans[read.columns.source], read.columns.instance or ""
            plan.reads.append((own, read))
            told = known.get(own)
            if told is None and may_fold(read.columns) and (event := folding.found(read)) is not None:
                plan.lines += self._know(own, instance, event)
                plan.sightings.append(Told(event, instance, read.columns.time))
                told = Known(event, instance)
            if told is None:
                self._append(plan, read, own)
                folding.add(read, own)
                told = Known(own, instance)
            elif told.instance != instance:
                plan.sightings.append(Told(told.event, instance, read.columns.time))
            known[own] = told
            plan.known[own] = told
        return plans

    def _append(self, plan: _Plan, read: Read, own: str) -> None:
        text, made = document(*read, plan.hash, plan.number + 1)
        plan.number, plan.hash, plan.new = plan.number + 1, made, plan.new + 1
        plan.lines += [_create(self._names.month(read.columns.time), own), text]
        plan.lines += self._know(own, read.columns.instance or "")

    def _know(self, own: str, instance: str, event: str | None = None) -> list[str]:
        held = {"by": instance} if event is None else {"by": instance, "event": event}
        return [_create(self._names.state, own), encode(held)]

    # -- records -------------------------------------------------------------------------------------------------------

    def _read(self, sources: set[str]) -> dict[str, Record]:
        """Settled ones."""
        known = {source: self._records[source] for source in sources & self._records.keys()}
        found = read_records(self._client, self._names, sources - known.keys())
        self._wait_for_others(found)
        for record in found.values():
            if record.pending is not None:
                self._finish(record)
        if absent := [source for source, record in found.items() if record.place is None]:
            found |= restored(self._client, self._names, absent)
        return known | found

    def _wait_for_others(self, found: dict[str, Record]) -> None:
        until = time.monotonic() + HELP_AFTER_S
        while (busy := {name for name, each in found.items() if each.pending}) and time.monotonic() < until:
            time.sleep(_POLL_S)
            found |= read_records(self._client, self._names, busy)

    def _finish(self, record: Record) -> None:
        """What another writer claimed and left."""
        try:
            pending = record.pending or {}
            lines, number, made = _unpacked(pending["lines"]), int(pending["number"]), bytes.fromhex(pending["hash"])
        except (KeyError, ValueError, TypeError, AttributeError, zlib.error) as error:
            raise changed(self._client, record.source) from error
        ours = re.compile(rf'\{{"create":\{{"_index":"{re.escape(self._names.prefix)}-[a-z0-9.-]+","_id":"[\w-]+"}}}}')
        if not all(map(ours.fullmatch, lines[::2])):  # whoever writes the record must not write elsewhere through us
            raise changed(self._client, record.source)
        self._make(lines)
        record.number, record.hash, record.pending = number, made, None
        (result,) = self._client.bulk(self._moved(record))
        if result["status"] in (200, _MADE):
            record.place = (result["_seq_no"], result["_primary_term"])
        elif result["status"] != _THERE:
            raise refused(self._client.target, result["status"], result.get("error"))
        # Where somebody was faster, the place is out of date, and the claim will fail.

    def _claimed(self, claims: Sequence[tuple[_Plan, list[str]]]) -> set[str]:
        """Those sources that somebody else has moved."""
        results = self._client.bulk([line for _, lines in claims for line in lines])
        lost: set[str] = set()
        for (plan, _), result in zip(claims, results, strict=True):
            record = plan.record
            if result["status"] in (200, _MADE):
                record.place = (result["_seq_no"], result["_primary_term"])
                record.number, record.hash = plan.number, plan.hash
                self._records[record.source] = self._unsettled[record.source] = record
            elif result["status"] == _THERE:
                lost.add(record.source)
                self._records.pop(record.source, None)
                self._unsettled.pop(record.source, None)
            else:
                raise refused(self._client.target, result["status"], result.get("error"))
        return lost

    def _settle(self) -> None:
        records = [*self._unsettled.values()]
        lines = [line for record in records for line in self._moved(record)]
        for record, result in zip(records, self._client.bulk(lines), strict=True):
            if result["status"] in (200, _MADE):
                record.place = (result["_seq_no"], result["_primary_term"])
            else:  # somebody has settled it already, or will
                self._records.pop(record.source, None)

    def _moved(self, record: Record, pending: dict[str, Any] | None = None) -> list[str]:
        name = key("chain", record.source)
        where: dict[str, Any] = {"_index": self._names.state, "_id": name}
        if record.place is not None:
            where |= {"if_seq_no": record.place[0], "if_primary_term": record.place[1]}
        held: dict[str, Any] = {
            "chain": record.source,
            "number": record.number,
            "hash": record.hash.hex(),
            "pending": pending,
        }
        if record.rebuilt:
            held["rebuilt"] = True
        return [encode({"create" if record.place is None else "index": where}), encode(held)]

    # -- making --------------------------------------------------------------------------------------------------------

    def _make(self, lines: Sequence[str]) -> None:
        """Documents that are there stay as they are: nobody makes another one by the same id."""
        self._client.carry_out(lines, (_MADE, _THERE))


def key_of(read: Read) -> str:
    return key("event", read.columns.id, read.columns.source)


def _create(index: str, name: str) -> str:
    return f'{{"create":{{"_index":"{index}","_id":"{name}"}}}}'


def _parts(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Actions, of two lines each, as requests that are sent side by side."""
    size = 2 * max(_LEAST_ACTIONS, -(-len(lines) // (2 * _AT_ONCE)))
    return (lines[start : start + size] for start in range(0, len(lines), size))


def _unpacked(lines: str) -> list[str]:
    return zlib.decompress(base64.b64decode(lines)).decode().split("\n")


def _chunks(batch: Iterable[Read]) -> Iterator[Sequence[Read]]:
    chunk: list[Read] = []
    size = 0
    for read in batch:
        if chunk and (len(chunk) == CHUNK or size + len(read.data) > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(read)
        size += len(read.data)
    if chunk:
        yield chunk

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
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sentinel_core.audit.chain import START
from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.store._os_client import BUSY, Client, encode, refused, to_bytes
from sentinel_core.audit.store._os_fold import Folding, Told
from sentinel_core.audit.store._os_layout import FIELDS, HASH, NUMBER, Names, check, document, key
from sentinel_core.audit.store._write import Read
from sentinel_core.audit.store.contract import Ingested

CHUNK, CHUNK_BYTES = 1000, 4 * 2**20
"""Events and bytes of data that are claimed at once; a single event may be larger."""
HELP_AFTER_S = 0.25
"""How long another writer is given to settle what it has claimed before its work is done for it."""
_POLL_S = 0.02
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_MADE, _THERE = 201, 409


@dataclass(slots=True)
class Record:
    """Of a chain, as it was read: settled up to `number`."""

    source: str
    number: int = 0
    hash: bytes = START
    place: tuple[int, int] | None = None
    """Sequence number and primary term of the document; None where there is none."""
    pending: dict[str, Any] | None = None
    """What was claimed and is not settled: `number` and `hash` of its end, and `lines` for the server, packed."""


@dataclass(slots=True)
class _Plan:
    """What a batch means for one source."""

    record: Record
    number: int
    hash: bytes
    lines: list[str] = field(default_factory=list)
    new: int = 0
    sightings: list[Told] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)


class Writer:
    """One thread at a time."""

    def __init__(self, client: Client, names: Names) -> None:
        self._client = client
        self._names = names
        self._records: dict[str, Record] = {}
        """Settled ones as this writer left them: where somebody else has moved one, compare-and-set tells."""

    def write(self, batch: Sequence[Read]) -> Ingested:
        """Raises StoreUnavailable; part of the batch may then be stored, and a repeat stores the rest."""
        for read in batch:
            check(*read)
        try:
            new = sum(self._take(chunk) for chunk in _chunks(batch))
        except BaseException:
            self._records.clear()
            raise
        return Ingested(new, len(batch) - new)

    def _take(self, chunk: Sequence[Read]) -> int:
        until, pause, new = time.monotonic() + self._client.target.timeout_s, _PAUSE_S, 0
        waiting = chunk
        while True:
            plans = self._planned(waiting)
            lost = self._claimed(plans)
            won = [plan for source, plan in plans.items() if source not in lost]
            self._make([line for plan in won for line in plan.lines])
            self._settle([plan for plan in won if plan.new])
            self._see([told for plan in won for told in plan.sightings])
            new += sum(plan.new for plan in won)
            waiting = [read for source in lost for read in plans[source].reads]
            if not waiting:
                return new
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"{self._client.target}: others write events of {waiting[0].head.source} all the time"
                )
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    # -- planning ------------------------------------------------------------------------------------------------------

    def _planned(self, reads: Sequence[Read]) -> dict[str, _Plan]:
        """First the records, then what is known: what came between the two moves a record, and the claim fails."""
        records = self._read({read.head.source for read in reads})
        plans = {source: _Plan(record, record.number, record.hash) for source, record in records.items()}
        known = self._known(reads)
        folding = Folding(self._client, self._names, [read for read in reads if key_of(read) not in known])
        for read in reads:
            plan, own = plans[read.head.source], key_of(read)
            plan.reads.append(read)
            event, teller = known.get(own, (None, None))
            if event is None and read.head.observed:
                event = folding.found(read)
                if event is not None:
                    plan.lines += [_create(self._names.state, own), encode({"event": event})]
            if event is None:
                event = own
                self._append(plan, read, own)
                folding.add(read, own)
                teller = read.head.instance
            elif event != own or teller != read.head.instance:
                plan.sightings.append(Told(event, read.head.instance or "", read.head.time))
            known[own] = event, teller
        return plans

    def _append(self, plan: _Plan, read: Read, own: str) -> None:
        text, made = document(*read, plan.hash, plan.number + 1)
        plan.number, plan.hash, plan.new = plan.number + 1, made, plan.new + 1
        plan.lines += [_create(self._names.month(read.head.time), own), text]
        plan.lines += [_create(self._names.state, own), "{}"]

    def _known(self, reads: Sequence[Read]) -> dict[str, tuple[str, str | None]]:
        """The event that each id tells of and, where it is of the same month, the instance that told it first. The
        document of the event counts by itself: somebody may have removed the list of the known."""
        asked: list[dict[str, Any]] = []
        for read in reads:
            own = key_of(read)
            asked.append({"_index": self._names.state, "_id": own})
            asked.append({"_index": self._names.month(read.head.time), "_id": own, "_source": FIELDS["instance"]})
        path = "/_mget?filter_path=docs._id,docs.found,docs._source"
        _, told = self._client.call("POST", path, {"docs": asked})
        known: dict[str, tuple[str, str | None]] = {}
        for each in told["docs"]:
            if each.get("found"):
                held = each.get("_source", {})
                event, teller = known.get(each["_id"], (each["_id"], None))
                known[each["_id"]] = held.get("event", event), held.get(FIELDS["instance"], teller)
        return known

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
            found |= last_written(self._client, self._names, absent)
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
            raise _changed(self._client, record.source) from error
        self._make(lines)
        record.number, record.hash, record.pending = number, made, None
        (result,) = self._client.bulk(self._moved(record))
        if result["status"] in (200, _MADE):
            record.place = (result["_seq_no"], result["_primary_term"])
        elif result["status"] != _THERE:
            raise refused(self._client.target, result["status"], result.get("error"))
        # Where somebody was faster, the place is out of date, and the claim will fail.

    def _claimed(self, plans: dict[str, _Plan]) -> set[str]:
        """Those sources that somebody else has moved."""
        claims = [plan for plan in plans.values() if plan.new]
        lines: list[str] = []
        for plan in claims:
            packed = base64.b64encode(zlib.compress(to_bytes("\n".join(plan.lines)), 1)).decode()
            end = {"number": plan.number, "hash": plan.hash.hex(), "lines": packed}
            lines += self._moved(plan.record, end)
        lost: set[str] = set()
        for plan, result in zip(claims, self._client.bulk(lines), strict=True):
            if result["status"] in (200, _MADE):
                plan.record.place = (result["_seq_no"], result["_primary_term"])
            elif result["status"] == _THERE:
                lost.add(plan.record.source)
                self._records.pop(plan.record.source, None)
            else:
                raise refused(self._client.target, result["status"], result.get("error"))
        return lost

    def _settle(self, plans: Sequence[_Plan]) -> None:
        records = [plan.record for plan in plans]
        for plan in plans:
            plan.record.number, plan.record.hash = plan.number, plan.hash
        lines = [line for record in records for line in self._moved(record)]
        for record, result in zip(records, self._client.bulk(lines), strict=True):
            self._records.pop(record.source, None)
            if result["status"] in (200, _MADE):
                record.place = (result["_seq_no"], result["_primary_term"])
                self._records[record.source] = record
            # Else somebody has settled it already, or will.

    def _moved(self, record: Record, pending: dict[str, Any] | None = None) -> list[str]:
        name = key("chain", record.source)
        where: dict[str, Any] = {"_index": self._names.state, "_id": name}
        if record.place is not None:
            where |= {"if_seq_no": record.place[0], "if_primary_term": record.place[1]}
        held = {"chain": record.source, "number": record.number, "hash": record.hash.hex(), "pending": pending}
        return [encode({"create" if record.place is None else "index": where}), encode(held)]

    # -- making --------------------------------------------------------------------------------------------------------

    def _make(self, lines: Sequence[str]) -> None:
        """Documents that are there stay as they are: nobody makes another one by the same id."""
        until, pause = time.monotonic() + self._client.target.timeout_s, _PAUSE_S
        while lines:
            results = self._client.bulk(lines)
            bad = [place for place, each in enumerate(results) if each["status"] not in (_MADE, _THERE)]
            if not bad:
                return
            trouble = next((results[place] for place in bad if results[place]["status"] not in BUSY), results[bad[0]])
            if trouble["status"] not in BUSY or time.monotonic() + pause > until:
                raise refused(self._client.target, trouble["status"], trouble.get("error"))
            lines = [line for place in bad for line in lines[2 * place : 2 * place + 2]]
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _see(self, sightings: Sequence[Told]) -> None:
        self._make(
            [line for told in sightings for line in (_create(self._names.state, told.key), encode(told.to_json()))]
        )


def key_of(read: Read) -> str:
    return key("event", read.head.id, read.head.source)


def _create(index: str, name: str) -> str:
    return f'{{"create":{{"_index":"{index}","_id":"{name}"}}}}'


def _unpacked(lines: str) -> list[str]:
    return zlib.decompress(base64.b64decode(lines)).decode().split("\n")


def _chunks(batch: Sequence[Read]) -> Iterator[Sequence[Read]]:
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


def read_records(client: Client, names: Names, sources: Iterable[str]) -> dict[str, Record]:
    """As they are this moment; one without a place for a source that has none."""
    wanted = sorted(sources)
    if not wanted:
        return {}
    asked = {"docs": [{"_index": names.state, "_id": key("chain", source)} for source in wanted]}
    path = "/_mget?filter_path=docs._id,docs.found,docs._source,docs._seq_no,docs._primary_term"
    _, told = client.call("POST", path, asked)
    return {source: record_of(client, source, each) for source, each in zip(wanted, told["docs"], strict=True)}


def record_of(client: Client, source: str, told: dict[str, Any]) -> Record:
    """From an answer that holds the document with its place."""
    if not told.get("_source"):
        return Record(source)
    held = told["_source"]
    try:
        number, made, pending = int(held["number"]), bytes.fromhex(held["hash"]), held.get("pending")
    except (KeyError, ValueError, TypeError) as error:
        raise _changed(client, source) from error
    return Record(source, number, made, (told["_seq_no"], told["_primary_term"]), pending)


def _changed(client: Client, source: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{client.target}: somebody changed the record of the chain of {source}; restore the document in "
        f"{client.target.index}-state, or remove it and it is made anew from the events"
    )


def last_written(client: Client, names: Names, sources: Sequence[str]) -> dict[str, Record]:
    """Where chains ended whose records somebody removed: they go on from there, and `verify` tells."""
    client.call("POST", f"/{names.events}/_refresh?ignore_unavailable=true", allowed=(404,))
    newest = {"top_hits": {"size": 1, "sort": [{NUMBER: "desc"}], "_source": [NUMBER, HASH]}}
    by_source = {"terms": {"field": FIELDS["source"], "size": len(sources)}, "aggs": {"newest": newest}}
    asked = {"size": 0, "query": {"terms": {FIELDS["source"]: list(sources)}}, "aggs": {"sources": by_source}}
    _, told = client.call("POST", f"/{names.events}/_search", asked)
    found: dict[str, Record] = {}
    for bucket in told.get("aggregations", {}).get("sources", {}).get("buckets", ()):
        held = bucket["newest"]["hits"]["hits"][0]["_source"]
        if isinstance(number := held.get(NUMBER), int):
            found[bucket["key"]] = Record(bucket["key"], number, bytes.fromhex(held[HASH]))
    return found

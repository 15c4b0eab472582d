"""Records of chains that are gone with their index, made anew from the events."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sentinel_core.audit.store._os_client import Client, encode
from sentinel_core.audit.store._os_layout import Names, key
from sentinel_core.audit.store._os_records import Record, last_written
from sentinel_core.audit.store._os_walk import CHAINS, by_source, records

_AT_ONCE = 500
_MADE, _THERE = 201, 409


def are_lost(client: Client, names: Names) -> bool:
    """Whether there is no record of any chain, as before the first event. It is looked for as it is this moment."""
    client.call("POST", f"/{names.state}/_refresh", allowed=(404,))
    status, told = client.call("POST", f"/{names.state}/_count", {"query": CHAINS}, allowed=(404,))
    return status == 404 or told["count"] == 0


def without_record(client: Client, names: Names, known: Collection[str]) -> Iterator[Record]:
    """Of the chains that have events and are none of those."""
    client.call("POST", f"/{names.events}/_refresh?ignore_unavailable=true", allowed=(404,))
    sources = [bucket["key"]["source"] for bucket in by_source(client, names, {})]
    lost = [source for source in sources if source not in known]
    for start in range(0, len(lost), _AT_ONCE):
        yield from last_written(client, names, lost[start : start + _AT_ONCE]).values()


def restored(client: Client, names: Names, sources: Sequence[str]) -> dict[str, Record]:
    """Of chains without a record, as far as they have events: they go on from there. Where one was lost, those of all
    other chains that have none are made, too, for nobody may write to them again."""
    found = last_written(client, names, sources)
    if found or are_lost(client, names):
        known = {record.source for record in records(client, names)} | set(sources)
        lines = [line for record in without_record(client, names, known) for line in _make(names, record)]
        client.carry_out(lines, (_MADE, _THERE))
    return found


def _make(names: Names, record: Record) -> tuple[str, str]:
    held = {
        "chain": record.source,
        "number": record.number,
        "hash": record.hash.hex(),
        "pending": None,
        "rebuilt": True,
    }
    return encode({"create": {"_index": names.state, "_id": key("chain", record.source)}}), encode(held)

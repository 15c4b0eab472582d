"""The record of a chain: one document a source that says how far it has come, moved by compare-and-set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel_core.audit.chain import START
from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.store._os_client import Client
from sentinel_core.audit.store._os_layout import FIELDS, HASH, NUMBER, Names, key


@dataclass(slots=True)
class Record:
    """Of a chain, as it was read: settled up to `number`."""

    source: str
    number: int = 0
    hash: bytes = START
    place: tuple[int, int] | None = None
    """Sequence number and primary term of the document; None where there is none."""
    rebuilt: bool = False
    """It was lost, and made anew from the events."""
    pending: dict[str, Any] | None = None
    """What was claimed and is not settled: `number` and `hash` of its end, and `lines` for the server, packed."""


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
        raise changed(client, source) from error
    place = (told["_seq_no"], told["_primary_term"])
    return Record(source, number, made, place, held.get("rebuilt") is True, pending)


def changed(client: Client, source: str) -> StoreUnavailable:
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
        try:
            number, made = int(held[NUMBER]), bytes.fromhex(held[HASH])
        except (KeyError, ValueError, TypeError):
            continue  # somebody else's
        found[bucket["key"]] = Record(bucket["key"], number, made, rebuilt=True)
    return found

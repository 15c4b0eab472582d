"""Which stored event another host's observation of the same change is: stores without revisions of their own give one
change several ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sentinel_core.audit.indexing import Columns
from sentinel_core.audit.instants import from_milliseconds, milliseconds, rfc3339
from sentinel_core.audit.store._os_client import Client, encode
from sentinel_core.audit.store._os_layout import FIELDS, Names, key
from sentinel_core.audit.store._os_read import Read
from sentinel_core.audit.store._write import FOLD_MS, may_fold

_MOST = 100
"""Observations of one change within two minutes."""


@dataclass(frozen=True, slots=True)
class Told:
    """An instance that told of the event with the key `event`."""

    event: str
    instance: str
    time: int
    """ms since the epoch."""

    @property
    def key(self) -> str:
        return key("sighting", self.event, self.instance)

    def to_json(self) -> dict[str, Any]:
        return {"sighted": self.event, "instance": self.instance, "time": rfc3339(from_milliseconds(self.time))}


@dataclass(frozen=True, slots=True)
class _Candidate:
    event: str
    time: int


class Folding:
    """For one batch: what is stored of the same changes, and what the batch itself adds."""

    def __init__(self, client: Client, names: Names, reads: Sequence[Read]) -> None:
        self._candidates: dict[tuple[object, ...], list[_Candidate]] = {}
        self._told: set[tuple[str, str]] = set()
        observed = [read for read in reads if may_fold(read.columns)]
        if observed:
            # What was written a moment ago must be found. The records were read before: nothing is missed.
            client.call("POST", f"/{names.events}/_refresh?ignore_unavailable=true", allowed=(404,))
            self._look(client, names, observed)

    def _look(self, client: Client, names: Names, reads: Sequence[Read]) -> None:
        where = encode({"index": names.events, "ignore_unavailable": True})
        lines = [line for read in reads for line in (where, encode(_question(read.columns)))]
        answers = client.lines("/_msearch?filter_path=responses.hits.hits,responses.error", lines)["responses"]
        tellings: set[str] = set()
        for read, answer in zip(reads, answers, strict=True):
            same = self._candidates.setdefault(_change(read.columns), [])
            for hit in answer.get("hits", {}).get("hits", ()):
                held = hit["_source"]
                if held.get(FIELDS["old_digest"]) != read.columns.old_digest:
                    continue
                candidate = _Candidate(hit["_id"], milliseconds(datetime.fromisoformat(held["@timestamp"])))
                if candidate not in same:
                    same.append(candidate)
                self._told.add((candidate.event, held.get(FIELDS["instance"]) or ""))
                tellings.add(Told(candidate.event, read.columns.instance or "", read.columns.time).key)
        if tellings:
            path = f"/{names.state}/_mget?filter_path=docs._id,docs.found,docs._source"
            _, told = client.call("POST", path, {"ids": sorted(tellings)}, allowed=(404,))
            found = [each["_source"] for each in told.get("docs", ()) if each.get("found")]
            self._told |= {(each["sighted"], each["instance"]) for each in found}

    def found(self, read: Read) -> str | None:
        """The key of the event that this observation is one of. An event that this instance already told of is never
        the same: it came back to it."""
        columns, time = read.columns, read.columns.time
        instance = columns.instance or ""
        near = [
            (abs(each.time - time), each.event)
            for each in self._candidates.get(_change(columns), ())
            if abs(each.time - time) <= FOLD_MS and (each.event, instance) not in self._told
        ]
        if not near:
            return None
        event = min(near, key=lambda each: each[0])[1]
        self._told.add((event, instance))
        return event

    def add(self, read: Read, event: str) -> None:
        """A new one, of which later ones of the batch may be observations."""
        columns = read.columns
        self._told.add((event, columns.instance or ""))
        if may_fold(columns):
            self._candidates.setdefault(_change(columns), []).append(_Candidate(event, columns.time))


def _change(told: Columns) -> tuple[object, ...]:
    return told.source, told.type, told.old_digest, told.new_digest


def _question(told: Columns) -> dict[str, Any]:
    exact = {"source": told.source, "type": told.type, "new_digest": told.new_digest}
    must: list[dict[str, Any]] = [{"term": {FIELDS["observed"]: True}}]
    must += [{"term": {FIELDS[name]: value}} for name, value in exact.items() if value is not None]
    absent = [{"exists": {"field": FIELDS[name]}} for name, value in exact.items() if value is None]
    first, last = (rfc3339(from_milliseconds(told.time + span)) for span in (-FOLD_MS, FOLD_MS))
    window = {"gte": first, "lte": last}
    return {
        "size": _MOST,
        "_source": ["@timestamp", FIELDS["instance"], FIELDS["old_digest"]],
        "query": {"bool": {"filter": [*must, {"range": {"@timestamp": window}}], "must_not": absent}},
    }

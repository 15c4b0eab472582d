"""Events that came under an id and source under which another one is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel_core.audit.indexing import row_texts
from sentinel_core.audit.same import difference
from sentinel_core.audit.store._os_client import Client
from sentinel_core.audit.store._os_layout import DATA, Names, head_of, rows_of
from sentinel_core.audit.store._os_read import Read
from sentinel_core.audit.store._os_write import key_of
from sentinel_core.audit.store._write import may_fold

_WITHOUT_DATA = {"excludes": [DATA]}


def differing(client: Client, names: Names, batch: Mapping[int, Read]) -> dict[int, str]:
    """Why those that are not what is stored are refused, by their place as in `batch`; all of it is stored or known.

    What instances observed by themselves is folded and not compared, and what cannot be read is left to `verify`."""
    asked = {place: key_of(read) for place, read in batch.items() if not may_fold(read.columns)}
    stored = _stored(client, names, {own: names.month(batch[place].columns.time) for place, own in asked.items()})
    found: dict[int, str] = {}
    for place, own in asked.items():
        reason = _difference(stored[own], batch[place]) if own in stored else None
        if reason is not None:
            found[place] = reason
    return found


def _difference(held: Mapping[str, Any], read: Read) -> str | None:
    try:
        head, rows = head_of(held), [row[2:] for row in rows_of(held)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return difference(head, rows, read.columns, row_texts(read.rows))


def _stored(client: Client, names: Names, months: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """By name: where the event that comes is of the same month as found from when it was made, else as searched."""
    if not months:
        return {}
    path = "/_mget?filter_path=docs._id,docs.found,docs._source"
    wanted = [{"_index": month, "_id": own, "_source": _WITHOUT_DATA} for own, month in months.items()]
    _, told = client.call("POST", path, {"docs": wanted})
    found = {each["_id"]: each["_source"] for each in told.get("docs", ()) if each.get("found")}
    if missing := [own for own in months if own not in found]:
        search = {"query": {"ids": {"values": missing}}, "size": len(missing), "_source": _WITHOUT_DATA}
        _, told = client.call("POST", f"/{names.events}/_search?ignore_unavailable=true", search)
        found |= {hit["_id"]: hit["_source"] for hit in told["hits"]["hits"]}
    return found

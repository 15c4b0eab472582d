"""Ids that came before, whatever month their event is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sentinel_core.audit.store._os_client import Client
from sentinel_core.audit.store._os_layout import FIELDS, Names


class Known(NamedTuple):
    """Of which event an id tells, and which instance told it first by this id."""

    event: str
    instance: str | None


def ids_known(client: Client, names: Names, ids: Sequence[str]) -> dict[str, Known]:
    """Those of `ids` that are known at this moment: a document is found from when it is acknowledged."""
    path = f"/{names.state}/_mget?filter_path=docs._id,docs.found,docs._source"
    _, told = client.call("POST", path, {"ids": ids})
    found = {each["_id"]: each["_source"] for each in told["docs"] if each.get("found")}
    return {own: Known(held.get("event", own), held.get("by")) for own, held in found.items()}


def ids_stored(client: Client, names: Names, ids: Sequence[str]) -> dict[str, Known]:
    """The same, drawn from the events of chains whose records were lost, and what was known with them."""
    if not ids:
        return {}
    asked = {"query": {"ids": {"values": ids}}, "size": len(ids), "_source": [FIELDS["instance"]]}
    _, told = client.call("POST", f"/{names.events}/_search", asked)
    hits = told["hits"]["hits"]
    return {hit["_id"]: Known(hit["_id"], hit["_source"].get(FIELDS["instance"]) or "") for hit in hits}

"""What OpenSearch or Elasticsearch says of itself: product and version, clock, whether this caller may write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sentinel_core.audit.store._os_client import Client
from sentinel_core.audit.store._os_layout import FIELDS, Names, key
from sentinel_core.audit.store._os_restore import are_lost
from sentinel_core.audit.store.contract import StoreCondition

_EVENTS = {"exists": {"field": FIELDS["source"]}}
_CLOCK = "/_nodes/_local/stats/os?filter_path=nodes.*.timestamp"


def inspect(client: Client, names: Names) -> StoreCondition:
    """Changes nothing. Raises StoreUnavailable; what this caller may not ask is not told."""
    return StoreCondition(_server(client), _clock(client), _may_write(client, names), _altered(client, names))


def _altered(client: Client, names: Names) -> tuple[str, ...]:
    """What verification would find, as far as it is found at once."""
    _, told = client.call("POST", f"/{names.events}/_count?ignore_unavailable=true", {"query": _EVENTS})
    if not told["count"] or not are_lost(client, names):
        return ()
    return (f"the records of its chains are gone from {names.state}; the next event makes them anew from the events",)


def _server(client: Client) -> str | None:
    status, about = client.call("GET", "/", allowed=(403,))
    version = about.get("version")
    if status == 403 or not isinstance(version, Mapping):
        return None
    product = "OpenSearch" if version.get("distribution") == "opensearch" else "Elasticsearch"
    return f"{product} {version.get('number')}"


def _clock(client: Client) -> datetime | None:
    status, told = client.call("GET", _CLOCK, allowed=(400, 403, 404))
    nodes: Any = told.get("nodes")
    stamps = [each.get("timestamp") for each in nodes.values()] if status == 200 and isinstance(nodes, Mapping) else []
    try:
        return datetime.fromtimestamp(stamps[0] / 1000, UTC) if stamps else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _may_write(client: Client, names: Names) -> bool | None:
    """Asked by a change to a document that is not there: the right to make it is looked at first. None before the first
    event, for then the question would make the index."""
    status, _ = client.call("GET", f"/{names.state}?filter_path=none", allowed=(403, 404))
    if status != 200:
        return None
    nothing = f"/{names.state}/_update/{key('nobody', 'nothing')}?require_alias=false"
    status, _ = client.call("POST", nothing, {"doc": {}}, allowed=(403, 404))
    return status != 403

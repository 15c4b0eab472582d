"""Which rules of Git were published last into an item of a store: a note beside it, so that an edit is told from a
change in Git."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sentinel_core.datasources.contract import DatasourceError, HasNotes, Item, Readable
from sentinel_core.rules import Kind

NOTE = "sync"
FORMAT_VERSION = 1
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def remember(store: Readable, item: Item, digests: Mapping[Kind, str], commit: str) -> None:
    """Where it cannot be kept, the provenance alone tells; where there is none either, the next difference counts as
    an edit."""
    if not isinstance(store, HasNotes):
        return
    content = json.dumps({"formatVersion": FORMAT_VERSION, "commit": commit, "digests": dict(digests)}).encode()
    with suppress(DatasourceError):
        stands = store.note(item, NOTE)
        if stands != content:
            store.write_note(item, NOTE, content, expected=stands, why=f"Synchronise with {commit[:12]}")


def remembered(store: Readable, item: Item) -> dict[Kind, str] | None:
    """Digests by kind; None where nothing was published from Git. Raises DatasourceError."""
    found = (note(store, item) or {}).get("digests")
    return found if isinstance(found, dict) else None


def note(store: Readable, item: Item) -> dict[str, Any] | None:
    """None where it is none that we wrote: its commit goes to Git, and into what people are told to type."""
    content = store.note(item, NOTE) if isinstance(store, HasNotes) else None
    try:
        found = json.loads(content) if content is not None else None
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(found, dict) and isinstance(found.get("commit"), str) and _COMMIT.fullmatch(found["commit"])
    return found if is_ours else None

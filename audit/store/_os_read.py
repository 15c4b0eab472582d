"""An event on its way into OpenSearch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sentinel_core.audit.indexing import Indexed
from sentinel_core.audit.store.contract import EventHead


class Read(NamedTuple):
    """An event as it is to be stored: its head, its rows, its canonical data."""

    head: EventHead
    rows: Sequence[Indexed]
    data: bytes

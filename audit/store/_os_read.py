"""An event on its way into OpenSearch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sentinel_core.audit.indexing import Columns, Indexed


class Read(NamedTuple):
    """An event as it is to be stored: its columns, its rows, its canonical data."""

    columns: Columns
    rows: Sequence[Indexed]
    data: bytes

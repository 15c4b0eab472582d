"""Parquet, through pyarrow (the extra `parquet`), a row a change."""

from __future__ import annotations

from typing import Any, BinaryIO

from sentinel_core.audit.errors import LibraryMissing
from sentinel_core.audit.export.paging import COLUMNS, FLAGS, Tally, pages, values
from sentinel_core.audit.store.contract import ArrivalStore, Query

FORMAT_VERSION = 1
GROUP = 20_000
"""Rows that are in memory before they are written: readers skip whole groups of rows by their times."""


def write_parquet(store: ArrivalStore, query: Query, sink: BinaryIO, tally: Tally) -> None:
    """Times are UTC in ms, flags booleans, all else texts; `old` and `new` hold JSON. `sink` needs no
    seeking. Raises LibraryMissing."""
    library = _library()
    schema = _schema(library)
    group = list[list[Any]]()
    with library.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for rows in pages(store, query):
            group += map(values, rows)
            tally.written += len(rows)
            if len(group) >= GROUP:
                writer.write_table(_table(library, schema, group))
                group.clear()
        if group:
            writer.write_table(_table(library, schema, group))


def _library() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        raise LibraryMissing(
            "Parquet needs a library that is not installed: pip install 'sentinel-control-plane[parquet]'"
        ) from None
    return pa


def _schema(library: Any) -> Any:
    types = {"time": library.timestamp("ms", tz="UTC")} | dict.fromkeys(FLAGS, library.bool_())
    fields = [(name, types.get(name, library.string())) for name in COLUMNS]
    return library.schema(fields, metadata={"sentinel.formatVersion": str(FORMAT_VERSION)})


def _table(library: Any, schema: Any, rows: list[list[Any]]) -> Any:
    columns = [
        library.array(column, type=field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return library.Table.from_arrays(columns, schema=schema)

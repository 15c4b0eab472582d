"""Numbers from a database, through any DB-API 2.0 driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from sentinel_core.collectors.contract import MAX_VALUES, CollectorError, SourceLost, Target, Values
from sentinel_core.collectors.source import TIMEOUT_S, Source, secretless


class SqlCollector(Source[None]):
    """Runs one query, on a connection of its own each time.

    connect     gives a DB-API connection, with time-outs of the driver's own kind (connect and statement); a pool's
                method is cheaper than a new connection. It is closed after the read, and nothing is committed
    query       gives rows of (value), (resource, value) or (resource, dimension, value); of the first, one row
    parameters  for the placeholders of the query, in the driver's style
    """

    def __init__(
        self,
        metric: str,
        connect: Callable[[], Any],
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        resource: str = "",
        every_s: float = 5.0,
        source: str = "sql",
    ) -> None:
        super().__init__(metric, source, every_s=every_s, timeout_s=TIMEOUT_S)
        self._connect = connect
        self._query = query
        self._parameters = parameters
        self._resource = resource

    def read(self) -> Values:
        try:
            connection = self._connect()
        except Exception as error:
            raise SourceLost(f"no connection: {secretless(error)}") from error
        try:
            with closing(connection), closing(connection.cursor()) as cursor:
                cursor.execute(self._query, self._parameters)
                rows = cursor.fetchmany(MAX_VALUES + 1) if cursor.description else None
        except Exception as error:
            raise CollectorError(f"the query failed: {type(error).__name__}: {secretless(error)}") from error
        if rows is None:
            raise CollectorError("the query gives no rows at all; write a select. What it did is not committed")
        values: dict[Target, object] = {}
        for row in rows:
            values[self._target(row, len(rows))] = row[-1]
        return values

    def _target(self, row: Sequence[Any], rows: int) -> Target:
        if len(row) == 1 and rows == 1:
            return self._resource
        if len(row) == 2:
            return str(row[0])
        if len(row) == 3:
            return str(row[0]), str(row[1])
        raise CollectorError(
            f"the query gave {rows} rows of {len(row)} columns; select one value, or resource and value, or resource, "
            "dimension and value"
        )

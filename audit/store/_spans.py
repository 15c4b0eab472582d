"""Numbers of rows in parts that can be read one at a time, by what is there: one number may be as far off as SQLite can
count."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel_core.audit.database import Database

Span = tuple[int, int]
_FIRST = "SELECT min(seq) FROM events"
_NEXT = f"{_FIRST} WHERE seq > ?"


def spans(database: Database, last: int, size: int) -> Iterator[Span]:
    """Up to `last`; each begins with a row that is there, and holds no more numbers than `size`."""
    with database.read() as connection:
        (start,) = connection.execute(_FIRST).fetchone()
    while start is not None and start <= last:
        end = min(start + size - 1, last)
        yield start, end
        with database.read() as connection:
            (start,) = connection.execute(_NEXT, (end,)).fetchone()

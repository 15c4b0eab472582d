"""Every event of the SQLite store, with the hash that it must have."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentinel_core.audit.chain import Entry, Page, Run, Wanted, link, link_written
from sentinel_core.audit.database import Database
from sentinel_core.audit.errors import AuditError, StoreDamaged, StoreUnavailable
from sentinel_core.audit.store._header import misfit
from sentinel_core.audit.store._layout import (
    APPLICATION_ID,
    COLUMNS_SQL,
    MIGRATIONS,
    READABLE_FROM,
    ROW_SQL,
    ROWS,
    grouped,
)
from sentinel_core.audit.store._packing import unpack
from sentinel_core.audit.store._reading import about, fetched
from sentinel_core.audit.store._spans import Span
from sentinel_core.audit.store._spans import spans as spans_of

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

HEADS = "SELECT source, number, hash, adopted FROM chains ORDER BY source"
PAGE = 2000
PARALLEL_FROM = 50_000
"""Events from which on other processes are worth their start."""
_MOST_PROCESSES = 4
_SPAN = "FROM events e LEFT JOIN bodies b ON b.event = e.seq WHERE e.seq BETWEEN ? AND ? ORDER BY e.seq"
_ENTRIES = f"SELECT e.seq, e.number, e.previous, e.hash, b.data, {COLUMNS_SQL} {_SPAN}"
_ROWS = f"{ROWS} WHERE c.event BETWEEN ? AND ? ORDER BY c.event, c.place"
_WRITTEN = (
    f"SELECT e.source, e.number, e.previous, e.hash, b.data, CAST(json_array({COLUMNS_SQL}) || ',' || "  # noqa: S608  own names
    f"(SELECT json_group_array(json_array({ROW_SQL})) FROM changes c WHERE c.event = e.seq) AS BLOB) {_SPAN}"
)
_SHARED = 64
"""Pages that are shared out at a time: what others have walked waits here until its turn."""
Walked = tuple[int, Sequence[Run] | None]
"""How many events there are, and their runs if all is well."""


def walk(database: Database, last: int | None, wanted: Wanted) -> Iterator[Page]:
    """Events up to row `last` (None: there is none) in the order of their arrival. Each page is a transaction of its
    own, so that a long walk keeps nobody from writing."""
    spans = [] if last is None else [*spans_of(database, last, PAGE)]
    for span, (events, runs) in zip(spans, _all_runs(database, spans, wanted), strict=True):
        yield Page(events, runs, partial(_entries, database, span))


def _all_runs(database: Database, spans: Sequence[Span], wanted: Wanted) -> Iterator[Walked]:
    processes = min(os.cpu_count() or 1, _MOST_PROCESSES)
    here = partial(_runs, database, wanted)
    if len(spans) * PAGE < PARALLEL_FROM or processes == 1:
        yield from map(here, spans)
        return
    import multiprocessing  # whoever walks nothing does not wait for them
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(
        processes - 1, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(database.path, wanted)
    ) as pool:
        for start in range(0, len(spans), _SHARED):
            yield from _shared(pool, here, spans[start : start + _SHARED])


def _shared(pool: Executor, here: Callable[[Span], Walked], spans: Sequence[Span]) -> Iterator[Walked]:
    """This process begins at the first, others at the last: it need not wait for their start. Where one of them is
    killed, for want of memory say, this one walks what is left."""
    from concurrent.futures import BrokenExecutor

    others: dict[Span, Future[Walked]] = {}

    def walked(span: Span) -> Walked:
        if span not in others or others[span].cancel():
            return here(span)
        try:
            return others[span].result()
        except BrokenExecutor:
            return here(span)

    try:
        with suppress(BrokenExecutor):
            for span in reversed(spans):
                others[span] = pool.submit(_runs_here, span)
        yield from map(walked, spans)
    finally:
        for other in others.values():
            other.cancel()


_here: list[partial[Walked]] = []


def _begin(path: Path, wanted: Wanted) -> None:
    database = Database(
        path,
        migrations=MIGRATIONS,
        application_id=APPLICATION_ID,
        failure=StoreUnavailable,
        damaged=StoreDamaged,
        misfit=misfit,
        read_only=True,
        readable_from=READABLE_FROM,
    )
    _here.append(partial(_runs, database, wanted))


def _runs_here(span: Span) -> Walked:
    return _here[0](span)


def _runs(database: Database, wanted: Wanted, span: Span) -> Walked:
    """How many events there are, and their runs. SQLite writes the JSON, three times as fast as Python. What comes out
    right is right, as it has the hash; where anything does not, None: it may be that another version of SQLite writes
    JSON in another way."""
    try:
        with database.read() as connection:
            return _joined(connection.execute(_WRITTEN, span), wanted)
    except (AuditError, ValueError, TypeError, AttributeError, zlib.error):
        pass
    with database.read() as connection:
        (count,) = connection.execute("SELECT count(*) FROM events WHERE seq BETWEEN ? AND ?", span).fetchone()
    return count, None


def _joined(found: Iterable[Any], wanted: Wanted) -> tuple[int, Sequence[Run]]:
    """Raises ValueError at the first that is not what it must be. One row at a time: a page of them all leaves the
    cache of the processor."""
    runs: dict[str, Run] = {}
    last: dict[str, tuple[int, bytes]] = {}
    count = 0
    for source, number, previous, made, body, asked in found:
        count += 1
        if link_written(previous, number, unpack(body), asked) != made:
            raise ValueError("another hash")
        if source not in runs:
            runs[source] = Run(source, number, previous, number, made, {})
        elif last[source] != (number - 1, previous):
            raise ValueError("another place")
        last[source] = (number, made)
        if source in wanted and number in wanted[source]:
            runs[source].wanted[number] = made
    return count, [run._replace(last=last[source][0], hash=last[source][1]) for source, run in runs.items()]


def _entries(database: Database, span: Span) -> Iterator[Entry]:
    with database.read() as connection:
        entries, rows = fetched(connection, _ENTRIES, span), grouped(fetched(connection, _ROWS, span))
    for seq, number, previous, made, body, *columns in entries:
        computed = _computed(previous, number, body, columns, rows.get(seq, ()))
        yield Entry(columns[1], number, previous, made, computed, about(columns, rows.get(seq, ())))


def _computed(previous: Any, number: Any, body: Any, columns: Sequence[Any], rows: Sequence[Any]) -> bytes | None:
    try:
        return link(previous, number, unpack(body), columns, rows)
    except (ValueError, TypeError, AttributeError, zlib.error):
        return None

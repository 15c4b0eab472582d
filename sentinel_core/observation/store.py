"""Readings of business metrics in one SQLite file.

A **series** is one metric of one resource and dimension in one instance. A **reading** is what one interval brought:
samples and bad ones of a rate, value and age of a gauge; of an interval without samples there is none. A **span** is a
time in which an instance recorded without a break: what lies in no span was not watched, which is another thing than
nothing to report.

Several processes write one file and it is read meanwhile (WAL). A commit that returned outlives a kill.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sentinel_core.audit.database import Database
from sentinel_core.audit.errors import StoreUnavailable

APPLICATION_ID: Final = 0x53_4F_42_31
BUSY_S: Final = 1.0
Kind = Literal["rate", "gauge"]

_MIGRATIONS = (
    """
    CREATE TABLE series (
        id INTEGER PRIMARY KEY,
        metric TEXT NOT NULL, resource TEXT NOT NULL, dimension TEXT NOT NULL, kind TEXT NOT NULL,
        instance TEXT NOT NULL,
        UNIQUE (metric, resource, dimension, kind, instance)
    );
    CREATE TABLE readings (
        series INTEGER NOT NULL, at INTEGER NOT NULL,
        total INTEGER, bad INTEGER, value REAL, age INTEGER,
        PRIMARY KEY (series, at)
    ) WITHOUT ROWID;
    CREATE TABLE spans (
        instance TEXT NOT NULL, began INTEGER NOT NULL, until INTEGER NOT NULL, every INTEGER NOT NULL,
        PRIMARY KEY (instance, began)
    ) WITHOUT ROWID
    """,
)
_ADD_SERIES = (
    "INSERT INTO series (metric, resource, dimension, kind, instance) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_ADD_READING = """
    INSERT INTO readings (series, at, total, bad, value, age)
    SELECT id, ?6, ?7, ?8, ?9, ?10 FROM series
    WHERE metric = ?1 AND resource = ?2 AND dimension = ?3 AND kind = ?4 AND instance = ?5
    ON CONFLICT DO UPDATE SET
        total = total + excluded.total, bad = bad + excluded.bad, value = excluded.value, age = excluded.age
"""
_ADD_SPAN = """
    INSERT INTO spans (instance, began, until, every) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET until = max(until, excluded.until)
"""


class ObservationsUnavailable(StoreUnavailable):
    """The file of recorded metrics cannot be opened, read or written now."""


@dataclass(frozen=True, slots=True)
class Series:
    """What was read, of what, by whom. `resource` and `dimension` are "" where none was given."""

    metric: str
    resource: str
    dimension: str
    kind: Kind
    instance: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One interval of a series that ended `at`, wall ms. `total` and `bad` are samples of a rate; `value` and `age`
    (ms since it was set) are of a gauge."""

    at: int
    total: int = 0
    bad: int = 0
    value: float = 0.0
    age: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which an instance recorded: `began` to `until`, wall ms, a reading `every` so many ms."""

    instance: str
    began: int
    until: int
    every: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the file holds of one metric, resource and dimension: number of readings and of instances, first and last
    reading (wall ms)."""

    metric: str
    resource: str
    dimension: str
    kind: Kind
    instances: int
    readings: int
    first: int
    last: int


class ObservationStore:
    """One file. Safe for threads and processes; every method raises ObservationsUnavailable."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._database = Database(
            path,
            migrations=_MIGRATIONS,
            application_id=APPLICATION_ID,
            failure=ObservationsUnavailable,
            read_only=read_only,
            busy_s=None if read_only else BUSY_S,
        )

    def add(self, readings: Iterable[tuple[Series, Reading]], span: Span) -> None:
        """Writes one interval of one instance, in one transaction. Equal times of a rate are added up."""
        rows = [
            ((series.metric, series.resource, series.dimension, series.kind, series.instance), reading)
            for series, reading in readings
        ]
        with self._database.write() as connection:
            connection.executemany(_ADD_SERIES, [key for key, _ in rows])
            connection.executemany(
                _ADD_READING, [(*key, each.at, each.total, each.bad, each.value, each.age) for key, each in rows]
            )
            connection.execute(_ADD_SPAN, (span.instance, span.began, span.until, span.every))

    def forget(self, before: int) -> None:
        """Removes what ended before `before`, wall ms, and series of which nothing is left."""
        with self._database.write() as connection:
            for (series,) in connection.execute("SELECT id FROM series").fetchall():
                connection.execute("DELETE FROM readings WHERE series = ? AND at < ?", (series, before))
            connection.execute("DELETE FROM spans WHERE until < ?", (before,))
            connection.execute("DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM readings WHERE series = id)")

    def size(self) -> int:
        """Bytes in use; pages that were freed and can be filled again do not count."""
        with self._database.read() as connection:
            pages, free, each = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * each)

    def span(self) -> tuple[int, int] | None:
        """Beginning of the oldest span and end of the newest one, wall ms; None in an empty file."""
        with self._database.read() as connection:
            began, until = connection.execute("SELECT min(began), max(until) FROM spans").fetchone()
        return None if began is None else (began, until)

    def recorded(self) -> list[Recorded]:
        """Everything the file holds readings of, by name."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT metric, resource, dimension, kind, count(DISTINCT instance), count(*), min(at), max(at) "
                "FROM series JOIN readings ON series = id GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
            ).fetchall()
        return [Recorded(*row) for row in rows]

    def readings(self, metric: str, start: int, end: int) -> list[tuple[Series, list[Reading]]]:
        """Every series of a metric with its readings in `start <= at < end` (wall ms), in order of time; those without
        any are left out."""
        with self._database.read() as connection:
            known = connection.execute(
                "SELECT id, metric, resource, dimension, kind, instance FROM series WHERE metric = ? ORDER BY id",
                (metric,),
            ).fetchall()
            found = [
                (
                    Series(*names),
                    [
                        Reading(*row)
                        for row in connection.execute(
                            "SELECT at, total, bad, value, age FROM readings "
                            "WHERE series = ? AND at >= ? AND at < ? ORDER BY at",
                            (number, start, end),
                        )
                    ],
                )
                for number, *names in known
            ]
        return [(series, readings) for series, readings in found if readings]

    def spans(self, start: int, end: int) -> Sequence[Span]:
        """The spans that touch `start` to `end` (wall ms), cut to it."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT instance, max(began, ?1), min(until, ?2), every FROM spans "
                "WHERE until > ?1 AND began < ?2 ORDER BY began",
                (start, end),
            ).fetchall()
        return [Span(*row) for row in rows]

    def close(self) -> None:
        """Idempotent."""
        self._database.close()

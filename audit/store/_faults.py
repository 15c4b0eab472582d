"""What is wrong with a SQLite store itself, whatever its events say: its layout, its file, its records."""

from __future__ import annotations

import sqlite3

from sentinel_core.audit.chain import Fault
from sentinel_core.audit.errors import EventDamaged, EventInvalid, StoreMisconfigured
from sentinel_core.audit.store._header import MADE, as_made, words
from sentinel_core.audit.store._layout import READABLE_FROM
from sentinel_core.audit.store._orphans import orphans, orphans_outside
from sentinel_core.audit.store._purge import LAST_PURGE, PURGED
from sentinel_core.audit.store._reading import chain_head, event_of, fetched, last_place, text_of
from sentinel_core.audit.store._walk import HEADS

MOST_TROUBLES = 20
"""That SQLite tells of a file: each takes a look at all rows."""
_STRANGE_IDS = f"""
    SELECT f.source, min(f.id), count(*) FROM folded f LEFT JOIN events e ON e.seq = f.event AND e.source = f.source
        AND e.observed = 1
    WHERE e.seq IS NULL AND f.event NOT BETWEEN 0 AND (SELECT coalesce(max(event), -1) FROM purges)
    GROUP BY f.source ORDER BY f.source LIMIT {MOST_TROUBLES}
"""  # noqa: S608  own number


def faults(connection: sqlite3.Connection) -> list[Fault]:
    """All of them; reads the whole file once."""
    found = [*altered_layout(connection), *_far_off(connection), *_altered_records(connection)]
    return [*found, *orphans(connection), *_damaged_file(connection)]


def quick_faults(connection: sqlite3.Connection) -> list[Fault]:
    """Those that are found at once, however large the store is."""
    return [*altered_layout(connection), *_far_off(connection), *orphans_outside(connection)]


def altered_layout(connection: sqlite3.Connection) -> list[Fault]:
    """Tables, indexes, triggers and views that are not those of `MIGRATIONS`, or of an older layout that is read."""
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    there = {(text_of(row[0]), text_of(row[1])): row for row in fetched(connection, MADE, ())}
    ours = as_made(max(layout, READABLE_FROM))
    told = [
        f"the {kind} {name} is "
        + ("none that this program makes" if (kind, name) not in ours else "not as it was made")
        for (kind, name), row in there.items()
        if not _is_same(row, ours.get((kind, name)))
    ]
    told += [f"the {kind} {name} is missing" for kind, name in ours if (kind, name) not in there]
    return [Fault("altered layout", "", 0, text) for text in told]


def _far_off(connection: sqlite3.Connection) -> list[Fault]:
    """A row that no store comes to: nothing can be written behind it."""
    (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    try:
        last_place(last)
    except StoreMisconfigured as error:
        return [Fault("altered record", "", 0, str(error).partition(";")[0])]
    return []


def refuse_altered(connection: sqlite3.Connection) -> None:
    """Raises StoreMisconfigured where what is written would not be what is kept: a trigger may swallow it."""
    found = [fault.text for fault in altered_layout(connection) if not fault.text.startswith("the index ")]
    if found:
        raise StoreMisconfigured(
            f"somebody altered the audit store: {'; '.join(found[:3])}; nothing is written to it. sentinelctl audit "
            "verify tells more; keep the file as evidence, and give audit.store another path or take that away"
        )


def _is_same(row: tuple[object, ...], made: tuple[object, ...] | None) -> bool:
    if made is None:
        return row[0] == "table" and str(row[1]).startswith("sqlite_stat")  # ANALYZE makes them
    return row[2] == made[2] and words(row[3]) == words(made[3])


def _altered_records(connection: sqlite3.Connection) -> list[Fault]:
    found = [
        Fault("altered record", text_of(row[0]) or "", 0, "the record of its end is none that this program writes")
        for row in fetched(connection, HEADS, ())
        if chain_head(*row) is None
    ]
    found += _too_many_purged(connection)
    return found + [
        Fault(
            "altered record",
            text_of(source) or "",
            0,
            (f"the id {text_of(first)} is" if count == 1 else f"{count} ids, {text_of(first)} among them, are")
            + " noted as known, and no event is there that may be repeated so",
        )
        for source, first, count in fetched(connection, _STRANGE_IDS, ())
    ]


def _too_many_purged(connection: sqlite3.Connection) -> list[Fault]:
    """An id that is noted as purged and never was would keep the event out that is to come under it."""
    from sentinel_core.audit.retention.record import read_record  # only who verifies waits for it

    try:
        record = next((read_record(event_of(*row)) for row in fetched(connection, LAST_PURGE, ())), None)
    except (EventDamaged, EventInvalid):
        return []  # the walk tells
    most = sum(segment.events for segment in record.segments) if record else 0
    (count,) = connection.execute("SELECT count(*) FROM folded WHERE event = ?", (PURGED,)).fetchone()
    if record is None or count <= most:
        return []
    return [Fault("altered record", "", 0, f"{count} ids are noted as purged, and {most} events were")]


def _damaged_file(connection: sqlite3.Connection) -> list[Fault]:
    """What SQLite finds: rows that an index does not lead to, pages that are none."""
    try:
        told = [str(text) for (text,) in connection.execute(f"PRAGMA integrity_check({MOST_TROUBLES})")]
    except sqlite3.DatabaseError as error:
        told = [str(error)]
    return [Fault("damaged file", "", 0, text) for text in told if text != "ok"]

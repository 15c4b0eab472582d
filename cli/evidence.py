"""What `doctor` looks at behind a change: outbox, audit store, last good rules, recorded metrics."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sentinel_core.audit.errors import AuditError, StoreMissing
from sentinel_core.audit.instants import from_milliseconds
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.topics import look
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import InspectableStore, Query, StoreCondition
from sentinel_core.cli.bounded import Bounded
from sentinel_core.cli.conditions import dated_ahead, with_condition
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.exits import Exit, code_of
from sentinel_core.cli.moments import age, utc_now
from sentinel_core.cli.text import plural
from sentinel_core.masking import mask_text
from sentinel_core.observation.store import ObservationStore
from sentinel_core.service import kafka_of
from sentinel_core.settings import Settings, SettingsError

LOW_DISK_BYTES = 100 * 2**20
OLD_EVENT_S = 300.0


def kafka(settings: Settings, limit: float) -> Iterator[Check]:
    """Brokers answer, the topics are there as `audit init` makes them, and this user may write."""
    if settings.audit.kafka is None:
        return
    try:
        # Half of the time to connect, so that its answer, and not the time alone, says what is wrong.
        target, topics = kafka_of(settings.audit.kafka, limit / 2)
        library()
    except (SettingsError, AuditError) as error:
        yield Check("kafka", "fail", str(error), "mend it and run this again", Exit.BAD_SETTINGS)
        return
    step = "check audit.kafka in the settings, and that the brokers run; events wait in the outbox until then"
    late = Check("kafka", "fail", f"{target} took longer than {limit:g} s", step, Exit.UNREACHABLE)
    check = Bounded(lambda: _topics(target, topics, step)).result(time.monotonic() + limit, late)
    yield replace(check, what=check.what.removeprefix("kafka "))  # its name stands in front


def _topics(target: Target, topics: Topics, step: str) -> Check:
    try:
        server, seen = look(target, topics)
    except AuditError as error:
        return Check("kafka", "fail", str(error), step, code_of(error))
    if missing := [each.topic for each in seen if not each.there]:
        text = f"{target}: there is no topic {', '.join(missing)}"
        return Check("kafka", "fail", text, "sentinelctl audit init", Exit.UNREACHABLE)
    if closed := [each.topic for each in seen if not each.writable]:
        text = f"{target}: {target.user or 'this client'} may not write to {', '.join(closed)}"
        return Check("kafka", "fail", text, "grant Write on them", Exit.DENIED)
    if differs := [f"{each.topic}: {'; '.join(each.differs)}" for each in seen if each.differs]:
        text = f"{target}: {', '.join(differs)}"
        return Check("kafka", "warn", text, "set it as `sentinelctl audit init` would have, with kafka-configs.sh")
    check = Check("kafka", "ok", f"{target}: {plural(len(seen), 'topic')}")
    return with_condition(check, StoreCondition(server, may_write=True))


def outbox(settings: Settings) -> Check:
    """Can be written, and what waits in it."""
    path = Path(settings.audit.outbox)
    trouble = _not_writable(path)
    if trouble is not None:
        return Check(
            "outbox", "fail", f"{path}: {trouble}", "let this user write there: events are kept there first", Exit.ERROR
        )
    if not path.exists():
        return Check("outbox", "ok", f"{path}: not made yet; it is made with the first event")
    opened = Outbox(path)
    try:
        depth, parked, oldest = opened.depth(), opened.parked_count(), opened.oldest()
    except AuditError as error:
        return Check("outbox", "fail", str(error), "look at the disk and the file's permissions", Exit.ERROR)
    finally:
        opened.close()
    waited = (utc_now() - oldest).total_seconds() if oldest else 0.0
    text = f"{path}: {depth} waiting" + (f", the oldest for {age(waited)}" if oldest else "")
    if parked:
        return Check(
            "outbox", "warn", f"{text}, {parked} refused by the store and parked", "read the log of the service for why"
        )
    if waited > OLD_EVENT_S:
        return Check("outbox", "warn", text, "is the service running? It delivers them, or the next start does")
    return Check("outbox", "ok", text)


def audit_store(settings: Settings, limit: float) -> Check:
    """Reached for reading, with the number of its events and the age of the newest."""
    uri = settings.audit.store
    text = f"{mask_text(uri)}: took longer than {limit:g} s"
    late = Check("audit", "fail", text, "check audit.store in the settings, and that it runs", Exit.UNREACHABLE)
    return Bounded(lambda: _stored(uri)).result(time.monotonic() + limit, late)


def _stored(uri: str) -> Check:
    try:
        store = open_store(uri, read_only=True)
        try:
            told = store.inspect() if isinstance(store, InspectableStore) else StoreCondition()
            events, page = store.count(), store.query(Query(limit=1))
        finally:
            store.close()
    except StoreMissing:
        return Check("audit", "ok", f"{mask_text(uri)}: not made yet; it is made with the first event")
    except AuditError as error:
        return Check("audit", "fail", str(error), "check audit.store in the settings", code_of(error))
    if told.altered:
        text = f"{mask_text(uri)}: somebody altered it: {'; '.join(told.altered[:3])}"
        return Check("audit", "fail", text, "sentinelctl audit verify    (says all that is wrong)", Exit.ERROR)
    if not page.rows:
        return with_condition(Check("audit", "ok", f"{mask_text(uri)}: readable, no event yet"), told)
    newest = page.rows[0].event.time
    text = f"readable, {plural(events, 'event')}, the newest {age((utc_now() - newest).total_seconds())} ago"
    return dated_ahead(with_condition(Check("audit", "ok", f"{mask_text(uri)}: {text}"), told), newest)


def last_good(settings: Settings) -> Check:
    """Can be written, and what is kept in it."""
    folder = Path(settings.last_known_good)
    trouble = _not_writable(folder / "x")
    if trouble is not None:
        return Check(
            "last-good", "warn", f"{folder}: {trouble}", "without it a restart has no rules while the stores are down"
        )
    saved = len(list(folder.glob("*.last-good"))) if folder.is_dir() else 0
    return Check("last-good", "ok", f"{folder}: {plural(saved, 'saved revision')}")


def observations(settings: Settings) -> Iterator[Check]:
    """Where business metrics are recorded: can be written, and how old the newest reading is."""
    if settings.observe.file is None:
        return
    path = Path(settings.observe.file)
    trouble = _not_writable(path)
    if trouble is not None:
        step = "let this user write there; until then business metrics are not recorded, and nothing else is affected"
        yield Check("observations", "warn", f"{path}: {trouble}", step)
        return
    if not path.exists():
        yield Check("observations", "ok", f"{path}: not made yet; it is made when the service starts")
        return
    store = ObservationStore(path, read_only=True)
    try:
        recorded, span = store.recorded(), store.span()
    except AuditError as error:
        yield Check("observations", "warn", str(error), "move the file aside; a new one is made")
        return
    finally:
        store.close()
    silent = (utc_now() - from_milliseconds(span[1])).total_seconds() if span else 0.0
    text = f"{path}: {plural(len(recorded), 'metric')}" + (f", written {age(silent)} ago" if span else "")
    if silent > max(OLD_EVENT_S, 3 * settings.observe.every):
        yield Check("observations", "warn", text, "is the service running? It writes them")
        return
    yield Check("observations", "ok", text)


def _not_writable(path: Path) -> str | None:
    """Why a file could not be written here, looked at from outside so that nothing is made."""
    nearest = next(each for each in (path, *path.parents) if each.exists())
    if nearest != path and not nearest.is_dir():
        return f"{nearest} is not a folder"
    if not os.access(nearest, os.W_OK):
        return f"{nearest} is not writable for this user"
    free = shutil.disk_usage(nearest).free
    return f"only {free // 2**20} MiB are free on the disk" if free < LOW_DISK_BYTES else None

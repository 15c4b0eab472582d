"""What the audit commands share: the store, the zone, and how a change reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sentinel_core.audit.chain import ChainedStore
from sentinel_core.audit.errors import AuditError, SinkUnavailable, StoreMissing, StoreUnavailable
from sentinel_core.audit.event import Event
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.query.interval import Interval
from sentinel_core.audit.query.zones import shown_in
from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import ArrivalStore, AuditStore, EventHead
from sentinel_core.cli.app import App
from sentinel_core.cli.encode import to_json
from sentinel_core.cli.exits import BadSettings, CommandError, Exit
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.text import Styled, plural
from sentinel_core.settings_sources import PROJECT_FILE, settings_file, user_file

if TYPE_CHECKING:
    from sentinel_core.audit.kafka.messages import Topics
    from sentinel_core.audit.kafka.target import Target

Command = TypeVar("Command", bound=Callable[..., Any])
SHORT = 12
SHORT_ID = 8
SIGNS = {
    "add": Styled("+", "green"),
    "remove": Styled("-", "red"),
    "change": Styled("~", "yellow"),
    "rejected": Styled("!", "red"),
    "seen": Styled("=", "dim"),
    "moved": Styled("*", "cyan"),
    "purged": Styled("x", "yellow"),
}


def zone_option(command: Command) -> Command:
    """`--zone`: in which times are understood and shown."""
    return click.option("--zone", metavar="NAME", help="Time zone, e.g. Asia/Shanghai (default: this machine's).")(
        command
    )


def kafka_settings(app: App) -> tuple[Target, Topics]:
    """Where Kafka is. Raises SettingsError where the settings do not say it."""
    from sentinel_core.service import kafka_of
    from sentinel_core.settings import SettingsError

    settings = app.settings
    if settings.audit.kafka is None:
        raise SettingsError(["audit.kafka: not set; write for example audit: {kafka: {bootstrap: 'localhost:9092'}}"])
    return kafka_of(settings.audit.kafka, settings.timeout)


@contextmanager
def opened(app: App) -> Iterator[AuditStore]:
    """The audit store of the settings, for reading. Says when events are still on their way to it."""
    store = open_store(app.settings.audit.store, read_only=True)
    try:
        _say_waiting(app, store)
        yield store
    except StoreUnavailable as error:
        if isinstance(error, StoreMissing) and app.settings.audit.kafka is not None:
            raise CommandError(
                f"{error}; events come from Kafka", code=Exit.UNREACHABLE, next_step="sentinelctl audit ingest"
            ) from error
        if settings_file(app.config) is not None or user_file().is_file():
            raise
        raise StoreUnavailable(
            f"no {PROJECT_FILE} was found in {Path.cwd()} or above it, nor {user_file()}, so the default store is "
            f"looked at: {error}"
        ) from error
    finally:
        store.close()


@contextmanager
def opened_chain(app: App) -> Iterator[ChainedStore]:
    """The same, of a store that keeps chains."""
    with opened(app) as store:
        if not isinstance(store, ChainedStore):
            raise BadSettings(
                "the audit store of the settings keeps no hash chains",
                next_step="use one of sqlite:/// or opensearch://",
            )
        yield store


@contextmanager
def opened_in_order(app: App) -> Iterator[ArrivalStore]:
    """The same, of a store that knows the order of arrival."""
    with opened(app) as store:
        if not isinstance(store, ArrivalStore):
            raise BadSettings(
                "the audit store of the settings does not know in which order events came to it",
                next_step="use one of sqlite:/// or opensearch://, or sentinelctl audit query",
            )
        yield store


def _say_waiting(app: App, store: AuditStore) -> None:
    outbox = Outbox(app.settings.audit.outbox)
    if not Path(app.settings.audit.outbox).is_file():
        return
    try:
        waiting = outbox.depth()
        sent = outbox.last_sent() if app.settings.audit.kafka is not None else None
    except SinkUnavailable:
        return  # `doctor` tells; what the store has is still worth showing
    finally:
        outbox.close()
    if waiting:
        app.out.say(f"note: {waiting} events wait in the outbox of this machine and are not in the store yet")
    if sent is not None and _is_missing(store, sent):
        app.out.say("note: events that this machine sent to Kafka are not in the store yet: sentinelctl audit ingest")


_PURGED_LATER = timedelta(days=7)


def _is_missing(store: AuditStore, sent: Event) -> bool:
    """False where it cannot be told: what hosts observe is folded, and old events may have been purged."""
    if utc_now() - sent.time > _PURGED_LATER or b'"observed":true' in sent.data:
        return False
    try:
        return store.get(sent.id, sent.source) is None
    except AuditError:
        return False  # the question itself will tell


def clock(moment: datetime, zone: tzinfo, interval: Interval | None) -> str:
    """The time of day where the whole window is one day, else with the date."""
    there = shown_in(moment, zone)
    if interval is not None:
        first, last = shown_in(interval.start, zone), shown_in(interval.end, zone)
        if first.date() == last.date():
            return f"{there:%H:%M:%S}"
    return f"{there:%Y-%m-%d %H:%M:%S}"


def author(head: EventHead) -> str:
    """`chen (git 9f1c2ab34d5e)`, `ops-li (console, 10.2.3.4)`: who, and by which channel; of an edit in a console the
    address, too, which may be all that is known."""
    name, _, address = (head.author or "unknown").partition(" <")
    how = " ".join(part for part in (head.channel, (head.commit or "")[:SHORT]) if part)
    if head.channel == "console" and address:
        how = f"{how}, {address.removesuffix('>')}"
    text = f"{name} ({how})" if how else name
    return f"{text}, damaged" if head.damaged else text


def value(of: Any) -> str:
    """A value of a rule in a line; – where there is none."""
    return "–" if of is None else of if isinstance(of, str) else to_json(of, ascii_only=False)


def what(action: str, field: str | None, old: Any, new: Any) -> str:
    """`count  20 → 25`, `rule added`, `rule removed`."""
    if action == "rejected":
        return f"refused: {problem_text(new)}"
    if action == "seen":
        return "stood there when first looked at"
    if action == "purged":
        return plural(new, "old event") + " left the store" if isinstance(new, int) else "old events left the store"
    if field is None:
        return {"add": "rule added", "remove": "rule removed"}.get(action, action)
    return f"{field}  {value(old)} → {value(new)}"


def problem_text(problem: Any) -> str:
    """`sentinel-rules.yaml:2:49: SR102 count is "3O"; a number is needed`, of a problem as events carry it."""
    if not isinstance(problem, Mapping):
        return value(problem)
    place = ":".join(str(problem[name]) for name in ("file", "line", "column") if problem.get(name) is not None)
    words = " ".join(str(problem[name]) for name in ("code", "message") if problem.get(name))
    return f"{place}: {words}" if place else words

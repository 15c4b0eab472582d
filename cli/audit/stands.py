"""What answers say of the evidence that they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel_core.audit.errors import EventRefused
from sentinel_core.audit.event import Event
from sentinel_core.audit.indexing import read_columns
from sentinel_core.audit.standing import Standing, standing
from sentinel_core.audit.store.contract import HEAD, AuditStore, EventHead
from sentinel_core.cli.app import App
from sentinel_core.cli.audit.common import SHORT_ID
from sentinel_core.cli.text import Styled, plural, visible

if TYPE_CHECKING:
    from sentinel_core.audit.query.interval import Interval
    from sentinel_core.audit.verify import Promise

IDS_SHOWN = 10


def stands_of(
    app: App, store: AuditStore, shown: Iterable[EventHead], window: Interval | None = None
) -> Standing | None:
    """How far these events can be relied on, as all of a window where one is given, with the checkpoints of the
    settings."""
    return standing(store, shown, promises(app.settings.audit.checkpoints), window)


def promises(file: str | None) -> Mapping[str, Promise]:
    """What the newest checkpoints of a file say, by source."""
    if file is None:
        return {}
    from sentinel_core.audit.checkpoints import newest

    return newest(Path(file))


def head_of(event: Event) -> EventHead:
    """Of an event that is not what its type promises any more, as much as it takes to ask for its link."""
    told = dict.fromkeys(HEAD, None) | dict.fromkeys(("initial", "late", "observed"), False)
    with suppress(EventRefused):
        columns, _, _ = read_columns(event)
        told |= {name: getattr(columns, name) for name in HEAD}
    names = ("id", "source", "type", "subject", "time")
    return EventHead(**told | {name: getattr(event, name) for name in names})  # type: ignore[arg-type]  # by name


def say_tampered(app: App, stands: Standing | None) -> bool:
    """Tells what was found, if anything; whether it was."""
    if stands is None or stands.is_sound:
        return False
    told = []
    if stands.contradicted is not None:
        told.append(f"another chain than the one that the checkpoint of {stands.contradicted} saw")
    if stands.lost is not None:
        told.append(f"the checkpoint of {stands.lost} saw more events than there are")
    if stands.missing:
        told.append(f"{plural(stands.missing, 'event')} missing in the chain")
    if stands.unfound:
        unfound = ", ".join(visible(each[:SHORT_ID]) for each in stands.unfound[:IDS_SHOWN])
        told.append(f"{unfound} in the chain, and no index leads to it")
    if stands.broken:
        ids = [visible(each[:SHORT_ID]) for each in stands.broken]
        left = f" and {len(ids) - IDS_SHOWN} more" if len(ids) > IDS_SHOWN else ""
        told.append(f"{', '.join(ids[:IDS_SHOWN])}{left} not as written")
    app.out.say(Styled(f"TAMPERED WITH: {'; '.join(told)}; sentinelctl audit verify tells more.", "red"))
    return True

"""The stores of the settings, opened for one command and closed after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sentinel_core import datasources
from sentinel_core.cli.app import App
from sentinel_core.cli.exits import BadSettings, CommandError, UsageProblem
from sentinel_core.datasources.contract import (
    Absent,
    DatasourceError,
    HasHistory,
    Item,
    Readable,
    Reading,
)
from sentinel_core.rules import KINDS, Kind, Revision


@contextmanager
def opened(app: App, uri: str) -> Iterator[Readable]:
    """One store. Raises SourceMisconfigured for a URI that names none."""
    source = datasources.open(uri, environment=app.environment)
    try:
        yield source
    finally:
        with suppress(DatasourceError):
            source.close()


def store_uris(app: App) -> tuple[str, ...]:
    """The configured stores. Raises BadSettings when there is none."""
    if not app.settings.stores:
        from sentinel_core.cli.config.known import known_contexts

        if not app.context.name and (known := known_contexts(app)):
            raise BadSettings(
                "no store is configured, and no context is chosen",
                next_step=f"sentinelctl config use-context {next(iter(known))}    (or another of: {', '.join(known)})",
            )
        raise BadSettings(
            "no store is configured",
            next_step="write `stores: [git+file:///path/of/repository?ref=main&path=rules]` into sentinel.yaml, "
            "or name the store on the command line",
        )
    return app.settings.stores


@contextmanager
def history_store(app: App, uri: str | None, kind: Kind | None) -> Iterator[tuple[Readable, Item]]:
    """The same where one item is meant: the one of a store that holds documents; that of `kind` where each kind has its
    own."""
    with history_items(app, uri, kind) as (source, items):
        yield source, the_item(source, items)


@contextmanager
def history_items(app: App, uri: str | None, kind: Kind | None) -> Iterator[tuple[Readable, Sequence[Item]]]:
    """The store that a command about the past means: `--store`, or the first configured one that has a history; where
    none has, the first one, whose past the audit store may know. With its items, or that of `kind`."""
    uris = (uri,) if uri else store_uris(app)
    chosen = uris[0] if len(uris) == 1 else next((each for each in uris if _remembers(app, each)), uris[0])
    with opened(app, chosen) as source:
        yield source, source.items((kind,) if kind else KINDS)


def _remembers(app: App, uri: str) -> bool:
    with opened(app, uri) as source:
        return isinstance(source, HasHistory)


def the_item(source: Readable, items: Sequence[Item]) -> Item:
    """The only one. Raises UsageProblem where there are several."""
    if len(items) != 1:
        raise UsageProblem(
            f"{source.uri} keeps every kind by itself, each with its own revisions",
            next_step=f"add --kind with one of {', '.join(KINDS)}",
        )
    return items[0]


def history_command(item: Item) -> str:
    """What lists the revisions of an item."""
    return f"sentinelctl rules history{f' --kind {item.kinds[0]}' if len(item.kinds) == 1 else ''}"


def where_to_look(source: Readable) -> str:
    """The parts of its URI that say where in it the rules stand."""
    if len(source.items(KINDS)) > 1:
        return "namespace and group"
    return "ref and path" if isinstance(source, HasHistory) else "path"


def present(reading: Reading, source: Readable) -> Revision:
    """The revision that was read. Raises CommandError where nothing stands."""
    if isinstance(reading, Absent):
        raise CommandError(
            f"{source.uri} holds no rules ({reading.reason})",
            next_step=reading.next_step or f"check the {where_to_look(source)} of the store with: sentinelctl doctor",
        )
    return reading

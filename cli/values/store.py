"""What stands in stores, and stood there: rules, revisions, quarantine. None is cloned or written for an answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from sentinel_core.cli.shells import item
from sentinel_core.cli.values import files, settings
from sentinel_core.cli.values.line import Items, Line, behind, said
from sentinel_core.cli.values.soon import soon

if TYPE_CHECKING:
    from sentinel_core.rules import Revision

REVISIONS = 50
"""That are offered: the newest ones that begin as was written."""
_NEVER = datetime.min.replace(tzinfo=UTC)


def resources(line: Line) -> Items:
    """Of files of this machine, and of what stands in other stores."""
    from sentinel_core.cli.stores import opened
    from sentinel_core.rules import KINDS, Revision

    def ask(uri: str) -> Items:
        with opened(line.app, uri) as source:
            for its in source.items((line.kind,) if line.kind else KINDS):
                reading = source.read(its)
                for text in reading.texts if isinstance(reading, Revision) else ():
                    yield from map(item, files.resources_in(text.content[: files.MOST_BYTES]))

    yield from map(item, dict.fromkeys(files.resources(line)))
    yield from soon(*asking(line, ask))


def states(line: Line) -> Items:
    """WHAT, A and B: paths are the shell's own."""
    yield from files.paths(line)
    word, sign, _ = line.incomplete.partition(":")
    if sign and word == "git":
        yield from behind("git:", files.commits(line))
    elif sign and word == "history":
        yield from behind("history:", numbers(line))
    else:
        yield item("live", "the stores of the settings")
        yield from (item("git:", "a commit"), item("history:", "a revision"))
        yield from settings.stores(line)


def numbers(line: Line) -> Items:
    """Revisions of the store that keeps a history; of one kind, where it keeps each by itself."""
    from sentinel_core.cli.rules.past import past
    from sentinel_core.cli.stores import history_store

    def ask() -> Items:
        with history_store(line.app, line.store, line.kind) as (source, its):
            lines = past(line.app, source, its, may_begin=True).lines
            begun = line.incomplete.removeprefix("history:")
            fit = [number for number in sorted(lines, reverse=True) if str(number).startswith(begun)]
            yield from (item(str(number), _said(lines[number].revision)) for number in fit[:REVISIONS])

    return () if any(map(_is_far_repository, line.stores())) else soon(ask)


def versions(line: Line) -> Items:
    """The newest revisions, as their store names them."""
    from sentinel_core.cli.rules.past import past
    from sentinel_core.cli.rules.sides import short_version
    from sentinel_core.cli.stores import opened
    from sentinel_core.datasources.contract import HasHistory
    from sentinel_core.rules import KINDS

    def ask(uri: str) -> Items:
        with opened(line.app, uri) as source:
            for its in source.items((line.kind,) if line.kind else KINDS):
                if isinstance(source, HasHistory):
                    kept = source.history(its, limit=REVISIONS)
                else:
                    lines = past(line.app, source, its).lines
                    kept = [lines[number].revision for number in sorted(lines, reverse=True)[:REVISIONS]]
                yield from (item(short_version(each), _said(each)) for each in kept)

    return soon(*asking(line, ask))


def plans(line: Line) -> Items:
    """What wrote the revisions that the store with a history shows, each once for all kinds that it wrote."""
    from sentinel_core.cli.rules.past import past
    from sentinel_core.cli.stores import history_items

    def ask() -> Items:
        with history_items(line.app, line.store, line.kind) as (source, items):
            pasts = [past(line.app, source, its, may_begin=True).lines for its in items]
        lines = [each[number] for each in pasts for number in sorted(each, reverse=True)]
        for each in sorted(lines, key=lambda each: each.when or _NEVER, reverse=True):
            if plan := each.revision.provenance.plan_id:
                yield item(plan, _said(each.revision))

    return () if any(map(_is_far_repository, line.stores())) else soon(ask)


def running(line: Line) -> Items:
    """What services of this machine run, by commit and digest, and what they could."""
    from sentinel_core.cli.instances.found import running as found

    for each in found(line.app.settings):
        for kind, what in each.status.kinds.items():
            for name in ("commit", "digest"):
                if what.get(name):
                    yield item(str(what[name])[:12], f"{kind}, run by {each.status.instance}")
    yield from versions(line)


def quarantined(line: Line) -> Items:
    """Digests."""
    from sentinel_core.cli.stores import opened, store_uris
    from sentinel_core.publishing.quarantine import quarantined as held
    from sentinel_core.rules import KINDS

    def ask() -> Items:
        with opened(line.app, line.store or store_uris(line.app)[0]) as source:
            found = [kept for each in source.items((line.kind,) if line.kind else KINDS) for kept in held(source, each)]
        for kept in sorted(found, key=lambda each: each.since, reverse=True):
            yield item(kept.digest[:12], f"{kept.kind}, {said(kept.by, kept.since, kept.reason)}")

    return soon(ask)


def asking(line: Line, ask: Callable[[str], Items]) -> list[Callable[[], Items]]:
    """One question for each store of the line; none for a repository that would have to be cloned."""
    return [partial(ask, uri) for uri in line.stores() if not _is_far_repository(uri)]


def _is_far_repository(uri: str) -> bool:
    from sentinel_core.datasources.uri import SourceUri

    parts = SourceUri.parse(uri)
    return parts.scheme.startswith("git") and (parts.scheme not in ("git", "git+file") or "clone" in parts.query)


def _said(revision: Revision) -> str:
    of = revision.provenance
    return said(of.author or of.published_by, of.published_at or of.committed_at, of.reason or of.message)

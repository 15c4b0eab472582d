"""The revisions of an item, numbered: what the store remembers, joined with what the audit store was told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import click

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError
from sentinel_core.datasources.contract import DatasourceError, HasHistory, Item, LooseVersions, Readable
from sentinel_core.datasources.names import DOCUMENT_NAME, YAML_SUFFIXES
from sentinel_core.publishing.running import Remembers
from sentinel_core.rules import Kind, Provenance, Revision, RuleRejected, RuleSet, SourceText, parse_revision

if TYPE_CHECKING:
    from sentinel_core.audit.errors import StoreUnavailable
    from sentinel_core.audit.event import Event
    from sentinel_core.audit.query.told import Told
    from sentinel_core.audit.standing import Standing
    from sentinel_core.audit.store.contract import AuditStore, EventHead
    from sentinel_core.audit.verify import Promise

HISTORY_LIMIT = 10_000
"""Revisions that are counted; a store with more is addressed by commit."""
SHORTEST_NAME = 4
Origin = Literal["store", "audit", "both"]


@dataclass(frozen=True, slots=True)
class Line:
    """One revision. One that the store keeps no more has no content here, and says what the head of its event does."""

    revision: Revision
    told: Told | None
    origin: Origin
    state: Mapping[Kind, EventHead]
    """Of each kind the event that tells what stood at this revision."""

    @property
    def seen(self) -> datetime | None:
        """When the first instance told of it."""
        return self.told.time if self.told else None

    @property
    def when(self) -> datetime | None:
        """When it was made, else when it was told of."""
        provenance = self.revision.provenance
        return provenance.published_at or provenance.committed_at or self.seen


class Past(Mapping[int, Revision]):
    """Revisions by number, with content: 1 is the oldest that is known. Content that only the audit store has is put
    together when it is asked for; raises CommandError where that cannot be done."""

    def __init__(
        self,
        item: Item,
        lines: Sequence[Line],
        audit: AuditStore | None,
        missing: str | None,
        promises: Mapping[str, Promise],
    ) -> None:
        self.lines = dict(enumerate(lines, 1))
        self.audit = audit
        """None where it cannot be asked; `missing` says why."""
        self.missing = missing
        self._item = item
        self._promises = promises
        self._whole: dict[int, Revision] = {}

    def __getitem__(self, number: int) -> Revision:
        if number not in self._whole:
            line = self.lines[number]
            self._whole[number] = line.revision if line.origin != "audit" else self._put_together(number, line)
        return self._whole[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def newest(self) -> int:
        """Of those that the store has: behind it there may be revisions whose branch was set back."""
        kept = [number for number, line in self.lines.items() if line.origin != "audit"]
        return max(kept or self.lines)

    def number_of(self, version: str) -> int | None:
        """Of a version as its store writes it."""
        return next((number for number, line in self.lines.items() if line.revision.version == version), None)

    def named(self, name: str) -> int | None:
        """The newest whose version or commit begins so, of those that only the audit store has."""
        if len(name) < SHORTEST_NAME:
            return None
        for number in sorted(self.lines, reverse=True):
            line = self.lines[number]
            names = (line.revision.version, line.revision.provenance.commit_hash or "")
            if line.origin == "audit" and any(each.startswith(name) for each in names):
                return number
        return None

    def was_dropped(self, number: int) -> bool:
        """Whether the store has older ones and not this: a branch was set back, or the store lost it."""
        line = self.lines[number]
        return line.origin == "audit" and any(
            older < number and each.origin != "audit" for older, each in self.lines.items()
        )

    def _put_together(self, number: int, line: Line) -> Revision:
        """From the rules in the events, if they are what their digests say, and the events as they were written."""
        from sentinel_core.datasources.provenance import decode

        sets: dict[Kind, RuleSet] = {}
        provenance = line.revision.provenance
        for kind, head in line.state.items():
            event = self._event(head)
            found = _rules_of(event.data if event else b"", kind, head.new_digest)
            if found is None:
                raise CommandError(
                    f"the store remembers revision {number} ({line.revision.version}) no more, and the {kind} rules in "
                    f"event {head.id} are not what its digest says (hidden or credentials in them, or damaged)",
                    next_step=f"sentinelctl audit show {head.id[:8]}    (what is known of it)",
                )
            self._check(number, head)
            sets[kind] = found
            if event and line.told and head.id == line.told.heads.get(kind, head).id and kind in line.told.heads:
                provenance = (decode(event.data) or (provenance, None))[0]
        return replace(line.revision, texts=_texts(self._item, sets), provenance=provenance)

    def stands(self, numbers: Sequence[int]) -> Standing | None:
        """How far the events of these revisions can be relied on; None where there is no audit store."""
        from sentinel_core.audit.standing import standing

        told = [self.lines[number].told for number in numbers]
        heads = [head for each in told if each is not None for head in each.heads.values()]
        return standing(self.audit, heads, self._promises) if self.audit and heads else None

    def _check(self, number: int, head: EventHead) -> None:
        """Raises CommandError for an event that is not what its hash in the chain says: its digest may be as new as its
        rules."""
        from sentinel_core.audit.standing import standing

        stands = standing(self.audit, [head], self._promises) if self.audit else None
        if stands is not None and (not stands.is_sound or not stands.checked):
            raise CommandError(
                f"revision {number} would come from event {head.id}, and that is not as it was written: the audit "
                "store was tampered with, or is damaged",
                next_step="sentinelctl audit verify    (names every event that was altered)",
            )

    def _event(self, head: EventHead) -> Event | None:
        """None where it is gone or damaged."""
        from sentinel_core.audit.errors import StoreUnavailable

        try:
            return self.audit.get(head.id, head.source) if self.audit else None
        except StoreUnavailable:
            return None


def _rules_of(data: bytes, kind: Kind, digest: str | None) -> RuleSet | None:
    """The new rules of an event; None where they are not those of its digest."""
    import json

    try:
        text = SourceText(f"{kind} rules of the event", json.dumps(json.loads(data)["newRules"]).encode(), "json")
        found = parse_revision(Revision((text,), "", ""), (kind,))[kind]
    except (RuleRejected, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if found.digest == digest else None


def _texts(item: Item, sets: Mapping[Kind, RuleSet]) -> tuple[SourceText, ...]:
    from sentinel_core.rules.write import document, json_list

    if len(item.kinds) == 1:
        return tuple(SourceText(item.key, json_list(rules), "json") for rules in sets.values())
    name = item.key if item.key.endswith(YAML_SUFFIXES) else DOCUMENT_NAME
    return (SourceText(name, document(sets, name), "yaml"),)


def past(app: App, source: Readable, item: Item, *, may_begin: bool = False) -> Past:
    """Every revision that the store or the audit store knows. Without an audit store: what the store remembers.

    What only the audit store has stands where it was told. Raises CommandError where neither can know anything, unless
    that is because nothing was told so far and the past `may_begin` with what stands there.
    """
    from sentinel_core.audit.errors import StoreMissing
    from sentinel_core.cli.audit.stands import promises

    with app.out.waiting(f"reading the history of {item.key}"):
        kept = _kept(source, item)
        audit, told, missing = _told(app, item)
    is_new = isinstance(missing, StoreMissing)
    if audit is None and not isinstance(source, HasHistory) and not (is_new and may_begin):
        raise CommandError(
            f"{source.uri} keeps no history, and the audit store cannot be asked: {missing}",
            next_step="use a Git store: git+file:///path/of/repository?ref=main&path=rules, or "
            + (
                "let a service follow this one: what it applies is recorded from then on"
                if is_new
                else "let audit.store in sentinel.yaml name one that answers (sentinelctl doctor asks it)"
            ),
        )
    pairs, gone = _matched(source, kept, told)
    lines = []
    state: dict[Kind, EventHead] = {}
    for revision, event in _in_order(pairs, gone):
        state |= event.heads if event else {}
        if revision is not None:
            lines.append(Line(revision, event, "both" if event else "store", dict(state)))
        elif event is not None:
            lines.append(Line(_outline(item, event), event, "audit", dict(state)))
    checkpoints = app.settings.audit.checkpoints
    vouched = promises(checkpoints) if audit else {}
    return Past(item, lines, audit, None if missing is None else str(missing), vouched)


def remembering(app: App, source: Readable) -> Remembers:
    """What the store or the audit store remembers of an item; what neither can show is passed over."""

    def revisions(item: Item) -> Iterator[Revision]:
        try:
            found = past(app, source, item)
        except (CommandError, DatasourceError):
            return
        for number in range(found.newest if found else 0, 0, -1):
            with suppress(CommandError):
                if not found.was_dropped(number):
                    yield found[number]

    return revisions


def _kept(source: Readable, item: Item) -> list[Revision]:
    """What the store remembers, oldest first; of one without a memory, what stands there."""
    if isinstance(source, HasHistory):
        return list(reversed(source.history(item, limit=HISTORY_LIMIT)))
    reading = source.read(item)
    return [reading] if isinstance(reading, Revision) else []


def event_sources(item: Item) -> tuple[str, ...]:
    """Those that events of changes of this item may carry: lists are sources themselves, documents one a kind."""
    from sentinel_core.audit.event import storable
    from sentinel_core.masking import mask_text

    base = storable(mask_text(item.source))
    return (base, *(f"{base}/{kind}" for kind in item.kinds))


def _told(app: App, item: Item) -> tuple[AuditStore | None, list[Told], StoreUnavailable | None]:
    from sentinel_core.audit.errors import StoreUnavailable
    from sentinel_core.audit.query.told import told
    from sentinel_core.cli.audit.common import opened

    try:
        opening: AbstractContextManager[AuditStore] = opened(app)
        store = click.get_current_context().with_resource(opening)
        return store, told(store, event_sources(item)), None
    except StoreUnavailable as error:
        return None, [], error


def _matched(
    source: Readable, kept: Sequence[Revision], told: Sequence[Told]
) -> tuple[list[tuple[Revision, Told | None]], list[Told]]:
    """Each revision of the store with what was told of it; what was told of others."""
    left = {each.version: each for each in told}
    found = [left.pop(revision.version, None) for revision in kept]  # all that are exact before any that is near
    loose = source.same_version if isinstance(source, LooseVersions) else None
    for number, revision in enumerate(kept):
        if found[number] is None and loose is not None:
            name = next((each for each in left if loose(each, revision.version)), "")
            found[number] = left.pop(name, None)
        if found[number] is None and revision.observed:  # each host names it by what it saw itself
            name = next((each.version for each in reversed(told) if _is_same(each, revision)), "")
            found[number] = left.pop(name, None)
    return list(zip(kept, found, strict=True)), list(left.values())


def _is_same(event: Told, revision: Revision) -> bool:
    try:
        sets = parse_revision(revision, tuple(event.heads))
    except RuleRejected:
        return False
    return all(kind in sets and sets[kind].digest == head.new_digest for kind, head in event.heads.items())


def _in_order(
    pairs: Sequence[tuple[Revision, Told | None]], gone: Sequence[Told]
) -> Iterator[tuple[Revision | None, Told | None]]:
    """Oldest first: the store's own order, and the others between by the time at which they were told."""
    waiting = list(gone)
    for revision, event in pairs:
        made = revision.provenance.published_at or revision.provenance.committed_at
        at = event.time if event else made
        while waiting and (at is None or waiting[0].time < at):
            yield None, waiting.pop(0)
        yield revision, event
    yield from ((None, each) for each in waiting)


def _outline(item: Item, event: Told) -> Revision:
    head = next(iter(event.heads.values()))
    provenance = Provenance(
        commit_hash=head.commit,
        author=head.author,
        message=head.message,
        channel=head.channel or "unknown",
        environment=head.environment,
        reason=head.reason,
        plan_id=head.plan,
        rollback_of=head.rollback_of,
    )
    return Revision((), item.source, event.version, provenance)

"""What engines run of rules that a store does not tell: where its text is not valid, is gone or says nothing of a kind,
they keep what was valid last. And what was published last, which an edit by hand has replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from sentinel_core.datasources.contract import DatasourceError, HasHistory, HasNotes, Item, Readable, Reading
from sentinel_core.datasources.provenance import NAME, decode, rules_of
from sentinel_core.publishing.standing import digests_of, sets_of
from sentinel_core.publishing.sync_note import remembered
from sentinel_core.rules import Kind, Provenance, Revision, RuleSet

Remembers = Callable[[Item], Iterable[Revision]]
"""The revisions of an item that are known, newest first; none where nobody remembers any."""
_FIRST, _MOST = 20, 500
"""Revisions that are asked for at first, and where these do not tell."""


@dataclass(frozen=True, slots=True)
class Older:
    """The newest valid rules of an item."""

    sets: Mapping[Kind, RuleSet]
    revision: Revision
    """The newest that is valid."""


def newest_valid(revisions: Iterable[Revision], kinds: Sequence[Kind], wanted: Collection[Kind] = ()) -> Older | None:
    """`revisions`: newest first. A kind of `wanted` that the newest valid one does not carry comes from the newest that
    does: engines keep it. None where no revision is valid."""
    sets: dict[Kind, RuleSet] = {}
    newest: Revision | None = None
    for revision in revisions:
        found = sets_of(revision, kinds)
        if found is None:
            continue
        if newest is None:
            newest, sets = revision, dict(found)
        sets |= {kind: found[kind] for kind in wanted if kind in found and kind not in sets}
        if all(kind in sets for kind in wanted):
            break
    return Older(sets, newest) if newest is not None else None


def store_remembers(source: Readable) -> Remembers:
    """What the store itself remembers; nothing where it keeps no history or does not show it."""

    def revisions(item: Item) -> Iterator[Revision]:
        if not isinstance(source, HasHistory):
            return
        try:
            found = source.history(item, limit=_FIRST)
            yield from found
            if len(found) == _FIRST:
                yield from islice(source.history(item, limit=_MOST), _FIRST, None)
        except DatasourceError:
            return

    return revisions


def last_published(source: Readable, reading: Reading, item: Item, remembers: Remembers) -> Mapping[Kind, str]:
    """Digests of the rules that were published last, where somebody has edited, deleted or broken them since; nothing
    where what stands was published. A store without history has what it keeps beside the rules. Raises
    DatasourceError."""
    if isinstance(reading, Revision) and _is_published(reading):
        return {}
    found = next((each for each in islice(remembers(item), _FIRST) if _is_published(each)), None)
    return digests_of(sets_of(found, item.kinds)) if found is not None else told_beside(source, item)


def told_beside(source: Readable, item: Item) -> Mapping[Kind, str]:
    """Digests of the rules that were published last, as the store's notes tell, whatever stands there now: the
    provenance of a store without history, or what a synchronisation has noted. Raises DatasourceError."""
    content = None
    if isinstance(source, HasNotes) and not isinstance(source, HasHistory):
        with suppress(DatasourceError):  # what is damaged tells nothing, and is replaced by what is published
            content = source.note(item, NAME)
    told = decode(content) if content is not None else None
    if content is not None and told is not None and _guarded(told[0]):
        return rules_of(content)
    return remembered(source, item) or {}


def _is_published(revision: Revision) -> bool:
    return _guarded(revision.provenance)


def _guarded(provenance: Provenance) -> bool:
    """Whether it is of a plan or a rollback, which are what guards have seen."""
    return provenance.plan_id is not None or provenance.rollback_of is not None

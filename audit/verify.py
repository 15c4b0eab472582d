"""Whether the evidence is what was written: a walk through every event that goes on after a failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sentinel_core.audit.chain import START, About, ChainedStore, Entry, Head, Page, Run

Kind = Literal[
    "gap",
    "duplicate",
    "reordered",
    "hash mismatch",
    "bad signature",
    "truncated after",
    "bad segment",
    "altered layout",
    "altered record",
    "damaged file",
    "no checkpoint",
]


@dataclass(slots=True)
class Finding:
    """Something that is not as it was written: events `number` to `last` of a source."""

    kind: Kind
    source: str
    number: int
    """`truncated after`: the last event that is there."""
    last: int
    text: str
    event: About | None = None
    """The first of them, where it is there."""

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        told = {name: getattr(self, name) for name in ("kind", "source", "number", "last", "text")}
        return told | (self.event or About("", None, None))._asdict() | {"id": self.event and self.event.id}


@dataclass(frozen=True, slots=True)
class Promise:
    """What a checkpoint, or the record of a purge, says of a source; its signature was checked."""

    source: str
    number: int
    hash: bytes
    time: str
    """RFC 3339."""
    by: str = "checkpoint"
    adopted: int | None = None
    """How many events were there before the chain; None where it does not tell."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a walk found. Sound where there are no findings."""

    events: int
    """Those of segments included."""
    heads: Sequence[Head]
    """The last event of each source that is there."""
    findings: Sequence[Finding]
    adopted: int
    """Events that were there before the store kept a chain: nobody can tell what happened to them before."""


def verify(
    store: ChainedStore,
    promises: Sequence[Promise] = (),
    *,
    begins: Sequence[Promise] = (),
    sealed: Iterable[Page] | None = None,
) -> Verdict:
    """Walks through the whole store; `promises` must have been read before. Raises StoreUnavailable.

    `begins`: the last purged event of each source, behind which its chain goes on. `sealed`: the purged events
    themselves; then each chain is walked from its first event on.
    """
    walk = _Walk([*promises, *begins])
    heads, pages = store.pages(walk.promised)
    for page in sealed or ():
        walk.meet(page)
    walk.go_on_behind(begins, sealed=sealed is not None)
    for page in pages:
        walk.meet(page)
    walk.finish(heads)
    met = [
        Head(name, source.last, source.hash if isinstance(source.hash, bytes) else b"")
        for name, source in sorted(walk.sources.items())
    ]
    return Verdict(walk.events, met, walk.findings, sum(head.adopted for head in heads))


@dataclass(slots=True)
class _Source:
    """How far the walk has come in one source."""

    promised: Mapping[int, Sequence[Promise]]
    last: int = 0
    hash: Any = START
    """As it stands there."""
    computed: bytes | None = START
    missing: list[tuple[int, int]] = field(default_factory=list)
    purged: int = 0
    """Up to this event nothing needs to be there any more. A purge that was cut off leaves the last of them: until one
    was met, the chain may begin with any of them."""
    kept: int = 0
    """The last event that a checkpoint vouched for."""


class _Walk:
    def __init__(self, promises: Sequence[Promise]) -> None:
        self.sources: dict[str, _Source] = {}
        self.findings: list[Finding] = []
        self.events = 0
        self.promised: dict[str, dict[int, list[Promise]]] = {}
        for promise in promises:
            self.promised.setdefault(promise.source, {}).setdefault(promise.number, []).append(promise)

    def meet(self, page: Page) -> None:
        """The next events in the order of arrival."""
        self.events += page.events
        if page.runs is not None and all(map(self._follows, page.runs)):
            for run in page.runs:
                self._go_on(run)
        else:
            for entry in page.entries():
                self._look_closer(entry)

    def go_on_behind(self, begins: Sequence[Promise], *, sealed: bool) -> None:
        """What the store has comes behind these; where `sealed`, the walk has met them."""
        for begin in begins:
            source = self._source(begin.source)
            source.purged = begin.number
            if not sealed:
                source.last, source.hash, source.computed = begin.number, begin.hash, begin.hash
                self._compare(begin.source, source, begin.number, begin.hash)

    def _follows(self, run: Run) -> bool:
        source = self._source(run.source)
        return run.first == source.last + 1 and run.previous == source.hash

    def _go_on(self, run: Run) -> None:
        source = self._source(run.source)
        source.last, source.hash, source.computed, source.purged = run.last, run.hash, run.hash, 0
        for number, made in run.wanted.items():
            self._compare(run.source, source, number, made)

    def _look_closer(self, entry: Entry) -> None:
        is_whole = entry.computed is not None and entry.computed == entry.hash and isinstance(entry.source, str)
        name, number = (entry.source, entry.number) if is_whole else self._place(entry)
        source = self._source(name)
        if not is_whole:
            self._tell("hash mismatch", name, number, "is not what was written", about=entry.about)
        if number <= source.purged:
            source.last, source.hash, source.computed = number - 1, entry.previous, entry.previous
        source.purged = 0
        if source.last < number:
            if number > source.last + 1:
                source.missing.append((source.last + 1, number - 1))
            elif is_whole and entry.previous not in {source.hash, source.computed}:
                self._tell(
                    "hash mismatch", name, source.last or 1, "is not the event that the next one was written after"
                )
            source.last, source.hash, source.computed = number, entry.hash, entry.computed
        elif not _take(source.missing, number):
            self._tell("duplicate", name, number, "is there again", about=entry.about)
        else:
            self._tell("reordered", name, number, "stands behind a later one", about=entry.about)
        if number in source.promised and is_whole:
            self._compare(name, source, number, entry.hash)

    def _place(self, entry: Entry) -> tuple[str, int]:
        """Where an event belongs whose own word cannot be trusted: behind the one that it was written after."""
        for name, source in self.sources.items():
            if source.last and entry.previous in (source.hash, source.computed):
                return name, source.last + 1
        name = entry.source if isinstance(entry.source, str) else str(entry.source)
        next_number = self._source(name).last + 1
        return name, entry.number if isinstance(entry.number, int) and 0 < entry.number < next_number else next_number

    def _source(self, name: str) -> _Source:
        if name not in self.sources:
            self.sources[name] = _Source(self.promised.get(name, {}))
        return self.sources[name]

    def _compare(self, name: str, source: _Source, number: int, made: bytes) -> None:
        for promise in source.promised[number]:
            if promise.hash != made:
                text = f"another chain than the one that the {promise.by} of {promise.time} saw"
                self._tell("hash mismatch", name, source.kept + 1, text, number)
        source.kept = number

    def finish(self, heads: Iterable[Head]) -> None:
        """What can be told only when all was seen."""
        known = {head.source: head for head in heads}
        for name in {*known, *self.promised, *self.sources}:
            source, head = self._source(name), known.get(name)
            for first, last in source.missing:
                self._tell("gap", name, first, "is missing", last)
            told = max(source.promised, default=0)
            if source.last < max(told, head.number if head else 0):
                by = (
                    f"the {source.promised[told][0].by} of {source.promised[told][0].time}"
                    if told > source.last
                    else "the store's own record"
                )
                self._tell("truncated after", name, source.last, f"{by} knows of more")
            elif head is None:
                self._tell("hash mismatch", name, source.last, "is an end of which the store has no record of its own")
            elif (head.number, head.hash) != (source.last, source.hash):
                self._tell("hash mismatch", name, source.last, "is not the end that the store's own record knows")
            counts = {each.adopted for promises in source.promised.values() for each in promises} - {None}
            if head is not None and counts - {head.adopted}:
                text = "how many are from before the chain is not what a checkpoint saw"
                self._tell("altered record", name, 0, text)
        self.findings.sort(key=lambda finding: (finding.source, finding.number))

    def _tell(
        self, kind: Kind, source: str, number: int, text: str, last: int | None = None, about: About | None = None
    ) -> None:
        """Neighbours with the same trouble are one finding: a store of ten million may be wrong throughout."""
        before = self.findings[-1] if self.findings else None
        if before and (before.kind, before.source) == (kind, source) and before.last in {number, number - 1}:
            before.last = max(before.last, last or number)
        else:
            self.findings.append(Finding(kind, source, number, last or number, text, about))


def _take(missing: list[tuple[int, int]], number: int) -> bool:
    """Whether `number` was missing; it is not any more."""
    for place, (first, last) in enumerate(missing):
        if first <= number <= last:
            missing[place : place + 1] = [
                span for span in ((first, number - 1), (number + 1, last)) if span[0] <= span[1]
            ]
            return True
    return False

"""Whether the instances that follow a store run what was written there: told by their applied events.

An instance follows a store where the newest that it applied from there is what stands there before the write, or what
is written: who had missed that already has most likely ended, and is not waited for. Times are the instances' own, and
only those of one instance are compared with each other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sentinel_core.audit.event import RuleApplied, RuleRejected
from sentinel_core.audit.store.contract import AuditStore, Condition, EventHead, Query
from sentinel_core.rules import Kind
from sentinel_core.status_file import Status

MOST_READ = 50_000
"""Applied events of one source that are looked at, newest first, for who follows it."""
CLOCKS_DIFFER = timedelta(minutes=10)
"""By so much the clock of an instance may be behind ours: its word is looked for so far back."""
_PAGE = 5000


@dataclass(frozen=True, slots=True)
class Target:
    """Rules of one kind that stand, or are to stand, at one item of a store."""

    item: str
    """The item's source, as rejected events and status files carry it."""
    source: str
    """The same as applied events carry it."""
    kind: Kind
    digest: str
    version: str | None = None
    """At which the rules stand; None before they are written."""


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the instances must run it: a number of them, or percent of those that count."""

    number: int | None = None
    percent: float | None = None

    def of(self, counted: int) -> int:
        """Rounded up: 95 % of 20 are 19, of 10 they are 10."""
        if self.number is not None:
            return self.number
        return math.ceil(counted * (100.0 if self.percent is None else self.percent) / 100 - 1e-9)


@dataclass(frozen=True, slots=True)
class Convergence:
    """Who runs what was written, at one look."""

    arrived: tuple[str, ...]
    lagging: Mapping[str, str | None]
    """Digest of the newest that each of them is known to run, of the first kind that it lacks."""
    rejected: tuple[str, ...]
    """Told that they refuse it; not among those that lag."""
    needed: int

    @property
    def counted(self) -> int:
        return len(self.arrived) + len(self.lagging) + len(self.rejected)

    @property
    def done(self) -> bool:
        """Enough run it, and nobody refuses it."""
        return len(self.arrived) >= self.needed and not self.rejected

    @property
    def hopeless(self) -> bool:
        """Nobody is left who could change the answer: the rest refuses it."""
        return bool(self.rejected) and not self.lagging


class Fleet:
    """The instances that follow a store. Each look asks the audit store anew; raises StoreUnavailable."""

    def __init__(
        self,
        store: AuditStore,
        standing: Sequence[Target],
        local: Iterable[Status] = (),
        stopped: Collection[str] = (),
    ) -> None:
        """`standing`: what stands in every item of the store, before the write. `local`: status files of this machine,
        a second witness of those that run here. `stopped`: names of those that were closed here."""
        store.query(Query(limit=1))  # whether it can be asked, also where there is nothing to ask for yet
        self._store = store
        self.standing = tuple(standing)
        local = tuple(local)
        items = {each.item for each in standing}
        self.followers = {status.instance for status in local if not status.ended and _sources(status) & items}
        """By name."""
        self._before: dict[str, dict[str, str | None]] = {}
        for each in standing:
            ran = {name: head.new_digest for name, head in self._newest(each.source, None).items()}
            self._before[each.source] = ran
            self.followers |= {name for name, digest in ran.items() if digest == each.digest}
        self.followers -= _ended(local, stopped)

    def look(
        self,
        targets: Sequence[Target],
        began: datetime,
        share: Share,
        *,
        instances: int | None = None,
        local: Iterable[Status] = (),
        stopped: Collection[str] = (),
    ) -> Convergence:
        """`began`: when the write began, by our clock (aware). `instances`: so many count, however many are known."""
        local = tuple(local)
        ended = _ended(local, stopped)
        runs = [self._runs(each, began, local) for each in targets]
        arrived = (set.intersection(*(names for names, _ in runs)) if runs else set(self.followers)) - ended
        rejected = self._rejected(targets, began) - arrived - ended
        lagging = (self.followers | set.union(*(names for names, _ in runs), set())) - arrived - rejected - ended
        counted = len(arrived) + len(lagging) + len(rejected)
        return Convergence(
            tuple(sorted(arrived)),
            {
                name: next((newest.get(name) for names, newest in runs if name not in names), None)
                for name in sorted(lagging)
            },
            tuple(sorted(rejected)),
            share.of(counted if instances is None else instances),
        )

    def _runs(self, target: Target, began: datetime, local: Sequence[Status]) -> tuple[set[str], dict[str, str | None]]:
        """Who runs it, and the newest digest that each is known to have applied."""
        stood = any((each.source, each.digest) == (target.source, target.digest) for each in self.standing)
        since = None if stood else began - CLOCKS_DIFFER
        newest = self._newest(target.source, since)
        names = {name for name, head in newest.items() if head.new_digest == target.digest}
        if target.version is not None:  # it may have gone on to a later revision already
            names |= set(self._newest(target.source, since, revision=target.version, digest=target.digest))
        names |= {status.instance for status in local if not status.ended and _runs_it(status, target)}
        return names, self._before.get(target.source, {}) | {name: head.new_digest for name, head in newest.items()}

    def _newest(self, source: str, since: datetime | None, **wanted: str) -> dict[str, EventHead]:
        """The newest that each instance applied from a source."""
        found: dict[str, EventHead] = {}
        conditions = _conditions(type=RuleApplied.TYPE, source=source, **wanted)
        after, left = None, MOST_READ
        while left > 0:
            page = self._store.query(Query(conditions, since, None, min(_PAGE, left), after))
            for row in page.rows:
                if row.event.instance is not None:
                    found.setdefault(row.event.instance, row.event)
            after, left = page.next, left - _PAGE
            if after is None:
                break
        return found

    def _rejected(self, targets: Sequence[Target], began: datetime) -> set[str]:
        names: set[str] = set()
        for item, version in dict.fromkeys((each.item, each.version) for each in targets if each.version):
            asked = _conditions(type=RuleRejected.TYPE, source=item, revision=str(version))
            page = self._store.query(Query(asked, began - CLOCKS_DIFFER, None, _PAGE))
            for head in {row.event.id: row.event for row in page.rows}.values():
                names |= {sighting.instance for sighting in self._store.sightings(head)}
        return names


def _conditions(**wanted: str) -> tuple[Condition, ...]:
    return tuple(Condition(column, "is", (value,)) for column, value in wanted.items())


def _ended(local: Sequence[Status], stopped: Collection[str]) -> set[str]:
    """Names under which a process has ended and none runs."""
    running = {status.instance for status in local if not status.ended}
    return {status.instance for status in local if status.ended}.union(stopped) - running


def _sources(status: Status) -> set[str]:
    return {str(each.get("source")) for each in status.kinds.values()}


def _runs_it(status: Status, target: Target) -> bool:
    runs = status.kinds.get(target.kind, {})
    return (runs.get("source"), runs.get("digest")) == (target.item, target.digest)

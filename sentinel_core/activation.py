"""One change of rules from bytes to running: parse, compare, build aside, make the evidence durable, swap.

One lock serialises changes, whoever makes them. The swap is one assignment; the only other lock (`Engine.build_lock`)
is held for the moment in which plans are carried over, never across I/O, so calls do not wait for a disk.
"""

from __future__ import annotations

import gc
import itertools
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from sentinel_core.audit.events import Event, EventSink, rule_changed, rule_rejected
from sentinel_core.audit.redact import mask_problem
from sentinel_core.audit.redaction import Redaction
from sentinel_core.datasources import Applied, Outcome
from sentinel_core.datasources.layers import Layer, Layers
from sentinel_core.remarks import refuse_as_java
from sentinel_core.rules import Kind, Problem, Provenance, Revision, RuleRejected, RuleSet, SourceText, parse_revision
from sentinel_core.rules.registry import build_kinds

if TYPE_CHECKING:
    from sentinel_core.plan import Snapshot
    from sentinel_core.snapshot import Compiler

logger = logging.getLogger("sentinel_core")

LATE_EVENTS = 10_000
"""Events kept in memory while the outbox cannot be written; the oldest go first, counted."""
REJECTIONS = 1_000
"""Rejected contents that are remembered, so that each is told once."""


STEPS = 10_000
"""Steps that are counted before counting begins anew."""
Step = tuple[RuleSet, RuleSet]
"""Rules of one kind in one store: before, after."""

build_kinds()  # with an engine come threads


class Activation:
    """Applies revisions to an engine's snapshot. All methods may be called from any thread."""

    def __init__(
        self,
        compiler: Compiler,
        read: Callable[[], Snapshot],
        swap: Callable[[Snapshot], None],
        build_lock: threading.RLock,
        *,
        app: str,
        environment: str,
        instance: str,
        sink: EventSink | None,
        redaction: Redaction,
        annotate: Callable[[RuleSet], RuleSet],
        wall: Callable[[], datetime],
    ) -> None:
        self.compiler = compiler
        self.read = read
        self.swap = swap
        self.build_lock = build_lock
        self.app = app
        self.environment = environment
        self.instance = instance
        self.sink = sink
        self.redaction = redaction
        self.annotate = annotate
        """Adds warnings for rules that do not act as written."""
        self.wall = wall
        self.lock = threading.RLock()
        self.late: deque[Event] = deque(maxlen=LATE_EVENTS)
        self.lost_events = 0
        self.unchanged = 0
        self.activated = 0
        self.rejected = 0
        self.sink_error: str | None = None
        self.last_activation_ms: float | None = None
        self.total_activation_ms = 0.0
        self.applied: Callable[[Sequence[RuleSet], Revision, float], None] | None = None
        """Hears of each activation after the swap: what changed, by what, and ms from bytes in hand; must be quick."""
        self._retrying: threading.Thread | None = None
        self._closed = threading.Event()
        self._made: Counter[tuple[str | None, ...]] = Counter()
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    def apply(self, kinds: Sequence[Kind], revision: Revision, layer: Layer, *, restored: bool) -> Applied:
        """What the subscription of a layer calls. Raises RuleRejected after telling the audit once per content, except
        of a content that says nothing."""
        try:
            rulesets = self._parse(kinds, revision)
            if restored:
                rulesets = self._not_older(rulesets, revision, layer)
        except RuleRejected as found:
            # Who reads logs and states is not the author.
            problems = [mask_problem(problem, self.redaction) for problem in found.problems]
            rejection = RuleRejected(problems, total=found.total)
            if not rejection.says_nothing:
                with self.lock:
                    self._reject(kinds, revision, rejection)
            raise rejection from None
        outcome = self.activate(rulesets, revision, layer, silent=restored)
        self._tell_of_kept(kinds, rulesets, revision, layer)
        return Applied(outcome, frozenset(rulesets))

    def refuse_copy(self, kinds: Sequence[Kind], source: str, why: str) -> None:
        """Tells of a last good copy that cannot be used; once for each source and reason."""
        revision = Revision((SourceText("last-good", why.encode(errors="replace")),), source, "last-good")
        with self.lock:
            self._reject(kinds, revision, RuleRejected([Problem("SR012", "error", why, file="last-good")]))

    def _not_older(self, rulesets: dict[Kind, RuleSet], copy: Revision, layer: Layer) -> dict[Kind, RuleSet]:
        """Without the kinds of which another revision of the same source runs in this process, other than by this
        restore: it is the newer one. Raises RuleRejected where nothing is left."""
        asked = rulesets.keys() - layer.said.keys()
        active = [ruleset for kind, ruleset in self.read().rulesets.items() if kind in asked]
        newer = {
            ruleset.kind: ran
            for ruleset in active
            if (ran := ruleset.revision) and ran.source == copy.source and ran.version != copy.version
        }
        if newer and len(newer) == len(rulesets):
            ran = next(iter(newer.values()))
            why = f"the last good copy of revision {copy.version} is older than {ran.version}, which runs already"
            raise RuleRejected([Problem("SR012", "error", why, file="last-good")])
        return {kind: ruleset for kind, ruleset in rulesets.items() if kind not in newer}

    def _parse(self, kinds: Sequence[Kind], revision: Revision) -> dict[Kind, RuleSet]:
        """The rules of a revision; under compat what Java takes is taken, and what it fails to build is refused."""
        compat = self.compiler.runtime.compat
        rulesets = parse_revision(revision, kinds, compat=compat)
        if compat:
            for ruleset in rulesets.values():
                refuse_as_java(self.compiler.slots, ruleset)
        return rulesets

    def _tell_of_kept(
        self, kinds: Sequence[Kind], carried: Mapping[Kind, RuleSet], revision: Revision, layer: Layer
    ) -> None:
        """A kind that a document does not carry any more keeps its last good rules: never empty by accident."""
        said = layer.said
        kept = [kind for kind in kinds if kind not in carried and kind in said and said[kind].rules]
        if kept:
            logger.warning(
                "%s no longer says anything of %s; the last good rules stay (write an empty list to clear them)",
                revision.source,
                ", ".join(kept),
            )

    def activate(
        self, rulesets: Mapping[Kind, RuleSet], revision: Revision, layer: Layer | None = None, *, silent: bool = False
    ) -> Outcome:
        """Runs what follows from these rule sets of a store from now on: they themselves, where it is the only one.
        `silent`: what was known before a restart is no event."""
        began = time.perf_counter()
        layer = layer or Layers().layer()
        with self.lock:
            self._drain()
            outcome = None
            while outcome is None:
                outcome = self._attempt(rulesets, revision, layer, began, silent=silent)
            layer.keep(rulesets)
            if outcome is Outcome.ACTIVATED:
                self.activated += 1
                self.last_activation_ms = (time.perf_counter() - began) * 1000
                self.total_activation_ms += self.last_activation_ms
            else:
                self.unchanged += 1
            return outcome

    def _attempt(
        self,
        rulesets: Mapping[Kind, RuleSet],
        revision: Revision,
        layer: Layer,
        began: float,
        *,
        silent: bool,
    ) -> Outcome | None:
        """One try; None where another change of this thread came in between (a signal handler, a sink that loads rules)
        and what was built rests on a snapshot that is gone.

        An event tells what became others in the store, also where another store's rules hold in their place: every
        instance then tells the same of it, in whatever order it heard of its stores.
        """
        old = self.read()
        changed = {
            kind: self.annotate(new)
            for kind, new in layer.over(rulesets).items()
            if not self._same(active := old.rulesets.get(kind), new) or layer.moved(active, new)
        }
        steps = [] if silent or self.sink is None else self._steps(old, rulesets, layer)
        if not changed and not steps:
            return Outcome.UNCHANGED
        new = old
        if changed:
            with _collector_paused():
                new = self.compiler.next(old, changed)
                self.compiler.carry(old, new, changed)
        if steps:
            known = self._is_known(old, revision, layer)
            self._tell([self._changed(before, after, revision, known=known) for before, after in steps])
        if changed and not self._replace(old, new, changed):
            return None
        self._remember(steps, revision)
        if changed and self.applied is not None:
            self.applied(list(changed.values()), revision, (time.perf_counter() - began) * 1000)
        return Outcome.ACTIVATED

    def _replace(self, old: Snapshot, new: Snapshot, changed: Mapping[Kind, RuleSet]) -> bool:
        """The swap; False where another one came in between."""
        with self.build_lock:
            if self.read() is not old:
                return False
            self.compiler.carry(old, new, changed)
            self.compiler.listen(new, changed)
            self.compiler.prune(new)
            self.swap(new)
            return True

    def _steps(self, old: Snapshot, rulesets: Mapping[Kind, RuleSet], layer: Layer) -> list[Step]:
        """What this delivery changes of what the store said before."""
        pairs = [(layer.before(kind, old.rulesets.get(kind)), new) for kind, new in rulesets.items()]
        return [
            (RuleSet.empty(new.kind) if before is None else before, new)
            for before, new in pairs
            if not self._same(before, new)
        ]

    def _is_known(self, old: Snapshot, revision: Revision, layer: Layer) -> bool:
        """A kind that appears in a document that was seen before was added by somebody; it was not merely there."""
        return layer.knows(revision.source) or any(
            ruleset.revision is not None and ruleset.revision.source == revision.source
            for ruleset in old.rulesets.values()
        )

    def rebuild(self, change: Callable[[], None]) -> None:
        """Runs the same rules in plans compiled anew after `change`, which no compilation sees half done."""
        with self.lock, self.build_lock:
            change()
            self.swap(self.compiler.again(self.read()))

    def _same(self, old: RuleSet | None, new: RuleSet) -> bool:
        if old is None or old.digest != new.digest:
            return False
        # The digest does not see the order of rules; Java does, and builds everything anew.
        if not self.compiler.runtime.compat:
            return True
        slot = self.compiler.slots.get(new.kind)
        return old.rules == new.rules and not (slot and any(slot.rewrites(rule) for rule in new.rules))

    def _changed(self, before: RuleSet, after: RuleSet, revision: Revision, *, known: bool) -> Event:
        return rule_changed(
            occurrence=self._made[_identity(before, after, revision)],
            environment=self.environment,
            app=self.app,
            old=before,
            new=after,
            revision=revision,
            at=self.wall(),
            instance=self.instance,
            initial=False if known else None,
            redaction=self.redaction,
        )

    def _remember(self, steps: Iterable[Step], revision: Revision) -> None:
        """Counts the steps that were made: a branch that is reset back and forth makes the same one again, and that is
        another event. A step that is only repeated after a crash was not made before, and keeps its id."""
        for before, after in steps:
            self._made[_identity(before, after, revision)] += 1
        if len(self._made) > STEPS:
            self._made.clear()

    def _reject(self, kinds: Sequence[Kind], revision: Revision, rejection: RuleRejected) -> None:
        key = (revision.source, revision.content_digest)
        if key in self._told:
            return
        self._told[key] = None
        if len(self._told) > REJECTIONS:
            self._told.popitem(last=False)
        self.rejected += 1
        subject = kinds[0] if len(kinds) == 1 else "document"
        event = rule_rejected(
            environment=self.environment,
            app=self.app,
            kind_or_subject=subject,
            revision=revision,
            rejection=rejection,
            at=self.wall(),
            instance=self.instance,
            redaction=self.redaction,
        )
        logger.warning("rules from %s are refused, the active ones stay:\n%s", revision.source, rejection)
        self._tell([event])

    def _tell(self, events: list[Event]) -> None:
        """Makes events durable; when that fails they wait in memory, in order, and the change goes on."""
        if self.sink is None:
            return
        if self.late:  # they were tried a moment ago; another wait would hold the rules up
            self._keep_late(events)
            return
        try:
            self.sink.append(events)
            self.sink_error = None
        except Exception as error:  # noqa: BLE001 (protection first: whatever the sink raises, rules must go on)
            self._failed(error)
            self._keep_late(events)

    def _keep_late(self, events: list[Event]) -> None:
        for event in events:
            if len(self.late) == LATE_EVENTS:
                self.lost_events += 1
            self.late.append(event.as_late())
        self._retry_in_background()

    def _retry_in_background(self) -> None:
        if self._retrying is None or not self._retrying.is_alive():
            self._retrying = threading.Thread(target=self._retry, name="sentinel-late-events", daemon=True)
            self._retrying.start()

    def _retry(self) -> None:
        """Runs only while events wait; backs off to half a minute."""
        pause = 0.2
        while not self._closed.wait(pause) and self.retry_late():
            pause = min(pause * 2, 30.0)

    def _drain(self) -> None:
        if not self.late or self.sink is None:
            return
        try:
            self.sink.append(list(self.late))
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed(error)
            return
        self.late.clear()
        self.sink_error = None

    def retry_late(self) -> int:
        """Tries to make waiting events durable; returns how many still wait."""
        with self.lock:
            self._drain()
            return len(self.late)

    def renew_after_fork(self, build_lock: threading.RLock) -> None:
        """For a forked child: locks of its own. Events that wait are tried by both; their ids make them one."""
        closed = self._closed.is_set()
        self.build_lock = build_lock
        self.lock = threading.RLock()
        self._closed = threading.Event()
        if closed:
            self._closed.set()
        self._retrying = None

    def revive(self) -> None:
        """Starts trying again where events wait."""
        if self.late and not self._closed.is_set():
            self._retry_in_background()

    def close(self) -> int:
        """Tries once more; returns how many events could not be made durable."""
        self._closed.set()
        return self.retry_late()

    def _failed(self, error: Exception) -> None:
        if self.sink_error is None:
            logger.error("rule events cannot be made durable and wait in memory (disk full?): %s", error)
        self.sink_error = f"{type(error).__name__}: {error}"


def _identity(before: RuleSet, after: RuleSet, revision: Revision) -> tuple[str, ...]:
    return (revision.source, after.kind, before.digest, after.digest, revision.version)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A full collection in the middle of ten thousand new objects, none of them garbage, costs three times the rest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def by_hand(app: str, ruleset: RuleSet, at: datetime) -> Revision:
    """The revision of rules given through `Engine.load_rules`; instant and number are all the version they have."""
    text = SourceText(f"load_rules({ruleset.kind!r})", ruleset.canonical, "json")
    version = f"{int(at.timestamp() * 1000)}.{next(_loads)}"
    return Revision((text,), f"/api/{app}/{ruleset.kind}", version, Provenance(channel="api"), observed=True)


_loads = itertools.count(1)
"""Tells two loads of one millisecond apart: A to B and back within it are two changes."""

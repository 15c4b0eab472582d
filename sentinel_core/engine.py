"""The engine: rules in, decisions out. The decisions' hot half is `Gate`; this is everything that may take its time."""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Self, Unpack, overload

from sentinel_core import fork, views
from sentinel_core.activation import Activation, by_hand
from sentinel_core.answers import Answers, BlockHandler
from sentinel_core.async_entry import AsyncEntry
from sentinel_core.audit.events import EventSink
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.clock import SECOND, Clock
from sentinel_core.collectors import Collectors
from sentinel_core.collectors.local import Metrics, is_number_of_samples
from sentinel_core.context import current
from sentinel_core.control import Control, shadows_of
from sentinel_core.datasources import LastGood, Readable, Subscription, SubscriptionOptions
from sentinel_core.datasources.patched import threads_are_greenlets
from sentinel_core.debug import watched
from sentinel_core.entry import Entry, entered
from sentinel_core.errors import BlockException, EngineClosed, KindTaken
from sentinel_core.following import Following, Store
from sentinel_core.gate import Core, Gate
from sentinel_core.guard import F, GuardOptions, guarding
from sentinel_core.health import Health
from sentinel_core.listeners import BlockListener, BreakerListener, Listeners
from sentinel_core.modes import EVERYTHING, SHADOW
from sentinel_core.node import Node
from sentinel_core.options import SENTINEL_1_8_9, SENTINEL_SLOT_ORDER, Statistics
from sentinel_core.plan import NO_TAGS, PLAIN, Given, Plan, Snapshot
from sentinel_core.remarks import annotated, refuse_as_java
from sentinel_core.rules import KINDS, Kind, Revision, RuleSet, parse_rules
from sentinel_core.slots import discover, ordered
from sentinel_core.snapshot import Compiler
from sentinel_core.stats import Stats, Totals, stats_of, totals_of
from sentinel_core.window import Bucket

logger = logging.getLogger("sentinel_core")

INBOUND = "__total_inbound_traffic__"
MAX_RESOURCES = 6000


class Engine(Gate):
    """One set of rules and its counters. Makes no thread and no I/O until something is subscribed.

    app, environment, instance   who this is, in events
    clock           the source of time; `sentinel_core.testing.FakeClock` in tests
    audit           where rule events are made durable before a swap is acknowledged
    redaction       fields of rules that events do not show (`sentinel_core.audit.redaction`)
    last_good       where subscriptions keep their last good revision
    compat          "sentinel-1.8.9": decide as Java Sentinel 1.8.9 does, faults included
    slot_order      kinds in the order they are asked, e.g. ("system", "authority"); those left out follow as usual
    statistics      how calls are counted
    collect         let the first rule that needs a collector (load, CPU, an installed business collector) start the
                    thread that reads it
    max_resources   unnamed resources that are counted; calls beyond pass uncounted, rules keep working
    debug           find rules that read from outside (see `sentinel_core.debug`), at some cost for each call
    """

    def __init__(
        self,
        app: str = "app",
        *,
        environment: str = "default",
        instance: str | None = None,
        clock: Clock | None = None,
        audit: EventSink | None = None,
        redaction: Redaction = NONE,
        last_good: LastGood | None = None,
        compat: str | None = None,
        slot_order: Sequence[Kind] = (),
        statistics: Statistics | None = None,
        collect: bool = True,
        max_resources: int = MAX_RESOURCES,
        debug: bool = False,
    ) -> None:
        if compat not in (None, SENTINEL_1_8_9):
            raise ValueError(f"compat is {compat!r}; write {SENTINEL_1_8_9!r} or leave it out")
        clock = clock or Clock()
        statistics = statistics or Statistics()
        if compat:
            statistics = replace(statistics, minutes=True)
        self._statistics = statistics
        self.clock = clock
        self.core = Core(
            clock, self._new_total(), compat is not None, self._plan, self._unchecked, self._failed, self._news_ready
        )
        self.app = app
        self.environment = environment
        self.instance = instance or socket.gethostname()
        self.last_good = last_good
        self.metrics = Metrics()
        self.collectors = Collectors(self)
        self._slots = ordered(discover(), slot_order or (SENTINEL_SLOT_ORDER if compat else ()))
        if debug:
            self._slots = watched(self._slots)
        self._compiler = Compiler(self.core, self.metrics, statistics, self._slots, max_resources, clock.wall)
        self.health = Health(self, self._compiler.health)
        self._build_lock = threading.RLock()
        self._activation = Activation(
            self._compiler,
            lambda: self.snapshot,
            self._swap,
            self._build_lock,
            app=app,
            environment=environment,
            instance=self.instance,
            sink=audit,
            redaction=redaction,
            annotate=lambda ruleset: annotated(self._slots, ruleset),
            wall=clock.wall,
        )
        self._control = Control(self._compiler, self._activation)
        empty = {kind: RuleSet.empty(kind) for kind in KINDS}
        self.core.snapshot = Snapshot(0, empty, {kind: {} for kind in KINDS}, {})
        self._overflow = self._compiler.new_overflow()
        self._following = Following(self._activation, last_good, self._check_open)
        self._answers = Answers()
        self._listeners = Listeners(self.core)
        self._failures = 0
        self._last_failure: str | None = None
        self._failure_said = -(1 << 61)
        self._collect = collect
        self._closed = False
        self._forked = False
        self._revive_lock = threading.Lock()
        self._renewals: list[Callable[[], None]] = []
        fork.remember(self)

    # Rules

    def load_rules(self, kind: Kind, rules: Any, *, revision: Revision | None = None) -> RuleSet:
        """Replaces the rules of a kind: a list of dicts, JSON text or bytes, or a RuleSet. Returns what is active.

        Raises RuleRejected, or KindTaken where a subscription feeds the kind; nothing has changed then. Equal rules
        change nothing. The result's `warnings` tell of rules that are loaded but not enforced as written.
        """
        self._check_open()
        if found := self._following.feeder([kind]):
            uri = found[0].source.uri
            raise KindTaken(f"{kind} rules come from {uri}; change them there, or close that subscription")
        ruleset = (
            rules
            if isinstance(rules, RuleSet)
            else parse_rules(kind, rules, name=f"load_rules({kind!r})", compat=self.core.compat)
        )
        if self.core.compat:
            refuse_as_java(self._slots, ruleset)
        revision = revision or by_hand(self.app, ruleset, self.clock.wall())
        self._activation.activate({kind: ruleset.with_revision(revision)}, revision)
        return self.rules(kind)

    def rules(self, kind: Kind) -> RuleSet:
        """The active rules of a kind. Raises UnknownKind."""
        found = self.snapshot.rulesets.get(kind)
        ruleset: RuleSet = found if found is not None else RuleSet.empty(kind)
        return ruleset

    def subscribe(
        self, kinds: Kind | Iterable[Kind], source: Readable, options: SubscriptionOptions | None = None
    ) -> Subscription:
        """Keeps these kinds equal to what a source holds. Last good rules are active when this returns, newer ones as
        soon as they are read (`wait_ready`). Raises KindTaken when another subscription feeds one of them."""
        self._check_open()
        wanted = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        return self._following.follow([Store(source, wanted)], options)[0]

    def follow(
        self,
        stores: Sequence[Readable],
        *,
        kinds: Iterable[Kind] = KINDS,
        bootstrap: Readable | None = None,
        options: SubscriptionOptions | None = None,
    ) -> tuple[Subscription, ...]:
        """Keeps these kinds equal to what several stores hold together, the one with the last word first: for each kind
        a resource has its rules from the first store that has any for it. Rules of `bootstrap` are in force for each
        kind that no store has delivered so far. As `subscribe`; one subscription a store, that of the bootstrap last.
        """
        self._check_open()
        wanted = tuple(kinds)
        under = None if bootstrap is None else Store.of(bootstrap, wanted)
        return self._following.follow([Store.of(each, wanted) for each in stores], options, under)

    def _swap(self, snapshot: Snapshot) -> None:
        self.core.snapshot = snapshot
        if self._collect:
            self._ensure_collectors(snapshot)

    def _ensure_collectors(self, snapshot: Snapshot) -> None:
        for kind, ruleset in snapshot.rulesets.items():
            slot = self._slots.get(kind)
            if slot is None or slot.readings is None:
                continue
            try:
                for make in {make for rule in ruleset.rules for make in slot.readings(rule)}:
                    self.collectors.ensure(make)
            except Exception as error:  # noqa: BLE001 (a collector that cannot be made is no reason to lose rules)
                self._failed(error)

    @property
    def snapshot(self) -> Snapshot:
        """What runs now, all kinds together."""
        return self.core.snapshot

    # Decisions (see Gate for entry and try_entry)

    def aentry(
        self,
        resource: str,
        *,
        origin: str | None = "",
        context: str | None = "",
        args: Given = (),
        count: int = 1,
        priority: bool = False,
        inbound: bool = False,
    ) -> AsyncEntry:
        """`async with engine.aentry(...)`: as `entry`, but a queueing call waits without holding the event loop."""
        return AsyncEntry(self.core, resource, origin, context, args, count, priority, inbound)

    @overload
    def guard(self, resource: F, /) -> F: ...
    @overload
    def guard(self, resource: str | None = None, **options: Unpack[GuardOptions]) -> Callable[[F], F]: ...
    def guard(self, resource: str | F | None = None, **options: Unpack[GuardOptions]) -> F | Callable[[F], F]:
        """`sentinel_core.guard` of this engine: `@engine.guard`, or `@engine.guard("name", fallback=…)`."""
        decorated: F | Callable[[F], F] = guarding(lambda: self, self.core, resource, options)
        return decorated

    def report(
        self, metric: str, ok: bool, *, resource: str | None = None, dimension: str | None = None, count: int = 1
    ) -> None:
        """One business sample (or `count`) for the failure rate of a metric; without a resource, for all its rules.

        A rule with a dimension counts it for the value `dimension`; None: for the value of that tag in the context.
        """
        if self._forked:
            self._revive()
        if not is_number_of_samples(count):
            self.metrics.invalid += 1
            return
        now = self.clock.monotonic_ns()
        ambient = current()
        tags = NO_TAGS if ambient is None else ambient.tags
        core, metrics = self.core, self.metrics
        value = None if dimension is None else str(dimension)
        if not core.inside(lambda: metrics.report(now, metric, bool(ok), resource, value, tags, count)):
            core.beyond("dimensions", f"{dimension!r} of {resource!r}")
        if core.news:
            self._news_ready()

    def gauge(self, metric: str, value: float, *, resource: str | None = None, dimension: str | None = None) -> None:
        """Sets a business number. One that is none, or not finite, is counted as invalid and changes nothing."""
        now = self.clock.monotonic_ns()
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        core, metrics = self.core, self.metrics
        tag = None if dimension is None else str(dimension)
        if not core.inside(lambda: metrics.set_gauge(now, metric, number, resource, tag)):
            core.beyond("gauges", f"{metric} of {resource!r}, {dimension!r}")
        if core.news:
            self._news_ready()

    def _plan(self, resource: str) -> Plan:
        if self._forked:
            self._revive()
        plan = None
        if not self._compiler.is_beyond(self.snapshot, resource):  # asked first: beyond the bound nobody need wait
            with self._build_lock:
                plan = self._compiler.find(self.snapshot, resource)
        if plan is None:
            self.core.beyond("resources", repr(resource))
            return self._overflow
        return plan

    def _unchecked(self, start: int, count: int) -> Entry:
        self._overflow.node.enter(start, count)
        return entered(self._overflow, PLAIN, start, count, 0)

    def register_block_handler(self, handlers: Mapping[type[BlockException], BlockHandler]) -> None:
        """Answers for refused calls of guards that have neither `block_handler` nor `fallback`: exception class →
        function of the exception. The nearest class in an exception's ancestry wins, a later handler of the same class
        replaces the earlier one. A coroutine function answers for `async def` alone; a generator wants an iterable.

            engine.register_block_handler({FlowException: too_many, BlockException: unavailable})
        """
        self._answers.register(handlers)

    def block_handler(self, block: BlockException) -> BlockHandler | None:
        """Who answers for this refusal, None where nobody was registered; for framework adapters."""
        return self._answers.find(block)

    # Control by hand

    def control(self, target: str, mode: str | None) -> int:
        """Puts rules into a mode until it is taken back with None, over what their field `mode` says; returns how many
        active rules that concerns. In this process alone, and not beyond its end.

        target   a rule's path, a resource, or `*` for everything; the most exact one holds
        mode     `enforce`; `shadow`: count what would be blocked and let it pass; `open`, `closed`: breakers alone
                 block, or pass, every call, while their own state stands still
        Raises ValueError for another mode, and for `open` or `closed` where no breaker is.
        """
        return self._control.set(target, mode)

    def shadow(self, on: bool = True) -> None:
        """Puts everything that is not controlled more exactly into shadow mode, or takes that back."""
        self.control(EVERYTHING, SHADOW if on else None)

    # What can be seen

    def stats(self, resource: str) -> Stats:
        """The counts of a resource now; zeros for one that was never called."""
        now = self.clock.monotonic_ns()
        return self.core.inside(lambda: stats_of(self._compiler.nodes.get(resource), now))

    def totals(self, resource: str) -> Totals:
        """The counts of a resource, or of all inbound calls (`INBOUND`), since the engine first saw it."""
        return self.core.inside(lambda: totals_of(self.node(resource)))

    def seconds(self, resource: str, after: int) -> list[Bucket]:
        """The counts of a resource, or of all inbound calls, for every second of the last minute that is over and began
        after `after` (monotonic ns); only where `Statistics.minutes` has them kept."""
        now = self.clock.monotonic_ns()
        node = self.node(resource)
        return self.core.inside(lambda: node.seconds(now, after)) if node is not None else []

    def node(self, resource: str) -> Node | None:
        """The live counters of a resource, or of all inbound calls (`INBOUND`); for exporters and tests."""
        return self.core.inbound if resource == INBOUND else self._compiler.nodes.get(resource)

    def resources(self) -> tuple[str, ...]:
        """Every resource that was called or that a compiled rule names."""
        return tuple(self._compiler.nodes)

    def slots(self) -> tuple[Kind, ...]:
        """The kinds in the order they are asked."""
        return tuple(self._slots)

    def explain(self, resource: str) -> list[dict[str, Any]]:
        """Per slot, in order: the rules that apply to a resource, in words and fields, with live values and states."""
        values, compiler, snapshot = self._live(self._plan(resource)), self._compiler, self.snapshot
        return views.explain(
            self._slots,
            values,
            lambda kind: compiler.rules_of(snapshot, kind, resource),
            lambda kind, rule: snapshot.rulesets[kind].owner(rule),
            lambda rule: compiler.mode_of(rule, resource),
        )

    def breakers(self, resource: str) -> tuple[dict[str, Any], ...]:
        """State and values of every breaker of a resource, in the order they are asked."""
        return views.breakers(self._live(self._plan(resource)))

    def shadows(self) -> tuple[dict[str, Any], ...]:
        """What each shadow rule at work would have done: resource, kind, rule, calls to block and to delay."""
        return self.core.inside(lambda: tuple(shadows_of(self.snapshot)))

    def _live(self, plan: Plan) -> list[tuple[Kind, Any, dict[str, Any]]]:
        return views.live_values(plan, self.core)

    def on_breaker(self, listener: BreakerListener) -> Callable[[], None]:
        """Adds a listener for the moves of breakers; returns what removes it again."""
        return self._listeners.add_breaker(listener)

    def on_block(self, listener: BlockListener) -> Callable[[], None]:
        """Adds a listener for refusals; returns what removes it again. It makes every refusal dearer: be quick."""
        return self._listeners.add_block(listener)

    def status(self) -> dict[str, Any]:
        """What an operator asks first; plain JSON values."""
        if self._forked:
            self._revive()
        snapshot = self.snapshot
        return {
            "app": self.app,
            "environment": self.environment,
            "instance": self.instance,
            "compat": SENTINEL_1_8_9 if self.core.compat else None,
            "snapshot": snapshot.number,
            "statistics": asdict(self._statistics),
            "kinds": {kind: views.kind_status(ruleset) for kind, ruleset in snapshot.rulesets.items()},
            "subscriptions": [views.subscription_status(each) for each in self._following.subscriptions],
            **views.activation_status(self._activation),
            "control": self._control.status(),
            "resources": len(self._compiler.nodes),
            "beyondBounds": dict(self.core.bounds),
            "uncountedPasses": self._overflow.node.lifetime().passed,
            "internalErrors": {"count": self._failures, "last": self._last_failure},
            "collectors": self.collectors.status(),
            "metrics": {"invalid": self.metrics.invalid, "refused": self.metrics.refused},
        }

    def close(self, timeout_s: float = 5) -> None:
        """Ends subscriptions and collectors and tells the waiting events once more. Entries go on working."""
        self._closed = True
        self._following.close(timeout_s)
        self.collectors.close()
        if waiting := self._activation.close():
            logger.error("%d rule events could not be made durable and are lost with this process", waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Around a fork (see sentinel_core.fork)

    def hold_for_fork(self) -> None:
        """Waits until nobody is half way through a swap or a count, and keeps it so."""
        self._following.settle_for_fork()
        self._build_lock.acquire()
        self.core.hold()

    def let_go_after_fork(self) -> None:
        """In the parent: goes on."""
        self.core.let_go()
        self._build_lock.release()

    def renew_after_fork(self) -> None:
        """In the child: locks and counters of its own. Starts nothing."""
        core = self.core
        core.renew_after_fork()
        self._build_lock = threading.RLock()
        self._revive_lock = threading.Lock()
        self._following.renew_after_fork()
        self._activation.renew_after_fork(self._build_lock)
        self.collectors.renew_after_fork()
        core.news = []
        core.inbound = self._new_total()
        core.snapshot = self._compiler.renew_after_fork(core.snapshot)
        self._overflow = self._compiler.new_overflow()
        self._forked = True

    def on_fork(self, renew: Callable[[], None]) -> Callable[[], None]:
        """Has `renew` called in every forked child at its first use of the engine, for what has threads or locks of its
        own; returns what takes that back."""
        self._renewals.append(renew)
        return lambda: self._renewals.remove(renew) if renew in self._renewals else None

    def _revive(self) -> None:
        """At the first use in a child: starts what had threads, and lets rules hear of samples again."""
        with self._revive_lock:
            if not self._forked:
                return
            self._forked = False
        if threads_are_greenlets():
            logger.warning(
                "gevent had replaced threads before this process forked: greenlets of the parent's engine live on; "
                "start the engine in the worker instead (gunicorn: no --preload, or the hook post_worker_init)"
            )
        self._restart()

    def _restart(self) -> None:
        for renew in self._renewals:
            renew()
        with self._build_lock:
            self._compiler.listen(self.snapshot, KINDS)
        self.collectors.revive()
        self._activation.revive()
        self._following.revive()

    def _new_total(self) -> Node:
        statistics = self._statistics
        return Node(statistics.bucket_ns, statistics.buckets, statistics.minutes)

    # Inside

    def _check_open(self) -> None:
        if self._forked:
            self._revive()
        if self._closed:
            raise EngineClosed(f"engine {self.app!r} is closed; make a new one")

    def _failed(self, error: BaseException) -> None:
        self._failures += 1
        self._last_failure = f"{type(error).__name__}: {error}"
        now = self.clock.monotonic_ns()
        if now - self._failure_said >= SECOND:
            self._failure_said = now
            logger.error("internal error; the call passes unchecked", exc_info=error)

    def _news_ready(self) -> None:
        self._listeners.tell()

"""The way in: one read of the snapshot, one walk through the plan, one object made.

Exactness. Checking and counting of a call are one critical section of the engine (`sentinel_core.section`). Threads
take turns under the GIL anyway, so one for all resources costs no parallelism and makes limits across resources exact
too. It is never held while a caller's code runs or waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from sentinel_core.arguments import keys_of
from sentinel_core.clock import Clock
from sentinel_core.context import current as current_context
from sentinel_core.entry import PROBING, Blocked, Entry, Waiting, check_count, entered
from sentinel_core.node import ClusterNode, Node
from sentinel_core.plan import NO_TAGS, PLAIN, PROBED, Call, Given, Plan, Runtime, Snapshot
from sentinel_core.section import remember

DEFAULT_CONTEXT: Final = "sentinel_default_context"
"""The entrance of calls that name none."""
PARTS: Final = 2000
"""Callers and contexts that are counted apart per resource, as in Sentinel; those that rules name among them."""
MOST: Final = 2**31 - 1
"""Requests that one call may stand for, as in Java."""
CONTEXTS: Final = "contexts"
ORIGINS: Final = "origins"

Outcome = Entry | Blocked | Waiting


remember(Plan.admit, Plan.resume, Plan.complete)


class Core(Runtime):
    """The steps of a call. Not to be inherited from: compiled, its methods call each other directly."""

    __slots__ = ("clock", "compile", "observer", "snapshot", "unchecked")

    def __init__(
        self,
        clock: Clock,
        inbound: Node,
        compat: bool,
        compile_plan: Callable[[str], Plan],
        unchecked: Callable[[int, int], Entry],
        failed: Callable[[BaseException], None],
        news_ready: Callable[[], None],
    ) -> None:
        super().__init__(clock.monotonic_ns, inbound, compat, failed, news_ready)
        self.clock = clock
        self.snapshot = Snapshot(0, {}, {}, {})
        """What runs now. Replaced by assignment, never edited."""
        self.compile = compile_plan
        """The plan of a resource that the snapshot has not met yet."""
        self.unchecked = unchecked
        """An entry that nothing checks and that no resource counts."""
        self.observer: Callable[[Blocked, int, str], None] | None = None
        """Hears of every refusal; never raises."""

    def begin(
        self,
        resource: str,
        origin: str | None,
        context: str | None,
        args: Given,
        count: int,
        priority: bool,
        inbound: bool,
    ) -> Outcome:
        """The first step of a call. A Waiting is the caller's to wait for: this never sleeps."""
        monotonic_ns = self.monotonic_ns  # calling what a slot holds is dearer
        now = monotonic_ns()
        if count != 1:
            count = self.bounded(count)
        try:
            snapshot = self.snapshot
            plan = snapshot.plans.get(resource)
            if plan is None:
                check_names(resource, origin, context)
                plan = self.compile(resource)
                snapshot = self.snapshot
            call = PLAIN
            if plan.demands_call or inbound or priority:
                call = self.describe(plan, origin, context, args, priority, inbound)
            before, self.busy = self.busy and self.give_way(), True
            try:
                code = plan.admit(now, count, call, 0, -1)
                if code > 0:
                    return waiting(resource, plan, snapshot, call, now, count, code)
                era = plan.node.era
            finally:
                self.busy = before
                if before:
                    self.give_back()
        except Exception as error:  # noqa: BLE001 (an internal error lets traffic pass)
            check_names(resource, origin, context)
            self.failed(error)
            return self.unchecked(now, 1)
        if self.news:
            self.news_ready()
        if code == 0:
            entry = Entry()  # `entered`, written out
            entry.plan = plan
            entry.call = call
            entry.start = now
            entry.count = count
            entry.era = era
            entry.state = 0
            return entry
        if code == PROBED:
            return entered(plan, call, now, count, era, PROBING)
        return self.refuse(Blocked(resource, plan.checkers[-code - 1], snapshot, now, call), count, origin)

    def bounded(self, count: int) -> int:
        """A count in bounds: a negative one would lift the limit of everybody else, but Java lets it."""
        check_count(count)
        return MOST if count > MOST else count if count >= 0 or self.compat else 0

    def resume(self, waited: Waiting) -> Outcome:
        """The next step of a call that has waited."""
        now: int = self.monotonic_ns()
        plan = waited.plan
        try:
            before, self.busy = self.busy and self.give_way(), True
            try:
                code = plan.resume(now, waited.count, waited.call, waited.begin, waited.held)
                if code > 0:
                    return waiting(
                        waited.resource, plan, waited.snapshot, waited.call, waited.start, waited.count, code
                    )
                era = plan.node.era
            finally:
                self.busy = before
                if before:
                    self.give_back()
        except Exception as error:  # noqa: BLE001 (an internal error lets traffic pass)
            self.failed(error)
            return self.unchecked(waited.start, waited.count)
        if self.news:
            self.news_ready()
        if code == 0:
            return entered(plan, waited.call, waited.start, waited.count, era)
        if code == PROBED:
            return entered(plan, waited.call, waited.start, waited.count, era, PROBING)
        blocked = Blocked(waited.resource, plan.checkers[-code - 1], waited.snapshot, now, waited.call)
        return self.refuse(blocked, waited.count, "")

    def refuse(self, blocked: Blocked, count: int, origin: str | None) -> Blocked:
        """Tells of a refusal where somebody listens."""
        if self.observer is not None:
            ambient = current_context()
            self.observer(blocked, count, blocked.call.origin or origin or (ambient.origin if ambient else ""))
        return blocked

    def abandon(self, waited: Waiting) -> None:
        """The caller gave up while it waited: permits of half-open breakers come back."""
        now: int = self.monotonic_ns()
        before, self.busy = self.busy and self.give_way(), True
        try:
            waited.plan.release(now, waited.begin, waited.held)
        finally:
            self.busy = before
            if before:
                self.give_back()
        if self.news:
            self.news_ready()

    def sleep(self, waited: Waiting) -> None:
        """Waits on this thread."""
        try:
            self.clock.sleep(waited.wait)
        except BaseException:
            self.abandon(waited)
            raise

    def waited(self, outcome: Outcome) -> Entry | Blocked:
        """What comes of a call in the end, having waited on this thread where a rule asked for it."""
        while isinstance(outcome, Waiting):
            self.sleep(outcome)
            outcome = self.resume(outcome)
        return outcome

    def describe(
        self, plan: Plan, origin: str | None, context: str | None, args: Given, priority: bool, inbound: bool
    ) -> Call:
        """What the call says of itself, completed from the ambient context, with the nodes that count it."""
        check_names("", origin, context)
        given = () if args is None else args
        tags = NO_TAGS
        if not origin or not context or plan.by_tags:
            ambient = current_context()
            if ambient is not None:
                origin = origin or ambient.origin
                context = context or ambient.name
                tags = ambient.tags
        keys = keys_of(given, self.failed) if plan.by_args else tuple(given)
        call = Call(origin or "", context or "", keys, priority, inbound)
        call.tags = tags
        if plan.by_context:
            call.context = context or DEFAULT_CONTEXT
            call.nodes.append(self.part(plan.node.by_context(call.context, PARTS), plan.node, CONTEXTS, call.context))
        if plan.by_origin and origin:
            call.nodes.append(self.part(plan.node.by_origin(origin, PARTS), plan.node, ORIGINS, origin))
        if inbound:
            call.nodes.append(self.inbound)
        return call

    def part(self, node: Node | None, whole: ClusterNode, what: str, name: str) -> Node:
        """The node itself, or, for names beyond the bound, the one that counts all of them together."""
        if node is not None:
            return node
        self.beyond(what, f"{name!r} of {whole.resource!r}")
        return whole.rest(whole.contexts if what == CONTEXTS else whole.origins)


def check_names(resource: object, origin: object, context: object) -> None:
    """Raises TypeError for what is no text. Compiled code asks that of every argument; this is for interpreted code,
    which would find it out late, or not at all."""
    if not isinstance(resource, str):
        raise no_text(resource)
    if origin is not None and not isinstance(origin, str):
        raise no_text(origin)
    if context is not None and not isinstance(context, str):
        raise no_text(context)


def no_text(name: object) -> TypeError:
    """What is raised for a name of another type."""
    return TypeError(f"{name!r} is a {type(name).__name__}; a resource, an origin and a context are texts (str)")


def waiting(resource: str, plan: Plan, snapshot: Snapshot, call: Call, start: int, count: int, code: int) -> Waiting:
    """What `Plan.admit` asked for with a positive code."""
    size = len(plan.checkers)
    checker = plan.checkers[code - 1 if code <= size else code - size - 1]
    return Waiting(resource, plan, snapshot, call, start, count, code, checker.wait)


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate:
    """The hot half of an engine; `Engine` adds everything that may take its time."""

    core: Core

    def entry(
        self,
        resource: str,
        *,
        origin: str | None = "",
        context: str | None = "",
        args: Given = (),
        count: int = 1,
        priority: bool = False,
        inbound: bool = False,
    ) -> Entry:
        """Enters a resource or raises the BlockException of the rule that refuses. May sleep where a rule queues.

        origin, context   who calls and through which entrance; what is left empty, or None, comes from `context(...)`
        args              the arguments that hot-parameter rules look at
        count             how many requests this call stands for
        priority          may borrow from the next window (flow rules that reject)
        inbound           counts towards the system rules
        """
        core = self.core
        outcome = core.begin(resource, origin, context, args, count, priority, inbound)
        if not isinstance(outcome, Entry):
            outcome = core.waited(outcome)
            if not isinstance(outcome, Entry):
                raise outcome.exception()
        return outcome

    def try_entry(
        self,
        resource: str,
        *,
        origin: str | None = "",
        context: str | None = "",
        args: Given = (),
        count: int = 1,
        priority: bool = False,
        inbound: bool = False,
    ) -> Entry | Blocked:
        """As `entry`, but a refusal is returned as a falsy Blocked and no exception is built."""
        core = self.core
        outcome = core.begin(resource, origin, context, args, count, priority, inbound)
        return core.waited(outcome) if isinstance(outcome, Waiting) else outcome

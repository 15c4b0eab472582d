"""The way in: one read of the snapshot, one walk through the plan, one object made.

Exactness. Checking and counting of a call are one critical section. Interpreted, it is held by one re-entrant lock of
the engine (re-entrant because a signal handler or a finalizer may enter again on the same thread); under the GIL
threads take turns anyway, so one lock costs no parallelism and makes limits across resources exact too. Compiled by
mypyc the section calls no Python code, so no other thread can run inside it and the lock is left out. On a
free-threaded build compiled code would need it: there the lock stays, which is right and serialises all entries of an
engine. No lock is held while a caller's code runs or waits.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

from mypy_extensions import mypyc_attr

from sentinel_core.arguments import keys_of
from sentinel_core.clock import Clock
from sentinel_core.context import current as current_context
from sentinel_core.entry import Blocked, Entry, Waiting
from sentinel_core.node import Node
from sentinel_core.plan import PLAIN, Args, Call, Plan, Runtime, Snapshot

DEFAULT_CONTEXT: Final = "sentinel_default_context"
"""The entrance of calls that name none."""
PARTS: Final = 2000
"""Callers and contexts that are counted apart per resource, as in Sentinel."""

Outcome = Entry | Blocked | Waiting


def needs_lock() -> bool:
    """Whether counters of this build must be guarded: always, unless compiled and under the GIL."""
    compiled = not __file__.endswith(".py")
    gil = getattr(sys, "_is_gil_enabled", None)
    return not compiled or (gil is not None and not gil())


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate:
    """The hot half of an engine; `Engine` adds everything that may take its time."""

    snapshot: Snapshot

    def __init__(self, clock: Clock, inbound: Node, compat: bool) -> None:
        self.clock = clock
        self.snapshot = Snapshot(0, {}, {}, {})
        lock = threading.RLock() if needs_lock() else None
        self.runtime = Runtime(clock.monotonic_ns, lock, inbound, compat, self.failed, self.transitions_ready)

    def entry(
        self,
        resource: str,
        *,
        origin: str = "",
        context: str = "",
        args: Args = (),
        count: int = 1,
        priority: bool = False,
        inbound: bool = False,
    ) -> Entry:
        """Enters a resource or raises the BlockException of the rule that refuses. May sleep where a rule queues.

        origin, context   who calls and through which entrance; what is left empty comes from `context(...)`
        args              the arguments that hot-parameter rules look at
        count             how many requests this call stands for
        priority          may borrow from the next window (flow rules that reject)
        inbound           counts towards the system rules
        """
        outcome = self.begin(resource, origin, context, args, count, priority, inbound)
        while isinstance(outcome, Waiting):
            self.wait(outcome)
            outcome = self.resume(outcome)
        if isinstance(outcome, Entry):
            return outcome
        raise outcome.exception()

    def try_entry(
        self,
        resource: str,
        *,
        origin: str = "",
        context: str = "",
        args: Args = (),
        count: int = 1,
        priority: bool = False,
        inbound: bool = False,
    ) -> Entry | Blocked:
        """As `entry`, but a refusal is returned as a falsy Blocked and no exception is built."""
        outcome = self.begin(resource, origin, context, args, count, priority, inbound)
        while isinstance(outcome, Waiting):
            self.wait(outcome)
            outcome = self.resume(outcome)
        return outcome

    def begin(
        self, resource: str, origin: str, context: str, args: Args, count: int, priority: bool, inbound: bool
    ) -> Outcome:
        """The first step of a call. A Waiting is the caller's to wait for: this never sleeps."""
        runtime = self.runtime
        now = runtime.monotonic_ns()
        snapshot = self.snapshot
        plan = snapshot.plans.get(resource)
        if plan is None:
            plan = self.compile(resource)
            snapshot = self.snapshot
        call = PLAIN
        if plan.demands_call or inbound or priority:
            call = self.describe(plan, origin, context, args, priority, inbound)
        return self.step(resource, plan, snapshot, call, now, now, count, 0, -1)

    def resume(self, waiting: Waiting) -> Outcome:
        """The next step of a call that has waited."""
        now = self.runtime.monotonic_ns()
        return self.step(
            waiting.resource, waiting.plan, waiting.snapshot, waiting.call, waiting.start, now, waiting.count,
            waiting.begin, waiting.era,
        )  # fmt: skip

    def abandon(self, waiting: Waiting) -> None:
        """The caller gave up while it waited: permits of half-open breakers come back."""
        runtime = self.runtime
        now = runtime.monotonic_ns()
        lock = runtime.lock
        if lock is None:
            waiting.plan.release(now, waiting.begin, waiting.era)
        else:
            with lock:
                waiting.plan.release(now, waiting.begin, waiting.era)
        if runtime.transitions:
            runtime.transitions_ready()

    def step(
        self, resource: str, plan: Plan, snapshot: Snapshot, call: Call, start: int, now: int, count: int, begin: int,
        held: int,
    ) -> Outcome:  # fmt: skip
        runtime = self.runtime
        lock = runtime.lock
        outcome: Outcome
        try:
            if lock is None:
                outcome = self.decide(resource, plan, snapshot, call, start, now, count, begin, held)
            else:
                with lock:
                    outcome = self.decide(resource, plan, snapshot, call, start, now, count, begin, held)
        except Exception as error:  # noqa: BLE001 (an internal error lets traffic pass)
            runtime.failed(error)
            outcome = self.unchecked(start, count)
        if runtime.transitions:
            runtime.transitions_ready()
        return outcome

    def decide(
        self, resource: str, plan: Plan, snapshot: Snapshot, call: Call, start: int, now: int, count: int, begin: int,
        held: int,
    ) -> Outcome:  # fmt: skip
        if begin:
            code = plan.resume(now, count, call, begin, held)
        else:
            code = plan.admit(now, count, call, 0, held)
        if code == 0:
            return Entry(self.runtime, plan, call, start, count)
        if code < 0:
            return Blocked(resource, plan.checkers[-code - 1], snapshot, now, call)
        size = len(plan.checkers)
        checker = plan.checkers[code - 1 if code <= size else code - size - 1]
        return Waiting(resource, plan, snapshot, call, start, count, code, checker.wait)

    def describe(self, plan: Plan, origin: str, context: str, args: Args, priority: bool, inbound: bool) -> Call:
        """What the call says of itself, completed from the ambient context, with the nodes that count it."""
        if not origin or not context:
            ambient = current_context()
            if ambient is not None:
                origin = origin or ambient.origin
                context = context or ambient.name
        call = Call(origin, context, keys_of(args) if plan.by_args else args, priority, inbound)
        if plan.by_context:
            call.context = context or DEFAULT_CONTEXT
            self.count_at(call, plan.node.by_context(call.context, PARTS))
        if plan.by_origin and origin:
            self.count_at(call, plan.node.by_origin(origin, PARTS))
        if inbound:
            call.nodes.append(self.runtime.inbound)
        return call

    def count_at(self, call: Call, node: Node | None) -> None:
        if node is not None:
            call.nodes.append(node)

    def wait(self, waiting: Waiting) -> None:
        try:
            self.clock.sleep(waiting.wait)
        except BaseException:
            self.abandon(waiting)
            raise

    def compile(self, resource: str) -> Plan:
        """The plan of a resource that the snapshot has not met yet."""
        raise NotImplementedError

    def unchecked(self, start: int, count: int) -> Entry:
        """An entry that nothing checked and that no resource counts."""
        raise NotImplementedError

    def failed(self, error: BaseException) -> None:
        """Takes an internal error; never raises."""
        raise NotImplementedError

    def transitions_ready(self) -> None:
        """Breakers have moved: `runtime.transitions` is not empty."""
        raise NotImplementedError

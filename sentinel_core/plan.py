"""What a resource's calls run through: the checkers of every rule that applies, compiled once per change of rules.

The vocabulary of a decision is an int, so that passing and blocking build nothing:

    PASS      goes on
    BLOCK     stops here
    PROBE     goes on, and holds a permit of this checker (a half-open breaker) that must come back
    WAIT      goes on after `checker.wait` nanoseconds, read before anything else runs
    BORROWED  passes after `checker.wait` nanoseconds and skips everything behind (a priority call ahead of its time)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock, get_ident
from typing import Any, Final, TypeVar

from mypy_extensions import mypyc_attr

from sentinel_core.node import ClusterNode, Node
from sentinel_core.section import has_gil, is_compiled, wait_for_turn

PASS: Final = 0
BLOCK: Final = 1
PROBE: Final = 2
WAIT: Final = 3
BORROWED: Final = 4

PROBED: Final = -(1 << 30)
"""What `Plan.admit` and `Plan.resume` return instead of 0 where a call passed that holds a permit."""

Args = tuple[Any, ...]
T = TypeVar("T")
Given = Sequence[Any] | None
"""The arguments of a call as callers give them."""
NO_TAGS: Final[Mapping[str, str]] = {}


class Call:
    """What a call says of itself beyond its resource. Made only where a plan asks; otherwise PLAIN stands for it."""

    __slots__ = ("args", "context", "hit", "inbound", "nodes", "origin", "priority", "tags")

    def __init__(self, origin: str, context: str, args: Args, priority: bool, inbound: bool) -> None:
        self.origin = origin
        """Who calls; "" where unknown."""
        self.context = context
        """Name of the entrance the call came through."""
        self.args = args
        """As given, or as keys (`sentinel_core.arguments`) where a checker says `by_args`."""
        self.hit = ""
        """What exactly blocked the call: the limit, the argument's value."""
        self.priority = priority
        self.inbound = inbound
        self.tags: Mapping[str, str] = NO_TAGS
        """Those of the ambient context, where a checker says `by_tags`."""
        self.nodes: list[Node] = []
        """What is counted besides the resource: the origin's, the context's, the inbound total."""


PLAIN: Final = Call("", "", (), False, False)  # noqa: FBT003 (two flags of five fields, made here and in the gate only)


class Pass:
    """A call that passed, until its exit. Checkers see it at the end only."""

    # No `__init__`: for interpreted code that is the dearest call of all. Who makes one sets every field.
    __slots__ = ("call", "count", "era", "plan", "start")

    plan: Plan
    call: Call
    start: int
    """Monotonic ns of the call's beginning, before its first check."""
    count: int
    era: int
    """`ClusterNode.era` when it passed: a breaker that has moved since ignores its result."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Checker:
    """One rule at work for one resource. Runs inside the engine's critical section: no I/O, no user code, no waiting.

    A slot outside this package subclasses it as well; whatever it raises lets the call pass and is counted.
    """

    __slots__ = (
        "again",
        "by_args",
        "by_context",
        "by_origin",
        "by_tags",
        "completes",
        "demands_call",
        "enters",
        "idle",
        "kind",
        "lends",
        "rule",
        "wait",
    )

    kind: str
    rule: Any
    wait: int
    """Set by `check` when it answers WAIT or BORROWED; ns."""
    again: bool
    """Asked a second time after a wait, because what it looks at may have changed (concurrency, a breaker)."""
    demands_call: bool
    """Looks at the Call: origin, context, args, priority. Otherwise it may be handed PLAIN."""
    by_args: bool
    """Wants the arguments as keys."""
    by_origin: bool
    """Needs the resource counted by caller."""
    by_context: bool
    """Needs the resource counted by context."""
    by_tags: bool
    """Looks at the tags of the context."""
    lends: bool
    """Answers PROBE: a call that holds a permit is not asked again."""
    idle: bool
    """Passes every call and need not be asked. The checker itself says when that begins and ends (a closed breaker)."""
    enters: bool
    """Wants `enter`."""
    completes: bool
    """Wants `complete`."""

    def __init__(self, kind: str, rule: Any) -> None:
        self.kind = kind
        self.rule = rule
        self.wait = 0
        self.again = False
        self.demands_call = True
        self.by_args = False
        self.by_origin = False
        self.by_context = False
        self.by_tags = False
        self.lends = False
        self.idle = False
        self.enters = False
        self.completes = False

    def is_told_as(self, other: Checker) -> None:
        """Takes over what another checker wants to know and to hear of, to stand in its place."""
        self.demands_call = other.demands_call
        self.by_args = other.by_args
        self.by_origin = other.by_origin
        self.by_context = other.by_context
        self.by_tags = other.by_tags
        self.enters = other.enters
        self.completes = other.completes

    def check(self, now: int, count: int, call: Call) -> int:
        """Decides for `count` requests at monotonic ns `now`. PASS, BLOCK, PROBE, WAIT or BORROWED."""
        raise NotImplementedError

    def enter(self, call: Call) -> None:
        """The call passed every checker (asked only where `enters`)."""

    def complete(self, passed: Pass, now: int, rt: int, failed: bool, cancelled: bool) -> None:
        """The call ended (asked only where `completes`): `rt` in ns; `cancelled` says nothing about health."""

    def release(self, now: int, era: int) -> None:
        """A call that this checker let pass in `era` did not run after all: a PROBE's permit comes back."""

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        """Milliseconds until a blocked caller may hope, None where that cannot be said."""
        return None

    def detail(self, call: Call) -> str:
        """What exactly was hit: the caller, the limit, the parameter's value. Shown in messages."""
        return ""

    def facts(self, call: Call) -> dict[str, Any]:
        """What the exception of a block carries besides the rule."""
        return {}

    def live(self, now: int) -> dict[str, Any]:
        """Current values and states for people; plain JSON values."""
        return {}


class Plan:
    """Every checker of one resource in slot order, and where its calls are counted."""

    __slots__ = (
        "by_args",
        "by_context",
        "by_origin",
        "by_tags",
        "checkers",
        "completers",
        "demands_call",
        "enterers",
        "held",
        "node",
        "ruled",
        "runtime",
        "states",
        "successor",
    )

    def __init__(
        self,
        runtime: Runtime,
        node: ClusterNode,
        checkers: Sequence[Checker],
        states: Sequence[tuple[Any, ...]],
        ruled: bool,
    ) -> None:
        everything = runtime.compat
        self.runtime = runtime
        self.node = node
        # Tuples: half the size of lists and dicts, and there is one plan a resource.
        self.checkers = tuple(checkers)
        self.enterers = tuple([checker for checker in checkers if checker.enters])
        self.completers = tuple([checker for checker in checkers if checker.completes])
        self.states = tuple(states)
        """What a successor takes over: checkers and other parts that carry state, each behind what it was made from."""
        self.ruled = ruled
        """Whether any rule applies."""
        self.held = -1
        """What `held` was when `admit` last asked for a wait; read in the same critical section."""
        self.successor: Plan | None = None
        """Under compat, what replaced this plan: Java ends a call with the rules of its end, not of its beginning."""
        self.by_args = everything or any(checker.by_args for checker in checkers)
        self.by_origin = everything or any(checker.by_origin for checker in checkers)
        self.by_context = everything or any(checker.by_context for checker in checkers)
        self.by_tags = any(checker.by_tags for checker in checkers)
        self.demands_call = everything or any(checker.demands_call for checker in checkers)

    def admit(self, now: int, count: int, call: Call, begin: int, held: int) -> int:  # noqa: C901 (as `Core.begin`)
        """Asks the checkers from index `begin` on and counts the outcome, all in one critical section.

        held      the era of permits the call holds from before a wait, -1 without any
        returns   0, or PROBED: passed and counted. -(i + 1): blocked by checker i, counted. i + 1: checker i wants its
                  `wait` first, then `resume`. Beyond len(checkers): the same, and the call passes whatever stands
                  behind, it has been counted ahead of its time
        """
        index = begin
        for checker in self.checkers[begin:] if begin else self.checkers:
            index += 1
            if checker.idle:
                continue
            verdict = checker.check(now, count, call)
            if verdict == PASS:
                continue
            if verdict == BLOCK:
                return self.refuse(now, count, call, index, held)
            if verdict == PROBE:
                held = self.node.era
            else:
                self.held = held
                return index if verdict == WAIT else len(self.checkers) + index
        node = self.node
        if now >= node.end:  # `node.enter`, written out: one call less for every entry
            node.roll(now)
        node.passed += count
        node.threads += 1
        if call is not PLAIN:
            for other in call.nodes:
                other.enter(now, count)
        if self.enterers:
            for checker in self.enterers:
                checker.enter(call)
        return 0 if held < 0 else PROBED

    def resume(self, now: int, count: int, call: Call, begin: int, held: int) -> int:
        """Goes on after a wait that `admit` asked for, with what it returned as `begin`. Returns as `admit`."""
        ahead = begin > len(self.checkers)
        place = begin - len(self.checkers) if ahead else begin
        for index in range(place):
            checker = self.checkers[index]
            if not checker.again or (checker.lends and held >= 0):
                continue
            verdict = checker.check(now, count, call)
            if verdict == BLOCK:
                self.release(now, place, held)
                return self.refuse(now, count, call, index + 1, -1)
            if verdict == PROBE:
                held = self.node.era
        if not ahead:
            return self.admit(now, count, call, begin, held)
        self.node.threads += 1
        for other in call.nodes:
            other.threads += 1
        return 0 if held < 0 else PROBED

    def refuse(self, now: int, count: int, call: Call, place: int, held: int) -> int:
        """Counts a block by the checker at `place` (from 1) and gives back what those in front of it have lent."""
        if held >= 0:
            self.release(now, place - 1, held)
        self.node.block_by(self.checkers[place - 1].kind, now, count)
        for other in call.nodes:
            other.block(now, count)
        return -place

    def release(self, now: int, before: int, era: int) -> None:
        """Gives the permits of the checkers in front of `before` back: their probe did not run."""
        for index in range(min(before, len(self.checkers))):
            self.checkers[index].release(now, era)

    def complete(self, passed: Pass, now: int, count: int, state: int) -> None:
        """Counts the end of a call that passed: statistics first, then the breakers. `state` as in Entry."""
        rt = now - passed.start
        if rt < 0:
            rt = 0
        failed = cancelled = False
        if state:
            failed = state & 1 != 0
            cancelled = state & 2 != 0
        node = self.node
        if now >= node.end:  # `node.leave`, written out as well
            node.roll(now)
        node.success += count
        node.rt += rt
        if rt < node.min_rt:
            node.min_rt = rt
        node.threads -= 1
        if failed:
            node.errors += count
        if passed.call is not PLAIN:
            for other in passed.call.nodes:
                other.leave(now, count, rt, failed)
        for checker in self.completers:
            checker.complete(passed, now, rt, failed, cancelled)


class Snapshot:
    """The rules an engine runs, all kinds together: immutable but for the plans that calls compile as they come.

    Readers take it by one reference; it is replaced by one assignment and never edited.
    """

    __slots__ = ("by_resource", "number", "patterns", "plans", "rulesets")

    def __init__(
        self,
        number: int,
        rulesets: dict[str, Any],
        by_resource: dict[str, dict[str, list[Any]]],
        patterns: dict[str, list[Any]],
    ) -> None:
        self.number = number
        """0 for an engine without rules, one more with every activation."""
        self.rulesets = rulesets
        """kind → RuleSet, every kind."""
        self.by_resource = by_resource
        """kind → resource → its rules."""
        self.patterns = patterns
        """kind → (compiled pattern, rule) of the rules that name their resources by a regular expression."""
        self.plans: dict[str, Plan] = {}


class Transition:
    """A breaker moved: `before` and `after` are CLOSED, OPEN or HALF_OPEN; `value` is the ratio, count or metric."""

    __slots__ = ("after", "at", "before", "dimension", "kind", "resource", "rule", "shadow", "value")

    def __init__(
        self, kind: str, resource: str, rule: Any, before: str, after: str, value: float | None, at: int
    ) -> None:
        self.kind = kind
        self.resource = resource
        self.rule = rule
        self.before = before
        self.after = after
        self.value = value
        self.at = at
        """Monotonic ns."""
        self.dimension = ""
        """Where a breaker stands for each value of a dimension: the value."""
        self.shadow = False
        """The breaker is a shadow rule: no call was refused for it."""


class Notice:
    """Something that people should hear of, said once an episode."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Beyond:
    """Something is bounded and the bound was reached for the first time: `what` is counted, `name` was too much."""

    __slots__ = ("name", "what")

    def __init__(self, what: str, name: str) -> None:
        self.what = what
        self.name = name


class Runtime:
    """What every part of the hot path shares."""

    __slots__ = (
        "alone", "bounds", "busy", "compat", "failed", "held", "inbound", "lock", "monotonic_ns", "news", "news_ready",
        "owner",
    )  # fmt: skip

    def __init__(
        self,
        monotonic_ns: Callable[[], int],
        inbound: Node,
        compat: bool,
        failed: Callable[[BaseException], None],
        news_ready: Callable[[], None],
    ) -> None:
        self.monotonic_ns = monotonic_ns
        self.alone = is_compiled() and has_gil()
        """No other thread can run inside a section."""
        self.lock = None if has_gil() else RLock()
        """Where the GIL does not order threads: what does."""
        self.busy = self.lock is not None
        """Somebody is in the critical section (see `sentinel_core.section`)."""
        self.owner = 0
        """The thread that is in `inside`, or holds the section around a fork; 0 for nobody."""
        self.held = (False, 0)
        """`busy` and `owner` as they were before `hold`."""
        self.inbound = inbound
        """All inbound calls of the process (`__total_inbound_traffic__`)."""
        self.compat = compat
        """Decide as Java Sentinel 1.8.9 does, faults included."""
        self.failed = failed
        """Takes an internal error; never raises."""
        self.bounds: dict[str, int] = {}
        """What is bounded and was reached → how often something was beyond it."""
        self.news: list[Transition | Beyond | Notice | Exception] = []
        """What happened inside the critical section and is told after it: moves of breakers, errors of shadow rules,
        bounds that were reached, metrics that are stale."""
        self.news_ready = news_ready

    def give_way(self) -> bool:
        """For who found the section busy: returns when it is the caller's. True: it was so before, or has a lock."""
        return self.alone or wait_for_turn(self)

    def give_back(self) -> None:
        """For who gave way and got True: ends that."""
        if self.lock is not None:
            self.lock.release()

    def inside(self, function: Callable[[], T]) -> T:
        """Runs code outside the hot path where several statements belong together. May be nested."""
        if self.alone:  # one compiled step is whole by itself, and between two steps of Python code nobody waits
            return function()
        me = get_ident()
        before, self.busy = self.busy and self.give_way(), True
        outer, self.owner = self.owner, me
        try:
            return function()
        finally:
            self.owner = outer
            self.busy = before
            if before:
                self.give_back()

    def hold(self) -> None:
        """Takes the section for the time of a fork."""
        me = get_ident()
        before, self.busy = self.busy and self.give_way(), True
        outer, self.owner = self.owner, me
        self.held = (before, outer)

    def let_go(self) -> None:
        """Ends `hold`."""
        before, self.owner = self.held
        self.busy = before
        if before:
            self.give_back()

    def renew_after_fork(self) -> None:
        """In the child: nobody is in the section."""
        self.lock = None if self.lock is None else RLock()
        self.busy = self.lock is not None
        self.owner = 0

    def beyond(self, what: str, name: str) -> None:
        """Counts that something was beyond a bound, and has it told the first time."""
        reached = self.bounds.get(what, 0)
        self.bounds[what] = reached + 1
        if not reached:
            self.news.append(Beyond(what, name))

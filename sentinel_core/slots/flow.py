"""Flow rules: who is counted (`FlowChecker.select`) and what the count may be (one subclass a behaviour)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from sentinel_core.clock import MS, SECOND
from sentinel_core.gate import DEFAULT_CONTEXT, PARTS
from sentinel_core.modes import ENFORCE
from sentinel_core.node import NAMED, ClusterNode, Node
from sentinel_core.plan import BLOCK, BORROWED, PASS, PLAIN, WAIT, Call, Checker
from sentinel_core.product import product
from sentinel_core.slots import Build, Slot

THREADS: Final = 0
DIRECT: Final = 0
RELATE: Final = 1
CHAIN: Final = 2
WARM_UP: Final = 1
RATE_LIMITER: Final = 2
WARM_UP_RATE_LIMITER: Final = 3
EVERYONE: Final = "default"
OTHERS: Final = "other"
NONE_NAMED: Final[frozenset[str]] = frozenset()
"""One for all rules that do not ask who else is named: an empty set takes 216 bytes."""
NO_START: Final = -(1 << 62)
AGES: Final = 1e18
"""The longest distance between two requests that is told from never; ns."""
UNREACHABLE: Final = 1e12
"""Requests a second beyond which a warm-up makes no difference."""


class FlowChecker(Checker):
    """A flow rule. `fixed` is the node that it always looks at; without one, each call is asked."""

    __slots__ = ("app", "fixed", "health", "named", "node", "nodes", "reference", "strategy", "unwell_rt")

    def __init__(self, build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> None:
        super().__init__("flow", rule)
        self.app: str = rule.limit_app
        self.named = named
        self.strategy: int = rule.strategy
        self.reference: str = rule.ref_resource or ""
        self.node = node
        self.nodes = build.nodes
        self.health = build.health
        self.unwell_rt: int = product(rule.ref_unhealthy_rt_ms or 0, MS)
        """Mean response time of the related resource, ns, up to which it is well; 0: not asked."""
        self.fixed: Node | None = node if self.app == EVERYONE and self.strategy == DIRECT else None
        self.demands_call = self.fixed is None
        self.by_origin = self.app != EVERYONE
        self.by_context = self.strategy == CHAIN
        if self.by_origin and self.app != OTHERS:
            node.by_origin(self.app, NAMED)
        if self.by_context:
            node.by_context(self.reference, NAMED)

    def check(self, now: int, count: int, call: Call) -> int:
        node = self.fixed
        if node is None:
            node = self.select(call)
            if node is None or (self.strategy == RELATE and self.is_well(node, now)):
                return PASS
        if now >= node.end:
            node.roll(now)
        return self.judge(node, now, count, call)

    def is_well(self, related: Node, now: int) -> bool:
        """Whether the related resource is known to be well, so that nothing need be limited for its sake."""
        verdict = self.health.get(self.reference)
        known = verdict is not None and now < verdict.until
        if known and verdict is not None and not verdict.well:
            return False
        if self.unwell_rt:
            if now >= related.end:
                related.roll(now)
            # Calls that are inside while none comes back have no response time yet: that is not known to be well.
            silent = related.threads > 0 and not related.base_success + related.success
            if silent or related.average_rt() > self.unwell_rt:
                return False
            known = True
        return known

    def judge(self, node: Node, now: int, count: int, call: Call) -> int:
        """Decides on a node that stands at `now`."""
        raise NotImplementedError

    def select(self, call: Call) -> Node | None:
        """The node that counts this call for this rule, None where the rule does not apply."""
        app = self.app
        origin = call.origin
        if app == origin and origin not in (EVERYONE, OTHERS, ""):
            return self.of_origin(call)
        if app == EVERYONE:
            return self.node if self.strategy == DIRECT else self.referred(call)
        if app == OTHERS and origin and origin not in self.named:
            return self.of_origin(call)
        return None

    def of_origin(self, call: Call) -> Node | None:
        if self.strategy == DIRECT:
            node = self.node.by_origin(call.origin, PARTS)
            return node if node is not None else self.node.rest(self.node.origins)
        return self.referred(call)

    def referred(self, call: Call) -> Node | None:
        if self.strategy == RELATE:
            return self.nodes.get(self.reference)
        if self.strategy == CHAIN and (call.context or DEFAULT_CONTEXT) == self.reference:
            return self.node.by_context(self.reference, PARTS)
        return None

    def detail(self, call: Call) -> str:
        return self.app


class ThreadLimit(FlowChecker):
    """At most `count` calls inside at once; holds after a wait, too."""

    __slots__ = ("limit",)

    def __init__(self, build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> None:
        super().__init__(build, node, rule, named)
        self.limit: int = math.floor(rule.count)
        self.again = not build.compat

    def judge(self, node: Node, now: int, count: int, call: Call) -> int:
        return BLOCK if node.threads + count > self.limit else PASS

    def live(self, now: int) -> dict[str, Any]:
        return {"threads": self.fixed.threads if self.fixed is not None else None, "limit": self.limit}


class Limit(FlowChecker):
    """A number of requests a second."""

    __slots__ = ("cuts", "limit", "seconds")

    def __init__(self, build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> None:
        super().__init__(build, node, rule, named)
        self.limit: int = math.floor(rule.count)
        self.seconds: float = build.settings.interval_ms / 1000
        self.cuts = self.seconds != 1.0

    def used(self, node: Node) -> int:
        """Requests a second, cut to a whole number."""
        return int(node.pass_sum() / self.seconds) if self.cuts else node.pass_sum()

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        length = self.node.length
        return -((now % length - length) // MS) if self.limit else None

    def live(self, now: int) -> dict[str, Any]:
        node = self.fixed
        if node is None:
            return {"qps": None, "limit": self.limit}
        node.roll(now)
        return {"qps": node.pass_sum() / self.seconds, "limit": self.limit}


class RateLimit(Limit):
    """At most `count` requests a second; what is over is refused, or borrows from the next window with priority."""

    __slots__ = ("maximum", "occupy")

    def __init__(self, build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> None:
        super().__init__(build, node, rule, named)
        self.maximum: float = rule.count * self.seconds
        self.occupy: int = product(build.settings.occupy_timeout_ms, MS)

    def check(self, now: int, count: int, call: Call) -> int:
        # The rule that nearly every resource has, written out: two calls less for every entry.
        node = self.fixed
        if node is None or self.cuts:
            return FlowChecker.check(self, now, count, call)
        if now >= node.end:
            node.roll(now)
        if node.base_passed + node.passed + count <= self.limit:
            return PASS
        return self.borrow(node, now, count) if call.priority else BLOCK

    def judge(self, node: Node, now: int, count: int, call: Call) -> int:
        if self.used(node) + count <= self.limit:
            return PASS
        return self.borrow(node, now, count) if call.priority else BLOCK

    def borrow(self, node: Node, now: int, count: int) -> int:
        """Passes a call into the first bucket to come that has room, if that is near enough."""
        ahead = node.borrowed_ahead(now)
        if ahead >= self.maximum:
            return BLOCK
        length = node.length
        wait = length - now % length
        start = node.end - product(node.size, length)
        standing = node.pass_sum()
        while start < now and wait < self.occupy:
            leaving = node.passed_at(start)
            if standing + ahead + count - leaving <= self.maximum:
                node.borrow(now, wait, count)
                self.wait = wait
                return BORROWED
            standing -= leaving
            start += length
            wait += length
        return BLOCK


class Queue(FlowChecker):
    """Requests leave at even distances; those that would wait longer than `maxQueueingTimeMs` are refused."""

    __slots__ = ("count", "latest", "limit_ns", "unit")

    def __init__(self, build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> None:
        super().__init__(build, node, rule, named)
        self.count: float = rule.count
        self.limit_ns: int = product(rule.max_queueing_time_ms, MS)
        self.latest = -(1 << 61)
        self.unit = MS if build.compat and self.in_milliseconds() else 1

    def in_milliseconds(self) -> bool:
        """Where Java Sentinel rounds the distance to whole milliseconds; otherwise it is nanoseconds."""
        return 0.5 <= self.count <= 1000 and 1000 % math.floor(self.count + 0.5) == 0

    def cost(self, count: int, rate: float) -> int:
        """The distance behind `count` requests at `rate` a second, ns, rounded half up to the unit."""
        return product(math.floor(min(float(SECOND // self.unit) * count / rate, AGES) + 0.5), self.unit)

    def judge(self, node: Node, now: int, count: int, call: Call) -> int:
        if count <= 0:
            return PASS
        if self.count <= 0:
            return BLOCK
        return self.queue(now, self.cost(count, self.count))

    def queue(self, now: int, cost: int) -> int:
        wait = self.latest + cost - now
        if wait <= 0:
            self.latest = now
            return PASS
        if wait > self.limit_ns:
            return BLOCK
        self.latest += cost
        self.wait = wait
        return WAIT

    def retry_after(self, now: int, call: Call = PLAIN) -> int | None:
        if self.count <= 0:
            return None
        return max(0, -((now + self.limit_ns - self.latest - self.cost(1, self.count)) // MS))

    def live(self, now: int) -> dict[str, Any]:
        """`waiting`: calls whose turn is still to come; they leave at even distances, the last one at `latest`.
        `nextWaitMs`: what one more would wait."""
        queued = max(0, self.latest - now)
        cost = max(self.cost(1, self.rate_now()), 1) if self.count > 0 else 1
        return {
            "queuedMs": queued / MS,
            "waiting": -(-queued // cost),
            "nextWaitMs": max(0, self.latest + cost - now) / MS,
            "maxQueueingTimeMs": self.limit_ns // MS,
            "limit": self.count,
        }

    def rate_now(self) -> float:
        """Requests a second that leave the queue now; for people."""
        return self.count


class WarmUp:
    """The tokens of a cold start (Guava's SmoothWarmingUp, as Sentinel counts them): many tokens mean cold."""

    __slots__ = ("cold", "count", "filled", "made", "maximum", "period_ns", "slope", "start", "stored", "warning")

    def __init__(self, rule: Any, cold_factor: int, start: int, made: int) -> None:
        cold = cold_factor if cold_factor > 1 else 3
        count: float = min(rule.count, UNREACHABLE)
        period: int = rule.warm_up_period_sec
        self.cold = cold
        self.count = count
        self.warning = int(period * count) // (cold - 1)
        self.maximum = self.warning + int(2.0 * period * count / (1 + cold))
        self.slope = (cold - 1) / count / (self.maximum - self.warning) if self.maximum > self.warning else 0.0
        self.stored = 0
        self.filled = -1
        self.period_ns = product(period, SECOND)
        self.start = start
        """When warming up began for all instances, monotonic ns; NO_START: with the first call of this one."""
        self.made = made
        """When the rule came to be, monotonic ns: with the process, or with the last change of the rule."""

    @property
    def degenerate(self) -> bool:
        """The curve has no length: too small a count for its period."""
        return self.maximum == self.warning

    def refill(self, now: int, previous: int) -> None:
        """Once a second: tokens come in at `count` a second and go out with the requests of the second before."""
        second = now // SECOND
        if second <= self.filled:
            return
        stored = self.stored
        if stored < self.warning or (stored > self.warning and previous < int(self.count) // self.cold):
            since = second - self.filled
            stored = self.first(now) if self.filled < 0 else min(int(stored + since * self.count), self.maximum)
        self.stored = max(0, stored - previous)
        self.filled = second
        if self.start > now:
            self.stored = self.maximum

    def first(self, now: int) -> int:
        """Tokens at the first call: all of them, or those that steady traffic since a common start would have left."""
        if self.start == NO_START:
            return self.maximum
        gone = min(max(now - self.start, 0), self.period_ns)
        return self.maximum - product(self.maximum - self.warning, gone) // self.period_ns

    def rate(self) -> float:
        """Requests a second that may pass now."""
        if self.stored < self.warning:
            return self.count
        return math.nextafter(1.0 / ((self.stored - self.warning) * self.slope + 1.0 / self.count), math.inf)

    def live(self, now: int, previous: int) -> dict[str, Any]:
        """What a call would find now; nothing changes.

        fullInMs is the time to the whole limit with as much traffic as may pass: the area below Guava's curve, the
        tokens above the warning line times the mean distance of two requests from here to there.
        """
        stored, filled = self.stored, self.filled
        self.refill(now, previous)
        rate, above = self.rate(), self.stored - self.warning
        full = self.stored >= self.maximum
        self.stored, self.filled = stored, filled
        state = "warm" if above <= 0 else "cold" if full else "warming"
        wait_s = above * (1.0 / rate + 1.0 / self.count) / 2.0 if above > 0 else 0.0
        return {
            "warmUp": state,
            "allowed": rate,
            "fullInMs": round(min(wait_s, AGES) * 1000),
            "coolsBelow": int(self.count) // self.cold,
            "shared": self.start != NO_START,
            "madeMs": max(0, now - self.made) // MS,
        }


def warm_up(build: Build, rule: Any) -> WarmUp | None:
    """The tokens of a rule; None where nothing may pass at all."""
    if not rule.count:
        return None
    start = NO_START if rule.warm_up_start is None else build.monotonic(rule.warm_up_start)
    return WarmUp(rule, build.settings.cold_factor, start, build.runtime.monotonic_ns())


def previous_passed(node: Node, now: int) -> int:
    """Requests passed in the full second before."""
    previous = node.previous_second(now)
    return previous.passed if previous is not None else 0


def warmth(tokens: WarmUp | None, node: Node | None, now: int) -> dict[str, Any]:
    """What a warm-up stands at, for people; without a node of its own, as if nothing had passed the second before."""
    if tokens is None:
        return {"allowed": 0.0}
    return tokens.live(now, previous_passed(node, now) if node is not None and node.folds else 0)


class WarmUpLimit(Limit):
    """A limit that grows from count / coldFactor to count while there is traffic."""

    __slots__ = ("compat", "tokens")

    def __init__(self, build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> None:
        super().__init__(build, node, rule, named)
        self.tokens = warm_up(build, rule)
        self.compat = build.compat

    def judge(self, node: Node, now: int, count: int, call: Call) -> int:
        tokens = self.tokens
        if tokens is None:
            return BLOCK
        tokens.refill(now, previous_passed(node, now))
        if self.compat and tokens.degenerate and tokens.stored >= tokens.warning:
            return BLOCK  # 0 times infinity: Java's limit is not a number there, and nothing ever passes
        return PASS if self.used(node) + count <= tokens.rate() else BLOCK

    def live(self, now: int) -> dict[str, Any]:
        return {**super().live(now), **warmth(self.tokens, self.fixed, now)}


class WarmUpQueue(Queue):
    """A queue whose distances shrink while there is traffic."""

    __slots__ = ("compat", "tokens")

    def __init__(self, build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> None:
        super().__init__(build, node, rule, named)
        self.tokens = warm_up(build, rule)
        self.compat = build.compat
        self.unit = MS if build.compat else 1

    def judge(self, node: Node, now: int, count: int, call: Call) -> int:
        tokens = self.tokens
        if tokens is None:
            return PASS if self.compat else BLOCK
        tokens.refill(now, previous_passed(node, now))
        if self.compat and tokens.degenerate and tokens.stored >= tokens.warning:
            return self.queue(now, 0)  # 0 times infinity again: Java rounds a distance that is not a number to none
        return self.queue(now, self.warm_cost(count, tokens.rate()))

    def live(self, now: int) -> dict[str, Any]:
        return {**super().live(now), **warmth(self.tokens, self.fixed, now)}

    def rate_now(self) -> float:
        return self.tokens.rate() if self.tokens is not None else self.count

    def warm_cost(self, count: int, rate: float) -> int:
        return product(math.floor(min(count / rate * (SECOND // self.unit), AGES) + 0.5), self.unit)


def make(build: Build, node: ClusterNode, rule: Any, named: frozenset[str]) -> FlowChecker:
    """The checker of a rule: threads, or the behaviour it names (an unknown one rejects)."""
    if rule.grade == THREADS:
        return ThreadLimit(build, node, rule, named)
    behavior = rule.control_behavior
    if behavior == RATE_LIMITER:
        return Queue(build, node, rule, named)
    if behavior == WARM_UP:
        return WarmUpLimit(build, node, rule, named)
    if behavior == WARM_UP_RATE_LIMITER:
        return WarmUpQueue(build, node, rule, named)
    return RateLimit(build, node, rule, named)


def applies(rule: Any) -> bool:
    """A cluster rule without a token server falls back to local counting where it says so, else it passes."""
    return not rule.cluster_mode or rule.cluster_config is None or rule.cluster_config.fallback_to_local_when_fail


def compile_flow(build: Build, node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
    """One checker a rule in list order; equal rules are one."""
    named = frozenset([rule.limit_app for rule in rules])
    # A caller whose only rule of its own is a shadow is still one of the others.
    enforced = frozenset([rule.limit_app for rule in rules if build.mode(rule) == ENFORCE])
    checkers: list[Checker] = []
    for rule in dict.fromkeys(rules):
        if applies(rule):
            known = enforced if build.mode(rule) == ENFORCE else named
            checkers.append(keep(build, node, rule, known if rule.limit_app == OTHERS else NONE_NAMED))
    return checkers


def keep(build: Build, node: ClusterNode, rule: Any, others: frozenset[str]) -> Checker:
    """The rule's own checker with its queue and tokens; Java makes all of them anew when any flow rule changed."""
    if build.compat and SLOT.kind in build.changed:
        build.forget(("flow", rule, others))
    return build.keep(("flow", rule, others), lambda: make(build, node, rule, others))


def unenforced(rule: Any) -> str | None:
    """Cluster rules have no token server yet."""
    if not rule.cluster_mode:
        return None
    return "counts in this process alone: there is no token server" if applies(rule) else "passes every call"


def refuses(rule: Any) -> str | None:
    """Java divides by round(count) while it builds a rate limiter."""
    if rule.grade != THREADS and rule.control_behavior == RATE_LIMITER and 0 < rule.count < 0.5:
        return f"count is {rule.count:g}: Java Sentinel 1.8.9 divides by zero while it builds a rate limiter below 0.5"
    return None


SLOT = Slot("flow", 300, compile_flow, unenforced, refuses=refuses)

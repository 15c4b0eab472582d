"""Limits for each value of one argument: tokens, an even distance, or calls at once.

Each value has a state of its own, the least recently used ones go first. Tokens come back when a value was not refilled
for longer than `durationInSec`. What a call has taken stays taken when a later rule blocks it. Without the argument, or
with None, a rule does not apply. A change of a rule's numbers keeps the states of its values (durations may be hours).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from sentinel_core.arguments import MANY, MISSING, Key
from sentinel_core.clock import MS, SECOND
from sentinel_core.node import ClusterNode
from sentinel_core.plan import BLOCK, PASS, WAIT, Call, Checker, Pass
from sentinel_core.product import product
from sentinel_core.slots import Build, Slot

THREADS: Final = 0
QPS: Final = 1
RATE_LIMITER: Final = 2
PER_SECOND: Final = 4000
MOST: Final = 200_000


class Value:
    """One value of an argument: tokens left and the time of the last refill, or the time the last call was planned."""

    __slots__ = ("last", "tokens")

    def __init__(self, tokens: int, last: int) -> None:
        self.tokens = tokens
        self.last = last


class Values:
    """The values of one argument that were seen, the most recently used last; at most `size`."""

    __slots__ = ("size", "threads", "values")

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: dict[Key, Value] = {}
        self.threads: dict[Key, int] = {}

    def get(self, key: Key) -> Value | None:
        value = self.values.pop(key, None)
        if value is not None:
            self.values[key] = value
        return value

    def put(self, key: Key, value: Value) -> bool:
        """Keeps a value; whether another one had to go for it."""
        self.values[key] = value
        if len(self.values) <= self.size:
            return False
        del self.values[next(iter(self.values))]
        return True


class ParamLimit(Checker):
    """A hot-parameter rule."""

    __slots__ = (
        "burst",
        "compat",
        "count",
        "duration",
        "grade",
        "index",
        "items",
        "max_queue",
        "resource",
        "runtime",
        "seconds",
        "throttles",
        "values",
    )

    def __init__(self, build: Build, resource: str, rule: Any, values: Values) -> None:
        super().__init__("param_flow", rule)
        self.by_args = True
        self.compat = build.compat
        self.runtime = build.runtime
        self.resource = resource
        self.values = values
        self.index: int = rule.param_idx
        self.grade: int = rule.grade
        self.count: int = int(rule.count)
        self.burst: int = rule.burst_count
        self.seconds: int = rule.duration_in_sec
        self.duration: int = product(rule.duration_in_sec, SECOND)
        self.max_queue: int = product(rule.max_queueing_time_ms, MS)
        self.throttles: bool = rule.control_behavior == RATE_LIMITER
        self.items: dict[Key, int] = {}
        for item in rule.param_flow_item_list:
            for key in item_keys(item, self.compat):
                self.items[key] = item.count
        self.enters = self.completes = self.again = rule.grade == THREADS

    def key(self, call: Call) -> Key:
        """The argument this rule looks at; (MISSING, None) where the call has none."""
        args = call.args
        index = self.index
        if index < 0:
            index = index + len(args) if -index <= len(args) else -index
            if self.compat and args:
                self.index = index  # Java writes the place it found into the rule, for good
        return args[index] if index < len(args) else (MISSING, None)

    def check(self, now: int, count: int, call: Call) -> int:
        key = self.key(call)
        kind = key[0]
        if kind == MISSING:
            return PASS
        if kind != MANY:
            return self.one(now, count, call, key)
        total = 0
        for each in key[1]:
            verdict = PASS if each[0] == MISSING else self.one(now + total, count, call, each)
            if verdict == BLOCK:
                return BLOCK
            if verdict == WAIT:
                total += self.wait
        self.wait = total
        return WAIT if total else PASS

    def one(self, now: int, count: int, call: Call, key: Key) -> int:
        threshold = self.items.get(key, self.count)
        if self.grade == THREADS:
            passes = self.values.threads.get(key, 0) + 1 <= threshold
        elif self.grade != QPS:
            return PASS
        elif threshold <= 0:
            passes = False
        elif self.throttles:
            return self.throttle(now, count, call, key, threshold)
        else:
            passes = self.take(now, count, key, threshold)
        if passes:
            return PASS
        self.note(call, key)
        return BLOCK

    def note(self, call: Call, key: Key) -> None:
        """What blocked: the value; Java names the whole collection that it stands in."""
        call.hit = text_of(self.key(call) if self.compat else key)

    def take(self, now: int, count: int, key: Key, threshold: int) -> bool:
        """Takes tokens of a value, after a refill if its time has come."""
        most = threshold + self.burst
        if count > most:
            return False
        value = self.values.get(key)
        if value is None:
            self.keep(key, Value(most - count, now))
            return True
        since = now - value.last
        if since > self.duration:
            left = min(value.tokens + product(since, threshold) // self.duration, most) - count
            if left < 0:
                return False
            value.last = now
        else:
            # A threshold that was lowered counts at once.
            left = min(value.tokens, most) - count
            if left < 0:
                return False
        value.tokens = left
        return True

    def throttle(self, now: int, count: int, call: Call, key: Key, threshold: int) -> int:
        """Keeps the calls with a value at an even distance."""
        unit = MS if self.compat else 1
        cost = product(math.floor(float(SECOND // unit) * count * self.seconds / threshold + 0.5), unit)
        value = self.values.get(key)
        if value is None:
            self.keep(key, Value(0, now))
            return PASS
        wait = value.last + cost - now
        if wait <= 0:
            value.last = now
            return PASS
        if wait < self.max_queue:
            value.last += cost
            self.wait = wait
            return WAIT
        self.note(call, key)
        return BLOCK

    def keep(self, key: Key, value: Value) -> None:
        if self.values.put(key, value):
            self.full(key)

    def full(self, key: Key) -> None:
        self.runtime.beyond("values", f"{text_of(key)!r} of {self.resource!r}")

    def enter(self, call: Call) -> None:
        self.count_threads(call, 1)

    def complete(self, passed: Pass, now: int, rt: int, failed: bool, cancelled: bool) -> None:
        self.count_threads(passed.call, -1)

    def count_threads(self, call: Call, step: int) -> None:
        key = self.key(call)
        threads = self.values.threads
        for each in key[1] if key[0] == MANY else (key,):
            if each[0] == MISSING:
                continue
            inside = threads.get(each, 0) + step
            if inside <= 0:
                threads.pop(each, None)
            elif inside > 1 or step < 0 or len(threads) < self.values.size:
                threads[each] = inside
            else:
                self.full(each)

    def detail(self, call: Call) -> str:
        return call.hit

    def live(self, now: int) -> dict[str, Any]:
        return {"values": len(self.values.values), "threads": sum(list(self.values.threads.values()))}


def text_of(key: Key) -> str:
    """A value as people see it."""
    if key[0] == MANY:
        return f"[{', '.join([text_of(each) for each in key[1]])}]"
    return str(key[1]).lower() if key[0] == "bool" else str(key[1])


def item_keys(item: Any, compat: bool) -> list[Key]:
    """What a special value looks like as an argument; Java tells more number types apart than Python has."""
    name, text = item.type_name, item.object
    if name in ("int", "integer") or (name in ("long", "short", "byte") and not compat):
        return [("int", int(text))]
    if name == "double" or (name == "float" and not compat):
        return [("float", float(text))]
    if name == "boolean":
        return [("bool", text.lower() == "true")]
    if compat and name in ("long", "short", "byte", "float", "char", "character"):
        return []
    return [("str", text)]


def compile_one(build: Build, node: ClusterNode, rule: Any) -> Checker:
    size = PER_SECOND if rule.grade == THREADS else min(product(PER_SECOND, rule.duration_in_sec), MOST)
    source: tuple[Any, ...] = ("param_flow", rule.param_idx, rule.grade, rule.control_behavior, rule.duration_in_sec)
    if build.compat:
        source = ("param_flow", rule)
        if rewrites(rule):
            build.forget(source)
    values = build.keep((*source, "values"), lambda: Values(size))
    return build.keep(("param_flow", rule), lambda: ParamLimit(build, node.resource, rule, values))


def rewrites(rule: Any) -> bool:
    """Java writes the place that a negative index stands for into the rule."""
    return bool(rule.param_idx < 0)


def compile_param_flow(build: Build, node: ClusterNode, rules: Sequence[Any]) -> list[Checker]:
    """One checker a rule; equal rules are one."""
    return [compile_one(build, node, rule) for rule in dict.fromkeys(rules) if applies(rule)]


def applies(rule: Any) -> bool:
    """A cluster rule without a token server falls back to local counting where it says so, else it passes."""
    return not rule.cluster_mode or rule.cluster_config is None or rule.cluster_config.fallback_to_local_when_fail


def unenforced(rule: Any) -> str | None:
    """Cluster rules have no token server yet."""
    if not rule.cluster_mode:
        return None
    return "counts in this process alone: there is no token server" if applies(rule) else "passes every call"


SLOT = Slot("param_flow", 600, compile_param_flow, unenforced, rewrites=rewrites)

"""Builds snapshots: rules indexed by resource at once, plans when a resource is first called.

A plan lives on, counters and breakers included, as long as the rules of its resource stay equal. Where they differ, the
parts of every rule that stayed are taken over (`Build.keep`). Equality is the rule model's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from sentinel_core.collectors.local import Metrics, Samples, Verdict
from sentinel_core.modes import EVERYTHING, Modes
from sentinel_core.node import Budget, ClusterNode
from sentinel_core.options import Statistics
from sentinel_core.plan import Plan, Runtime, Snapshot
from sentinel_core.rules import Kind, RuleSet
from sentinel_core.rules.patterns import LONGEST_NAME
from sentinel_core.slots import Build, Slot

NONE: list[Any] = []
MAX_PARTS = 100_000
"""Callers and contexts that are counted apart, all resources together."""


class Compiler:
    """Turns rule sets into snapshots and resources into plans. The caller serialises all methods but `is_beyond`."""

    def __init__(
        self,
        runtime: Runtime,
        metrics: Metrics,
        statistics: Statistics,
        slots: Mapping[Kind, Slot],
        max_resources: int,
        wall: Callable[[], datetime],
    ) -> None:
        self.wall = wall
        self.health: dict[str, Verdict] = {}
        """Resource → what its health check said last; relate rules read it."""
        self.modes = Modes([kind for kind, slot in slots.items() if slot.breaks])
        self.runtime = runtime
        self.metrics = metrics
        self.statistics = statistics
        self.slots = slots
        self.max_resources = max_resources
        self.budget = Budget(MAX_PARTS)
        self.nodes: dict[str, ClusterNode] = {}
        """Every resource that was called or compiled, for the life of the engine."""

    def renew_after_fork(self, old: Snapshot) -> Snapshot:
        """For a forked child: the same rules, and nothing counted yet."""
        self.nodes = {}
        self.budget = Budget(MAX_PARTS)
        self.metrics.retain(set())
        return Snapshot(old.number, old.rulesets, old.by_resource, old.patterns)

    def next(self, old: Snapshot, changed: Mapping[Kind, RuleSet]) -> Snapshot:
        """The snapshot after `old` with the kinds in `changed` replaced, without its plans (see `carry`)."""
        by_resource = dict(old.by_resource)
        patterns = dict(old.patterns)
        for kind, ruleset in changed.items():
            by_resource[kind], patterns[kind] = _index(ruleset.rules)
        return Snapshot(old.number + 1, {**old.rulesets, **changed}, by_resource, patterns)

    def carry(self, old: Snapshot, new: Snapshot, changed: Iterable[Kind]) -> None:
        """Gives `new` the plans of `old` that it lacks: as they are where no rule changed, else compiled anew."""
        kinds = tuple(changed)
        for resource, plan in list(old.plans.items()):
            if resource in new.plans:
                continue
            # Java rebuilds the controllers of every flow rule when one changes; so compat keeps no plan whole.
            if not self.runtime.compat and self.stands(resource, old, new, kinds):
                new.plans[resource] = plan
                continue
            successor = new.plans[resource] = self.compile(new, plan.node, plan, kinds)
            if self.runtime.compat:
                plan.successor = successor

    def again(self, old: Snapshot) -> Snapshot:
        """The same rules in plans compiled anew, with all their state: what decides besides rules has changed."""
        new = Snapshot(old.number, old.rulesets, old.by_resource, old.patterns)
        for resource, plan in list(old.plans.items()):
            successor = new.plans[resource] = self.compile(new, plan.node, plan, ())
            if self.runtime.compat:
                plan.successor = successor
        return new

    def stands(self, resource: str, old: Snapshot, new: Snapshot, changed: Iterable[Kind]) -> bool:
        """Whether a resource has equal rules in both."""
        return all(self.rules_of(old, kind, resource) == self.rules_of(new, kind, resource) for kind in changed)

    def listen(self, new: Snapshot, changed: Iterable[Kind]) -> None:
        """Compiles at once what must hear of things before its first call (business metrics), deafens what is gone."""
        eager = [kind for kind in changed if kind in self.slots and self.slots[kind].eager]
        for kind in eager:
            for resource in new.by_resource[kind]:
                self.find(new, resource)
        if eager:
            self.forget_samples(new)

    def prune(self, new: Snapshot) -> None:
        """Forgets resources that no rule is about any more and that nobody is inside, as long as there are too many."""
        for resource, plan in list(new.plans.items()):
            if len(self.nodes) <= self.max_resources:
                return
            if not plan.ruled and not plan.node.threads:
                del new.plans[resource]
                if self.nodes.pop(resource, None) is not None:
                    plan.node.forgotten()

    def find(self, snapshot: Snapshot, resource: str) -> Plan | None:
        """The plan of a resource, compiled if need be; None for an unnamed resource beyond the limit. What a signal
        handler or a finalizer made of the same resource meanwhile has counted already, and stays."""
        plan = snapshot.plans.get(resource)
        if plan is None:
            if self.is_beyond(snapshot, resource):
                return None
            node = self.nodes.get(resource)
            if node is None:
                node = self.nodes.setdefault(resource, self.new_node(resource))
            plan = snapshot.plans.setdefault(resource, self.compile(snapshot, node, None, ()))
        return plan

    def is_beyond(self, snapshot: Snapshot, resource: str) -> bool:
        """Whether there are too many resources for one more that no rule is about."""
        full = len(self.nodes) >= self.max_resources and resource not in self.nodes
        return full and (self.runtime.compat or not self.is_named(snapshot, resource))

    def new_node(self, resource: str) -> ClusterNode:
        statistics = self.statistics
        node = ClusterNode(resource, statistics.bucket_ns, statistics.buckets, statistics.minutes)
        node.budget = self.budget
        return node

    def new_overflow(self) -> Plan:
        """The plan of calls that no resource counts."""
        return Plan(self.runtime, self.new_node(""), (), (), ruled=False)

    def compile(self, snapshot: Snapshot, node: ClusterNode, before: Plan | None, changed: tuple[Kind, ...]) -> Plan:
        """The plan of a resource with the state that `before` leaves to it."""
        kept = {(*key,): state for *key, state in before.states} if before is not None else {}
        build = Build(
            self.runtime,
            self.nodes,
            self.metrics,
            self.statistics,
            kept,
            changed,
            lambda kind: self.rules_of(snapshot, kind, node.resource),
            lambda rule: self.mode_of(rule, node.resource),
            self.health,
            self.wall,
        )
        ruled = False
        checkers = []
        for kind, slot in self.slots.items():
            of_kind = self.rules_of(snapshot, kind, node.resource)
            if of_kind:
                ruled = True
                checkers += [build.controlled(checker) for checker in slot.compile(build, node, of_kind)]
        return Plan(self.runtime, node, checkers, build.states, ruled)

    def rules_of(self, snapshot: Snapshot, kind: Kind, resource: str) -> list[Any]:
        """The rules of a kind that apply to a resource: those that name it, then those whose pattern matches it.

        No pattern is tried on a longer name than LONGEST_NAME: names may come from outside, and be made to take long.
        Not to be changed: it may be the snapshot's own list.
        """
        if self.slots[kind].universal:
            return list(snapshot.rulesets[kind].rules) if kind in snapshot.rulesets else NONE
        named: list[Any] = snapshot.by_resource.get(kind, {}).get(resource, NONE)
        patterns = snapshot.patterns.get(kind)
        if not patterns or len(resource) > LONGEST_NAME:
            return named
        return [*named, *(rule for pattern, rule in patterns if pattern.fullmatch(resource))]

    def mode_of(self, rule: Any, resource: str) -> str:
        """The mode of a rule for a resource; a rule for every resource is in one mode for all of them."""
        slot = self.slots.get(getattr(rule, "kind", ""))
        return self.modes.of(rule, EVERYTHING if slot is not None and slot.universal else resource)

    def is_named(self, snapshot: Snapshot, resource: str) -> bool:
        """Whether any rule is about this resource."""
        return any(not slot.universal and self.rules_of(snapshot, kind, resource) for kind, slot in self.slots.items())

    def forget_samples(self, snapshot: Snapshot) -> None:
        """Stops feeding the samples of rules that are gone."""
        held = {
            id(state)
            for plan in list(snapshot.plans.values())
            for *_, state in plan.states
            if isinstance(state, Samples)
        }
        self.metrics.retain(held)


def _index(rules: Iterable[Any]) -> tuple[dict[str, list[Any]], list[Any]]:
    """resource → rules, and (pattern, rule) of the rules that name resources by a regular expression."""
    by_resource: dict[str, list[Any]] = {}
    patterns: list[Any] = []
    for rule in rules:
        if getattr(rule, "regex", False):
            patterns.append((re.compile(rule.resource), rule))
            continue
        found = by_resource.get(rule.resource)
        if found is None:
            by_resource[rule.resource] = [rule]
        else:
            found.append(rule)
    return by_resource, patterns

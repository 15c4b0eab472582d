"""What an engine has seen, for people who ask why a rule does or does not act: told again and again from what is
counted anyway. Nothing here is in the way of a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sentinel_core import views
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.clock import SECOND
from sentinel_core.masking import MASK
from sentinel_core.node import Node
from sentinel_core.rules import Rule, describe_rule
from sentinel_core.stats import stats_of, totals_of

if TYPE_CHECKING:
    from sentinel_core.engine import Engine
    from sentinel_core.plan import Plan

MOST_RULED: Final = 500
"""Resources with rules of their own that are told with their rules, those with most calls first."""
MOST_OTHERS: Final = 500
"""Resources without a rule, of which name and calls are told, those with most calls first."""
MOST_PARTS: Final = 20
"""Callers, and contexts, of a resource that are told, those with most calls first."""
LATELY_S: Final = 60
"""`lately` is the last one to two minutes."""

Mark = tuple[int, int, int]


@dataclass(slots=True)
class _Seen:
    """One resource as it was told last."""

    mark: Mark = (-1, -1, -1)
    """The end of its newest bucket and what is in it: while that is the same, nothing was called."""
    passed: int = 0
    blocked: int = 0
    by: Mapping[str, int] = field(default_factory=dict)
    moved_ns: int = 0
    """When its calls were seen to have grown."""
    apart: int = 0
    """Its calls when callers began to be counted apart."""

    @property
    def calls(self) -> int:
        return self.passed + self.blocked

    @property
    def counts(self) -> tuple[int, int, Mapping[str, int]]:
        return self.passed, self.blocked, self.by


_NOTHING: Final[tuple[int, int, Mapping[str, int]]] = (0, 0, {})


class Traffic:
    """Tells of an engine's traffic; one teller, on its own thread."""

    def __init__(self, engine: Engine, redaction: Redaction = NONE) -> None:
        self._engine = engine
        self._redaction = redaction
        self._began_ns = engine.clock.monotonic_ns()
        self._seen: dict[str, _Seen] = {}
        self._marks: list[tuple[int, dict[str, tuple[int, int, Mapping[str, int]]]]] = [(self._began_ns, {})]
        """Counts of one and of two minutes ago, by resource; what `lately` is counted from."""

    def tell(self) -> dict[str, Any]:
        """Plain JSON values.

        seconds     for how long this engine has counted
        lately      the span of `lately` of each resource, s
        resources   calls since it began, lately and in the sliding second; of those with rules: callers, contexts and
                    what each rule stands at
        beyond      how many more resources there are
        """
        now = self._engine.clock.monotonic_ns()
        plans = self._engine.snapshot.plans
        resources = self._engine.resources()
        self._seen = {resource: self._seen.get(resource) or _Seen() for resource in resources}
        for resource in resources:
            self._look(resource, now)
        named = {resource for resource, plan in list(plans.items()) if plan.checkers and _is_named(plan)}
        ruled = self._busiest(named, MOST_RULED)
        others = self._busiest(self._seen.keys() - named, MOST_OTHERS)
        since, before = self._marks[0]
        for name in others:
            self._seen[name].apart = self._seen[name].calls
        told = [
            *(self._ruled(name, plans[name], now, before) for name in ruled if name in plans),
            *(self._calls(name, now, before) for name in others),
        ]
        self._mark(now)
        return {
            "seconds": _seconds(now - self._began_ns),
            "lately": _seconds(now - since),
            "resources": told,
            "beyond": len(named) - len(ruled) + len(self._seen.keys() - named) - len(others),
        }

    def _look(self, resource: str, now: int) -> None:
        node = self._engine.node(resource)
        seen = self._seen[resource]
        if node is None or (mark := (node.end, node.passed, node.blocked)) == seen.mark:
            return
        totals = self._engine.core.inside(lambda: totals_of(node))
        seen.mark = mark
        if (totals.passed, totals.blocked) != (seen.passed, seen.blocked):
            seen.moved_ns = now
            seen.passed, seen.blocked, seen.by = totals.passed, totals.blocked, totals.blocked_by

    def _busiest(self, names: set[str], most: int) -> list[str]:
        if len(names) <= most:
            return sorted(names)
        return sorted(sorted(names), key=lambda name: self._seen[name].calls if name in self._seen else 0)[-most:]

    def _mark(self, now: int) -> None:
        """Moves the beginning of `lately` on, once a minute."""
        if now - self._marks[-1][0] >= LATELY_S * SECOND:
            counts = {resource: seen.counts for resource, seen in self._seen.items()}
            self._marks = [self._marks[-1], (now, counts)]

    def _calls(self, resource: str, now: int, before: Mapping[str, Any]) -> dict[str, Any]:
        seen = self._seen[resource]
        passed, blocked, by = before.get(resource, _NOTHING)
        return {
            "resource": resource,
            "passed": seen.passed,
            "blocked": seen.blocked,
            "silentSeconds": _seconds(now - seen.moved_ns) if seen.calls else None,
            "lately": {
                "passed": seen.passed - passed,
                "blocked": seen.blocked - blocked,
                "blockedBy": {
                    kind: count - by.get(kind, 0) for kind, count in seen.by.items() if count > by.get(kind, 0)
                },
            },
        }

    def _ruled(self, resource: str, plan: Plan, now: int, before: Mapping[str, Any]) -> dict[str, Any]:
        core = self._engine.core
        seen = self._seen.setdefault(resource, _Seen())
        node = plan.node
        stats, origins, contexts = core.inside(
            lambda: (stats_of(node, now), _parts(node.origins), _parts(node.contexts))
        )
        if not plan.by_origin:
            seen.apart = seen.calls
        return {
            **self._calls(resource, now, before),
            "blockedBy": dict(seen.by),
            "second": {"passed": stats.passed, "blocked": stats.blocked, "threads": stats.threads},
            "avgRtMs": round(stats.avg_rt, 3),
            "origins": _told(origins, without=_unnamed(seen, origins))
            if plan.by_origin and not self._hides_callers
            else None,
            "contexts": _told(contexts) if plan.by_context else None,
            "rules": [
                {
                    "kind": kind,
                    "rule": self._redaction.path(rule.path, kind, resource),
                    "says": self._says(rule),
                    **live,
                }
                for kind, rule, live in views.live_values(plan, core)
                if rule is not None
            ],
        }

    def _says(self, rule: Rule) -> str:
        """A rule in a line, unless it would tell a field that nobody is to see."""
        chosen = self._redaction.chosen
        return MASK if chosen and not chosen.isdisjoint(rule.to_json()) else describe_rule(rule)

    @property
    def _hides_callers(self) -> bool:
        return "limitApp" in self._redaction.chosen


def _is_named(plan: Plan) -> bool:
    """Whether any rule is about this resource; one that is for all of them is not."""
    return any(checker.rule is not None for checker in plan.checkers)


def _parts(parts: Mapping[str, Node]) -> dict[str, int]:
    """Calls by name; the caller holds the engine's section."""
    counts = {}
    for name, node in list(parts.items()):
        total = node.lifetime()
        counts[name] = total.passed + total.blocked
    return counts


def _unnamed(seen: _Seen, origins: Mapping[str, int]) -> int:
    """Calls that named no caller, since callers are counted."""
    return max(0, seen.calls - seen.apart - sum(origins.values()))


def _told(counts: Mapping[str, int], *, without: int = 0) -> dict[str, Any]:
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return {
        "calls": [{"name": name, "calls": counts[name]} for name in names[:MOST_PARTS]],
        "beyond": max(0, len(names) - MOST_PARTS),
        "without": without,
    }


def _seconds(ns: int) -> float:
    return round(ns / SECOND, 3)

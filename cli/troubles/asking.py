"""All rows asked of one resource, or of all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from sentinel_core.cli.troubles import callers, counting, effect, queueing, reach, warm_up
from sentinel_core.cli.troubles.finding import Case, Row, Scene, Trouble
from sentinel_core.rules import Rule, RuleSet
from sentinel_core.rules.patterns import LONGEST_NAME

ROWS: Final[Sequence[Row]] = (
    reach.reached,
    reach.silent,
    effect.inactive,
    effect.held,
    callers.named,
    callers.parameters,
    effect.outweighed,
    effect.compat,
    effect.waiting_for_more,
    counting.processes,
    counting.uncounted,
    counting.window,
    warm_up.warm_up,
    queueing.queueing,
)
"""In the order in which one would ask: does a call come at all, does the rule act, what is counted."""
FRESH_S: Final = 60.0
"""So long a service must have counted before it is said of all resources that nobody called them."""


def troubles(scene: Scene, resource: str, rules: Sequence[Rule]) -> list[Trouble]:
    """What is to say of one resource; what there is something to do about comes first."""
    case = Case(scene, resource, rules)
    found = [trouble for row in ROWS for trouble in row(case)]
    return sorted(found, key=lambda trouble: trouble.next_step is None)


def applying(sets: Mapping[str, RuleSet], resource: str) -> list[Rule]:
    """The rules that are about a resource: those that name it, and those whose pattern matches; no system rules."""
    return [
        rule
        for ruleset in sets.values()
        for rule in ruleset.rules
        if rule.kind != "system" and (rule.resource == resource or _matches(rule, resource))
    ]


def _matches(rule: Rule, resource: str) -> bool:
    return (
        bool(getattr(rule, "regex", False))
        and len(resource) <= LONGEST_NAME
        and re.fullmatch(rule.resource, resource) is not None
    )


def by_resource(scene: Scene) -> Mapping[str, list[Rule]]:
    """The rules of the scene that name their resource, in order."""
    named: dict[str, list[Rule]] = {}
    for ruleset in scene.sets.values():
        for rule in ruleset.rules:
            if rule.kind != "system" and not getattr(rule, "regex", False):
                named.setdefault(rule.resource, []).append(rule)
    return named


def idle_patterns(scene: Scene) -> list[str]:
    """The patterns of rules that no resource matches that was seen, in order."""
    rules = [rule for ruleset in scene.sets.values() for rule in ruleset.rules if getattr(rule, "regex", False)]
    return list(dict.fromkeys(rule.resource for rule in rules if not any(_matches(rule, name) for name in scene.seen)))

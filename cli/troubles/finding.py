"""A finding, and what it is found in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sentinel_core.cli.instances.found import SILENT
from sentinel_core.cli.troubles.names import Names
from sentinel_core.cli.troubles.seen import Calls, Service, of, seen_in
from sentinel_core.rules import Rule, RuleSet
from sentinel_core.settings import Settings

Symptom = Literal["never_triggers", "counts_less", "warm_up", "queueing"]
"""A rule that does not act; calls that are not counted as expected; a warm-up that falls; queues that hold workers."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One cause, in words, and what to do about it."""

    symptom: Symptom
    resource: str
    what: str
    next_step: str | None = None
    """None: worth knowing, nothing to mend."""
    rule: str | None = None
    """Path of the rule that it is about."""

    def to_json(self) -> dict[str, object]:
        """Every field."""
        return {
            "symptom": self.symptom,
            "resource": self.resource,
            "rule": self.rule,
            "what": self.what,
            "next": self.next_step,
        }


@dataclass(frozen=True, slots=True)
class Scene:
    """The rules of a store, and the services that run here."""

    settings: Settings
    sets: Mapping[str, RuleSet]
    services: Sequence[Service]
    is_live: bool = True
    """Whether the rules are those that services should run now."""
    telling: Sequence[Service] = field(init=False)
    """Services whose words are the present, and that tell of their traffic."""
    seen: Mapping[str, int] = field(init=False)
    """Resource → its calls in all of them."""
    names: Names = field(init=False)
    ruled: frozenset[str] = field(init=False)
    """Names that rules have: two that look alike, and both have rules, are meant to be two."""

    def __post_init__(self) -> None:
        telling = [each for each in self.services if each.tells and each.instance.state != SILENT]
        seen = seen_in(telling)
        object.__setattr__(self, "telling", telling)
        object.__setattr__(self, "seen", seen)
        object.__setattr__(self, "names", Names(seen))
        ruled = frozenset(rule.resource for ruleset in self.sets.values() for rule in ruleset.rules)
        object.__setattr__(self, "ruled", ruled)

    def alike(self, resource: str) -> list[str]:
        """Resources without rules that were seen, and that a reader takes for this one."""
        return [other for other in self.names.alike(resource) if other not in self.ruled]

    @property
    def counted_s(self) -> float:
        """For how long the one that has counted longest has."""
        return max((each.counted_s for each in self.telling), default=0.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One resource in a scene, with the rules of its own."""

    scene: Scene
    resource: str
    rules: Sequence[Rule]

    @property
    def found(self) -> list[tuple[Service, Calls]]:
        """The services that were called for it, and what they tell."""
        return list(of(self.scene.telling, self.resource))

    def standing(self, rule: Rule) -> list[tuple[Service, Mapping[str, Any]]]:
        """What a rule stands at in each service that runs it. Rules of one path are told apart by their words."""
        says = rule.describe()
        return [
            (service, each)
            for service, calls in self.found
            for each in calls.rules
            if each.get("rule") == rule.path and each.get("says") == says
        ]


Row = Callable[[Case], Iterator[Trouble]]
"""One row of the table: looks at a case, finds or finds nothing."""

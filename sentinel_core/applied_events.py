"""What this instance runs, as evidence: one event for each kind of each activation, told after the swap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sentinel_core.audit.events import EventSink, rule_applied
from sentinel_core.later_events import EVERY_S, LaterEvents
from sentinel_core.rules import Revision, RuleSet

if TYPE_CHECKING:
    from sentinel_core.engine import Engine


class AppliedEvents(LaterEvents):
    """Tells what is activated from now on, what is restored at a start included. `applied` is for the activation."""

    def __init__(self, engine: Engine, sink: EventSink, *, every_s: float = EVERY_S) -> None:
        super().__init__(engine, sink, "applied events", every_s=every_s)

    def applied(self, rulesets: Iterable[RuleSet], revision: Revision, activation_ms: float) -> None:
        engine = self._engine
        for ruleset in rulesets:
            self._add(
                rule_applied(
                    environment=engine.environment,
                    app=engine.app,
                    ruleset=ruleset,
                    revision=revision,
                    at=engine.clock.wall(),
                    instance=engine.instance,
                    activation_ms=round(activation_ms, 3),
                )
            )

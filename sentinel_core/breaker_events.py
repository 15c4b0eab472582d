"""Moves of breakers as evidence: from the calls that moved them to the outbox, without a call ever waiting for it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sentinel_core.audit.breaker import breaker_moved
from sentinel_core.audit.events import EventSink
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.later_events import EVERY_S, LaterEvents
from sentinel_core.plan import Transition

if TYPE_CHECKING:
    from sentinel_core.engine import Engine


class BreakerEvents(LaterEvents):
    """Writes the moves of the breakers of one engine into a sink."""

    def __init__(
        self, engine: Engine, sink: EventSink, *, redaction: Redaction = NONE, every_s: float = EVERY_S
    ) -> None:
        super().__init__(engine, sink, "breaker events", every_s=every_s)
        self._redaction = redaction
        self._numbers = itertools.count(1)
        self._forgets.append(engine.on_breaker(self._moved))

    def _moved(self, move: Transition) -> None:
        engine = self._engine
        self._add(
            breaker_moved(
                environment=engine.environment,
                app=engine.app,
                instance=engine.instance,
                at=engine.clock.wall(),
                number=next(self._numbers),
                kind=move.kind,
                facts=self._facts(move),
                redaction=self._redaction,
            )
        )

    def _facts(self, move: Transition) -> dict[str, Any]:
        rule = move.rule
        ruleset = self._engine.rules(move.kind).owner(rule)
        revision = ruleset.revision
        return {
            "resource": move.resource,
            "rule": rule.path,
            "before": move.before,
            "after": move.after,
            "value": move.value,
            "metric": getattr(rule, "biz_metric_type", None),
            "threshold": getattr(rule, "threshold", None),
            "dimension": move.dimension or None,
            "shadow": move.shadow,
            "commitHash": None if revision is None else revision.provenance.commit_hash,
            "rulesDigest": ruleset.digest,
        }

"""Moves of breakers as evidence: from the calls that moved them to the outbox, without a call ever waiting for it."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from sentinel_core.audit.breaker import breaker_moved
from sentinel_core.audit.events import Event, EventSink
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.metrics.ticker import Ticked, Ticker
from sentinel_core.plan import Transition

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

EVERY_S: Final = 0.5
MOST: Final = 1000
"""Moves that wait to be written; beyond it the oldest are lost, and counted."""


class BreakerEvents(Ticked):
    """Writes the moves of the breakers of one engine into a sink, on a thread of its own.

    A sink that fails is tried again, told once. In a forked child it begins anew.
    """

    def __init__(
        self, engine: Engine, sink: EventSink, *, redaction: Redaction = NONE, every_s: float = EVERY_S
    ) -> None:
        self._engine = engine
        self._redaction = redaction
        self._sink = sink
        self._lock = threading.Lock()
        self._waiting: deque[Event] = deque()
        self._number = 0
        self.lost = 0
        """Moves that were not written because too many waited."""
        self._ticker = Ticker("breaker events", self._write, every_s)
        self._forgets = (engine.on_breaker(self._moved), engine.on_fork(self._renew_after_fork))

    def close(self, timeout_s: float = 5) -> None:
        """Writes what waits, and ends."""
        for forget in self._forgets:
            forget()
        self._ticker.close(timeout_s)

    def _moved(self, move: Transition) -> None:
        engine = self._engine
        with self._lock:
            self._number += 1
            self._waiting.append(
                breaker_moved(
                    environment=engine.environment,
                    app=engine.app,
                    instance=engine.instance,
                    at=engine.clock.wall(),
                    number=self._number,
                    kind=move.kind,
                    facts=self._facts(move),
                    redaction=self._redaction,
                )
            )
            if len(self._waiting) > MOST:
                self._waiting.popleft()
                self.lost += 1

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

    def _write(self) -> None:
        with self._lock:
            taken = list(self._waiting)
        if not taken:
            return
        self._sink.append(taken)
        with self._lock:
            written = {event.id for event in taken}
            self._waiting = deque(event for event in self._waiting if event.id not in written)

    def _renew_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._waiting = deque()  # those of the parent, which writes them
        self._ticker.renew_after_fork()

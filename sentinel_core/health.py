"""Asking before relating: a health check of a resource, so that a relate rule limits only for the sake of one that is
really unwell.

Checks run on the collectors' threads, never in a call; what a rule sees is the last answer, as long as it is fresh. A
check that raises is counted and logged and has no say: the rule then acts as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sentinel_core.clock import SECOND
from sentinel_core.collectors.local import Verdict

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

HEALTH = "health"
"""The gauge in which answers show: 1 well, 0 unwell."""
FRESH_TURNS = 3
"""An answer holds for so many turns, at least three seconds."""

Check = Callable[[], bool]
"""Whether the resource is well. May do I/O, must end in time: checks and collectors share a few threads."""


class HealthCheck:
    """The check of one resource as a collector."""

    metric = HEALTH

    def __init__(self, engine: Engine, resource: str, check: Check, every_s: float) -> None:
        self.resource = resource
        self._engine = engine
        self._check = check
        self._fresh_ns = int(FRESH_TURNS * max(every_s, 1.0) * SECOND)

    def collect(self) -> Mapping[str, float]:
        verdicts = self._engine.health.verdicts
        try:
            well = bool(self._check())
        except BaseException:
            verdicts.pop(self.resource, None)
            raise
        verdicts[self.resource] = Verdict(well, self._engine.clock.monotonic_ns() + self._fresh_ns)
        return {self.resource: float(well)}


class Health:
    """The health checks of an engine."""

    def __init__(self, engine: Engine, verdicts: dict[str, Verdict]) -> None:
        self._engine = engine
        self._checks: dict[str, HealthCheck] = {}
        self.verdicts = verdicts
        """Resource → the last answer; relate rules read it."""

    def register(self, resource: str, check: Check, *, every_s: float = 1.0, thread: bool = True) -> None:
        """Asks `check` every `every_s` seconds from now on whether `resource` is well, in place of an earlier check.
        `thread=False`: only when `refresh` is called."""
        self.remove(resource)
        made = self._checks[resource] = HealthCheck(self._engine, resource, check, every_s)
        self._engine.collectors.register(made, every_s=every_s, thread=thread)

    def remove(self, resource: str) -> None:
        """Forgets the check of a resource; rules act as they are written again."""
        check = self._checks.pop(resource, None)
        if check is not None:
            self._engine.collectors.remove(check)
            self.verdicts.pop(resource, None)

    def refresh(self) -> None:
        """Asks every check once, on this thread."""
        for check in list(self._checks.values()):
            self._engine.collectors.read(check)

"""Manual control: rules put into another mode by hand, over what their fields say, until the hand lets go."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from sentinel_core.activation import Activation
from sentinel_core.masking import mask_name
from sentinel_core.modes import EVERYTHING, MODES, Shadow
from sentinel_core.plan import Snapshot
from sentinel_core.snapshot import Compiler

logger = logging.getLogger("sentinel_core")


class Control:
    """What `Engine.control` does. Lives in this process alone: a restart begins with what the rules say."""

    def __init__(self, compiler: Compiler, activation: Activation) -> None:
        self._compiler = compiler
        self._activation = activation

    @property
    def held(self) -> dict[str, str]:
        """Target → mode of everything that is controlled by hand."""
        return {str(target): mode for target, mode in self._compiler.modes.controls.items()}

    def set(self, target: str, mode: str | None) -> int:
        """See `Engine.control`."""
        if mode is not None and mode not in MODES:
            raise ValueError(f"mode is {mode!r}; write {', '.join(MODES)}, or None to let go")
        fits = [mode is None or self._compiler.modes.fits(kind, mode) for kind in self._kinds(target)]
        if fits and not any(fits):
            raise ValueError(f"{target!r} has no breaker to hold {mode}; breakers can be, other rules can be shadow")

        def change() -> None:
            controls = {**self._compiler.modes.controls}
            controls.pop(target, None)
            self._compiler.modes.controls = {**controls, target: mode} if mode is not None else controls

        self._activation.rebuild(change)
        logger.warning("%s: %s by hand, %d rules", mask_name(target), mode or "let go", sum(fits))
        return sum(fits)

    def _kinds(self, target: str) -> Iterator[str]:
        """The kind of every active rule that `target` names."""
        snapshot = self._activation.read()
        for kind, ruleset in snapshot.rulesets.items():
            matching = [rule for pattern, rule in snapshot.patterns.get(kind, ()) if pattern.fullmatch(target)]
            for rule in ruleset.rules:
                if target in (EVERYTHING, rule.path, rule.resource) or rule in matching:
                    yield kind

    def status(self) -> dict[str, Any]:
        """What an operator must not forget."""
        shadows = list(shadows_of(self._activation.read()))
        held = {mask_name(target): mode for target, mode in self.held.items()}
        return {"held": held, "shadows": len(shadows), "wouldBlock": sum(each["wouldBlock"] for each in shadows)}


def shadows_of(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Resource, kind, rule and counts of every shadow rule at work; those of system rules together, without rule."""
    for resource, plan in list(snapshot.plans.items()):
        for checker in plan.checkers:
            if isinstance(checker, Shadow):
                yield {
                    "resource": resource,
                    "kind": checker.kind,
                    "rule": checker.rule.path if checker.rule is not None else None,
                    "wouldBlock": checker.tally.blocked,
                    "wouldDelay": checker.tally.delayed,
                }

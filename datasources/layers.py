"""Several stores for one engine: whose rule holds where two speak of the same resource.

Stores stand in the order of their precedence. For each kind a resource has its rules from the first store that has any
for it; rules of others for it stand by. A store that clears a kind, or drops a resource, takes away its own rules and
nobody else's: those that stood by come into force. A kind of the *bootstrap* is in force until one of the stores has
delivered that kind, be it an empty list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sentinel_core.rules import Kind, RuleSet, merge_sets

Said = Mapping[Kind, RuleSet]
"""What one store says: its rules by kind; a kind that it never spoke of is not in it."""


def in_force(stores: Sequence[Said], bootstrap: Said | None = None) -> dict[Kind, RuleSet]:
    """What holds of what `stores` say, the one with the last word first."""
    together: dict[Kind, list[RuleSet]] = {}
    for said in stores:
        for kind, ruleset in said.items():
            together.setdefault(kind, []).append(ruleset)
    return {**(bootstrap or {}), **{kind: merge_sets(sets) for kind, sets in together.items()}}


class Layers:
    """What each store of an engine said last. Not thread-safe: whoever activates holds a lock."""

    def __init__(self, stores: int = 1, *, bootstrap: bool = False) -> None:
        self.said: list[dict[Kind, RuleSet]] = [{} for _ in range(stores + bootstrap)]
        self._stores = stores

    @property
    def several(self) -> bool:
        """Whether rules of one kind may come from more than one place."""
        return len(self.said) > 1

    def layer(self, index: int = 0) -> Layer:
        """The place of one store; the bootstrap has the last one."""
        return Layer(self, index)

    def in_force(self, said: Sequence[Said], kinds: Mapping[Kind, object]) -> dict[Kind, RuleSet]:
        """What holds of some kinds."""
        narrow = [{kind: each[kind] for kind in kinds if kind in each} for each in said]
        return in_force(narrow[: self._stores], *narrow[self._stores :])


@dataclass(frozen=True, slots=True)
class Layer:
    """One store among its layers."""

    layers: Layers
    index: int

    @property
    def said(self) -> dict[Kind, RuleSet]:
        """What it said last."""
        return self.layers.said[self.index]

    def over(self, delivered: Said) -> dict[Kind, RuleSet]:
        """What would hold of these kinds if the store said this; changes nothing."""
        if not self.layers.several:
            return dict(delivered)
        said: list[Said] = list(self.layers.said)
        said[self.index] = {**self.said, **delivered}
        return self.layers.in_force(said, delivered)

    def before(self, kind: Kind, active: RuleSet | None) -> RuleSet | None:
        """What the store's own change of a kind started from; what is active, where no store spoke of the kind yet."""
        if kind in self.said:
            return self.said[kind]
        return RuleSet.empty(kind) if any(kind in each for each in self.layers.said) else active

    def knows(self, source: str) -> bool:
        """Whether something of that source was delivered before."""
        return any(each.revision is not None and each.revision.source == source for each in self.said.values())

    def moved(self, old: RuleSet | None, new: RuleSet) -> bool:
        """Whether equal rules belong to other stores than before."""
        return self.layers.several and old is not None and _homes(old) != _homes(new)

    def keep(self, delivered: Said) -> None:
        """The store has said this, and what follows from it is active."""
        self.said.update(delivered)


def _homes(ruleset: RuleSet) -> dict[str, str | None]:
    sets = ruleset.owners or {"": ruleset}
    return {place: each.revision.source if each.revision else None for place, each in sets.items()}

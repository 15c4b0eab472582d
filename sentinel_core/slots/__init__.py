"""The slots: one file a rule kind, each with a `SLOT`. A new kind is a new file here; nothing else is edited.

Slots of other packages come through the entry-point group `sentinel.slots` (an object like `SLOT`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from typing import Any, TypeVar

from sentinel_core.collectors import Collector
from sentinel_core.collectors.local import Metrics, Verdict
from sentinel_core.modes import CLOSED, ENFORCE, OPEN, SHADOW, Forced, Shadow, Tally
from sentinel_core.node import ClusterNode
from sentinel_core.options import Statistics
from sentinel_core.plan import Checker, Runtime

ENTRY_POINTS = "sentinel.slots"
T = TypeVar("T")


class Build:
    """What a slot compiles a resource with. Lives for one compilation, under the engine's activation lock."""

    def __init__(
        self,
        runtime: Runtime,
        nodes: dict[str, ClusterNode],
        metrics: Metrics,
        settings: Statistics,
        kept: dict[Any, Any],
        changed: Sequence[str] = (),
        rules: Callable[[str], Sequence[Any]] = lambda _kind: (),
        mode: Callable[[Any], str] = lambda _rule: ENFORCE,
        health: dict[str, Verdict] | None = None,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.runtime = runtime
        self.nodes = nodes
        """Every resource that was entered, by name; read at check time by rules that look at another resource."""
        self.metrics = metrics
        self.settings = settings
        self.states: list[tuple[Any, ...]] = []
        """(what it was made from, its place, the object) of everything that was kept."""
        self.changed = changed
        """The kinds that were replaced by the change this compilation is for."""
        self.rules = rules
        """(kind) → the rules of that kind for this resource, for slots that look at another kind's."""
        self.mode = mode
        """(rule) → `enforce`, `shadow`, `open` or `closed`. The compiler sees to what it means for the checker of one
        rule; a slot asks where rules have a say in each other's effect."""
        self.health = {} if health is None else health
        """Resource → what its health check said last."""
        self._wall = wall
        self._kept = kept
        self._seen: dict[Any, int] = {}

    @property
    def compat(self) -> bool:
        return self.runtime.compat

    def keep(self, key: tuple[Any, ...], make: Callable[[], T], *, shared: bool = False) -> T:
        """The object that an equal `key` made for this resource before, with all it has counted; else a new one.

        Put the whole rule into the key: its equality covers every field. The second equal key of a resource is
        another object, unless it is `shared` by all places once it was kept.
        """
        place = self._seen.get(key, 0)
        self._seen[key] = place + 1
        state: T | None = self._kept.get((*key, 0 if shared else place))
        if state is None:
            state = make()
        self.states.append((*key, place, state))
        return state

    def monotonic(self, instant: str) -> int:
        """Monotonic ns of an ISO 8601 instant. The wall clock is asked this once; its later steps move nothing."""
        since = self._wall() - datetime.fromisoformat(instant)
        return self.runtime.monotonic_ns() - since // timedelta(microseconds=1) * 1000

    def controlled(self, checker: Checker) -> Checker:
        """The checker of one rule, or what stands in its place in the mode its rule is in."""
        if checker.rule is None:
            return checker
        mode = self.mode(checker.rule)
        if mode == SHADOW:
            return self.shadow(checker, checker.rule)
        return Forced(checker, mode) if mode in (OPEN, CLOSED) else checker

    def shadow(self, checker: Checker, key: Any) -> Shadow:
        """A checker that only counts; what it has counted stays with `key`."""
        return Shadow(checker, self.keep(("tally", key), Tally), self.runtime)

    def forget(self, key: tuple[Any, ...]) -> None:
        """Has the next `keep` of every key that begins like this make a new object."""
        self._kept = {kept: state for kept, state in self._kept.items() if kept[: len(key)] != key}


@dataclass(frozen=True, slots=True)
class Slot:
    """What one rule kind does.

    kind        the kind of rules it enforces
    rank        place in the chain, smaller first
    compile     (build, node, rules) → checkers, in the order they are asked; rules are those of this resource
    unenforced  (rule) → how a loaded rule acts that is not enforced as written, None where it is enforced
    universal   its rules apply to every resource (system)
    breaks      its rules are breakers, which can be held open or closed
    eager       its resources are compiled when rules are loaded and not at their first call
    readings    (rule) → the collectors whose gauges it needs; the engine starts them with the first such rule
    refuses     (rule) → why Java Sentinel cannot build it; under compat its whole list is refused then
    rewrites    (rule) → whether Java changes it in use, so that under compat an equal list is another list
    """

    kind: str
    rank: int
    compile: Callable[[Build, ClusterNode, Sequence[Any]], list[Checker]]
    unenforced: Callable[[Any], str | None] = lambda _rule: None
    universal: bool = False
    breaks: bool = False
    eager: bool = False
    readings: Callable[[Any], Sequence[Callable[[], Collector]]] | None = None
    refuses: Callable[[Any], str | None] = lambda _rule: None
    rewrites: Callable[[Any], bool] = lambda _rule: False


def discover() -> dict[str, Slot]:
    """Every slot by kind, in chain order."""
    slots = [importlib.import_module(f"{__name__}.{module.name}").SLOT for module in pkgutil.iter_modules(__path__)]
    slots += [point.load() for point in entry_points(group=ENTRY_POINTS)]
    return {slot.kind: slot for slot in sorted(slots, key=lambda slot: (slot.rank, slot.kind))}


def ordered(slots: Mapping[str, Slot], first: Sequence[str]) -> dict[str, Slot]:
    """The slots in the wished order. Raises ValueError for a kind that has none."""
    if unknown := [kind for kind in first if kind not in slots]:
        raise ValueError(f"slot_order names {', '.join(unknown)}; the slots are {', '.join(slots)}")
    return {kind: slots[kind] for kind in (*first, *(kind for kind in slots if kind not in first))}

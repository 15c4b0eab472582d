"""Carrying out a plan: exactly what it says, step by step, or nothing at all where the store has moved on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sentinel_core.datasources.contract import (
    Absent,
    DatasourceError,
    Item,
    Readable,
    Reading,
    SourceMisconfigured,
    Writable,
    Written,
    is_at,
)
from sentinel_core.publishing.plan import Plan, Step
from sentinel_core.publishing.standing import digests_of, sets_of
from sentinel_core.rules import KINDS

State = Literal["written", "already there", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step."""

    step: Step
    state: State
    version: str | None = None
    """That stands there now."""
    error: DatasourceError | None = None


class PlanStale(Exception):
    """The store has moved on since the plan was made; nothing was written."""

    def __init__(self, moved: Mapping[str, Reading]) -> None:
        self.moved = moved
        """What stands now, by the source of the step."""
        super().__init__("the store has changed since the plan was made")


def carry_out(
    plan: Plan,
    source: Readable,
    *,
    told: Callable[[Outcome], None] = lambda _: None,
    check: Callable[[Item], None] = lambda _: None,
) -> list[Outcome]:
    """Writes every step by compare-and-set; `told` hears of each as it ends, `check` may refuse each item before it
    is written (DatasourceError). A step that stands already is done, so a
    plan that broke off is finished by carrying it out again. After a failure the rest is not tried.

    Raises PlanStale, DatasourceError from reading: then nothing was written.
    """
    if not isinstance(source, Writable):
        raise SourceMisconfigured(f"{source.uri} cannot be written; name another store")
    items, readings, done = examine(plan, source)
    outcomes: list[Outcome] = []
    for step in plan.steps:
        outcome = _outcome(plan, step, source, items[step.source], readings[step.source], outcomes, done, check)
        outcomes.append(outcome)
        told(outcome)
    return outcomes


def items_of(plan: Plan, source: Readable) -> list[Item]:
    """Those that the plan would write, as far as the store has them."""
    sources = {step.source for step in plan.steps}
    return [item for item in source.items(KINDS) if item.source in sources]


def examine(plan: Plan, source: Readable) -> tuple[dict[str, Item], dict[str, Reading], set[str]]:
    """What stands where the plan would write, by the source of its steps, and which steps are done already. Writes
    nothing. Raises PlanStale, DatasourceError."""
    items = {item.source: item for item in source.items(KINDS)}
    if missing := [step.source for step in plan.steps if step.source not in items]:
        raise SourceMisconfigured(f"{source.uri} holds no {', '.join(missing)}; the plan is for {plan.store}")
    readings = {step.source: source.read(items[step.source]) for step in plan.steps}
    done = {each.source for each in plan.steps if _is_done(each, readings[each.source], items[each.source])}
    moved = {
        step.source: reading
        for step in plan.steps
        if step.source not in done and not is_at(reading := readings[step.source], step.expected)
    }
    if moved:
        raise PlanStale(moved)
    return items, readings, done


def _outcome(
    plan: Plan,
    step: Step,
    source: Writable,
    item: Item,
    reading: Reading,
    before: Sequence[Outcome],
    done: set[str],
    check: Callable[[Item], None],
) -> Outcome:
    if step.source in done:
        return Outcome(step, "already there", _version(reading))
    if any(each.state == "failed" for each in before):
        return Outcome(step, "not tried")
    provenance = replace(
        plan.provenance,
        plan_id=plan.id,
        environment=plan.environment,
        previous_digest=_digests(reading, item).get(item.kinds[0]) if len(item.kinds) == 1 else None,
    )
    try:
        check(item)
        written: Written = source.write(item, step.texts, expected=step.expected, provenance=provenance)
    except DatasourceError as error:
        return Outcome(step, "failed", error=error)
    return Outcome(step, "written", written.version)


def _is_done(step: Step, reading: Reading, item: Item) -> bool:
    return _digests(reading, item) == dict(step.digests)


def _digests(reading: Reading, item: Item) -> dict[str, str]:
    return digests_of(sets_of(reading, item.kinds))


def _version(reading: Reading) -> str | None:
    return None if isinstance(reading, Absent) else reading.version

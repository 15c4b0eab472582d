"""What an engine has to say about rules that are valid in themselves: SR199 refuses, SR299 warns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sentinel_core.rules import Kind, Problem, RuleRejected, RuleSet
from sentinel_core.rules.errors import Severity
from sentinel_core.slots import Slot


def annotated(slots: Mapping[Kind, Slot], ruleset: RuleSet) -> RuleSet:
    """The rule set with a warning for each rule that does not act as it is written."""
    slot = slots.get(ruleset.kind)
    remark = slot.unenforced if slot is not None else lambda _rule: "no slot enforces this kind"
    warnings = _problems(ruleset, "SR299", "warning", remark)
    return replace(ruleset, warnings=ruleset.warnings + warnings) if warnings else ruleset


def refuse_as_java(slots: Mapping[Kind, Slot], ruleset: RuleSet) -> None:
    """Raises RuleRejected for rules on which Java Sentinel's loading fails."""
    slot = slots.get(ruleset.kind)
    if slot is not None and (faults := _problems(ruleset, "SR199", "error", slot.refuses)):
        raise RuleRejected(faults, total=len(ruleset.rules))


def _problems(
    ruleset: RuleSet, code: str, severity: Severity, remark: Callable[[Any], str | None]
) -> tuple[Problem, ...]:
    remarks = [(index, rule, remark(rule)) for index, rule in enumerate(ruleset.rules)]
    prefix = "loaded, but " if severity == "warning" else ""
    return tuple(
        Problem(
            code,
            severity,
            prefix + note,
            path=f"$[{index}]",
            kind=ruleset.kind,
            index=index,
            resource=getattr(rule, "resource", None),
        )
        for index, rule, note in remarks
        if note
    )

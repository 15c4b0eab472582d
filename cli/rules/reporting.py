"""A plan as pipelines show it: a comment in Markdown, and annotations."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sentinel_core.cli.annotations import FORMS as ANNOTATIONS
from sentinel_core.cli.annotations import Annotation, forms
from sentinel_core.cli.rules.diff import Difference, change_lines
from sentinel_core.cli.rules.sides import short_version
from sentinel_core.cli.text import Styled, visible
from sentinel_core.publishing import Plan
from sentinel_core.publishing.make import Proposal
from sentinel_core.rules import KINDS, Kind, Problem
from sentinel_core.rules.guard import GUARDS, Objection
from sentinel_core.rules.positions import Positions

FORMS = ("markdown", *ANNOTATIONS)
_SHOWN = 10
"""Resources that an objection names at most."""
_OPEN_LINES = 25
"""A longer difference is folded."""
_MOST_CHARACTERS = 55_000
"""Of a difference: GitHub takes 65 536 in a comment."""
_SIGNS = {"~": "!", "+": "+", "-": "-"}
"""As the highlighting of `diff` blocks knows them."""


def plan_forms(plan: Plan, proposal: Proposal, positions: Callable[[], Positions]) -> dict[str, Callable[[], str]]:
    """By the name of the form."""

    meant = {f"guard-{name}": f"The guard {name} refuses the change" for name in (*GUARDS, "check", "quarantine")}

    def made(form: str) -> str:
        found = list(_annotations(plan, proposal, positions()))
        return forms(found, ["guards"], meant | {"plan": "What publishing would change"})[form]()

    return {"markdown": lambda: markdown(plan, proposal), **{form: partial(made, form) for form in ANNOTATIONS}}


def _annotations(plan: Plan, proposal: Proposal, positions: Positions) -> Iterator[Annotation]:
    for objection in proposal.refusals:
        yield _objection(objection, objection.text, positions, is_failure=True)
    for objection in proposal.freezes:
        yield _objection(objection, objection.text, positions, is_failure=False)
    for objection in proposal.overruled:
        yield _objection(objection, f"{objection.text} (overruled)", positions, is_failure=False)
    for change in plan.changes:
        place = positions.of_rule(str(change["rule"]), change["field"])
        yield Annotation(
            level="note",
            code="plan",
            message=_told(change),
            subject=str(change["resource"]),
            suite="plan",
            **_where(place, positions),
        )


def _objection(objection: Objection, message: str, positions: Positions, *, is_failure: bool) -> Annotation:
    places = (positions.of_resource(objection.kind, name) for name in objection.resources if objection.kind)
    return Annotation(
        level="error" if is_failure else "warning",
        code=f"guard-{objection.guard}",
        message=message,
        subject=None,
        suite="guards",
        is_failure=is_failure,
        **(objection.place or _where(next((place for place in places if place), None), positions)),
    )


def _where(place: Problem | None, positions: Positions) -> dict[str, Any]:
    """What is gone stands in no line; it is told of the first file."""
    if place is None:
        return {"file": positions.first_file}
    return {"file": place.file, "line": place.line, "column": place.column}


def difference_of(plan: Plan) -> Difference:
    """By kind."""
    changes: dict[Kind, list[Mapping[str, Any]]] = {}
    for change in plan.changes:
        changes.setdefault(str(change["rule"]).partition("/")[0], []).append(change)
    return Difference({kind: changes[kind] for kind in KINDS if kind in changes}, (), ())


def count_line(plan: Plan) -> str:
    """`Plan: 1 to add, 2 to change, 0 to remove.`, in rules."""
    rules = {action: {_rule(change) for change in plan.changes if change["action"] == action} for action in
             ("add", "change", "remove")}  # fmt: skip
    add, change, remove = (len(rules[action]) for action in ("add", "change", "remove"))
    return f"Plan: {add} to add, {change} to change, {remove} to remove."


def _rule(change: Mapping[str, Any]) -> tuple[str, str]:
    return str(change["rule"]), "" if change["action"] == "change" else str(change["new"] or change["old"])


def _told(change: Mapping[str, Any]) -> str:
    """The one line that a difference has of it."""
    kind = str(change["rule"]).partition("/")[0]
    _, line = change_lines(Difference({kind: [change]}, (), ()))
    return "".join(span.text if isinstance(span, Styled) else span for span in line).strip()


def objection_text(objection: Objection) -> str:
    """What a guard says, and of which resources, where they are not in its words."""
    names = _names(objection)
    return f"{objection.guard}: {visible(objection.text)}" + (f"\n  {names}" if names else "")


def _names(objection: Objection) -> str:
    if objection.guard not in ("empty", "shrink", "last", "check"):
        return ""
    more = f", … ({len(objection.resources)} in all)" if len(objection.resources) > _SHOWN else ""
    return visible(", ".join(objection.resources[:_SHOWN])) + more


def compared(proposal: Proposal) -> Iterator[str]:
    """Where the store does not tell what engines run: with what the rules are compared instead."""
    for source, older in proposal.older.items():
        what = "is not valid" if source in proposal.invalid else "tells nothing of some rules"
        run = "which nobody remembers" if older is None else f"so {short_version(older.revision)} is compared"
        yield f"what stands at {source} {what} and would be replaced; engines run older rules, {run}"


def flags_for(objections: Sequence[Objection]) -> str:
    """The flags that let the change through; nothing where none does."""
    return " ".join(dict.fromkeys(_flag(each) for each in objections if each.guard != "quarantine"))


def _flag(objection: Objection) -> str:
    name = f" {shlex.quote(objection.check)}" if objection.check is not None else ""
    return f"--allow-{objection.guard}{name}"


# -- Markdown ----------------------------------------------------------------------------------------------------------


def markdown(plan: Plan, proposal: Proposal) -> str:
    """A comment on a request: what would change where, and what stands against it."""
    head = f"### Rules for `{_code(plan.environment)}`"
    if not plan.steps:
        return f"{head}: no changes\n\n`{_code(plan.store)}` holds these rules already.\n"
    refused = f" — refused by {_guards(proposal.refusals)}" if proposal.refusals else ""
    lines = [f"{head}: {count_line(plan).removeprefix('Plan: ').rstrip('.')}{refused}", ""]
    lines += [f"`{_code(plan.title)}` → `{_code(plan.store)}`", "", *_difference(plan), ""]
    for each in proposal.refusals:
        told = ": ".join(map(_text, filter(None, (each.text, _names(each)))))
        lines.append(f"**Refused by the guard `{each.guard}`:** {told}  ")
    if flags := flags_for(proposal.refusals):
        lines.append(f'If it is meant, publish it with `{flags} --reason "…"`.')
    lines += [f"**Frozen:** {_text(each.text)}  " for each in proposal.freezes]
    lines += [f"**Note:** {_text(each)}  " for each in compared(proposal)]
    lines += [f"**The guard `{each.guard}` is overruled:** {_text(each.text)}  " for each in proposal.overruled]
    if not proposal.objections and not proposal.overruled:
        lines.append("Guards: ok.")
    return "\n".join(lines).rstrip() + "\n"


def _guards(objections: Sequence[Objection]) -> str:
    names = dict.fromkeys(f"`{each.guard}`" for each in objections)
    return f"the guard{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _difference(plan: Plan) -> list[str]:
    """A block that is highlighted, folded where it is long and cut where it is endless."""
    lines = [_diff_line(line) for line in change_lines(difference_of(plan))]
    shown: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > _MOST_CHARACTERS:
            shown.append(f"  … and {len(lines) - len(shown)} more lines")
            break
        shown.append(line)
    fence = "`" * max(3, 1 + max(map(_ticks, shown), default=0))
    block = [f"{fence}diff", *shown, fence]
    if len(lines) <= _OPEN_LINES:
        return block
    return ["<details><summary>Show the changes</summary>", "", *block, "", "</details>"]


def _diff_line(line: Sequence[Any]) -> str:
    text = visible("".join(span.text if isinstance(span, Styled) else span for span in line)).rstrip()
    sign = text.lstrip()[:1]
    return f"{_SIGNS[sign]} {text.lstrip()[1:].lstrip()}" if text.startswith("  ") and sign in _SIGNS else f"# {text}"


def _ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _code(text: str) -> str:
    """Within single backticks."""
    return visible(text).replace("`", "'")


def _text(text: str) -> str:
    """Words that mean themselves: no mention, link or tag is made of a name."""
    shown = visible(text)
    for character in "\\`*_[]<>@#|":
        shown = shown.replace(character, f"\\{character}" if character != "@" else "@\u200b")
    return shown

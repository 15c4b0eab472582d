"""`rules explain` as it is shown: what applies, what comes, what each rule stands at, and what may be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel_core.cli.moments import age
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.sides import Side
from sentinel_core.cli.rules.standing import standing
from sentinel_core.cli.text import Span, Styled
from sentinel_core.cli.troubles.finding import Trouble
from sentinel_core.rules import describe_rule

Facts = Sequence[Mapping[str, Any]]
Lines = Iterator[Sequence[Span]]
MOST_TROUBLES = 12
"""Findings that are shown; all of them in JSON and in `-o wide`."""
MOST_INSTANCES = 8
"""Of each rule, the instances that are shown; all of them in JSON and in `-o wide`."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Everything that is known of one resource."""

    resource: str
    rules: Side
    slots: Facts
    related: Facts
    live: Facts
    calls: Facts
    troubles: Sequence[Trouble]
    services: int
    """How many run here and tell of themselves."""

    @property
    def standing_by(self) -> list[dict[str, str]]:
        """Rules of stores that have not the last word on it."""
        return [
            {"path": rule.path, "says": describe_rule(rule), "store": uri}
            for uri, rule in self.rules.standing_by
            if rule.resource == self.resource
        ]


def view(explained: Explained) -> View:
    """All of it, for people and for programs."""

    def lines(wide: bool) -> Lines:
        yield (Styled(explained.resource, "bold"), f"  in {explained.rules.title}")
        if not explained.services:
            yield (Styled("  no service with these settings runs on this machine: from the rules alone", "dim"),)
        for each in _few(explained.calls, wide=wide):
            yield _call_line(each)
        for number, slot in enumerate(explained.slots, start=1):
            if not slot["rules"]:
                yield (Styled(f"  {number} {slot['slot']}: no rule", "dim"),)
                continue
            yield (f"  {number} {slot['slot']}",)
            for rule in slot["rules"]:
                yield from _rule_lines(rule, wide=wide)
                yield from _live_lines([each for each in explained.live if _is_of(each, rule)], wide=wide)
        yield from _beside(explained)
        yield from _trouble_lines(explained.troubles, wide=wide)

    applying = [{"slot": slot["slot"], **rule} for slot in explained.slots for rule in slot["rules"]]
    document = {
        "resource": explained.resource,
        "from": explained.rules.title,
        "slots": explained.slots,
        "related": explained.related,
        "standingBy": explained.standing_by,
        "live": explained.live,
        "calls": explained.calls,
        "findings": [each.to_json() for each in explained.troubles],
    }
    return View(document=document, items=applying, names=[rule["path"] for rule in applying], lines=lines)


def running_view(resource: str, live: Facts) -> View:
    """What can be said where the rules of the store cannot be read: services go on with what they had."""

    def lines(wide: bool) -> Lines:
        yield (Styled(resource, "bold"), "  in running services; the store cannot tell its rules")
        for path in dict.fromkeys(str(each.get("rule")) for each in live):
            yield (f"  {path}",)
            yield from _live_lines([each for each in live if str(each.get("rule")) == path], wide=wide)

    empty: dict[str, Any] = {"from": None, "slots": [], "related": [], "standingBy": [], "calls": [], "findings": []}
    return View(
        document={"resource": resource, **empty, "live": live},
        items=live,
        names=[str(each.get("rule")) for each in live],
        lines=lines,
    )


def _few(facts: Facts, *, wide: bool) -> Facts:
    return facts if wide else facts[:MOST_INSTANCES]


def _is_of(live: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Rules of one path are told apart by their words, where a service tells them."""
    return bool(live.get("rule") == rule["path"] and live.get("says", rule["says"]) == rule["says"])


def _call_line(calls: Mapping[str, Any]) -> Sequence[Span]:
    lately, second = calls["lately"], calls["second"]
    window_s = calls["windowSeconds"]
    by = lately["blockedBy"]
    who = f" ({', '.join(f'{count} by {kind}' for kind, count in by.items())})" if by else ""
    quiet = calls["silentSeconds"] or 0
    text = (
        f"  {calls['instance']}: {second['passed'] / window_s:g} pass and {second['blocked'] / window_s:g} are refused "
        f"a second, {second['threads']} inside; lately ({age(calls['latelySeconds'])}) {lately['passed']} passed, "
        f"{lately['blocked']} refused{who}; a call now {calls['nextCall']['says']}"
    )
    return (text, Styled(f"  last call {age(quiet)} ago" if quiet >= 10 else "", "dim"))


def _rule_lines(rule: Mapping[str, Any], *, wide: bool) -> Lines:
    where = f"  {rule['path']}" if wide else ""
    store = f"  from {rule['store']}" if rule["store"] else ""
    yield (f"      {rule['says']}", Styled(f"  ({rule['why']}){store}{where}", "dim"))
    if rule["note"]:
        yield (Styled(f"      not enforced as written: {rule['note']}", "yellow"),)


def _live_lines(live: Facts, *, wide: bool) -> Lines:
    for each in _few(live, wide=wide):
        yield from standing(each)
    if (more := len(live) - len(_few(live, wide=wide))) > 0:
        yield (Styled(f"        and {more} more instances (-o wide shows them)", "dim"),)


def _beside(explained: Explained) -> Lines:
    for rule in explained.related:
        yield (f"  also: its traffic decides about {rule['path']}: {rule['says']}",)
    for other in explained.standing_by:
        owner = f"another store has the last word on {explained.resource}"
        yield (f"  stands by: {other['says']} of {other['store']}; {owner}",)


def _trouble_lines(troubles: Sequence[Trouble], *, wide: bool) -> Lines:
    shown = troubles if wide else troubles[:MOST_TROUBLES]
    for each in shown:
        if each.next_step is None:
            yield (Styled("  note  ", "dim"), each.what)
        else:
            yield (Styled("  look  ", "yellow"), each.what)
            yield (f"        next: {each.next_step}",)
    if len(troubles) > len(shown):
        yield (Styled(f"  and {len(troubles) - len(shown)} more (-o wide shows them)", "dim"),)

"""`sentinelctl rules explain`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from sentinel_core.cli.app import WORDS, App, env_option, output_options, pass_app
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.text import Span, Styled
from sentinel_core.engine import Engine
from sentinel_core.rules import RuleSet, describe_rule


@click.command()
@click.argument("resource", type=WORDS)
@click.option(
    "--from", "side", metavar="WHAT", help="Rules to look at: live (default), git:REV, history:N, a URI, a path."
)
@env_option
@output_options
@pass_app
def explain(app: App, resource: str, side: str | None) -> None:
    """What applies to a resource, in the order in which it is asked, and why.

    Answered from the rules alone: what an engine has counted is not looked at.
    """
    rules = resolve(app, "live" if side is None else side)
    engine = Engine(app=app.settings.app)
    for kind, ruleset in rules.sets.items():
        engine.load_rules(kind, ruleset)
    slots = [
        {"slot": each["slot"], "rules": [_fact(rule, resource) for rule in each["rules"]]}
        for each in engine.explain(resource)
    ]
    related = _related(rules, resource)
    app.out.show(_view(rules, resource, slots, related))
    if not related and not any(each["rules"] for each in slots):
        app.out.say(f"No rule applies to {resource}; every call passes.{_near(rules, resource)}")


def _fact(rule: Mapping[str, Any], resource: str) -> dict[str, Any]:
    return {
        "path": rule["path"],
        "says": rule["says"],
        "why": _why(rule["rule"], resource),
        "note": rule["note"],
        "rule": rule["rule"],
    }


def _why(rule: Mapping[str, Any], resource: str) -> str:
    if rule.get("resource") == resource:
        return "names this resource"
    if rule.get("regex"):
        return f"its pattern {rule['resource']} matches"
    return "applies to every inbound call"


def _related(rules: Side, resource: str) -> list[dict[str, Any]]:
    """Rules of other resources that look at the traffic of this one."""
    return [
        {"path": rule.path, "says": describe_rule(rule)}
        for ruleset in rules.sets.values()
        for rule in ruleset.rules
        if getattr(rule, "ref_resource", None) == resource and rule.resource != resource
    ]


def _near(rules: Side, resource: str) -> str:
    near = difflib.get_close_matches(resource, sorted(_names(rules.sets.values())), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _names(sets: Sequence[RuleSet] | Any) -> set[str]:
    return {rule.resource for ruleset in sets for rule in ruleset.rules}


def _view(rules: Side, resource: str, slots: Sequence[Mapping[str, Any]], related: Sequence[Mapping[str, Any]]) -> View:
    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        yield (Styled(resource, "bold"), f"  in {rules.title}")
        for number, slot in enumerate(slots, start=1):
            if not slot["rules"]:
                yield (Styled(f"  {number} {slot['slot']}: no rule", "dim"),)
                continue
            yield (f"  {number} {slot['slot']}",)
            for rule in slot["rules"]:
                yield from _rule_lines(rule, wide=wide)
        for rule in related:
            yield (f"  also: its traffic decides about {rule['path']}: {rule['says']}",)

    applying = [{"slot": slot["slot"], **rule} for slot in slots for rule in slot["rules"]]
    return View(
        document={"resource": resource, "from": rules.title, "slots": list(slots), "related": list(related)},
        items=applying,
        names=[rule["path"] for rule in applying],
        lines=lines,
    )


def _rule_lines(rule: Mapping[str, Any], *, wide: bool) -> Iterator[Sequence[Span]]:
    where = f"  {rule['path']}" if wide else ""
    yield (f"      {rule['says']}", Styled(f"  ({rule['why']}){where}", "dim"))
    if rule["note"]:
        yield (Styled(f"      not enforced as written: {rule['note']}", "yellow"),)

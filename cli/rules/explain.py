"""`sentinelctl rules explain`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from sentinel_core.cli.app import WORDS, App, env_option, output_options, pass_app
from sentinel_core.cli.exits import CommandError
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.text import Span, Styled
from sentinel_core.datasources.contract import DatasourceError
from sentinel_core.engine import Engine
from sentinel_core.rules import RuleSet, describe_rule
from sentinel_core.status_file import Status, read

COLOURS = {"OPEN": "red", "HALF_OPEN": "yellow", "CLOSED": "green"}


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

    \b
    sentinelctl rules explain payment_invoke
    sentinelctl rules explain payment_invoke --from git:HEAD      before it is published

    Answered from the rules. Of running services on this machine it tells what their breakers stand at: those of
    business metrics, and others that are not closed; also where the store cannot tell its rules.
    """
    try:
        rules = resolve(app, "live" if side is None else side)
    except (CommandError, DatasourceError):
        if side is None and (live := _live(app, resource)):
            app.out.show(_running(resource, live))
        raise
    engine = Engine(app=app.settings.app)
    for kind, ruleset in rules.sets.items():
        engine.load_rules(kind, ruleset, revision=ruleset.revision)
    slots = [
        {"slot": each["slot"], "rules": [_fact(rule, resource, rules) for rule in each["rules"]]}
        for each in engine.explain(resource)
    ]
    related = _related(rules, resource)
    app.out.show(_view(rules, resource, slots, related, _live(app, resource)))
    if not related and not any(each["rules"] for each in slots):
        app.out.say(f"No rule applies to {resource}; every call passes.{_near(rules, resource)}")


def _fact(rule: Mapping[str, Any], resource: str, rules: Side) -> dict[str, Any]:
    return {
        "path": rule["path"],
        "says": rule["says"],
        "why": _why(rule["rule"], resource),
        "store": rules.stores.get(rule["source"]),
        "note": rule["note"],
        "rule": rule["rule"],
    }


def _live(app: App, resource: str) -> list[dict[str, Any]]:
    """What running services of these settings say of the breakers of a resource."""
    settings = app.settings
    if settings.status is None:
        return []
    now = datetime.now(UTC)
    live: list[dict[str, Any]] = []
    for status in read(Path(settings.status)):
        if status.ended or (status.app, status.environment) != (settings.app, settings.environment):
            continue
        ago = round(max(0.0, (now - status.written_at).total_seconds()), 1)
        live += [
            {"instance": status.instance, "secondsAgo": ago, **each, "trouble": _trouble(status, each)}
            for each in status.breakers
            if each.get("resource") == resource
        ]
    return live


def _trouble(status: Status, breaker: Mapping[str, Any]) -> str | None:
    """Why the gauge of a business breaker gets no new number, None where nothing is known to be wrong."""
    collectors = status.document.get("collectors")
    for each in collectors if isinstance(collectors, list) else ():
        if isinstance(each, dict) and each.get("metric") == breaker.get("metric") and each.get("state") != "ok":
            return f"{each.get('source')} is {each.get('state')}: {each.get('lastError') or 'no value yet'}"
    return None


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


def _view(
    rules: Side,
    resource: str,
    slots: Sequence[Mapping[str, Any]],
    related: Sequence[Mapping[str, Any]],
    live: Sequence[Mapping[str, Any]],
) -> View:
    standing_by = [
        {"path": rule.path, "says": describe_rule(rule), "store": uri}
        for uri, rule in rules.standing_by
        if rule.resource == resource
    ]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        yield (Styled(resource, "bold"), f"  in {rules.title}")
        for number, slot in enumerate(slots, start=1):
            if not slot["rules"]:
                yield (Styled(f"  {number} {slot['slot']}: no rule", "dim"),)
                continue
            yield (f"  {number} {slot['slot']}",)
            for rule in slot["rules"]:
                yield from _rule_lines(rule, wide=wide)
                for each in live:
                    if each.get("rule") == rule["path"]:
                        yield from _live_lines(each)
        for rule in related:
            yield (f"  also: its traffic decides about {rule['path']}: {rule['says']}",)
        for rule in standing_by:
            yield (f"  stands by: {rule['says']} of {rule['store']}; another store has the last word on {resource}",)

    applying = [{"slot": slot["slot"], **rule} for slot in slots for rule in slot["rules"]]
    document = {
        "resource": resource,
        "from": rules.title,
        "slots": slots,
        "related": related,
        "standingBy": standing_by,
        "live": live,
    }
    return View(
        document=document,
        items=applying,
        names=[rule["path"] for rule in applying],
        lines=lines,
    )


def _rule_lines(rule: Mapping[str, Any], *, wide: bool) -> Iterator[Sequence[Span]]:
    where = f"  {rule['path']}" if wide else ""
    store = f"  from {rule['store']}" if rule["store"] else ""
    yield (f"      {rule['says']}", Styled(f"  ({rule['why']}){store}{where}", "dim"))
    if rule["note"]:
        yield (Styled(f"      not enforced as written: {rule['note']}", "yellow"),)


def _running(resource: str, live: Sequence[Mapping[str, Any]]) -> View:
    """What can be said where the rules of the store cannot be read: services go on with what they had."""

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        del wide
        yield (Styled(resource, "bold"), "  in running services; the store cannot tell its rules")
        for each in live:
            yield (f"  {each.get('rule')}",)
            yield from _live_lines(each)

    return View(
        document={"resource": resource, "from": None, "slots": [], "related": [], "standingBy": [], "live": live},
        items=live,
        names=[str(each.get("rule")) for each in live],
        lines=lines,
    )


def _live_lines(breaker: Mapping[str, Any]) -> Iterator[Sequence[Span]]:
    """One line an instance, and one for each value of a dimension that is told."""
    ago = breaker["secondsAgo"]
    where = f"on {breaker['instance']}, {ago:g} s ago"
    yield ("        ", *_state(breaker), Styled(f"  {where}", "dim"))
    if breaker.get("trouble"):
        yield (Styled(f"          {breaker['trouble']}", "yellow"),)
    values = breaker.get("values")
    for value, part in values.items() if isinstance(values, dict) else ():
        yield (f"          {value or '(none)'}: ", *_state(part))
    if breaker.get("beyond"):
        yield (Styled(f"          and {breaker['beyond']} more", "dim"),)


def _state(breaker: Mapping[str, Any]) -> Iterator[Span]:
    state = str(breaker.get("state"))
    yield Styled(state, COLOURS.get(state, "dim"))
    said = []
    if "value" in breaker:
        said.append("without a value" if breaker["value"] is None else f"at {_number(breaker['value'])}")
    if "threshold" in breaker:
        said.append(f"threshold {_number(breaker['threshold'])}")
    if breaker.get("ageMs") is not None:
        said.append(f"{_seconds(breaker['ageMs'])} old" + (", stale" if breaker.get("stale") else ""))
    elif "samples" in breaker:
        said.append(f"{_number(breaker['samples'])} samples")
    if (wait := breaker.get("retryAfterMs")) is not None:
        said.append(f"next try in {_seconds(wait)}" if wait else "next call tries")
    if said:
        yield " " + ", ".join(said)


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "?"


def _seconds(ms: object) -> str:
    return f"{ms / 1000:g} s" if isinstance(ms, int | float) else "?"

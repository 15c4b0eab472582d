"""`sentinelctl rules explain`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from sentinel_core.cli.app import WORDS, App, env_option, output_options, pass_app
from sentinel_core.cli.exits import CommandError
from sentinel_core.cli.rules.explained import Explained, running_view, view
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.troubles.asking import applying, troubles
from sentinel_core.cli.troubles.finding import Scene
from sentinel_core.cli.troubles.names import Names, difference
from sentinel_core.cli.troubles.seen import Service, objects, services
from sentinel_core.cli.troubles.verdict import next_call
from sentinel_core.datasources.contract import DatasourceError
from sentinel_core.engine import Engine
from sentinel_core.rules import describe_rule


@click.command()
@click.argument("resource", type=WORDS)
@click.option(
    "--from", "side", metavar="WHAT", help="Rules to look at: live (default), git:REV, history:N, a URI, a path."
)
@env_option
@output_options
@pass_app
def explain(app: App, resource: str, side: str | None) -> None:
    """What applies to a resource, in the order in which it is asked, and why; what it does now, and why it does not.

    \b
    sentinelctl rules explain payment_invoke
    sentinelctl rules explain payment_invoke --from git:HEAD      before it is published

    Answered from the rules, and from what running services of this machine tell: their calls, what each rule stands at
    in each of them, and what may keep a rule from acting (names that differ, callers and contexts that never come, a
    smaller limit, shadow mode, old rules, clocks, cold starts, queues). Where the store cannot tell its rules, services
    still do.
    """
    found = services(app.settings)
    live = _live(found, resource)
    try:
        rules = resolve(app, "live" if side is None else side)
    except (CommandError, DatasourceError):
        if side is None and live:
            app.out.show(running_view(resource, live))
        raise
    engine = Engine(app=app.settings.app)
    for kind, ruleset in rules.sets.items():
        engine.load_rules(kind, ruleset, revision=ruleset.revision)
    slots = [
        {"slot": each["slot"], "rules": [_fact(rule, resource, rules) for rule in each["rules"]]}
        for each in engine.explain(resource)
    ]
    scene = Scene(app.settings, rules.sets, found, is_live=side is None)
    told = troubles(scene, resource, applying(rules.sets, resource))
    related, calls = _related(rules, resource), _calls(scene, resource)
    explained = Explained(resource, rules, slots, related, live, calls, told, len(scene.services))
    app.out.show(view(explained))
    if not explained.related and not any(each["rules"] for each in slots):
        app.out.say(f"No rule applies to {resource}; every call passes.{_near(rules, resource)}")


def _calls(scene: Scene, resource: str) -> list[dict[str, Any]]:
    """What each service counted of the resource."""
    return [
        {
            "instance": service.name,
            "secondsAgo": round(service.instance.age_s, 1),
            "countedSeconds": service.counted_s,
            "passed": calls.passed,
            "blocked": calls.blocked,
            "blockedBy": dict(calls.blocked_by),
            "silentSeconds": calls.silent_s,
            "windowSeconds": service.per_second,
            "second": asdict(calls.second),
            "latelySeconds": service.lately_s,
            "lately": {
                "passed": calls.lately.passed,
                "blocked": calls.lately.blocked,
                "blockedBy": dict(calls.lately.blocked_by),
            },
            "nextCall": {**next_call(calls.rules).to_json(), "says": str(next_call(calls.rules))},
        }
        for service in scene.telling
        if (calls := service.resources.get(resource)) is not None and calls.total
    ]


def _fact(rule: Mapping[str, Any], resource: str, rules: Side) -> dict[str, Any]:
    return {
        "path": rule["path"],
        "says": rule["says"],
        "why": _why(rule["rule"], resource),
        "store": rules.stores.get(rule["source"]),
        "note": rule["note"],
        "rule": rule["rule"],
    }


def _live(found: Sequence[Service], resource: str) -> list[dict[str, Any]]:
    """What rules of a resource stand at in running services; of one that was not called, its breakers."""
    live: list[dict[str, Any]] = []
    for service in found:
        calls = service.resources.get(resource)
        breakers = [each for each in service.instance.status.breakers if each.get("resource") == resource]
        live += [
            {
                **each,
                "instance": service.name,
                "secondsAgo": round(service.instance.age_s, 1),
                "resource": resource,
                "trouble": _trouble(service, each),
            }
            for each in (breakers if calls is None else calls.rules)
        ]
    return live


def _trouble(service: Service, breaker: Mapping[str, Any]) -> str | None:
    """Why the gauge of a business breaker gets no new number, None where nothing is known to be wrong."""
    for each in objects(service.document.get("collectors")):
        if each.get("metric") == breaker.get("metric") and each.get("state") != "ok":
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
    named = {rule.resource for ruleset in rules.sets.values() for rule in ruleset.rules}
    if alike := Names(named).alike(resource):
        return f" {alike[0]!r} has rules: {difference(resource, alike[0])}."
    near = difflib.get_close_matches(resource, sorted(named), n=1)
    return f" Did you mean {near[0]}?" if near else ""

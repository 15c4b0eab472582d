"""What `doctor` looks at in services that run here: their clocks, and rules that do not do what was expected."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from sentinel_core.cli.app import App
from sentinel_core.cli.bounded import Bounded
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.exits import CommandError
from sentinel_core.cli.moments import age
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.text import plural
from sentinel_core.cli.troubles import clocks
from sentinel_core.cli.troubles.asking import FRESH_S, by_resource, idle_patterns, troubles
from sentinel_core.cli.troubles.finding import Scene, Trouble
from sentinel_core.cli.troubles.seen import Service, services
from sentinel_core.datasources.contract import DatasourceError
from sentinel_core.masking import may_hold_secret

MOST_LINES: Final = 10
"""Findings that have a line of their own."""
MOST_FACTS: Final = 200
"""Findings that are told to programs."""
MOST_NAMES: Final = 5


def checks(app: App, limit_s: float) -> Iterator[Check]:
    """Nothing where no service tells of itself."""
    found = services(app.settings)
    if not found:
        return
    yield _running(found)
    yield _clocks(found)
    side = Bounded(lambda: _live(app)).result(time.monotonic() + limit_s, None)
    if side is not None:
        yield from _findings(Scene(app.settings, side.sets, found))


def _live(app: App) -> Side | None:
    try:
        return resolve(app, "live")
    except (CommandError, DatasourceError):
        return None  # told with its store


def _running(found: Sequence[Service]) -> Check:
    several = "; each counts by itself, so that a limit holds for each of them" if len(found) > 1 else ""
    calls = sum(calls.total for each in found for calls in each.resources.values())
    silent = [each.name for each in found if not each.tells]
    text = f"{plural(len(found), 'service')} here, {plural(calls, 'call')} seen{several}"
    if silent:
        return Check(
            "services",
            "warn",
            f"{text}; {', '.join(silent[:MOST_NAMES])} tell nothing of their traffic",
            "start them anew with this version",
        )
    return Check("services", "ok", text)


def _clocks(found: Sequence[Service]) -> Check:
    said = [f"{name} is {how}" for name, how in ((service.name, how) for service, _, how in clocks.skews(found))]
    stepped = [f"{service.name} saw its clock set by {what}" for service, what in clocks.steps(found)]
    facts = {
        "skewSeconds": {each.name: clocks.skew_s(each) for each in found},
        "boundSeconds": clocks.MOST_SKEW_S,
        "steps": {service.name: service.document.get("clock") for service, _ in clocks.steps(found)},
    }
    if not said and not stepped:
        text = f"{plural(len(found), 'service')} within {clocks.MOST_SKEW_S:g} s of this machine, no step seen"
        return Check("clocks", "ok", text, facts=facts)
    text = "; ".join([*said[:MOST_NAMES], *stepped[:MOST_NAMES], f"{clocks.UNAFFECTED}; {clocks.MOVES}"])
    return Check(
        "clocks", "warn", text, "keep the clocks of all machines with NTP (chrony), and let it slew", facts=facts
    )


def _findings(scene: Scene) -> Iterator[Check]:
    """One line each, up to a bound; resources that nobody called share one."""
    found: list[Trouble] = []
    idle = idle_patterns(scene)
    for resource, rules in by_resource(scene).items():
        if may_hold_secret(resource):
            continue  # services tell such a name masked
        if resource not in scene.seen and not scene.names.alike(resource):
            idle.append(resource)
        else:
            found += [each for each in troubles(scene, resource, rules) if each.next_step is not None]
    once = list({each.what: each for each in found}.values())
    for each in once[:MOST_LINES]:
        yield Check("findings", "warn", f"{each.resource}: {each.what}", each.next_step, facts=each.to_json())
    if len(once) > MOST_LINES:
        facts = {
            "findings": [each.to_json() for each in once[MOST_LINES:MOST_FACTS]],
            "beyond": max(0, len(once) - MOST_FACTS),
        }
        text = f"and {len(once) - MOST_LINES} more findings"
        yield Check(
            "findings", "warn", text, "sentinelctl doctor -o json, or sentinelctl rules explain RESOURCE", facts=facts
        )
    if idle and scene.counted_s >= FRESH_S:
        yield _idle(scene, idle)


def _idle(scene: Scene, idle: Sequence[str]) -> Check:
    names = ", ".join(idle[:MOST_NAMES]) + (f" and {len(idle) - MOST_NAMES} more" if len(idle) > MOST_NAMES else "")
    text = f"{plural(len(idle), 'resource')} with rules had no call in {age(scene.counted_s)}: {names}"
    step = f"sentinelctl rules explain {idle[0]}    (says what was seen instead)"
    return Check("findings", "warn", text, step, facts={"neverCalled": list(idle[:MOST_FACTS])})

"""A rule that never triggers, because no call says of itself what the rule asks for: caller, context, parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sentinel_core.cli.text import plural
from sentinel_core.cli.troubles.finding import Case, Trouble
from sentinel_core.cli.troubles.names import Names, difference
from sentinel_core.cli.troubles.seen import number
from sentinel_core.gate import DEFAULT_CONTEXT
from sentinel_core.masking import may_hold_secret
from sentinel_core.rules import FlowRule, ParamFlowRule, Rule
from sentinel_core.rules.kinds.flow import CHAIN, QPS

_ANYBODY = ("default", "other")
_WRAP = (
    "threads and executors start without one: hand work to them with sentinel_core.context.wrap(function); "
    "await and tasks keep it"
)


def named(case: Case) -> Iterator[Trouble]:
    """Callers and contexts that rules name, and that never came."""
    origins = _together(calls.origins for _, calls in case.found)
    contexts = _together(calls.contexts for _, calls in case.found)
    for rule in case.rules:
        if not isinstance(rule, FlowRule) or may_hold_secret(f"{rule.limit_app} {rule.ref_resource}"):
            continue  # services tell such a name masked
        if origins and rule.limit_app not in _ANYBODY and not origins.get(rule.limit_app):
            yield _missing(case, rule, "caller", rule.limit_app, origins)
        if rule.limit_app == "other" and origins:
            yield from _nobody_else(case, rule, origins)
        if contexts and rule.strategy == CHAIN and rule.ref_resource and not contexts.get(rule.ref_resource):
            yield _missing(case, rule, "context", rule.ref_resource, contexts)


def parameters(case: Case) -> Iterator[Trouble]:
    """Rules of a parameter that calls do not bring."""
    for rule in case.rules:
        if not isinstance(rule, ParamFlowRule) or rule.grade != QPS or rule.count < 1:
            continue
        told = case.standing(rule)
        passed = sum(calls.passed for _, calls in case.found)
        if passed and told and all(number(live, "values") == 0 for _, live in told):
            yield Trouble(
                "never_triggers",
                case.resource,
                f"no call brought the parameter that it looks at (paramIdx {rule.param_idx})",
                f'write engine.entry("{case.resource}", args=(...)); a guard takes the arguments of its function',
                rule.path,
            )


def _together(counts: Iterator[Mapping[str, int] | None]) -> dict[str, int]:
    """Counts by name in all services; nothing where none counts them, or nobody came."""
    total: dict[str, int] = {}
    for each in counts:
        for name, calls in (each or {}).items():
            total[name] = total.get(name, 0) + calls
    return total if sum(total.values()) else {}


def _missing(case: Case, rule: Rule, what: str, name: str, counts: Mapping[str, int]) -> Trouble:
    unnamed = DEFAULT_CONTEXT if what == "context" else ""
    without, total = counts.get(unnamed, 0), sum(counts.values())
    said = [f"{without} named none"] if without else []
    came = {other: calls for other, calls in counts.items() if calls and other != unnamed}
    busiest = sorted(came, key=lambda other: (-came[other], other))[:3]
    if busiest:
        said.append("there came " + ", ".join(f"{other} ({came[other]})" for other in busiest))
    alike = "".join(f"; {other}: {difference(name, other)}" for other in Names(came).alike(name)[:1])
    how = f'context("{name}")' if what == "context" else f'context(origin="{name}") or entry(..., origin="{name}")'
    return Trouble(
        "never_triggers",
        case.resource,
        f"{what} {name} never came: of {plural(total, 'call')} {', '.join(said)}{alike}",
        f"enter it inside of {how}; {_WRAP}",
        rule.path,
    )


def _nobody_else(case: Case, rule: Rule, origins: Mapping[str, int]) -> Iterator[Trouble]:
    known = {each.limit_app for each in case.rules if isinstance(each, FlowRule)}
    if any(calls for name, calls in origins.items() if name and name not in known):
        return
    yield Trouble(
        "never_triggers",
        case.resource,
        f"no caller came but those that rules name; {plural(origins.get('', 0), 'call')} named none, and limitApp "
        "other is for callers that have a name",
        f"name callers with context(origin=...), or write limitApp: default; {_WRAP}",
        rule.path,
    )

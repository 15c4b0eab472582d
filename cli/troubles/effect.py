"""A rule that never triggers although calls reach it: it only counts, is held, is another one's, or does not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sentinel_core.cli.instances.found import items
from sentinel_core.cli.text import plural
from sentinel_core.cli.troubles.finding import Case, Trouble
from sentinel_core.cli.troubles.seen import Service, number
from sentinel_core.modes import CLOSED, EVERYTHING, SHADOW
from sentinel_core.options import SENTINEL_1_8_9
from sentinel_core.rules import AuthorityRule, BizMetricRule, DegradeRule, FlowRule, Rule
from sentinel_core.rules.kinds.flow import DIRECT, QPS, REJECT, WARM_UP
from sentinel_core.rules.ruleset import SHORT


def held(case: Case) -> Iterator[Trouble]:
    """Rules that count without an effect: by their field, by a hand, by the switch for all."""
    for rule in case.rules:
        by_hand: dict[tuple[str, str], list[str]] = {}
        for service, live in case.standing(rule):
            mode = str(live.get("mode"))
            if mode in (SHADOW, CLOSED) and mode != getattr(rule, "mode", None):
                target = _holder(service, rule)
                by_hand.setdefault((mode, target), []).append(service.name)
        for (mode, target), names in by_hand.items():
            what = "everything" if target == EVERYTHING else target
            yield Trouble(
                "never_triggers",
                case.resource,
                f"{what} is put into {mode} by hand in {', '.join(names)}: {_effect(mode)}{_would(case, rule)}",
                f'engine.control("{target}", None) there, or a restart, takes it back',
                rule.path,
            )
        if getattr(rule, "mode", None) == SHADOW:
            text = f"its field mode is shadow: {_effect(SHADOW)}{_would(case, rule)}"
            yield Trouble("never_triggers", case.resource, text, rule=rule.path)


def _holder(service: Service, rule: Rule) -> str:
    """Who of the controls by hand has the say: the most exact one."""
    control = service.document.get("control")
    by_hand = control.get("held") if isinstance(control, dict) else None
    known = by_hand if isinstance(by_hand, dict) else {}
    return next((each for each in (rule.path, rule.resource) if each in known), EVERYTHING)


def _effect(mode: str) -> str:
    return "it counts what it would block and lets it pass" if mode == SHADOW else "every call passes"


def _would(case: Case, rule: Rule) -> str:
    counts = [number(live, "wouldBlock") for _, live in case.standing(rule)]
    blocked = int(sum(count for count in counts if count))
    return f" ({plural(blocked, 'call')} so far)" if any(count is not None for count in counts) else ""


def outweighed(case: Case) -> Iterator[Trouble]:
    """Limits that are never reached, because a smaller one of the same calls comes first."""
    limits = [
        rule
        for rule in case.rules
        if isinstance(rule, FlowRule)
        and (rule.limit_app, rule.grade, rule.strategy) == ("default", QPS, DIRECT)
        and rule.control_behavior in (REJECT, WARM_UP)
        and not rule.mode
    ]
    smallest = min(limits, key=lambda rule: rule.count, default=None)
    for rule in limits:
        if smallest is not None and rule.count > smallest.count:
            yield Trouble(
                "never_triggers",
                case.resource,
                f"{rule.describe()} is never reached: {smallest.describe()} of the same calls is smaller and decides",
                "remove one of them, or tell them apart by limitApp or strategy",
                rule.path,
            )


def compat(case: Case) -> Iterator[Trouble]:
    """What Java Sentinel's own behaviour takes away."""
    lists = [rule for rule in case.rules if isinstance(rule, AuthorityRule)]
    names = [service.name for service, _ in case.found if service.document.get("compat") == SENTINEL_1_8_9]
    for rule in lists[1:] if names else ():
        text = f"with compat {SENTINEL_1_8_9} only the first authority rule of a resource counts ({', '.join(names)})"
        yield Trouble("never_triggers", case.resource, text, "write one rule with the whole list", rule.path)


def waiting_for_more(case: Case) -> Iterator[Trouble]:
    """Breakers that have too little to judge."""
    for rule in case.rules:
        if isinstance(rule, DegradeRule):
            totals = [number(live, "total") or 0 for _, live in case.standing(rule)]
            if totals and max(totals) < rule.min_request_amount:
                least = f"{rule.min_request_amount} calls in {rule.stat_interval_ms} ms"
                text = f"it judges from {least} on; at most {max(totals):g} are counted now in one service"
                yield Trouble("never_triggers", case.resource, text, rule=rule.path)
        elif isinstance(rule, BizMetricRule):
            told = case.standing(rule)
            if told and all(live.get("value") is None and not number(live, "samples") for _, live in told):
                yield Trouble(
                    "never_triggers",
                    case.resource,
                    f"nobody reports {rule.biz_metric_type}: it has no value, and without one every call passes",
                    f'engine.report("{rule.biz_metric_type}", ok=..., resource="{case.resource}"), or a gauge',
                    rule.path,
                )


def inactive(case: Case) -> Iterator[Trouble]:
    """Services that run other rules than those that stand in the store."""
    scene = case.scene
    kinds = dict.fromkeys(rule.kind for rule in case.rules)
    for service in scene.telling if scene.is_live else ():
        # Java counts equal rules twice, and so do their digests under compat: what differs there says nothing.
        for kind in kinds if service.document.get("compat") is None else ():
            runs = service.instance.status.kinds.get(kind, {})
            digest = str(runs.get("digest"))
            if kind in scene.sets and digest != scene.sets[kind].digest:
                there = f"digest {digest[:SHORT]}, version {runs.get('version') or '–'}"
                yield Trouble(
                    "never_triggers",
                    case.resource,
                    f"{service.name} runs other {kind} rules ({there}) than the store holds "
                    f"({scene.sets[kind].digest[:SHORT]}){_why(service)}",
                    f"sentinelctl instances show {service.name}",
                )


def _why(service: Service) -> str:
    """What its stores say, where they are not well."""
    unwell = [each for each in service.instance.stores if each.get("state") != "ready"]
    return "; ".join(["", *(f"{each.get('state')}: {_reason(items(each))}" for each in unwell[:2])])


def _reason(told: Sequence[Mapping[str, Any]]) -> str:
    said = [each.get("lastError") or each.get("reason") for each in told]
    return str(next((each for each in said if each), "no reason told"))

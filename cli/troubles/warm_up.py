"""A warm-up whose limit falls, or differs between instances: restarts, changes, idle times, no common start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sentinel_core.cli.moments import age
from sentinel_core.cli.troubles.finding import Case, Trouble
from sentinel_core.cli.troubles.seen import Service, number
from sentinel_core.rules import FlowRule
from sentinel_core.rules.kinds.flow import QPS, WARM_UP, WARM_UP_RATE_LIMITER

APART = 0.1
"""Instances whose limits differ by more than this share of the whole limit are out of step."""
START_S = 5.0
"""A rule that came to be so soon after its process came with it."""


def warm_up(case: Case) -> Iterator[Trouble]:
    """Where each instance stands, why, and whether they are in step."""
    for rule in case.rules:
        if not isinstance(rule, FlowRule) or rule.grade != QPS:
            continue
        if rule.control_behavior not in (WARM_UP, WARM_UP_RATE_LIMITER):
            continue
        standing = [(service, live) for service, live in case.standing(rule) if number(live, "allowed") is not None]
        if standing:
            service, live = min(standing, key=lambda each: number(each[1], "allowed") or 0)
            others = f" (the coldest of {len(standing)})" if len(standing) > 1 else ""
            yield Trouble("warm_up", case.resource, _stands(rule, service, live, others), rule=rule.path)
        yield from _apart(case, rule, [number(live, "allowed") or 0 for _, live in standing])


def _stands(rule: FlowRule, service: Service, live: Mapping[str, Any], others: str) -> str:
    allowed, full = number(live, "allowed") or 0, (number(live, "fullInMs") or 0) / 1000
    state = str(live.get("warmUp"))
    if state == "warm":
        return f"{service.name} is warm{others}: {allowed:g} of {rule.count:g} a second may pass"
    common = f"a common start is on ({rule.warm_up_start})" if live.get("shared") else "a common start is off"
    return (
        f"{service.name} is {state}{others}: {allowed:.4g} of {rule.count:g} a second may pass now; it is full after "
        f"{full:.3g} s of as much traffic as may pass; {_cause(rule, service, live)}; {common}"
    )


def _cause(rule: FlowRule, service: Service, live: Mapping[str, Any]) -> str:
    made_s = (number(live, "madeMs") or 0) / 1000
    if made_s < max(2 * rule.warm_up_period_sec, START_S):
        began = service.counted_s - made_s < START_S
        return f"{'the process started' if began else 'the rule was changed'} {age(made_s)} ago, which begins cold"
    return f"with fewer than {number(live, 'coolsBelow') or 0:g} calls a second it cools down again"


def _apart(case: Case, rule: FlowRule, allowed: list[float]) -> Iterator[Trouble]:
    if len(allowed) < 2 or max(allowed) - min(allowed) <= APART * rule.count:
        return
    text = (
        f"instances are out of step: from {min(allowed):.4g} to {max(allowed):.4g} of {rule.count:g} a second may pass"
    )
    step = (
        "check their clocks with: sentinelctl doctor"
        if rule.warm_up_start
        else "write warmUpStart: <time of the release, with its offset>, so that all of them count from there"
    )
    yield Trouble("warm_up", case.resource, text, step, rule.path)

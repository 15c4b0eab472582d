"""What people see of a running engine, as plain JSON values. The caller holds the engine's lock where one is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from sentinel_core.activation import Activation
from sentinel_core.datasources import Subscription
from sentinel_core.datasources.status import Counters, ItemStatus
from sentinel_core.modes import CLOSED, SHADOW
from sentinel_core.plan import Plan, Runtime, Snapshot
from sentinel_core.rules import Kind, RuleSet, describe_rule
from sentinel_core.slots import Slot


def live_values(plan: Plan, runtime: Runtime) -> list[tuple[Kind, Any, dict[str, Any]]]:
    """(kind, rule or None, live values) of every checker in order, all of one moment."""
    now = runtime.monotonic_ns()
    return runtime.inside(lambda: [(checker.kind, checker.rule, checker.live(now)) for checker in plan.checkers])


def explain(
    slots: Mapping[Kind, Slot],
    values: list[tuple[Kind, Any, dict[str, Any]]],
    rules_of: Callable[[Kind], list[Any]],
    owner_of: Callable[[Kind, Any], RuleSet],
    mode_of: Callable[[Any], str],
) -> list[dict[str, Any]]:
    """Per slot: what all its rules share, and each rule in words and fields with its mode and what it has counted."""
    of_rule = {rule: live for _, rule, live in values if rule is not None}
    of_slot: dict[Kind, dict[str, Any]] = {}
    for kind, rule, live in values:
        if rule is None:
            shared = of_slot.setdefault(kind, {})
            shared.update({SHADOW: live} if live.get("mode") == SHADOW else live)
    return [
        {
            "slot": kind,
            "live": of_slot.get(kind, {}),
            "rules": [
                {
                    "path": rule.path,
                    "source": _source(owner_of(kind, rule)) or None,
                    "says": describe_rule(rule),
                    "mode": mode_of(rule),
                    "rule": rule.to_json(),
                    "live": of_rule.get(rule, {}),
                    "note": slot.unenforced(rule),
                }
                for rule in rules_of(kind)
            ],
        }
        for kind, slot in slots.items()
    ]


def breaking(snapshot: Snapshot, runtime: Runtime, most: int) -> tuple[list[dict[str, Any]], int]:
    """The breakers that have something to say: those of business metrics, and others that are not closed. With how many
    there are beyond `most`. Not under one lock: each resource for itself."""
    found: list[dict[str, Any]] = []
    beyond = 0
    for resource, plan in list(snapshot.plans.items()):
        if all(checker.idle or checker.rule is None for checker in plan.checkers):
            continue
        for kind, rule, live in live_values(plan, runtime):
            if "state" not in live or (live["state"] == CLOSED.upper() and "metric" not in live):
                continue
            if len(found) < most:
                found.append({"resource": resource, "kind": kind, "rule": rule.path, **live})
            else:
                beyond += 1
    return found, beyond


def breakers(values: list[tuple[Kind, Any, dict[str, Any]]]) -> tuple[dict[str, Any], ...]:
    """The checkers that have a state, with their values."""
    return tuple({"kind": kind, "rule": rule.path, **live} for kind, rule, live in values if "state" in live)


def kind_status(ruleset: RuleSet) -> dict[str, Any]:
    """Which rules of a kind run and where they came from; `sources` counts them by source where there are several."""
    revision = ruleset.revision
    owners = Counter(_source(ruleset.owner(rule)) for rule in ruleset.rules) if ruleset.owners else {}
    return {
        "rules": len(ruleset.rules),
        "digest": ruleset.digest,
        "commit": revision.provenance.commit_hash if revision else None,
        "version": revision.version if revision else None,
        "source": revision.source if revision else None,
        "sources": dict(owners),
        "warnings": [str(problem) for problem in ruleset.warnings],
    }


def _source(ruleset: RuleSet) -> str:
    return ruleset.revision.source if ruleset.revision else ""


def subscription_status(subscription: Subscription) -> dict[str, Any]:
    """How one source does: the worst state of its items, their counters added up, and each item."""
    items = subscription.status()
    return {
        "role": subscription.role,
        "transport": subscription.source.uri.partition(":")[0],
        "source": subscription.source.uri,
        "kinds": list(subscription.kinds),
        "state": subscription.state.value,
        "items": [_item_status(each) for each in items],
        "counters": {each.name: sum(getattr(item.counters, each.name) for item in items) for each in fields(Counters)},
    }


def _item_status(item: ItemStatus) -> dict[str, Any]:
    return {
        "source": item.source,
        "kinds": list(item.kinds),
        "state": item.state.value,
        "reason": item.reason,
        "version": item.version,
        "commit": item.commit_hash,
        "restored": item.restored,
        "since": _time(item.since),
        "lastRead": _time(item.last_read),
        "lastActivation": _time(item.last_activation),
        "lastError": item.last_error,
        "lastErrorAt": _time(item.last_error_at),
        "provenanceProblem": item.provenance_problem,
        "lastGoodProblem": item.last_good_problem,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def activation_status(activation: Activation) -> dict[str, Any]:
    """How changes went, and whether their evidence is safe."""
    return {
        "activations": {
            "activated": activation.activated,
            "unchanged": activation.unchanged,
            "rejected": activation.rejected,
            "lastMs": activation.last_activation_ms,
            "totalMs": activation.total_activation_ms,
        },
        "audit": {
            "lateEvents": len(activation.late),
            "lostEvents": activation.lost_events,
            "error": activation.sink_error,
        },
    }

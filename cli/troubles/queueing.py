"""A queue that eats the worker pool: how many calls may wait at once, how many do, and for whom."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel_core.cli.serving import serving_of
from sentinel_core.cli.troubles.finding import Case, Trouble
from sentinel_core.cli.troubles.seen import number
from sentinel_core.rules import DegradeRule, FlowRule
from sentinel_core.rules.kinds.degrade import SLOW_RATIO
from sentinel_core.rules.queueing import Serving, longest_queue_ms, most_waiting

MOST_SERVICES = 8
"""Services whose waiting calls are told."""


def queueing(case: Case) -> Iterator[Trouble]:
    """Each rule that queues: against the pool, the callers' patience, and breakers that count the wait as time."""
    serving = serving_of(case.scene.settings)
    for rule in case.rules:
        if isinstance(rule, FlowRule) and rule.queues:
            yield _pool(case, rule, serving.workers)
            yield from (
                Trouble("queueing", case.resource, finding.message, "write a shorter maxQueueingTimeMs", rule.path)
                for finding in rule.check_serving(Serving(request_timeout_ms=serving.request_timeout_ms))
            )
            yield from _slow(case, rule)


def _pool(case: Case, rule: FlowRule, workers: int | None) -> Trouble:
    waiting = most_waiting(rule.count, rule.max_queueing_time_ms)
    at_most = waiting if workers is None else min(waiting, workers)
    pool = "" if workers is None else f" of {workers} workers"
    now = [f"{number(live, 'waiting') or 0:g} in {service.name}" for service, live in case.standing(rule)]
    now = now[:MOST_SERVICES] + (["…"] if len(now) > MOST_SERVICES else [])
    text = (
        f"up to {at_most}{pool} wait at once in each process ({rule.count:g} a second × "
        f"{rule.max_queueing_time_ms} ms = {waiting})" + (f"; waiting now: {', '.join(now)}" if now else "")
    )
    if workers is None:
        return Trouble(
            "queueing", case.resource, f"{text}; how many threads serve is not known (setting workers)", None, rule.path
        )
    if waiting < workers:
        return Trouble("queueing", case.resource, text, None, rule.path)
    step = (
        f"write maxQueueingTimeMs: {longest_queue_ms(rule.count, workers // 2)} or less (half of the workers), reject, "
        "or hand the work to a message queue; with aentry a task waits and no thread"
    )
    return Trouble("queueing", case.resource, f"{text}: no worker is left for anything else", step, rule.path)


def _slow(case: Case, rule: FlowRule) -> Iterator[Trouble]:
    """Breakers of the same resource that count the wait."""
    for other in case.rules:
        if not isinstance(other, DegradeRule):
            continue
        patience_ms = other.client_timeout_ms
        if patience_ms is not None and rule.max_queueing_time_ms >= patience_ms:
            yield Trouble(
                "queueing",
                case.resource,
                f"a call may wait {rule.max_queueing_time_ms} ms, and its client gives up after {patience_ms} ms "
                f"(clientTimeoutMs of {other.describe()})",
                f"write a maxQueueingTimeMs below {patience_ms}, less the time of the call itself",
                rule.path,
            )
        if other.grade == SLOW_RATIO and rule.max_queueing_time_ms > other.count:
            yield Trouble(
                "queueing",
                case.resource,
                f"waiting counts as response time: calls that queued for more than {other.count:g} ms are slow for "
                f"{other.describe()}, so that the queue itself opens the breaker",
                f"write a maxQueueingTimeMs below {other.count:g}, or guard what is slow by a resource of its own",
                rule.path,
            )

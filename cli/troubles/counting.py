"""QPS that is lower than the traffic: what is counted, over which time, and by how many."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel_core.cli.troubles.finding import Case, Trouble
from sentinel_core.cli.troubles.seen import Service, number
from sentinel_core.rules import FlowRule
from sentinel_core.rules.kinds.flow import QPS


def window(case: Case) -> Iterator[Trouble]:
    """Over which time services count, and what they do not."""
    if not any(isinstance(rule, FlowRule) and rule.grade == QPS for rule in case.rules):
        return
    for text in dict.fromkeys(_window(service) for service, _ in case.found):
        yield Trouble("counts_less", case.resource, text)


def _window(service: Service) -> str:
    told = service.document.get("statistics")
    facts = told if isinstance(told, dict) else {}
    length, parts = number(facts, "interval_ms") or 1000, number(facts, "sample_count") or 2
    cut = f"a sliding window of {length:g} ms in {parts:g} buckets of {length / parts:g} ms"
    border = (
        "no span of it sees more than the limit"
        if facts.get("precise")
        else (f"up to twice the limit can pass within {length:g} ms around a border")
    )
    return f"counted are calls that passed, not those that were refused, in {cut}; {border}"


def processes(case: Case) -> Iterator[Trouble]:
    """Several processes, each with a count of its own: a limit holds for each of them."""
    found = case.found
    if len(found) < 2:
        return
    passing = sum(calls.second.passed / service.per_second for service, calls in found)
    refused = sum(calls.second.blocked / service.per_second for service, calls in found)
    for rule in case.rules:
        if isinstance(rule, FlowRule) and rule.grade == QPS and not rule.mode:
            number_of = len(found)
            text = (
                f"{number_of} processes here count each by itself: qps ≤ {rule.count:g} means up to {number_of} × "
                f"{rule.count:g} = {number_of * rule.count:g} a second on this machine; now {passing:g} pass and "
                f"{refused:g} are refused, all together; for {rule.count:g} in all write count: "
                f"{rule.count / number_of:g}, or run one process"
            )
            yield Trouble("counts_less", case.resource, text, rule=rule.path)


def uncounted(case: Case) -> Iterator[Trouble]:
    """Calls that no resource counts."""
    for service in case.scene.telling:
        passes = number(service.document, "uncountedPasses")
        if passes:
            yield Trouble(
                "counts_less",
                case.resource,
                f"{service.name} has let {passes:g} calls pass uncounted: it has seen more resources than it counts",
                "give resources names from a fixed set (no ids in them); rules keep working for those that they name",
            )

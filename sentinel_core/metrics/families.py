"""Every metric of an engine once: its name, its labels and how it is read. The exporters only translate.

Labels are bounded: by the rules, kinds and sources that are configured, and by `limit` resources; what is counted for
others comes under the resource `__other__`. A resource that has once been named keeps its name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sentinel_core.clock import SECOND
from sentinel_core.datasources import State
from sentinel_core.masking import mask_name
from sentinel_core.stats import Totals

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

logger = logging.getLogger("sentinel_core")

OTHER = "__other__"
LIMIT = 1000
BREAKER_STATES = {"CLOSED": 0, "HALF_OPEN": 1, "OPEN": 2}


class Sample(NamedTuple):
    """One value; `number` is how many things a summary's `value` sums up."""

    labels: tuple[str, ...]
    value: float
    number: int = 0


class Reading:
    """An engine as it is at one instant. Made for one pull; `named` is kept by the exporter between pulls."""

    def __init__(self, engine: Engine, named: set[str], limit: int = LIMIT) -> None:
        self.engine = engine
        self._named = named
        self._limit = limit

    @cached_property
    def resources(self) -> tuple[list[str], list[str]]:
        """The resources that have a label of their own, and the others."""
        own: list[str] = []
        others: list[str] = []
        for resource in self.engine.resources():
            if resource not in self._named and len(self._named) < self._limit:
                self._named.add(resource)
            (own if resource in self._named else others).append(resource)
        return own, others

    @cached_property
    def totals(self) -> dict[str, list[Totals]]:
        """The counts by label."""
        own, others = self.resources
        totals = {resource: [self.engine.totals(resource)] for resource in own}
        if others:
            totals[OTHER] = [self.engine.totals(resource) for resource in others]
        return totals

    @cached_property
    def status(self) -> dict[str, Any]:
        return self.engine.status()

    @cached_property
    def delivery(self) -> Any:
        """The `ForwarderStatus` of an engine with an outbox, else None."""
        forwarder = getattr(self.engine, "forwarder", None)
        return forwarder.status() if forwarder is not None else None


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    name     without a suffix for its type; its unit is the last word
    type     counter, gauge, info (a gauge that is 1) or summary (a sum and a count)
    read     what it is now; no samples where it does not apply
    """

    name: str
    type: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[Reading], Iterable[Sample]]

    def samples(self, reading: Reading) -> list[Sample]:
        """As `read`, but what cannot be read is left out, and the log says so: monitoring must not go blind for it."""
        try:
            told: dict[tuple[str, ...], Sample] = {}
            for sample in self.read(reading):
                labels = tuple(map(_writable, sample.labels))
                told[labels] = self._together(told.get(labels), sample._replace(labels=labels))
            return list(told.values())
        except Exception as error:  # noqa: BLE001 (an outbox that cannot be read, say, must not hide the rest)
            logger.warning("metric %s cannot be read: %s", self.name, error)
            return []

    def _together(self, told: Sample | None, sample: Sample) -> Sample:
        """Names that differ in a credential alone are one: the same labels twice would end every scrape."""
        if told is None:
            return sample
        if self.type in {"counter", "summary"}:
            return sample._replace(value=told.value + sample.value, number=told.number + sample.number)
        return max(told, sample)


def _writable(label: str) -> str:
    """A label that can be sent: names come from outside, and half a surrogate in one would end every scrape; a
    credential in one would be everywhere."""
    label = mask_name(label)
    return label if label.isascii() else label.encode("utf-8", "backslashreplace").decode()


def families(engine: Engine) -> tuple[Family, ...]:
    """All metrics of an engine; one `sentinel_<kind>_reject` for each of its slots."""
    rejects = (
        Family(f"sentinel_{kind}_reject", "counter", f"Requests refused by {kind} rules.", RESOURCE, _blocked_by(kind))
        for kind in engine.slots()
    )
    return (*_COMMON, *rejects)


def _sum(count: Callable[[Totals], float]) -> Callable[[Reading], Iterator[Sample]]:
    def read(reading: Reading) -> Iterator[Sample]:
        for resource, totals in reading.totals.items():
            yield Sample((resource,), sum(map(count, totals)))

    return read


def _blocked_by(kind: str) -> Callable[[Reading], Iterator[Sample]]:
    """Only resources that have such rules, or had blocks by them: zeros, so that a first block is seen as a rise."""

    def read(reading: Reading) -> Iterator[Sample]:
        ruled = reading.engine.snapshot.by_resource.get(kind, {})
        for resource, totals in reading.totals.items():
            blocked = sum(each.blocked_by.get(kind, 0) for each in totals)
            if blocked or resource in ruled:
                yield Sample((resource,), blocked)

    return read


def _rt(reading: Reading) -> Iterator[Sample]:
    for resource, totals in reading.totals.items():
        seconds = sum(each.rt_ns for each in totals) / SECOND
        yield Sample((resource,), seconds, sum(each.success for each in totals))


def _breakers(reading: Reading) -> Iterator[Sample]:
    """Rules that share a path (several breakers of one resource) are one sample: the worst."""
    for resource in reading.resources[0]:
        states: dict[str, float] = {}
        for breaker in reading.engine.breakers(resource):
            path = breaker["rule"]
            states[path] = max(states.get(path, 0), BREAKER_STATES[breaker["state"]])
        for path, state in states.items():
            yield Sample((resource, path), state)


def _business(field: str, unit: float) -> Callable[[Reading], Iterator[Sample]]:
    """A number of every business rule, for each value of a dimension that the rule tells of (the worst twenty)."""

    def read(reading: Reading) -> Iterator[Sample]:
        for resource in reading.engine.snapshot.by_resource.get("biz_metric", {}):
            told: dict[tuple[str, ...], float] = {}
            for breaker in reading.engine.breakers(resource):
                parts = breaker.get("values", {"": breaker}) if "metric" in breaker else {}
                for value, live in parts.items():
                    if live.get(field) is not None:
                        told[resource, breaker["rule"], value] = live[field] * unit
            for labels, number in told.items():
                yield Sample(labels, number)

    return read


def _shadows(reading: Reading) -> Iterator[Sample]:
    own = set(reading.resources[0])
    for each in reading.engine.shadows():
        if each["resource"] in own:
            yield Sample((each["resource"], each["rule"] or each["kind"]), each["wouldBlock"])


def _rules(reading: Reading) -> Iterator[Sample]:
    for kind, status in reading.status["kinds"].items():
        yield Sample((kind,), status["rules"])


def _digests(reading: Reading) -> Iterator[Sample]:
    for kind, status in reading.status["kinds"].items():
        yield Sample((kind, status["digest"], status["commit"] or ""), 1)


def _states(reading: Reading) -> Iterator[Sample]:
    for each in reading.status["subscriptions"]:
        for state in State:
            yield Sample((each["source"], state.value), each["state"] == state.value)


def _revisions(reading: Reading) -> Iterator[Sample]:
    for each in reading.status["subscriptions"]:
        for outcome in ("activated", "unchanged", "suppressed", "rejected", "older"):
            yield Sample((each["source"], outcome), each["counters"][outcome])


def _source_errors(reading: Reading) -> Iterator[Sample]:
    for each in reading.status["subscriptions"]:
        yield Sample((each["source"],), each["counters"]["errors"])


def _activations(reading: Reading) -> Iterator[Sample]:
    for outcome in ("activated", "unchanged", "rejected"):
        yield Sample((outcome,), reading.status["activations"][outcome])


def _activation_seconds(reading: Reading) -> Iterator[Sample]:
    activations = reading.status["activations"]
    yield Sample((), activations["totalMs"] / 1000, activations["activated"])


def _of_status(*path: str) -> Callable[[Reading], Iterator[Sample]]:
    def read(reading: Reading) -> Iterator[Sample]:
        value: Any = reading.status
        for name in path:
            value = value[name]
        yield Sample((), value)

    return read


def _of_delivery(value: Callable[[Any], float]) -> Callable[[Reading], Iterator[Sample]]:
    def read(reading: Reading) -> Iterator[Sample]:
        if reading.delivery is not None:
            yield Sample((), value(reading.delivery))

    return read


RESOURCE = ("resource",)
BUSINESS = ("resource", "rule", "dimension")
_COMMON = (
    Family("sentinel_pass", "counter", "Requests that passed.", RESOURCE, _sum(lambda each: each.passed)),
    Family("sentinel_block", "counter", "Requests refused by any rule.", RESOURCE, _sum(lambda each: each.blocked)),
    Family("sentinel_success", "counter", "Requests that ended.", RESOURCE, _sum(lambda each: each.success)),
    Family("sentinel_exception", "counter", "Requests that failed.", RESOURCE, _sum(lambda each: each.exception)),
    Family("sentinel_rt_seconds", "summary", "Response times of requests that ended.", RESOURCE, _rt),
    Family("sentinel_threads", "gauge", "Calls inside now.", RESOURCE, _sum(lambda each: each.threads)),
    Family("sentinel_breaker_state", "gauge", "0 closed, 1 half open, 2 open.", ("resource", "rule"), _breakers),
    Family("sentinel_biz_metric", "gauge", "What business metrics stand at.", BUSINESS, _business("value", 1)),
    Family("sentinel_biz_metric_age_seconds", "gauge", "Age of gauges.", BUSINESS, _business("ageMs", 1 / 1000)),
    Family("sentinel_shadow_block", "counter", "Calls shadow rules would block.", ("resource", "rule"), _shadows),
    Family("sentinel_rules", "gauge", "Rules that are active.", ("kind",), _rules),
    Family("sentinel_rules_digest", "info", "Which rules are active.", ("kind", "digest", "commit"), _digests),
    Family("sentinel_activations", "counter", "Changes of rules by outcome.", ("outcome",), _activations),
    Family("sentinel_activation_seconds", "summary", "From parsed rules to active ones.", (), _activation_seconds),
    Family("sentinel_subscription_state", "gauge", "1 for the state a source is in.", ("source", "state"), _states),
    Family("sentinel_revisions", "counter", "Contents a source delivered.", ("source", "outcome"), _revisions),
    Family("sentinel_source_errors", "counter", "Failed reads and applies.", ("source",), _source_errors),
    Family("sentinel_outbox_depth", "gauge", "Events that wait for delivery.", (), _of_delivery(lambda d: d.waiting)),
    Family("sentinel_outbox_parked", "gauge", "Events nobody accepts.", (), _of_delivery(lambda d: d.parked)),
    Family("sentinel_late_events", "gauge", "Events not durable yet.", (), _of_status("audit", "lateEvents")),
    Family("sentinel_lost_events", "counter", "Events that are lost.", (), _of_status("audit", "lostEvents")),
    Family("sentinel_resources", "gauge", "Resources that are counted.", (), _of_status("resources")),
    Family("sentinel_uncounted_passes", "counter", "Calls beyond max_resources.", (), _of_status("uncountedPasses")),
    Family("sentinel_internal_errors", "counter", "Errors of ours.", (), _of_status("internalErrors", "count")),
)

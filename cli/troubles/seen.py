"""What running services tell of their traffic, as far as it is what it should be: files are foreign, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sentinel_core.cli.instances.found import DEAD, Instance, running
from sentinel_core.gate import DEFAULT_CONTEXT
from sentinel_core.settings import Settings

Object = Mapping[str, Any]
NOTHING: Object = {}
MOST = 1e15
"""Larger numbers are no counts, milliseconds or limits that anybody reads."""


@dataclass(frozen=True, slots=True)
class Lately:
    """Requests of the last one or two minutes."""

    passed: int
    blocked: int
    blocked_by: Mapping[str, int]
    """By the kind of the rule that decided."""


@dataclass(frozen=True, slots=True)
class Second:
    """Requests of the sliding window, and calls inside."""

    passed: int
    blocked: int
    threads: int


@dataclass(frozen=True, slots=True)
class Calls:
    """One resource in one service. Counts are requests since the service began."""

    resource: str
    passed: int
    blocked: int
    blocked_by: Mapping[str, int]
    silent_s: float | None
    """Since the last call; None where there was none."""
    lately: Lately
    second: Second
    origins: Mapping[str, int] | None
    """Calls by caller, "" for those that named none; None where no rule asks who calls."""
    contexts: Mapping[str, int] | None
    """Calls by context; None where no rule asks for it."""
    rules: Sequence[Object]
    """`kind`, `rule` (path), `says`, and what it stands at, in the order in which they are asked."""

    @property
    def total(self) -> int:
        return self.passed + self.blocked


@dataclass(frozen=True, slots=True)
class Service:
    """One running process of these settings."""

    instance: Instance
    tells: bool
    """Whether it tells of its traffic at all; one of an older version does not."""
    counted_s: float
    """For how long it has counted."""
    lately_s: float
    resources: Mapping[str, Calls] = field(default_factory=dict)
    beyond: int = 0
    """Resources that it has seen and does not tell."""

    @property
    def name(self) -> str:
        return self.instance.status.instance

    @property
    def document(self) -> Object:
        return self.instance.status.document

    @property
    def per_second(self) -> float:
        """How many seconds its window holds."""
        return max(_number(_object(self.document.get("statistics")).get("interval_ms"), 1000), 1) / 1000


def services(settings: Settings) -> list[Service]:
    """Those of the app and environment of the settings whose processes have not ended."""
    return [
        _service(each)
        for each in running(settings)
        if each.state != DEAD and (each.status.app, each.status.environment) == (settings.app, settings.environment)
    ]


def seen_in(found: Sequence[Service]) -> dict[str, int]:
    """Every resource that was called, with its calls in all services together."""
    calls: dict[str, int] = {}
    for service in found:
        for each in service.resources.values():
            if each.total:
                calls[each.resource] = calls.get(each.resource, 0) + each.total
    return calls


def of(found: Sequence[Service], resource: str) -> Iterator[tuple[Service, Calls]]:
    """The services that were called for a resource."""
    for service in found:
        calls = service.resources.get(resource)
        if calls is not None and calls.total:
            yield service, calls


def _service(instance: Instance) -> Service:
    told = instance.status.document.get("traffic")
    if not isinstance(told, dict):
        return Service(instance, tells=False, counted_s=0.0, lately_s=0.0)
    calls = [_calls(each) for each in objects(told.get("resources")) if isinstance(each.get("resource"), str)]
    return Service(
        instance,
        tells=True,
        counted_s=_number(told.get("seconds")),
        lately_s=_number(told.get("lately")),
        resources={each.resource: each for each in calls},
        beyond=_count(told.get("beyond")),
    )


def _calls(told: Object) -> Calls:
    silent, lately, second = told.get("silentSeconds"), _object(told.get("lately")), _object(told.get("second"))
    return Calls(
        str(told["resource"]),
        _count(told.get("passed")),
        _count(told.get("blocked")),
        _counts(told.get("blockedBy")),
        None if silent is None else _number(silent),
        Lately(_count(lately.get("passed")), _count(lately.get("blocked")), _counts(lately.get("blockedBy"))),
        Second(_count(second.get("passed")), _count(second.get("blocked")), _count(second.get("threads"))),
        _parts(told.get("origins"), ""),
        _parts(told.get("contexts"), DEFAULT_CONTEXT),
        [each for each in objects(told.get("rules")) if isinstance(each.get("rule"), str)],
    )


def _parts(told: object, unnamed: str) -> Mapping[str, int] | None:
    if not isinstance(told, dict):
        return None
    counts = {str(each.get("name")): _count(each.get("calls")) for each in objects(told.get("calls"))}
    if without := _count(told.get("without")):
        counts[unnamed] = counts.get(unnamed, 0) + without
    return counts


def objects(value: object) -> list[Object]:
    """A list as far as it holds objects; nothing for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else NOTHING


def _counts(value: object) -> Mapping[str, int]:
    return {str(name): _count(count) for name, count in _object(value).items()}


def _count(value: object) -> int:
    return int(_number(value))


def _number(value: object, default: float = 0.0) -> float:
    known = as_number(value)
    return default if known is None else known


def number(facts: Object, name: str) -> float | None:
    """A number of some facts, None where there is none."""
    return as_number(facts.get(name))


def as_number(value: object) -> float | None:
    """The value where it is a finite number; JSON as Python reads it has others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < MOST else None

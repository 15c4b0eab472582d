"""`open(metric, uri)`: a collector from one line of text, where no code is wanted."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sentinel_core.collectors.contract import Collector
from sentinel_core.datasources.registry import seconds
from sentinel_core.datasources.uri import mask_uri


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one kind of URI becomes a collector.

    open      (metric, address without our parameters, options) → collector
    options   its parameters besides resource, dimension, every and timeout
    form      an example, for messages
    passes    whether other parameters stay in the address: the servers of some schemes have their own
    """

    open: Callable[[str, str, dict[str, Any]], Collector]
    options: tuple[str, ...]
    form: str
    passes: bool = False


def _redis(metric: str, address: str, options: dict[str, Any]) -> Collector:
    from sentinel_core.collectors.redis import RedisCollector

    return RedisCollector(metric, address, keys={_target(options): options.pop("key", "")}, **options)


def _kafka(metric: str, address: str, options: dict[str, Any]) -> Collector:
    from sentinel_core.collectors.kafka import KafkaLagCollector

    parts = urlsplit(address)
    options["topics"] = [topic for topic in options.pop("topics", "").split(",") if topic]
    return KafkaLagCollector(metric, parts.netloc, parts.path.strip("/"), **options)


def _prometheus(metric: str, address: str, options: dict[str, Any]) -> Collector:
    from sentinel_core.collectors.prometheus import PrometheusCollector

    query = options.pop("query", "")
    return PrometheusCollector(metric, address.removeprefix("prometheus+"), query, **options)


def _json(metric: str, address: str, options: dict[str, Any]) -> Collector:
    from sentinel_core.collectors.http_json import HttpJsonCollector

    paths = {_target(options): options.pop("path", "$")}
    return HttpJsonCollector(metric, address.removeprefix("json+"), paths=paths, **options)


def _target(options: dict[str, Any]) -> Any:
    resource, dimension = options.pop("resource", ""), options.pop("dimension", "")
    return (resource, dimension) if dimension else resource


_REDIS: Final = Scheme(
    _redis, ("key", "field", "length_of", "group", "dimension"), "redis://host:6379/0?key=stock:sku1", passes=True
)
_PROMETHEUS: Final = Scheme(
    _prometheus, ("query", "resource_label", "dimension_label"), "prometheus+http://host:9090?query=sum(lag)"
)
_JSON: Final = Scheme(_json, ("path", "dimension"), "json+https://host/stock?path=$.data.depth", passes=True)
SCHEMES: Final[Mapping[str, Scheme]] = {
    "redis": _REDIS,
    "rediss": _REDIS,
    "kafka": Scheme(_kafka, ("topics",), "kafka://host:9092/group?topics=bills"),
    "prometheus+http": _PROMETHEUS,
    "prometheus+https": _PROMETHEUS,
    "json+http": _JSON,
    "json+https": _JSON,
}
COMMON: Final = ("resource", "every", "timeout")


def open(metric: str, uri: str) -> Collector:  # noqa: A001 - collectors.open(…) is the public name
    """The collector that `uri` describes; reads nothing yet. Raises ValueError that says what to write.

    engine.collectors.register(open("STOCK_DEPTH", "redis://host/0?key=stock:sku1&resource=deduct&every=250ms"))
    """
    shown = mask_uri(uri)
    try:
        parts = urlsplit(uri)
        scheme = _scheme(parts.scheme)
        options, others = _split(scheme, parts.query)
        return scheme.open(metric, urlunsplit(parts._replace(query=urlencode(others))), options)
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from error


def _scheme(name: str) -> Scheme:
    scheme = SCHEMES.get(name)
    if scheme is None:
        near = difflib.get_close_matches(name, SCHEMES, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        forms = ", ".join(dict.fromkeys(known.form for known in SCHEMES.values()))
        raise ValueError(f"no collector reads such a URI{hint} Write one like {forms}")
    return scheme


def _split(scheme: Scheme, query: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Our options, converted, and the parameters that are none of ours."""
    known = (*scheme.options, *COMMON)
    options: dict[str, Any] = {}
    others: list[tuple[str, str]] = []
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in options:
            raise ValueError(f"{name} is given twice")
        if name in known:
            options[name] = text
        elif scheme.passes:
            if near := difflib.get_close_matches(name, known, n=1, cutoff=0.75):
                raise ValueError(f"unknown parameter {name}; did you mean {near[0]}?")
            others.append((name, text))
        else:
            raise ValueError(f"unknown parameter {name}. Known here: {', '.join(sorted(known))}")
    for name in ("every", "timeout"):
        if name in options:
            options[f"{name}_s"] = seconds(options.pop(name))
    return options, others

"""What the sources of this package have in common: a name without secrets, a client of their own process, time-outs."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, Generic, TypeVar

from sentinel_core.collectors.contract import CollectorError, Target, Values, parts_of
from sentinel_core.collectors.guarded import refuse_inside

TIMEOUT_S: Final = 1.0
"""For connecting, and for each answer, unless a source is told otherwise."""

Client = TypeVar("Client")


class Source(ABC, Generic[Client]):
    """A collector that reads from outside. Nothing is connected before the first read.

    metric      the `bizMetricType` it serves
    source      where it reads, for messages; credentials in URIs are masked wherever it is shown
    every_s     seconds between two reads, unless `register` says otherwise
    timeout_s   for connecting and for each answer
    """

    def __init__(self, metric: str, source: str, *, every_s: float, timeout_s: float) -> None:
        if not metric:
            raise ValueError("metric is empty; write the bizMetricType of the rules, such as STOCK_DEPTH")
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise ValueError(f"timeout_s is {timeout_s}; write seconds above 0")
        self.metric = metric
        self.source = source
        self.every_s = every_s
        self.timeout_s = timeout_s
        self._client: Client | None = None
        self._process = 0

    def collect(self) -> Values:
        """See `Collector.collect`."""
        refuse_inside(f"{self.metric} is read from {type(self).__name__}")
        return self.read()

    @abstractmethod
    def read(self) -> Values:
        """One bounded read. Raises SourceLost where nobody answers, CollectorError for what a person must change."""

    def connect(self) -> Client:
        """A new client, with time-outs; for sources that keep one."""
        raise NotImplementedError

    def client(self) -> Client:
        """The client of this process: one that came through a fork would share its connection with the parent."""
        if self._client is None or self._process != os.getpid():
            self._client, self._process = self.connect(), os.getpid()
        return self._client

    def close(self) -> None:
        """Ends the connection of this process; the next read makes a new one."""
        client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            self.disconnect(client)

    def disconnect(self, client: Client) -> None:
        """Ends the connection of a client."""
        client.close()  # type: ignore[attr-defined]  # of every client library that is used here

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metric!r})"


def targets(keys: str | Mapping[Any, str], resource: str, what: str) -> dict[Target, str]:
    """Target → what to read there: one for `resource`, or as the mapping says. Raises ValueError."""
    if not isinstance(keys, str) and resource:
        raise ValueError(f"resource is {resource!r}, but the mapping in {what} names resources; leave one of them out")
    found: dict[Any, str] = {resource: keys} if isinstance(keys, str) else dict(keys)
    if not found or not all(found.values()):
        raise ValueError(f"{what} is empty; write what to read, or a mapping of resource to what to read")
    try:
        for target in found:
            parts_of(target)
    except CollectorError as error:
        raise ValueError(f"{what}: {error}") from error
    return found


def library(name: str, extra: str) -> ModuleType:
    """A client library. Raises CollectorError that says what to install."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CollectorError(
            f"the library {name} is not installed; pip install 'sentinel-control-plane[{extra}]'"
        ) from error


def secretless(error: BaseException, *secrets: Any) -> str:
    """What an error says, on one line, without these secrets, shortened."""
    words = " ".join(str(error).split()) or type(error).__name__
    for secret in secrets:
        if secret:
            words = words.replace(str(secret), "***")
    return words if len(words) <= 300 else f"{words[:300]}…"

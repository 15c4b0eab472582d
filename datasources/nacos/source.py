"""`nacos://`: one dataId a kind, with its provenance in a dataId beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec

from sentinel_core.datasources.contract import (
    Absent,
    Item,
    Reading,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
    Wake,
)
from sentinel_core.datasources.forks import renew_lock_after_fork
from sentinel_core.datasources.nacos.keys import keys_of
from sentinel_core.datasources.nacos.target import Target
from sentinel_core.datasources.nacos.transport import Transport, Value
from sentinel_core.rules import Kind, Revision, SourceText


class NacosSource:
    """Items: one a kind. No I/O until the first read."""

    retry_cap_s = 1.5

    def __init__(
        self,
        target: Target,
        *,
        kind: Kind | None = None,
        template: str | None = None,
        environment: str = "default",
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.uri = f"nacos://{','.join(target.servers)}/{target.namespace}?group={target.group}"
        self._keys = keys_of(target, template, kind, self.uri, environment)
        self._target = target
        self._monotonic = monotonic
        self._now = now
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._opened: Transport | None = None
        self._closed = False

    def items(self, kinds: Sequence[Kind]) -> Sequence[Item]:
        return self._keys.items(kinds)

    def _transport(self) -> Transport:
        with self._lock:
            if self._closed:
                raise SourceUnavailable(f"{self.uri} was closed here")
            if self._opened is None:
                self._opened = _open_transport(self._target, self._monotonic)
            return self._opened

    def read(self, item: Item) -> Reading:
        value = self._transport().get(item.key) or self._transport().get(item.key)
        if value is None:
            return Absent(f"{item.key} is missing")
        return Revision((SourceText(item.key, value.content, "json"),), item.source, version_of(value))

    def watch(self, item: Item, seen: Reading | None, wake: Wake, stop: StopSignal) -> None:
        seen_md5 = md5_of(seen.version) if isinstance(seen, Revision) else None
        self._transport().watch(item.key, seen_md5, wake, stop)

    def close(self) -> None:
        """Ends running calls and watches. The source cannot be used after it."""
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


def version_of(value: Value) -> str:
    """`<ms>-<md5>`: the time tells A→B today from A→B tomorrow."""
    return f"{value.modified_ms}-{value.md5}"


def md5_of(version: str) -> str:
    return version.rpartition("-")[2]


def _open_transport(target: Target, monotonic: Callable[[], float]) -> Transport:
    wanted = target.transport or ("grpc" if find_spec("v2") and find_spec("v2.nacos") else "http")
    raise SourceMisconfigured(f"nacos: {wanted} is not built yet ({monotonic()})")

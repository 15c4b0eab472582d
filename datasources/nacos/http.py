"""The transport that needs nothing but the standard library.

Nacos 3 tells nothing by HTTP of its own accord, so it is asked again and again; servers before hold back an answer
until something changes.
"""

from __future__ import annotations

import time

from sentinel_core.datasources.contract import DatasourceError, SourceDenied, StopSignal, Wake
from sentinel_core.datasources.nacos.api import Api
from sentinel_core.datasources.nacos.transport import Value
from sentinel_core.datasources.nacos.wire import ALIVE_S

_LIGHT = 2**20
"""Bytes. What is larger is asked for less often, in proportion, and waited for longer."""
_SPURIOUS_S = 0.1


class HttpTransport:
    """See `Transport`."""

    def __init__(self, api: Api, interval_s: float) -> None:
        self._api = api
        self._interval_s = interval_s

    def get(self, data_id: str) -> Value | None:
        value = self._api.get(data_id)
        if value is None or self._api.generation() == 3:
            return value
        try:  # servers before 3 tell the second of a change, and only their databases more
            stored = self._api.stored(data_id)
        except DatasourceError:
            return value
        return stored if stored is not None and stored.md5 == value.md5 else value

    def publish(self, data_id: str, content: bytes, cas_md5: str | None) -> bool:
        if cas_md5 is None or self._api.generation() == 3:
            return self._api.publish(data_id, content, cas_md5)
        return _compared(self._api, data_id, content, cas_md5)

    def remove(self, data_id: str) -> None:
        self._api.remove(data_id)

    def watch(self, data_id: str, seen_md5: str | None, wake: Wake, stop: StopSignal) -> None:
        seen = seen_md5
        holds = self._api.generation() == 1
        weight = 1.0
        while not stop.is_set():
            if holds:
                began = time.monotonic()
                try:
                    if not self._api.changed(data_id, seen, stop):
                        # One that holds nothing back, such as a proxy, is asked as one that cannot.
                        stop.wait(max(0.0, began + self._interval_s - time.monotonic()))
                        continue
                except SourceDenied:  # who may read may not listen where rights are given by dataId
                    holds = False
            value = self._api.get(data_id, ALIVE_S * weight)
            weight = max(1.0, len(value.content) / _LIGHT) if value else 1.0
            if (stands := value.md5 if value else None) != seen:
                seen = stands
                wake()
            elif holds:
                stop.wait(_SPURIOUS_S)
            if not holds:
                stop.wait(self._interval_s * weight)

    def close(self) -> None:
        self._api.client.close()


def _compared(api: Api, data_id: str, content: bytes, cas_md5: str) -> bool:
    """Compare-and-set for servers that have none over HTTP: the history, which their database writes in one transaction
    with each content, tells whether somebody else wrote between the look and the write. Whoever finds that gives way,
    and puts back what it wrote over."""
    # In this order: what somebody writes between the two is then seen by one of them.
    newest = next(iter(api.entries(data_id, 1, 1)), None)
    before = api.stored(data_id)
    if before is not None and before.md5 != cas_md5:
        return False
    if not api.publish(data_id, content, None):
        return False
    since = [each for each in api.entries(data_id, 1, 20) if newest is None or each.number > newest.number]
    if len(since) <= 1:
        return True
    if since[0].operation == "U" and (theirs := api.recorded(data_id, since[0].number)) != content:
        stands = api.stored(data_id)
        if stands is not None and stands.content == content and (before is None or theirs != before.content):
            api.publish(data_id, theirs, None)
    return False

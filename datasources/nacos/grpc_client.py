"""What is asked of Nacos over gRPC: one connection at a time, made when it is needed, given up when it is lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from sentinel_core.datasources.contract import DatasourceError, SourceDenied, SourceUnavailable
from sentinel_core.datasources.nacos import grpc_sdk as sdk
from sentinel_core.datasources.nacos.api import md5_of
from sentinel_core.datasources.nacos.grpc_errors import (
    LinkLost,
    explain,
    is_busy,
    is_conflict,
    is_missing,
    refusal,
    wants_login,
)
from sentinel_core.datasources.nacos.grpc_link import Link
from sentinel_core.datasources.nacos.grpc_watch import Watches
from sentinel_core.datasources.nacos.target import Target
from sentinel_core.datasources.nacos.transport import Value
from sentinel_core.datasources.quoting import quoted

_HANDSHAKE_S = 2.0
"""A connection on which nothing comes back so soon is half-open, or its server frozen."""
_REST_S = 0.5
"""After a failure the next one to ask is told the same, so that many items do not try one dead server each."""
_LEAST_S = 0.05
_LOOKS, _LOOK_S = 8, 0.03
"""While a change is written, Nacos 3 refuses to read."""
_CLOSED = "nacos: this source was closed"


class Token(Protocol):
    """The access token to show; None where there is no login."""

    def __call__(self, *, renew: bool = False) -> str | None:
        """`renew`: it was refused, so log in anew. Blocks, bounded; raises DatasourceError."""


class Client:
    """Of one process. Thread-safe; every method raises DatasourceError alone and is bounded by the time-out."""

    def __init__(self, target: Target, monotonic: Callable[[], float], token: Token) -> None:
        self.pid = os.getpid()
        self._token = token
        self.watches = Watches(self._beat)
        self._target = target
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._link: Link | None = None
        self._opening: Link | None = None
        self._turn = 0
        """Counts servers given up; the next one is tried."""
        self._rest: tuple[float, DatasourceError] | None = None
        """Until when nobody is tried, and why."""
        self._closed = False

    # -- requests ----------------------------------------------------------------------------------------------------

    def get(self, data_id: str) -> Value | None:
        request = sdk.ConfigQueryRequest(**self._where(data_id))
        request.put_header("notify", "False")
        deadline = self._deadline()
        for _ in range(_LOOKS):
            answer = self._ask_any(request, deadline)
            if not is_busy(answer):
                break
            time.sleep(_LOOK_S)
        else:
            raise SourceUnavailable(f"nacos: {data_id} cannot be read: {quoted(answer.message)}")
        found = _value(answer) if _part(answer, "content") and not is_missing(answer) else None
        self.watches.was_read(data_id, found.md5 if found else "")
        return found

    def publish(self, data_id: str, content: str, cas_md5: str | None) -> bool:
        request = sdk.ConfigPublishRequest(**self._where(data_id), content=content, casMd5=cas_md5 or "")
        request.additionMap |= {"type": "json", "src_user": self._target.user or ""}
        return not is_conflict(self._ask(request, self._deadline()))

    def remove(self, data_id: str) -> None:
        self._ask(sdk.ConfigRemoveRequest(**self._where(data_id)), self._deadline())

    def _beat(self, md5s: dict[str, str], timeout_s: float) -> list[str]:
        """Registers what is watched, and returns the dataIds whose md5 on the server is another one."""
        # Rights are judged by the group and namespace of the request, not by those in it.
        request = sdk.ConfigBatchListenRequest(group=self._target.group, dataId="", tenant=self._target.tenant)
        for data_id, read in md5s.items():
            request.configListenContexts.append(sdk.ConfigListenContext(**self._where(data_id), md5=read))
        try:
            answer = self._ask(request, self._monotonic() + min(timeout_s, self._target.timeout_s))
        except SourceDenied:  # Nacos 2 lets nobody listen who has a right to one group; he may read it
            return [data_id for data_id, read in md5s.items() if self._md5(data_id) != read]
        return [changed.dataId for changed in _part(answer, "changedConfigs")]

    def _md5(self, data_id: str) -> str:
        value = self.get(data_id)
        return value.md5 if value else ""

    def _where(self, data_id: str) -> dict[str, str]:
        return {"dataId": data_id, "group": self._target.group, "tenant": self._target.tenant}

    def _deadline(self) -> float:
        return self._monotonic() + self._target.timeout_s

    def _ask_any(self, request: Any, deadline: float) -> Any:
        """What only reads may be asked of the next server where one is lost."""
        failures: list[LinkLost] = []
        while True:
            servers = len(self._target.servers) - len(failures)
            try:
                return self._ask(request, deadline, servers)
            except LinkLost as lost:
                failures.append(lost)
                if self._rest is not None or servers <= 1:  # no server could be reached, or none is left
                    raise _joined(failures) from lost

    def _ask(self, request: Any, deadline: float, shares: int = 1) -> Any:
        """An answer that says yes, that nothing is there, or that something else is. It may take its share of the time
        that is left."""
        link = self._connected(deadline)
        timeout_s = self._left(deadline) / shares
        try:
            answer = link.ask(request, self._token(), timeout_s)
            if wants_login(answer) and self._target.user:
                answer = link.ask(request, self._token(renew=True), self._left(deadline) / shares)
        except Exception as error:
            raise self._given_up(link, explain(error, link.server, self._target, timeout_s)) from error
        refused = refusal(answer, link.server, self._target)
        if refused is not None:
            raise self._given_up(link, refused)
        return answer

    def _left(self, deadline: float) -> float:
        return max(_LEAST_S, deadline - self._monotonic())

    # -- connection --------------------------------------------------------------------------------------------------

    def _connected(self, deadline: float) -> Link:
        if not self._connecting.acquire(timeout=self._left(deadline)):
            raise SourceUnavailable(f"nacos did not answer in time ({self._target.timeout_s:g} s)")
        try:
            self._check_open()
            if self._link is None or self._link.ended:
                if self._rest is not None and self._monotonic() < self._rest[0]:
                    raise type(self._rest[1])(str(self._rest[1]))
                self._link = self._connect(deadline)
                self._rest = None
                self._check_open()  # it may have been closed meanwhile
            return self._link
        finally:
            self._connecting.release()

    def _check_open(self) -> None:
        if self._closed:
            self.close()
            raise SourceUnavailable(_CLOSED)

    def _connect(self, deadline: float) -> Link:
        servers, failures = self._target.servers, list[DatasourceError]()
        while len(failures) < len(servers):
            server, link = servers[self._turn % len(servers)], None
            timeout_s = min(_HANDSHAKE_S, self._left(deadline) / (len(servers) - len(failures)))
            try:
                self._check_open()
                link = Link(server, self._target, self._monotonic, lost=self._lost, notified=self.watches.tell)
                self._opening = link
                link.open(timeout_s)
                return link  # noqa: TRY300 - the loop ends here
            except Exception as error:  # noqa: BLE001 - the library raises its own, gRPC's and Python's
                failures.append(explain(error, server, self._target, timeout_s))
                self._turn += 1
                if link is not None:
                    link.close()
        why = _joined(failures)
        self._rest = (self._monotonic() + _REST_S, why)
        raise why

    def _lost(self, link: Link, why: str) -> None:
        self._given_up(link, LinkLost(f"nacos {link.server} (gRPC): {why}"))

    def _given_up(self, link: Link, why: DatasourceError) -> DatasourceError:
        """Others may use the link at this moment: their calls end, too, and they come back on the next one."""
        if isinstance(why, LinkLost):
            with self._lock:
                current = self._link is link
                if current:
                    self._link = None
                    self._turn += 1
            link.close()
            if current:
                self.watches.end(why)
        return why

    def close(self) -> None:
        self._closed = True
        with self._lock:
            links, self._link = (self._link, self._opening), None
        for link in links:
            if link is not None:
                link.close()
        self.watches.end(SourceUnavailable(_CLOSED))


def _part(answer: Any, name: str) -> Any:
    """Of an answer that may be one to another question."""
    try:
        return getattr(answer, name)
    except AttributeError:
        raise SourceUnavailable(f"nacos answered with a {type(answer).__name__}, which holds no {name}") from None


def _value(answer: Any) -> Value:
    # Half a character is handed on as it is: whoever parses it says so.
    content = answer.content.encode("utf-8", "surrogatepass")
    return Value(content, md5_of(content, answer.md5), answer.lastModified or 0)


def _joined(failures: list[Any]) -> DatasourceError:
    """One error for all servers that were tried, of the kind of the last."""
    joined: DatasourceError = type(failures[-1])("; ".join(dict.fromkeys(map(str, failures))))
    return joined

"""What Nacos is asked over HTTP, in the words of version 3 and in those of the versions before."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
)
from sentinel_core.datasources.layout import check_size
from sentinel_core.datasources.nacos.client import Client, document, not_nacos, says
from sentinel_core.datasources.nacos.transport import Value
from sentinel_core.datasources.nacos.wire import STOPPED, Answer
from sentinel_core.datasources.quoting import quoted

HOLD_S = 10.0
"""How long a server before version 3 holds back "nothing has changed"; it takes no less."""
_NOTHING, _CONFLICT, _NO_NAMESPACE = 20004, 20005, 22001
_FORM_BYTES = 2**20
"""Of less than this no server cuts off a form; of more it then misses the parameters."""
_TRIES, _TRY_AGAIN_S = 20, 0.05
_CONFIG = {3: "/v3/client/cs/config", 1: "/v1/cs/configs"}
_ADMIN = {3: "/v3/admin/cs/config", 1: "/v1/cs/configs"}
_MD5 = re.compile("[0-9a-f]{32}")
_LONGEST_NAME = 200
_LAST_MS = 253_402_300_800_000
"""The end of the year 9999."""


class Entry(NamedTuple):
    """A line of the history that Nacos keeps of a dataId."""

    number: int
    """Grows with time, over all dataIds."""
    time_ms: int
    user: str | None
    address: str | None
    """Of whoever wrote."""
    operation: str
    """`I` (created), `U` or `D`."""


class Api:
    """Thread-safe; every call raises DatasourceError alone and is bounded by the target's time-out."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._target = client.target

    def generation(self, timeout_s: float | None = None) -> int:
        """3, or 1 for the servers before."""
        return self.client.generation(timeout_s)

    # -- contents ----------------------------------------------------------------------------------------------------

    def get(self, data_id: str, timeout_s: float | None = None) -> Value | None:
        """From the server's memory: what a publish has just written may not be there yet."""
        generation = self.generation()
        for _ in range(_TRIES):
            answer = self._call("GET", _CONFIG[generation], self._names(data_id, generation), timeout_s=timeout_s)
            if answer.status != 409 and document(answer).get("code") != _CONFLICT:
                break
            time.sleep(_TRY_AGAIN_S)  # it is being written at this moment
        if generation == 1:
            return self._value_of_1(data_id, answer)
        data = self._object(answer)
        return self._value(data_id, data, data.get("lastModified")) if data and data.get("content") else None

    def _value_of_1(self, data_id: str, answer: Answer) -> Value | None:
        if answer.status == 404 and answer.body.startswith(b"config data not exist"):
            return None
        if answer.status != 200:
            raise self._refused(answer)
        if not answer.body:
            return None
        check_size(len(answer.body), data_id)
        try:
            seconds = parsedate_to_datetime(answer.headers.get("last-modified", "")).timestamp()
        except (ValueError, OverflowError):
            seconds = 0
        return Value(answer.body, md5_of(answer.body, answer.headers.get("content-md5")), int(seconds) * 1000)

    def stored(self, data_id: str) -> Value | None:
        """From the server's database: what was written last, with the time to the millisecond."""
        generation = self.generation()
        asked = self._names(data_id, generation) | ({} if generation == 3 else {"show": "all"})
        answer = self._call("GET", _ADMIN[generation], asked)
        data = self._object(answer) if generation == 3 else _found_by_1(answer, self._refused)
        return self._value(data_id, data, data.get("modifyTime")) if data and data.get("content") else None

    def publish(self, data_id: str, content: bytes, cas_md5: str | None) -> bool:
        """Servers before 3 pass over `cas_md5`."""
        generation = self.generation()
        form = self._names(data_id, generation) | {"content": content, "type": "json"}
        headers = {"casMd5": cas_md5} if cas_md5 else None
        answer = self.client.call("POST", _ADMIN[generation], form=form, headers=headers)
        if answer.status == 400 and "parameter" in says(answer).lower() and len(content) > _FORM_BYTES:
            raise SourceMisconfigured(
                f"nacos takes no {len(content) / 2**20:.1f} MiB over HTTP: a form of so many bytes is cut off; start "
                "it with a larger server.tomcat.max-http-form-post-size (2 MB by default), publish over gRPC "
                "(&transport=grpc), or split the rules over apps"
            )
        if generation == 3:
            return document(answer).get("code") != _CONFLICT and self._data(answer) is not None
        if answer.status != 200:
            raise self._refused(answer)
        return answer.body.strip() == b"true"

    def remove(self, data_id: str) -> None:
        generation = self.generation()
        answer = self._call("DELETE", _ADMIN[generation], self._names(data_id, generation))
        if generation == 3:
            self._data(answer)
        elif answer.status != 200:
            raise self._refused(answer)

    def changed(self, data_id: str, seen_md5: str | None, stop: StopSignal) -> bool:
        """Servers before 3 alone: waits until something else stands there than what was seen, at most `HOLD_S`."""
        tenant = f"\x02{self._target.tenant}" if self._target.tenant else ""
        form = {"Listening-Configs": f"{data_id}\x02{self._target.group}\x02{seen_md5 or ''}{tenant}\x01"}
        # The names stand in the query, too: it is by these that the server looks whether this is permitted.
        answer = self.client.call(
            "POST",
            "/v1/cs/configs/listener",
            self._names(data_id, 1),
            form,
            headers={"Long-Pulling-Timeout": str(int(HOLD_S * 1000))},
            timeout_s=HOLD_S + self._target.timeout_s,
            held=stop,
        )
        if answer.status not in (200, STOPPED):
            raise self._refused(answer)
        return bool(answer.body.strip())

    # -- namespaces --------------------------------------------------------------------------------------------------

    def lacks_namespace(self) -> bool:
        """Whether the server says that there is no such namespace. Where it may not or cannot be asked, False."""
        if not self._target.tenant:
            return False
        try:
            if self.generation() == 3:
                asked = {"namespaceId": self._target.namespace}
                answer = self._call("GET", "/v3/admin/core/namespace", asked)
                return document(answer).get("code") == _NO_NAMESPACE
            answer = self._call("GET", "/v1/console/namespaces")
            listed = document(answer).get("data") if answer.status == 200 else None
        except DatasourceError:
            return False
        ids = {each.get("namespace") for each in listed if isinstance(each, dict)} if isinstance(listed, list) else None
        return ids is not None and self._target.tenant not in ids

    # -- the server --------------------------------------------------------------------------------------------------

    def server(self) -> tuple[str | None, datetime | None]:
        """Its version, None where it does not tell; its clock, to the second."""
        answer = self._call("GET", "/v3/admin/core/state" if self.generation() == 3 else "/v1/console/server/state")
        told = document(answer) if answer.status == 200 else {}
        state = told.get("data") if isinstance(told.get("data"), dict) else told
        version = state.get("version") if isinstance(state, dict) else None
        try:
            clock = parsedate_to_datetime(answer.headers.get("date", "")).astimezone(UTC)
        except ValueError:
            clock = None
        return (version if isinstance(version, str) else None), clock

    # -- history -----------------------------------------------------------------------------------------------------

    def entries(self, data_id: str, page: int, size: int, timeout_s: float | None = None) -> list[Entry]:
        """Newest first; `page` counts from 1, `size` is at most 500."""
        generation = self.generation(timeout_s)
        asked = self._names(data_id, generation) | {"pageNo": str(page), "pageSize": str(size)}
        if generation == 3:
            data = self._object(self._call("GET", "/v3/admin/cs/history/list", asked, timeout_s=timeout_s))
        else:
            answer = self._call("GET", "/v1/cs/history", asked | {"search": "accurate"}, timeout_s=timeout_s)
            data = _found_by_1(answer, self._refused)
        found = data.get("pageItems") if data else None
        items = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        entries = (_entry(each) for each in items if (each.get("publishType") or "formal") == "formal")
        return [each for each in entries if each is not None]

    def recorded(self, data_id: str, number: int) -> bytes:
        """The content that an entry holds: of `I` the one that came, of `U` and `D` the one that went."""
        generation = self.generation()
        asked = self._names(data_id, generation) | {"nid": str(number)}
        if generation == 3:
            data = self._object(self._call("GET", "/v3/admin/cs/history", asked))
        else:
            data = _found_by_1(self._call("GET", "/v1/cs/history", asked), self._refused)
        return str((data or {}).get("content") or "").encode("utf-8", "surrogatepass")

    # -- how it is asked ---------------------------------------------------------------------------------------------

    def _names(self, data_id: str, generation: int) -> dict[str, Any]:
        target = self._target
        if generation == 3:
            return {"namespaceId": target.namespace, "groupName": target.group, "dataId": data_id}
        return {"tenant": target.tenant, "group": target.group, "dataId": data_id}

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float | None = None
    ) -> Answer:
        return self.client.call(method, path, query, timeout_s=timeout_s)

    def _data(self, answer: Answer) -> Any:
        """The `data` of an answer of version 3; None for nothing there."""
        found = document(answer)
        if found.get("code") == _NOTHING:
            return None
        if answer.status != 200 or found.get("code") != 0:
            raise self._refused(answer)
        return found.get("data")

    def _object(self, answer: Answer) -> dict[str, Any] | None:
        """As `_data`, where that is an object."""
        data = self._data(answer)
        if data is not None and not isinstance(data, dict):
            raise self._no_nacos(Answer(answer.status, b"another shape of data"))
        return data

    def _value(self, data_id: str, data: Mapping[str, Any], modified: Any) -> Value:
        if data.get("encryptedDataKey"):
            raise SourceMisconfigured(f"{data_id} is encrypted by a plugin of Nacos; publish it without")
        if not isinstance(data["content"], str):
            raise self._no_nacos(Answer(200, b"a content that is no text"))
        content = data["content"].encode("utf-8", "surrogatepass")
        check_size(len(content), data_id)
        return Value(content, md5_of(content, data.get("md5")), _milliseconds(modified))

    def _refused(self, answer: Answer) -> DatasourceError:
        where = ", ".join(self._target.servers)
        if answer.status == 404 or not answer.body:
            return self._no_nacos(answer)
        if answer.status >= 500 or answer.status == 409:
            return SourceUnavailable(f"nacos {where} cannot do it now: {says(answer)}")
        return SourceMisconfigured(f"nacos {where} refuses the request: {says(answer)}")

    def _no_nacos(self, answer: Answer) -> DatasourceError:
        self.client.forget_generations()
        return not_nacos(", ".join(self._target.servers), answer)


def md5_of(content: bytes, told: object) -> str:
    """As the server tells it, where that is one."""
    return told if isinstance(told, str) and _MD5.fullmatch(told) else md5(content)


def md5(content: bytes) -> str:
    """As Nacos tells contents apart."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _found_by_1(answer: Answer, refused: Any) -> dict[str, Any] | None:
    """An object; None for nothing there, which servers before 3 tell by an empty answer or an error of their own."""
    if answer.status == 404 or (answer.status == 200 and not answer.body.strip()):
        return None
    if answer.status != 200:
        raise refused(answer)
    return document(answer) or None


def _entry(found: Mapping[str, Any]) -> Entry | None:
    """None for what is none: nothing that a history says may keep rules from being read."""
    try:
        number, operation = int(found["id"]), str(found["opType"]).strip()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    moment = found.get("modifyTime") or found.get("lastModifiedTime")
    return Entry(number, _milliseconds(moment), _name(found.get("srcUser")), _name(found.get("srcIp")), operation)


def _name(found: object) -> str | None:
    return quoted(found, _LONGEST_NAME) if isinstance(found, str) and found else None


def _milliseconds(moment: object) -> int:
    """0 for what is no time."""
    try:
        if isinstance(moment, str) and not moment.isdecimal():
            return int(datetime.fromisoformat(moment).astimezone(UTC).timestamp() * 1000)
        found = int(moment) if isinstance(moment, int | float | str) and math.isfinite(float(moment)) else 0
    except (ValueError, OverflowError):
        return 0
    return found if 0 <= found < _LAST_MS else 0

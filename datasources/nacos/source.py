"""`nacos://`: one dataId a kind, with its provenance in a dataId beside it.

Neither servers nor client libraries are believed: an absence is read twice, and a write is read back, because servers
acknowledge what they have not written.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice

from sentinel_core.datasources.contract import (
    Absent,
    Condition,
    DatasourceError,
    Item,
    Reading,
    SourceConflict,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
    Wake,
    Written,
    note_conflict,
)
from sentinel_core.datasources.nacos.api import Api, md5
from sentinel_core.datasources.nacos.client import Client
from sentinel_core.datasources.nacos.history import at, editor, history, same_version, version_of
from sentinel_core.datasources.nacos.http import HttpTransport
from sentinel_core.datasources.nacos.keys import keys_of, provenance_of
from sentinel_core.datasources.nacos.target import Target
from sentinel_core.datasources.nacos.transport import Transport, Value
from sentinel_core.datasources.names import is_blank
from sentinel_core.datasources.provenance import decode, encode, rules_digest
from sentinel_core.locks import renew_lock_after_fork
from sentinel_core.rules import Kind, Provenance, Revision, SourceText

_MOST_BYTES = 10 * 2**20 - 2**14
"""Of a content in the JSON in which gRPC carries it: what is longer, other clients could not read."""
_READABLE_S = 5.0
"""So long after an acknowledged write it is waited until it can be read."""
_SETTLED_S = 2.0
"""So long a content is read again that comes with the md5 and the time of the one before."""
_LOOK_S = 0.02
_NOTHING_MD5 = md5(b"")
"""No content that can stand there has it: a compare-and-set with it succeeds where nothing stands, and only there."""


class NacosSource:
    """Items: one a kind. No I/O until the first read; connections are made anew in a forked child."""

    retry_cap_s = 1.0

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
        self._api = Api(Client(target, monotonic))
        self._opened: Transport | None = None
        self._closed = False
        self._edits: dict[str, tuple[Value, Provenance]] = {}
        """Who made the console edit that stands under a dataId: asked for once."""
        self._odd: dict[str, Value] = {}
        """What stood with an md5 of something else all the time that was waited: not waited for again."""

    def items(self, kinds: Sequence[Kind]) -> Sequence[Item]:
        return self._keys.items(kinds)

    def _transport(self) -> Transport:
        with self._lock:
            if self._closed:
                raise SourceUnavailable(f"{self.uri} was closed here")
            if self._opened is None:
                self._opened = _open_transport(self._target, self._api, self._monotonic)
            return self._opened

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, item: Item) -> Reading:
        value = self._value(item.key)
        if value is None:
            if self._api.lacks_namespace():
                return Absent(f"missing: there is no namespace {self._target.namespace}; the console lists their ids")
            return Absent(f"{item.key} is missing")
        return self._revision(item, value)

    def _value(self, data_id: str) -> Value | None:
        """While a change is written, Nacos 2 shows the new content with the md5 and the time of the old one."""
        deadline = self._monotonic() + _SETTLED_S
        while True:
            value = self._seen(data_id)
            if value is None or value.md5 == md5(value.content) or value == self._odd.get(data_id):
                return value
            if self._monotonic() >= deadline:
                self._odd[data_id] = value
                return value
            time.sleep(_LOOK_S)

    def _seen(self, data_id: str) -> Value | None:
        """One reading of nothing counts for nothing."""
        return self._transport().get(data_id) or self._transport().get(data_id)

    def _revision(self, item: Item, value: Value) -> Revision:
        texts = (SourceText(item.key, value.content, "json"),)
        version = version_of(value.md5, value.modified_ms)
        return Revision(texts, item.source, version, self._provenance(item, texts, value))

    def _provenance(self, item: Item, texts: tuple[SourceText, ...], value: Value) -> Provenance:
        """It counts if it carries the digest of the rules beside it. If not, somebody has edited those by hand."""
        digest = rules_digest(texts, item.kinds[0])
        if (told := self._told(item, digest)) is not None:
            return told
        edit = self._edits.get(item.key)
        if edit is not None and edit[0] == value:
            return edit[1]
        edited = editor(self._api, item.key, value.modified_ms)
        if (told := self._told(item, digest)) is not None:  # another server may have been behind
            return told
        self._edits[item.key] = (value, edited)
        return edited

    def _told(self, item: Item, digest: str | None) -> Provenance | None:
        beside = self._transport().get(provenance_of(item.key))
        found = decode(beside.content) if beside else None
        return found[0] if found and digest is not None and found[1] == digest else None

    def watch(self, item: Item, seen: Reading | None, wake: Wake, stop: StopSignal) -> None:
        seen_md5 = md5(seen.texts[0].content) if isinstance(seen, Revision) and seen.texts else None
        self._transport().watch(item.key, seen_md5, wake, stop)

    def inspect(self, item: Item) -> Condition:  # noqa: ARG002 - of the contract
        """Whether this caller may write shows itself only when it writes."""
        version, clock = self._api.server()
        transport = "HTTP" if isinstance(self._transport(), HttpTransport) else "gRPC"
        return Condition(f"Nacos {version} over {transport}" if version else f"Nacos over {transport}", clock)

    # -- history -----------------------------------------------------------------------------------------------------

    def history(self, item: Item, *, limit: int = 50) -> Sequence[Revision]:
        """As long as Nacos keeps it, 30 days by default; newest first, across deletions. Asked over HTTP."""
        return list(islice(history(self._api, item, self._value(item.key)), limit))

    def at(self, item: Item, version: str) -> Reading:
        """`version` as a revision has it, or the beginning of an md5."""
        return at(self._api, item, self._value(item.key), version)

    # -- writing -----------------------------------------------------------------------------------------------------

    def same_version(self, one: str, other: str) -> bool:
        """See `LooseVersions`."""
        return same_version(one, other)

    def write(
        self, item: Item, texts: Sequence[SourceText], *, expected: str | None, provenance: Provenance
    ) -> Written:
        """First the provenance, to which the time is added, then the content; empty `texts` remove both. Of several who
        write at once, whoever is first with the provenance goes on; the others are told SourceConflict.

        SourceUnavailable leaves open whether it was carried out.
        """
        content = self._checked(item, texts)
        standing, beside = self._value(item.key), self._value(provenance_of(item.key))
        self._check_expected(item, standing, expected)
        if self._api.lacks_namespace():
            raise SourceMisconfigured(
                f"{self.uri}: there is no namespace {self._target.namespace}, though Nacos would take the rules; make "
                "it in the console, or name the id of one that is there"
            )
        provenance = replace(provenance, published_at=provenance.published_at or self._now())
        mark = encode(provenance, rules_digest(texts, item.kinds[0]) if texts else None)
        self._put(item, provenance_of(item.key), mark, beside)
        try:
            if content is None:
                self._remove(item.key)
                self._remove(provenance_of(item.key))
                return Written("", ())
            written = self._put(item, item.key, content, standing)
        except (SourceConflict, SourceDenied, SourceMisconfigured):  # it was not written
            self._put_back(provenance_of(item.key), mark, beside)
            raise
        self._check_mark(item, mark)
        found = self._revision(item, written)
        return Written(found.version, found.texts)

    def _checked(self, item: Item, texts: Sequence[SourceText]) -> bytes | None:
        if len(texts) > 1:
            raise SourceMisconfigured(f"{item.source} is one dataId and cannot take {len(texts)} texts; write one list")
        if not texts:
            return None
        content = texts[0].content
        if is_blank(content):
            raise SourceMisconfigured(f"{item.source}: Nacos takes no blank content; write [] to clear the rules")
        try:
            size = len(json.dumps(content.decode("utf-8"), ensure_ascii=False).encode())
        except UnicodeDecodeError as error:
            raise SourceMisconfigured(f"{item.source}: Nacos keeps text, and this is not UTF-8 ({error})") from error
        if size > _MOST_BYTES:
            raise SourceMisconfigured(
                f"{item.source}: {size / 2**20:.1f} MiB of JSON are more than the 10 MiB that Nacos sends to its "
                "clients; split the rules over apps, each with a group or namespace of its own"
            )
        return content

    def _check_expected(self, item: Item, standing: Value | None, expected: str | None) -> None:
        stands = version_of(standing.md5, standing.modified_ms) if standing else None
        if stands != expected:
            raise SourceConflict(
                f"{item.source} stands at revision {stands or 'absent'}, not at {expected or 'absent'}: it was changed "
                "meanwhile; read it again and repeat the change on top"
            )

    def _put(self, item: Item, data_id: str, content: bytes, before: Value | None) -> Value:
        """Publishes over `before`, and believes nothing but a reading of it."""
        wanted = md5(content)
        if before is not None and before.md5 == wanted:
            return before
        try:
            claimed = self._transport().publish(data_id, content, before.md5 if before else _NOTHING_MD5)
            if not claimed:
                raise self._conflict(item)
            deadline = self._monotonic() + _READABLE_S
            while self._monotonic() < deadline:
                found = self._transport().get(data_id)
                if found is not None and found.md5 == wanted:
                    return found
                if found is not None and (before is None or found.md5 != before.md5):
                    raise self._conflict(item)
                time.sleep(_LOOK_S)
        except SourceUnavailable as error:
            raise SourceUnavailable(f"{error}. Whether it was written is not known: read it again") from error
        raise SourceUnavailable(
            f"{item.source}: Nacos acknowledged the write and does not show it after {_READABLE_S:g} s. Whether it was "
            "written is not known: read it again"
        )

    def _check_mark(self, item: Item, mark: bytes) -> None:
        """Servers before 3 may let two write the provenance where none stood. If both wrote the same rules, they are
        those of the one whose provenance stands; if not, the content has decided, and its provenance is put right."""
        standing = self._value(provenance_of(item.key))
        if standing is not None and standing.content == mark:
            return
        theirs, ours = (decode(each) if each else None for each in (standing and standing.content, mark))
        if theirs is not None and ours is not None and theirs[1] == ours[1]:
            raise self._conflict(item)
        self._transport().publish(provenance_of(item.key), mark, standing.md5 if standing else _NOTHING_MD5)

    # -- notes -------------------------------------------------------------------------------------------------------

    def note(self, item: Item, name: str) -> bytes | None:
        """In a dataId beside the one of the rules."""
        found = self._value(f"{item.key}.{name}")
        return found.content if found else None

    def write_note(self, item: Item, name: str, content: bytes, *, expected: bytes | None, why: str) -> None:  # noqa: ARG002 - Nacos has no place for it
        found = self._value(f"{item.key}.{name}")
        if (found.content if found else None) != expected:
            raise note_conflict(item, name)
        self._put(item, f"{item.key}.{name}", content, found)

    def _conflict(self, item: Item) -> SourceConflict:
        return SourceConflict(f"{item.source} was changed meanwhile; read it again and repeat the change on top")

    def _put_back(self, data_id: str, mark: bytes, before: Value | None) -> None:
        """Where that fails, the mark stays: it fits no content, and so it counts for nothing."""
        try:
            if before is not None:
                self._transport().publish(data_id, before.content, md5(mark))
            elif (stands := self._transport().get(data_id)) is not None and stands.content == mark:
                self._remove(data_id)
        except DatasourceError:
            pass

    def _remove(self, data_id: str) -> None:
        self._transport().remove(data_id)
        deadline = self._monotonic() + _READABLE_S
        while self._seen(data_id) is not None and self._monotonic() < deadline:
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Ends running calls and watches. The source cannot be used after it."""
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
        self._api.client.close()


def _open_transport(target: Target, api: Api, monotonic: Callable[[], float]) -> Transport:
    wanted = target.transport or ("grpc" if _has_sdk() else "http")
    if wanted == "http":
        return HttpTransport(api, target.interval_s)
    from sentinel_core.datasources.nacos.grpc import GrpcTransport

    return GrpcTransport(target, monotonic, api.client.token)


def _has_sdk() -> bool:
    return find_spec("v2") is not None and find_spec("v2.nacos") is not None

"""`etcd://`: one key a kind, with its provenance in a key beside it, both written in one transaction.

Versions are etcd's mod revisions of the content's key. gRPC is imported at the first read.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sentinel_core.datasources.contract import (
    Absent,
    Condition,
    Item,
    Reading,
    SourceConflict,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
    Wake,
    Written,
    note_conflict,
)
from sentinel_core.datasources.etcd.errors import TooLarge
from sentinel_core.datasources.etcd.keys import keys_of, pair
from sentinel_core.datasources.etcd.target import Target
from sentinel_core.datasources.layout import check_size
from sentinel_core.datasources.provenance import decode, encode, rules_digest
from sentinel_core.locks import renew_lock_after_fork
from sentinel_core.rules import Kind, Provenance, Revision, SourceText

if TYPE_CHECKING:
    from sentinel_core.datasources.etcd.store import Store, Value


class EtcdSource:
    """Items: one a kind. No I/O until the first read; connections are made anew in a forked child."""

    retry_cap_s = 1.0

    def __init__(
        self,
        target: Target,
        path: str = "",
        *,
        kind: Kind | None = None,
        template: str | None = None,
        environment: str = "default",
        client: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`path` is `/namespace/group`; `template` replaces the form of the keys; see `keys_of`. `client` is `etcd3` to
        speak through that library."""
        where = "/".join(part for part in path.split("/") if part)
        self.uri = f"etcd://{','.join(target.endpoints)}/{where}".rstrip("/")
        self._keys = keys_of(path, template, kind, self.uri, environment)
        self._target = target
        self._client = client
        self._monotonic = monotonic
        self._now = now
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._opened: Store | None = None
        self._closed = False

    def items(self, kinds: Sequence[Kind]) -> Sequence[Item]:
        return self._keys.items(kinds)

    def _store(self) -> Store:
        with self._lock:
            if self._closed:
                raise SourceUnavailable(f"{self.uri} was closed here")
            if self._opened is None:
                self._opened = _open_store(self._target, self._client, self._monotonic)
            return self._opened

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, item: Item) -> Reading:
        return self._read(item, 0)

    def _read(self, item: Item, revision: int) -> Reading:
        content, provenance = self._store().read(pair(item.key), revision)
        if content is None:
            return Absent(f"{item.key} is missing")
        check_size(len(content.content), item.key)
        texts = (SourceText(item.key, content.content, "json"),)
        return Revision(texts, item.source, str(content.revision), _provenance(item, texts, content, provenance))

    def watch(self, item: Item, seen: Reading | None, wake: Wake, stop: StopSignal) -> None:
        """From the revision of a look of its own: what stands at it and is not `seen` wakes at once, and all that comes
        after it is told. No compaction can fall between, however old `seen` is."""
        key, _ = pair(item.key)
        stands, revision = self._store().look(key)
        if stands != (int(seen.version) if isinstance(seen, Revision) else 0):
            wake()
        for _ in self._store().watch(key, revision + 1, stop):
            wake()

    def admit(self, item: Item, seen: Revision, new: Revision) -> Revision:  # noqa: ARG002 - of the contract
        """etcd's revisions only grow, and reads are linearizable: a smaller one tells of data that were wiped or
        restored. What stands there counts; the event says so."""
        if not (seen.version.isdecimal() and int(new.version) < int(seen.version)):
            return new
        what = f"the store went back from revision {seen.version} to {new.version}: its data were restored or made anew"
        reason = "; ".join(part for part in (what, new.provenance.reason) if part)
        return replace(new, provenance=replace(new.provenance, reason=reason))

    def inspect(self, item: Item) -> Condition:
        from sentinel_core.datasources.etcd.clock import server_clock  # HTTP is loaded by who asks for the time

        store = self._store()
        may_write = store.may_replace(pair(item.key))
        return Condition(f"etcd {store.version()}", server_clock(self._target), may_write)

    # -- history -----------------------------------------------------------------------------------------------------

    def history(self, item: Item, *, limit: int = 50) -> Sequence[Revision]:
        """What etcd has not compacted yet; deletions have no content and are left out."""
        key, _ = pair(item.key)
        newest, _ = self._store().look(key)
        past = self._store().past(key, newest)
        found = (self._read(item, revision) for revision in reversed(past[-limit:]))
        # The oldest one is read at the compaction, where an older version may stand, or the next one already.
        return list({each.version: each for each in found if isinstance(each, Revision)}.values())

    def at(self, item: Item, version: str) -> Reading:
        """`version` is a revision of the store: the item as it stood then."""
        if not (version.isdecimal() and 0 < int(version) < 2**63):
            raise SourceMisconfigured(f"{self.uri}: {version} is not a revision of etcd; those are whole numbers")
        try:
            return self._read(item, int(version))
        except SourceMisconfigured as error:
            raise SourceMisconfigured(
                f"{self.uri}: there is no revision {version}; etcd keeps old ones until they are compacted ({error})"
            ) from error

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(
        self, item: Item, texts: Sequence[SourceText], *, expected: str | None, provenance: Provenance
    ) -> Written:
        """One transaction for content and provenance, to which the time is added. Empty `texts` removes both.

        SourceUnavailable after the request was sent leaves open whether it was carried out.
        """
        if len(texts) > 1:
            raise SourceMisconfigured(f"{item.source} is one key and cannot take {len(texts)} texts; write one list")
        self._check_expected(item, expected)  # also finds the server that answers
        keys = pair(item.key)
        values: Sequence[bytes | None] = (None, None)
        if texts:
            provenance = replace(provenance, published_at=provenance.published_at or self._now())
            values = (texts[0].content, encode(provenance, rules_digest(texts, item.kinds[0])))
        try:
            revision = self._store().replace(list(zip(keys, values, strict=True)), int(expected or 0))
        except TooLarge as error:
            size = sum(len(value) for value in values if value) / 2**20
            raise SourceMisconfigured(
                f"{item.source}: {size:.1f} MiB are too much for one write, and nothing was written: {error}. Split "
                "the rules over kinds, groups or apps, keep them in Git or files, or raise that limit of every member"
            ) from error
        except SourceUnavailable as error:
            raise SourceUnavailable(f"{error}. Whether it was written is not known: read it again") from error
        if revision is None:
            self._check_expected(item, expected)
            raise SourceConflict(f"{item.source} was changed meanwhile; read it again and repeat the change on top")
        written = self._read(item, revision)
        return Written(str(revision), written.texts if isinstance(written, Revision) else ())

    # -- notes -------------------------------------------------------------------------------------------------------

    def note(self, item: Item, name: str) -> bytes | None:
        """In a key beside the one of the rules."""
        (found,) = self._store().read([f"{item.key}.{name}".encode()])
        return found.content if found else None

    def write_note(self, item: Item, name: str, content: bytes, *, expected: bytes | None, why: str) -> None:  # noqa: ARG002 - etcd has no place for it
        key = f"{item.key}.{name}".encode()
        (found,) = self._store().read([key])
        stands = found.content if found else None
        if stands != expected or self._store().replace([(key, content)], found.revision if found else 0) is None:
            raise note_conflict(item, name)

    def _check_expected(self, item: Item, expected: str | None) -> None:
        current = self.read(item)
        stands = current.version if isinstance(current, Revision) else None
        if stands != expected:
            raise SourceConflict(
                f"{item.source} stands at revision {stands or 'absent'}, not at {expected or 'absent'}: it was changed "
                "meanwhile; read it again and repeat the change on top"
            )

    def close(self) -> None:
        """Ends running calls and watches. The source cannot be used after it."""
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


def _open_store(target: Target, client: str | None, monotonic: Callable[[], float]) -> Store:
    # gRPC's core writes each failed handshake and each fork to stderr; what matters is in the errors that are raised.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from sentinel_core.datasources.etcd.client import Client
        from sentinel_core.datasources.etcd.store import Store
    except ImportError as error:
        raise SourceMisconfigured(
            f"etcd:// needs gRPC ({error}); install it with: pip install 'sentinel-control-plane[etcd]'"
        ) from error
    if client is None:
        return Store(Client(target, monotonic), monotonic)
    from sentinel_core.datasources.etcd.etcd3 import Etcd3Client, Etcd3Store

    return Etcd3Store(Etcd3Client(target, monotonic), monotonic)


def _provenance(item: Item, texts: tuple[SourceText, ...], content: Value, beside: Value | None) -> Provenance:
    """It counts if it was written in one transaction with the content, or carries the digest of the content's rules.
    Beside any other content it is an older one's, left behind by somebody who edited the key by hand."""
    if beside is None:
        return Provenance()
    if (found := decode(beside.content)) is None:
        return Provenance(problem=f"{pair(item.key)[1].decode()} is damaged; remove it, or publish again")
    told, digest = found
    together = beside.revision == content.revision
    if together or (digest is not None and digest == rules_digest(texts, item.kinds[0])):
        return told
    return Provenance(channel="console")

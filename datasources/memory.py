"""`memory://`: a store in this process. For tests, for embedding, and as the twin of the real ones."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sentinel_core.datasources.contract import (
    Absent,
    DatasourceError,
    Item,
    Reading,
    SourceConflict,
    SourceMisconfigured,
    StopSignal,
    Wake,
    Written,
    note_conflict,
)
from sentinel_core.datasources.names import DOCUMENT_NAME, data_id, format_of, kind_of
from sentinel_core.datasources.registry import Scheme, flag
from sentinel_core.datasources.uri import SourceUri
from sentinel_core.locks import renew_lock_after_fork
from sentinel_core.rules import Kind, Provenance, Revision, SourceText


class MemorySource:
    """One key per kind holding a JSON list, as in Nacos and etcd; with `document=True` one YAML document of all kinds.

    `set`, `delete`, `fail`, `recover` and `drop_watches` play the outside world and may be called from any thread.
    """

    def __init__(self, name: str = "", *, document: bool = False, environment: str = "default") -> None:
        self.uri = f"memory://{name}"
        self._document = document
        self._prefix = f"/{environment}/memory/{name or 'local'}"
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._history: dict[str, list[Reading]] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        self._watchers: dict[str, list[threading.Event]] = {}
        self._error: DatasourceError | None = None
        self._last_version = 0
        self._era = 0
        """Counts dropped watches."""

    # -- the outside world ---------------------------------------------------------------------------------------------

    def set(
        self,
        key: str,
        content: str | bytes,
        *,
        version: int | None = None,
        provenance: Provenance | None = None,
    ) -> str:
        """Puts a content under a kind or an item's key; returns its version. `version` plays a late delivery."""
        key = self._key(key)
        data = content.encode() if isinstance(content, str) else content
        with self._lock:
            return self._put_locked(key, (self._text(key, data),), provenance or Provenance(channel="api"), version)

    def delete(self, key: str) -> None:
        key = self._key(key)
        with self._lock:
            self._last_version += 1
            self._history.setdefault(key, []).append(Absent("deleted", str(self._last_version)))
            self._wake_locked(key)

    def fail(self, error: DatasourceError) -> None:
        """Every read and write raises `error`, and every watch ends with it, until `recover`."""
        with self._lock:
            self._error = error
            self._wake_locked()

    def recover(self) -> None:
        with self._lock:
            self._error = None

    def drop_watches(self) -> None:
        """Ends every watch that runs, as a reset stream does. Reads go on."""
        with self._lock:
            self._era += 1
            self._wake_locked()

    # -- datasource ----------------------------------------------------------------------------------------------------

    def items(self, kinds: Sequence[Kind]) -> Sequence[Item]:
        if self._document:
            return (self._item(DOCUMENT_NAME, tuple(kinds)),)
        return tuple(self._item(data_id(kind), (kind,)) for kind in kinds)

    def read(self, item: Item) -> Reading:
        with self._lock:
            return self._read_locked(item)

    def watch(self, item: Item, seen: Reading | None, wake: Wake, stop: StopSignal) -> None:
        changed = threading.Event()
        with self._lock:
            self._watchers.setdefault(item.key, []).append(changed)
            era = self._era
            if self._current_locked(item) != seen:
                changed.set()
        try:
            with stop.wakes(changed.set):
                while True:
                    changed.wait()
                    changed.clear()  # before the look at `stop`: the other way round could lose its wake
                    if stop.is_set():
                        return
                    self._check_channel(era)
                    wake()
        finally:
            with self._lock:
                self._watchers[item.key].remove(changed)

    def close(self) -> None:
        """Nothing is held."""

    def admit(self, item: Item, seen: Revision, new: Revision) -> Revision | None:
        """Versions of another run's store cannot be compared and are let through."""
        with self._lock:
            known = any(reading.version == seen.version for reading in self._history.get(item.key, []))
        return None if known and int(new.version) < int(seen.version) else new

    def write(
        self, item: Item, texts: Sequence[SourceText], *, expected: str | None, provenance: Provenance
    ) -> Written:
        with self._lock:
            current = self._read_locked(item)
            stands = current.version if isinstance(current, Revision) else None
            if stands != expected:
                raise SourceConflict(
                    f"{item.source} stands at version {stands or 'absent'}, not at {expected or 'absent'}; "
                    "read it again and repeat the change on top"
                )
            version = self._put_locked(item.key, tuple(texts), provenance, None)
            return Written(version, tuple(texts))

    def history(self, item: Item, *, limit: int = 50) -> Sequence[Revision]:
        with self._lock:
            readings = self._history.get(item.key, [])
            return [self._owned(reading, item) for reading in reversed(readings) if isinstance(reading, Revision)][
                :limit
            ]

    def at(self, item: Item, version: str) -> Reading:
        with self._lock:
            for reading in reversed(self._history.get(item.key, [])):
                if reading.version == version:
                    return self._owned(reading, item) if isinstance(reading, Revision) else reading
        raise SourceMisconfigured(f"{item.source} has no version {version}")

    # -- notes ---------------------------------------------------------------------------------------------------------

    def note(self, item: Item, name: str) -> bytes | None:
        with self._lock:
            return self._notes.get((item.key, name))

    def write_note(self, item: Item, name: str, content: bytes, *, expected: bytes | None, why: str) -> None:  # noqa: ARG002 - nothing keeps it
        with self._lock:
            if self._notes.get((item.key, name)) != expected:
                raise note_conflict(item, name)
            self._notes[item.key, name] = content

    # -- inside --------------------------------------------------------------------------------------------------------

    def _item(self, key: str, kinds: tuple[Kind, ...]) -> Item:
        return Item(key, f"{self._prefix}/{key}", kinds)

    def _key(self, key: str) -> str:
        if self._document:
            return DOCUMENT_NAME
        return key if kind_of(key) else data_id(key)

    def _text(self, key: str, content: bytes) -> SourceText:
        return SourceText(key, content, format_of(key) if self._document else "json")

    def _owned(self, revision: Revision, item: Item) -> Revision:
        return replace(revision, source=item.source)

    def _read_locked(self, item: Item) -> Reading:
        if self._error is not None:
            raise self._error
        return self._current_locked(item)

    def _current_locked(self, item: Item) -> Reading:
        readings = self._history.get(item.key)
        return readings[-1] if readings else Absent("missing")

    def _put_locked(self, key: str, texts: tuple[SourceText, ...], provenance: Provenance, version: int | None) -> str:
        number = self._last_version + 1 if version is None else version
        self._last_version = max(self._last_version, number)
        revision = Revision(texts, f"{self._prefix}/{key}", str(number), provenance)
        self._history.setdefault(key, []).append(revision)
        self._wake_locked(key)
        return revision.version

    def _wake_locked(self, key: str | None = None) -> None:
        for name, events in self._watchers.items():
            for event in events if key in {None, name} else ():
                event.set()

    def _check_channel(self, era: int) -> None:
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._era != era:
                raise DatasourceError(f"{self.uri}: the watch was reset")


def _open(uri: SourceUri, **options: Any) -> MemorySource:
    return MemorySource(uri.address.removeprefix("memory://"), **options)


SCHEME = Scheme(
    names=("memory",), open=_open, options={"document": flag, "environment": str}, form="memory://name"
)  # fmt: skip

"""Who waits for which dataId, and the one request that keeps it honest.

Every `BEAT_S` all watched dataIds are listened to anew, with the md5 of what was read last. That one request registers
them, tells of changes whose push was lost, and finds out whether anybody is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from sentinel_core.datasources.contract import DatasourceError, SourceUnavailable

BEAT_S = 2.5
ANSWER_S = 2.0
"""A server that does not answer a beat in this time is given up: it is noticed within BEAT_S + ANSWER_S."""
Beat = Callable[[dict[str, str], float], list[str]]
"""(md5 of what was read last, by dataId; longest wait) → the dataIds that hold something else; DatasourceError."""


@dataclass(slots=True, eq=False)
class Watched:
    """Whoever waits for a change of one dataId."""

    told: threading.Event = field(default_factory=threading.Event)
    error: DatasourceError | None = None
    """Why nothing more will be told."""


@dataclass(slots=True)
class _Key:
    md5: str
    """Of what was read last; empty: nothing stands there."""
    watched: list[Watched] = field(default_factory=list)


class Watches:
    """Of one process. Thread-safe; nothing blocks."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat
        self._lock = threading.Lock()
        self._keys: dict[str, _Key] = {}
        self._nudge = threading.Event()
        self._beating = False

    def add(self, data_id: str, seen_md5: str, watched: Watched) -> None:
        with self._lock:
            key = self._keys.setdefault(data_id, _Key(seen_md5))
            key.md5 = seen_md5  # where others have seen something else, they are told once more than is needed
            key.watched.append(watched)
            self._nudge.set()
            if not self._beating:
                self._beating = True
                threading.Thread(target=self._run, name="sentinel-nacos-beat", daemon=True).start()

    def remove(self, data_id: str, watched: Watched) -> None:
        with self._lock:
            key = self._keys.get(data_id)
            if key is not None and watched in key.watched:
                key.watched.remove(watched)
                if not key.watched:
                    del self._keys[data_id]
                    self._nudge.set()

    def tell(self, data_id: str) -> None:
        with self._lock:
            key = self._keys.get(data_id)
            for each in key.watched if key else ():
                each.told.set()

    def was_read(self, data_id: str, md5: str) -> None:
        """The next beat need not tell what was read now. Where several watch, those who did not read must hear it."""
        with self._lock:
            key = self._keys.get(data_id)
            if key is not None and key.md5 != md5:
                key.md5 = md5
                for each in key.watched if len(key.watched) > 1 else ():
                    each.told.set()

    def end(self, why: DatasourceError) -> None:
        with self._lock:
            keys, self._keys = self._keys, {}
            self._nudge.set()
        for key in keys.values():
            for each in key.watched:
                each.error = why
                each.told.set()

    def _run(self) -> None:
        while md5s := self._due():
            try:
                for data_id in self._beat(md5s, ANSWER_S):
                    self.tell(data_id)
            except DatasourceError as error:
                self.end(error)
            except Exception as error:  # noqa: BLE001 - whoever listens must hear of the end, whatever it was
                self.end(SourceUnavailable(f"nacos answered what cannot be read: {error!r}"))
            else:
                self._nudge.wait(BEAT_S)

    def _due(self) -> dict[str, str]:
        """Empty: nobody watches any more, and the thread must end."""
        with self._lock:
            self._nudge.clear()
            self._beating = bool(self._keys)
            return {data_id: key.md5 for data_id, key in self._keys.items()}

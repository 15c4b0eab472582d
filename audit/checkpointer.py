"""Checkpoints from time to time, by a process of its own: the key stays out of the services that write the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sentinel_core.audit.chain import ChainedStore, Head
from sentinel_core.audit.checkpoints import append, signed
from sentinel_core.audit.errors import CheckpointsUnusable, StoreUnavailable
from sentinel_core.audit.signing import SigningKey

_log = logging.getLogger(__name__)


class Checkpointer:
    """Signs the chains that have moved. Not thread-safe."""

    def __init__(self, store: ChainedStore, key: SigningKey, path: Path, now: Callable[[], datetime]) -> None:
        self._store = store
        self._key = key
        self._path = path
        self._now = now
        self._signed: dict[str, Head] = {}
        self._failed = False

    def make(self) -> Sequence[dict[str, Any]]:
        """A checkpoint of each chain that has moved since the last call, all of them at the first; durable when it
        returns. Raises StoreUnavailable, CheckpointsUnusable."""
        heads = [head for head in self._store.heads() if self._signed.get(head.source) != head]
        made = signed(heads, self._key, self._now())
        if made:
            append(self._path, made)
        self._signed |= {head.source: head for head in heads}
        return made

    def run(self, stop: threading.Event, every_s: float, made: Callable[[Sequence[dict[str, Any]]], object]) -> None:
        """Goes on until `stop` is set, and makes the last ones then; trouble is logged once and tried again.

        `made` hears of each time that there were any.
        """
        while True:
            ending = stop.is_set()
            self._try(made)
            if ending:
                return
            stop.wait(every_s)

    def _try(self, made: Callable[[Sequence[dict[str, Any]]], object]) -> None:
        try:
            new = self.make()
        except (StoreUnavailable, CheckpointsUnusable) as error:
            if not self._failed:
                _log.warning("no checkpoint can be made: %s", error)
            self._failed = True
            return
        self._failed = False
        if new:
            made(new)

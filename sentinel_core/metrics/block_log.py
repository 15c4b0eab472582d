"""Sentinel's block log: who was refused by what, added up by second. Format of Java Sentinel 1.8.9.

    2026-11-30 12:35:59|1|order:create,FlowException,default,console,17|6,0

Fields: local time, 1, (resource, exception, limitApp, origin, id of the rule), (requests, 0); lines end with CR LF. As
in Java `|` and `,` in names stay as they are; line breaks become spaces.
"""

from __future__ import annotations

import re
import threading
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel_core.entry import Blocked
from sentinel_core.errors import exception_class
from sentinel_core.masking import mask_name
from sentinel_core.metrics.metric_file import append, local
from sentinel_core.metrics.ticker import Ticked, Ticker

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

FILE = "sentinel-block.log"
_LINE_BREAK = re.compile(r"[\r\n]")
MOST = 6000
"""Different lines that are kept until they are written, as in Java; what is refused beyond them is not logged."""


class BlockLog(Ticked):
    """Writes the refusals of one engine, on a thread of its own. A refusal pays a look-up in a dict.

    max_bytes, backups   a file that has grown beyond it becomes `.1`, that one `.2`, and so on
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        every_s: float = 1.0,
        max_bytes: int = 300 * 2**20,
        backups: int = 3,
        zone: tzinfo | None = None,
    ) -> None:
        self._path = folder / FILE
        self._max_bytes = max_bytes
        self._backups = backups
        self._zone = zone
        self._wall = engine.clock.wall
        self._lock = threading.Lock()
        self._counts: dict[tuple[int, tuple[str, ...]], int] = {}
        self._ticker = Ticker("block log", self._write, every_s)
        self._remove = engine.on_block(self._add)
        self._forget = engine.on_fork(self._renew_after_fork)

    def close(self) -> None:
        self._remove()
        self._forget()
        self._ticker.close()

    def _renew_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._counts = {}  # those of the parent, which writes them
        self._ticker.renew_after_fork()

    def _add(self, blocked: Blocked, count: int, origin: str) -> None:
        checker = blocked.checker
        rule = checker.rule
        limit_app = checker.detail(blocked.call) or getattr(rule, "limit_app", None) or ""
        identity = getattr(rule, "id", None)
        fields = (blocked.resource, exception_class(checker.kind).__name__, limit_app, origin, identity)
        key = (int(self._wall().timestamp()), tuple("" if each is None else str(each) for each in fields))
        with self._lock:
            if key in self._counts or len(self._counts) < MOST:
                self._counts[key] = self._counts.get(key, 0) + count

    def _write(self) -> None:
        with self._lock:
            taken = dict(self._counts)
        if not taken:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._roll()
        text = "".join(self._line(second, fields, count) for (second, fields), count in sorted(taken.items()))
        with self._path.open("ab", buffering=0) as file:
            append(file.fileno(), text.encode("utf-8", "replace"))
        with self._lock:
            for each, count in taken.items():
                self._counts[each] -= count
                if not self._counts[each]:
                    del self._counts[each]

    def _line(self, second: int, fields: tuple[str, ...], count: int) -> str:
        """Each is masked by itself: what joins them is part of no secret."""
        text = _LINE_BREAK.sub(" ", ",".join(map(mask_name, fields)))
        return f"{local(second, self._zone):%Y-%m-%d %H:%M:%S}|1|{text}|{count},0\r\n"

    def _roll(self) -> None:
        if not self._path.exists() or self._path.stat().st_size < self._max_bytes:
            return
        for number in range(self._backups, 0, -1):
            younger = self._path.with_name(f"{FILE}.{number - 1}") if number > 1 else self._path
            if younger.exists():
                younger.replace(self._path.with_name(f"{FILE}.{number}"))

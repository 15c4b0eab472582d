"""What a running service says of itself to `sentinelctl` on the same machine: one small file a process, no port.

    .sentinel/status/<instance>.<pid>.json

Written every two seconds and when the service ends it is removed; what a killed process left is told from its pid, and
removed by the next one that starts. The file is replaced and never half written. One that was closed leaves its name in
`<instance>.stopped` until it starts again: its events say what it ran, and not that nobody is to wait for it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from sentinel_core import views
from sentinel_core.audit.redact import Masker, mask_quoted
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.clock_watch import ClockWatch
from sentinel_core.masking import may_hold_secret
from sentinel_core.metrics.ticker import Ticked, Ticker
from sentinel_core.traffic import Traffic

if TYPE_CHECKING:
    from sentinel_core.engine import Engine

logger = logging.getLogger("sentinel_core")

EVERY_S: Final = 2.0
MOST_BREAKERS: Final = 1000
"""Breakers that a file tells of: those of business metrics, and others that are not closed."""
_NEW: Final = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC
MAX_BYTES: Final = 8 * 2**20
"""Larger files are not ours, and are not read."""
_FORGOTTEN_S: Final = 30 * 86400.0
"""So old, the name of one that was closed is removed by the next one that starts."""


class StatusFile(Ticked):
    """Writes the status of one engine, on a thread of its own. Disks that fail stop nothing."""

    def __init__(self, engine: Engine, folder: Path, *, every_s: float = EVERY_S, redaction: Redaction = NONE) -> None:
        """`redaction`: fields of rules that the file does not hold in clear."""
        self._engine = engine
        self._redaction = redaction
        self._folder = folder
        self._ticker = Ticker("status file", self._write, every_s)
        self._traffic = Traffic(engine, redaction)
        self._clock = ClockWatch(engine.clock)
        self._forget = engine.on_fork(self._renew_after_fork)

    @property
    def path(self) -> Path:
        return self._folder / f"{self._name}.{os.getpid()}.json"

    @property
    def _name(self) -> str:
        return re.sub(r"[^\w.-]", "_", self._engine.instance)[:100]

    @property
    def _stopped(self) -> Path:
        return self._folder / f"{self._name}.stopped"

    def start(self) -> Self:
        self._clear_stopped()
        for left in read(self._folder):
            if left.ended:
                left.path.unlink(missing_ok=True)
        return super().start()

    def close(self) -> None:
        self._forget()
        self._ticker.close()
        try:
            self.path.unlink(missing_ok=True)
            if self._folder.is_dir():
                self._stopped.write_bytes(self._engine.instance.encode("utf-8", "backslashreplace"))
        except OSError as error:
            logger.warning("the status file cannot be removed: %s", error)

    def _clear_stopped(self) -> None:
        """Its own, and those that are as old as nobody asks for any more."""
        oldest = self._engine.clock.wall().timestamp() - _FORGOTTEN_S
        for path in self._folder.glob("*.stopped"):
            with suppress(OSError):
                if path == self._stopped or path.stat().st_mtime < oldest:
                    path.unlink()

    def _renew_after_fork(self) -> None:
        self._traffic = Traffic(self._engine, self._redaction)
        self._ticker.renew_after_fork()

    def _write(self) -> None:
        engine = self._engine
        breakers, beyond = views.breaking(engine.snapshot, engine.core, MOST_BREAKERS)
        status = {
            "formatVersion": 1,
            "writtenAt": engine.clock.wall().isoformat(timespec="milliseconds"),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            **engine.status(),
            "breakers": breakers,
            "breakersBeyond": beyond,
            "traffic": self._traffic.tell(),
            "clock": self._clock.look(),
        }
        if self._redaction.chosen:
            self._hide(status)
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        text = _dumps(status)
        if may_hold_secret(text):
            text = _dumps(Masker().value(status))
        with os.fdopen(os.open(temporary, _NEW, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # of one that a killed process left
            file.write(text.encode("utf-8", "backslashreplace"))  # half a surrogate as JSON escapes it
        temporary.replace(path)

    def _hide(self, status: dict[str, Any]) -> None:
        """Takes the fields that events do not show out of the paths of rules and out of warnings, too."""
        for each in status["breakers"]:
            each["rule"] = self._redaction.path(each["rule"], each["kind"], each["resource"])
        for kind in status["kinds"].values():
            warnings = kind.get("warnings", ())
            kind["warnings"] = [
                mask_quoted(warning) if self._redaction.is_named_in(warning) else warning for warning in warnings
            ]


def _dumps(status: dict[str, Any]) -> str:
    return json.dumps(status, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Status:
    """A status file as read."""

    path: Path
    instance: str
    app: str
    environment: str
    written_at: datetime
    """Aware, by the writer's clock."""
    ended: bool
    """Its process is known to run no more (one on this host)."""
    kinds: Mapping[str, Mapping[str, Any]]
    """What runs of each kind: `rules`, `digest`, `version`, `commit`, `source`."""
    subscriptions: Sequence[Mapping[str, Any]]
    """How each of its stores does; see `views.subscription_status`."""
    breakers: Sequence[Mapping[str, Any]]
    """`resource`, `kind`, `rule` (path) and the breaker's live values."""
    document: Mapping[str, Any]
    """All of it: what `Engine.status` says, and what this file adds."""


def read(folder: Path) -> list[Status]:
    """The status of every process that writes into a folder, by instance; what is no such file is passed over."""
    found = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            if path.stat().st_size > MAX_BYTES:
                continue
            found.append(_status(path, json.loads(path.read_bytes())))
        except (OSError, ValueError, TypeError, KeyError):
            continue  # removed between listing and reading, or somebody else's
    return found


def stopped(folder: Path) -> set[str]:
    """Names of the instances that were closed, and not killed, and have not started again."""
    names = set()
    for path in folder.glob("*.stopped") if folder.is_dir() else ():
        with suppress(OSError):
            if path.stat().st_size <= MAX_BYTES:
                names.add(path.read_text(encoding="utf-8", errors="replace"))
    return names


def _status(path: Path, document: Mapping[str, Any]) -> Status:
    kinds = document["kinds"]
    if not isinstance(kinds, dict):
        raise TypeError("kinds is no object")
    _check_objects(kinds.values())
    return Status(
        path,
        str(document["instance"]),
        str(document["app"]),
        str(document["environment"]),
        datetime.fromisoformat(document["writtenAt"]).astimezone(UTC),
        document["host"] == socket.gethostname() and not _runs(int(document["pid"])),
        kinds,
        _objects(document["subscriptions"]),
        _objects(document["breakers"]),
        document,
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise TypeError("this is no list")
    _check_objects(value)
    return value


def _check_objects(values: Iterable[object]) -> None:
    if not all(isinstance(each, dict) for each in values):
        raise TypeError("something in it is no object")


def _runs(pid: int) -> bool:
    if pid <= 0:  # to the kernel these are groups of processes
        raise ValueError(f"{pid} is no process")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Ended, and its parent has not asked how; known on Linux alone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False

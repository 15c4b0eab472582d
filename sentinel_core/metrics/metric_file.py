"""Files of Sentinel's metric log: lines, index, rolling, reading. Format of Java Sentinel 1.8.9 (`MetricWriter`).

    {app}-metrics.log[.pidN].yyyy-MM-dd[.n]   one line a resource and second, UTF-8
    {the same}.idx                            big-endian pairs of int64: epoch second, offset of its first line

Two differences, both readable by Java's `MetricSearcher`: every second has its entry in the index of the file that
holds its lines (Java leaves out the second in which the process began, and puts the first one of a day into the file of
the day before), and line breaks in a resource's name become `_` as `|` does.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import NamedTuple

from sentinel_core.masking import mask_name

_PAIR = struct.Struct(">qq")
_UNSAFE = re.compile(r"[|\r\n]")
_FIELDS = 8
"""Fewest fields of a line; older versions wrote no more."""


class Line(NamedTuple):
    """One resource in one second. `rt` is the mean in ms; `kind` 0 common, 1 web, 2 rpc, 3 gateway, 4 sql."""

    second: int
    resource: str
    passed: int
    blocked: int
    success: int
    exceptions: int
    rt: int
    occupied: int = 0
    concurrency: int = 0
    kind: int = 0

    def text(self, zone: tzinfo | None) -> str:
        at = local(self.second, zone)
        name = _UNSAFE.sub("_", mask_name(self.resource))
        return "|".join(map(str, (self.second * 1000, f"{at:%Y-%m-%d %H:%M:%S}", name, *self[2:]))) + "\n"


def parse(text: str) -> Line | None:
    """The line a text holds, None for one that was torn."""
    fields = text.rstrip("\n").split("|")
    if len(fields) < _FIELDS or not text.endswith("\n"):
        return None
    try:
        return Line(int(fields[0]) // 1000, fields[2], *map(int, fields[3:11]))
    except ValueError:
        return None


def base_name(app: str, pid: int | None = None) -> str:
    """The part that all metric files of an application share."""
    return f"{re.sub('[./]', '-', app)}-metrics.log" + (f".pid{pid}" if pid is not None else "")


def files(folder: Path, base: str) -> list[Path]:
    """The metric files of an application, oldest first, without their indexes."""
    name = re.compile(re.escape(base) + r"\.(\d{4}-\d{2}-\d{2})(?:\.(\d{1,10}))?")
    found = [(match[1], int(match[2] or 0), path) for path in folder.iterdir() if (match := name.fullmatch(path.name))]
    return [path for _, _, path in sorted(found)]


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.idx")


def read(folder: Path, base: str, first: int, last: int) -> Iterator[Line]:
    """The lines of the seconds first..last, found through the indexes; torn lines are skipped."""
    for path in files(folder, base):
        index = index_of(path)
        pairs = index.read_bytes() if index.exists() else b""
        offset = next((at for second, at in _PAIR.iter_unpack(pairs[: len(pairs) // 16 * 16]) if second >= first), None)
        if offset is None:
            continue
        with path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                line = parse(raw.decode("utf-8", "replace"))
                if line is not None and line.second > last:
                    return
                if line is not None:
                    yield line


class MetricFiles:
    """Writes whole seconds, one after the other. One writer a process; two processes never share a file.

    folder     made when it is missing
    max_bytes  a file that has grown beyond it is followed by the next number
    keep       files that stay, without their indexes
    zone       of days and of the readable times; None for that of the machine
    """

    def __init__(
        self, folder: Path, base: str, *, max_bytes: int = 50 * 2**20, keep: int = 6, zone: tzinfo | None = None
    ) -> None:
        self._folder = folder
        self._base = base
        self._max_bytes = max_bytes
        self._keep = keep
        self._zone = zone
        self._day = ""
        self._path: Path | None = None
        self._log = -1
        self._index = -1
        self._size = 0

    def write(self, second: int, lines: Iterable[Line]) -> None:
        """Appends one second. Raises OSError, and what was written of it is taken back."""
        day = f"{local(second, self._zone):%Y-%m-%d}"
        path = self._path
        if path is None or day != self._day or self._size >= self._max_bytes or not self._is_there(path):
            self._open(day)
        data = "".join(line.text(self._zone) for line in lines).encode("utf-8", "replace")
        append(self._log, data)
        try:
            append(self._index, _PAIR.pack(second, self._size))
        except OSError:
            os.ftruncate(self._log, self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Idempotent; a later `write` begins the next file."""
        for handle in (self._log, self._index):
            if handle >= 0:
                os.close(handle)
        self._log = self._index = -1
        self._path = None

    @staticmethod
    def _is_there(path: Path) -> bool:
        return path.exists() and index_of(path).exists()

    def _open(self, day: str) -> None:
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        old = files(self._folder, self._base)
        of_day = [path for path in old if path.name.startswith(f"{self._base}.{day}")]
        number = _number(of_day[-1], self._base) + 1 if of_day else 0
        while True:
            path = self._folder / (f"{self._base}.{day}" + (f".{number}" if number else ""))
            try:
                self._log = _create(path)
                break
            except FileExistsError:
                number += 1  # another process was faster
        try:
            self._index = _create(index_of(path), os.O_TRUNC)
        except OSError:
            self.close()
            path.unlink(missing_ok=True)
            raise
        self._path, self._day, self._size = path, day, 0
        _remove(old[: max(0, len(old) + 1 - self._keep)])


def local(second: int, zone: tzinfo | None) -> datetime:
    """An epoch second in a zone, None for that of the machine."""
    return datetime.fromtimestamp(second, UTC).astimezone(zone)


def _number(path: Path, base: str) -> int:
    tail = path.name.removeprefix(base).split(".")[2:]
    return int(tail[0]) if tail else 0


def _create(path: Path, mode: int = os.O_EXCL) -> int:
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | mode, 0o644)


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
        index_of(path).unlink(missing_ok=True)


def append(handle: int, data: bytes) -> None:
    """Writes all of it or nothing, at the end of an open file that nobody else writes. Raises OSError."""
    size = os.fstat(handle).st_size
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(handle, view) :]
    except OSError:
        os.ftruncate(handle, size)
        raise

"""Being told by the kernel that something changed in a folder, with polling where it cannot tell.

inotify is used directly, because it alone says that a writer has *closed* a file (a text that is still being written
must not be read), and because waiting on it costs nothing: watchers made for all systems wake many times a second.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import select
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from sentinel_core.datasources.contract import StopSignal

_log = logging.getLogger("sentinel.datasources")

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED, _ONLY_FOLDERS = 0x2000, 0x4000, 0x8000, 0x1000000
_WATCHED = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
)  # fmt: skip
_LOST = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
_EVENT = struct.Struct("iIII")

_DEFAULT_POLL_S = 0.1
_MOST_LINKS = 40
"""As the kernel follows."""
_RECHECK_S = 30.0
"""How often the watched folders are looked at without an event: a renamed grandparent makes none."""


@dataclass(frozen=True, slots=True)
class Note:
    """One event. An empty `name` speaks of the folder itself."""

    folder: Path
    name: str
    mask: int

    @property
    def is_open_write(self) -> bool:
        """Bytes were written and the file was not closed since."""
        return bool(self.mask & _MODIFY)

    @property
    def is_ending(self) -> bool:
        """A writer is done with the file: it was closed, renamed, made anew or removed. Rights and times are no end."""
        return not self.mask & (_MODIFY | _ATTRIB)

    @property
    def folder_lost(self) -> bool:
        return bool(self.mask & (_LOST | _OVERFLOW))


class Inotify:
    """Watches some folders, not their subfolders. One thread waits; `interrupt` may be called from any."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Raises OSError: a folder is missing, the limits of the kernel are reached, or there is no inotify here."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self._fd = self._check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._awake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._folders: dict[int, Path] = {}
        try:
            for folder in folders:
                mask = ctypes.c_uint32(_WATCHED | _ONLY_FOLDERS)
                self._folders[self._check(self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask))] = folder
        except OSError:
            self.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(self._awake, select.POLLIN)

    def wait(self, timeout_s: float) -> Sequence[Note]:
        """Events since the last call; empty after `timeout_s` or `interrupt`."""
        self._poll.poll(timeout_s * 1000)
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return ()
        return tuple(self._parse(data))

    def _parse(self, data: bytes) -> Iterable[Note]:
        start = 0
        while start < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, start)
            start += _EVENT.size
            name = os.fsdecode(data[start : start + length].rstrip(b"\0"))
            start += length
            yield Note(self._folders.get(watch, Path()), name, mask)

    def interrupt(self) -> None:
        """Ends the wait that runs and all later ones."""
        os.eventfd_write(self._awake, 1)

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._awake)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def watch_folders(
    folders: Callable[[], Iterable[Path]],
    changed: Callable[[Sequence[Note]], None],
    stop: StopSignal,
    *,
    poll_s: float | None = None,
) -> None:
    """Calls `changed` with what happened in `folders()` until `stop`; with nothing when the watch begins, when the
    folders had to be looked up anew, and at every turn of polling. `poll_s` forces polling."""
    while not stop.is_set() and poll_s is None:
        wanted = _identified(folders())
        try:
            notes = Inotify(path for path, _, _ in wanted)
        except (FileNotFoundError, NotADirectoryError):
            stop.wait(0.01)  # it went away in between: look again
            continue
        except OSError as error:
            poll_s = _DEFAULT_POLL_S
            _log.warning("no inotify (%s); looking every %.0f ms instead", error.strerror, poll_s * 1000)
            break
        with notes, stop.wakes(notes.interrupt):
            changed(())
            lost = False
            while not (stop.is_set() or lost) and _identified(folders()) == wanted:
                batch = notes.wait(_RECHECK_S)
                lost = any(note.folder_lost for note in batch)
                if batch:
                    changed(batch)
    while poll_s is not None and not stop.wait(poll_s):
        changed(())


def _identified(folders: Iterable[Path]) -> frozenset[tuple[Path, int, int]]:
    """Folders with device and inode, so that another folder under the same name is seen as another."""
    found = set()
    for folder in folders:
        try:
            stat = folder.stat()
        except OSError:
            continue
        found.add((folder, stat.st_dev, stat.st_ino))
    return frozenset(found)


def folders_of(path: Path) -> frozenset[Path]:
    """The folders in which a change can make `path` another thing: its own, that of every symbolic link on the way to
    it, the folder it is itself; the nearest that exists where it is missing."""
    links, nearest = _way(path)
    return frozenset({*(link.parent for link in links), nearest})


def links_of(path: Path) -> list[Path]:
    """The symbolic links on the way to `path`, itself among them if it is one."""
    return _way(path)[0]


def _way(path: Path) -> tuple[list[Path], Path]:
    """The symbolic links that are followed to `path`, and the folder that was come to."""
    links: list[Path] = []
    current, rest = Path("/"), list(path.absolute().parts[1:])
    while rest and len(links) < _MOST_LINKS:
        step = current / rest.pop(0)
        if step.is_symlink():
            links.append(step)
            target = step.readlink()
            rest = [*target.parts[1 if target.is_absolute() else 0 :], *rest]
            current = Path("/") if target.is_absolute() else current
        elif step.is_dir():
            current = step
        else:
            break
    return links, current

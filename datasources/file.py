"""`file://`: a YAML document, a folder of them, or Sentinel's JSON lists, on this machine's disk.

Only complete texts are returned. A writer that renames (as editors and ConfigMaps do) is complete at once. One that
writes in place is waited for: until the kernel says that it closed the file, or, where the kernel does not tell, until
the file has been quiet for a while.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentinel_core.datasources import beside
from sentinel_core.datasources.atomic import exclusive, replace_file, sync_folder
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
    is_at,
    note_conflict,
)
from sentinel_core.datasources.layout import Layout, check_size, documents, one_overlay, parse_format
from sentinel_core.datasources.names import is_rule_file
from sentinel_core.datasources.notify import Note, folders_of, links_of, watch_folders
from sentinel_core.datasources.registry import Scheme, milliseconds
from sentinel_core.datasources.uri import SourceUri, without_dots
from sentinel_core.locks import renew_lock_after_fork
from sentinel_core.rules import Kind, Provenance, Revision, SourceText, content_digest
from sentinel_core.rules.overlay import FOLDER as OVERLAYS

_log = logging.getLogger("sentinel.datasources")

_QUIET_S = 0.012
_QUIET_UNTOLD_S = 0.15
"""Age that a change must have where the kernel does not tell when a writer has closed."""
_OPEN_WRITER_S = 2.0
"""A writer is waited for so long after its last write, and while it goes on writing so long in all …"""
_RESTLESS_S = 3.0
"""… then it is said that the file is being written, and the rest of it is waited for by the loop."""
_TURN_S = 0.01

_Stamp = tuple[str, int, int, int, int, int]
"""name, device, inode, size, mtime ns, ctime ns"""


@dataclass(frozen=True, slots=True)
class _Look:
    """A folder's or file's outside (without content) at one moment."""

    stamps: tuple[_Stamp, ...]
    links_ns: int = 0
    """When the newest of the symbolic links on the way was made."""
    folder_ns: int = field(default=0, compare=False)
    """When a name was last added to or removed from the item's folder: also other files', so it is no change."""

    @property
    def written_ns(self) -> int:
        """When the newest of the files was written (or renamed), by the clock of the file system."""
        return max((stamp[5] for stamp in self.stamps), default=0)

    @property
    def changed_ns(self) -> int:
        """When this came to be what it is: also by another target of a link, or by the removal of a file."""
        return max(self.written_ns, self.links_ns, self.folder_ns)


@dataclass(slots=True)
class _Told:
    """What the kernel has told of an item since its watch began."""

    writing: set[str] = field(default_factory=set)
    """Names that were written to and not closed since."""
    ended: _Look | None = None
    """How it looked when something was closed, renamed or removed for the last time."""


class FileSource:
    """Items: the document (all kinds), or one per kind for JSON lists."""

    def __init__(
        self,
        path: Path | str,
        *,
        kind: Kind | None = None,
        format: str | None = None,  # noqa: A002 - the query parameter's name
        poll_s: float | None = None,
        environment: str = "default",
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`kind` and `format` as in `Layout`; `environment` names the overlay of a folder; `poll_s` looks every so
        often instead of being told by the kernel."""
        self._path = Path(path)
        self._layout = Layout.of(self._path, kind, format, environment)
        self._poll_s = poll_s
        self._prefix = f"/{environment}/file"
        self._monotonic = monotonic
        self._now = now
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._returned: dict[str, _Look] = {}
        """By item: how it looked from outside when it was last returned."""
        self._told: dict[str, _Told] = {}
        """By item, while its watch runs on inotify."""
        self._problems: dict[str, str | None] = {}
        """By item: why it was not known last whose its rules are; each is logged once."""

    @property
    def uri(self) -> str:
        return f"file://{self._path.absolute()}"

    def items(self, kinds: Sequence[Kind]) -> Sequence[Item]:
        return tuple(self._item(Path(key), owned) for key, owned in self._layout.keys(kinds, self.uri))

    def _item(self, path: Path, kinds: tuple[Kind, ...]) -> Item:
        return Item(str(path), f"{self._prefix}{path.absolute()}", kinds)

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, item: Item) -> Reading:
        return self._read(item, self._settled)

    def inspect(self, item: Item) -> Condition:
        """Written by replacing: the folder's rights count, and not the file's."""
        path = Path(item.key)
        return Condition(may_write=os.access(path if path.is_dir() else path.parent, os.W_OK | os.X_OK))

    def _read(self, item: Item, look_and_read: Callable[[Item], tuple[_Look, tuple[SourceText, ...]]]) -> Reading:
        try:
            look, texts = look_and_read(item)
        except PermissionError as error:
            raise SourceDenied(f"{error.filename}: {error.strerror}; let this user read it") from error
        except OSError as error:
            raise SourceUnavailable(f"{error.filename or item.key}: {error.strerror}") from error
        with self._lock:
            self._returned[item.key] = look
        if not texts:
            return beside.absent(Path(item.key))
        provenance = self._provenance(item, look, texts)
        return Revision(texts, item.source, _version(look, texts), provenance, observed=True)

    def _provenance(self, item: Item, look: _Look, texts: Sequence[SourceText]) -> Provenance:
        """What tells of them may be damaged: the rules count all the same."""
        try:
            found = beside.provenance_of(Path(item.key), texts) or Provenance(channel="file")
        except DatasourceError as error:
            found = Provenance(problem=str(error))
        with self._lock:
            is_news = found.problem != self._problems.get(item.key)
            self._problems[item.key] = found.problem
        if found.problem and is_news:
            _log.warning("whose the rules are is not known: %s", found.problem)
        return replace(found, published_at=found.published_at or datetime.fromtimestamp(look.changed_ns / 1e9, UTC))

    def _settled(self, item: Item) -> tuple[_Look, tuple[SourceText, ...]]:
        """Waits until no writer is at it, then reads; again, when something changed from before the read until after
        it."""
        path = Path(item.key)
        began = since = self._monotonic()
        look = self._look(path)
        while True:
            wait = self._still_to_wait(item, look, self._monotonic() - since)
            if wait > 0:
                time.sleep(min(wait, _TURN_S))
            elif (texts := self._texts(path, look)) is not None and self._look(path) == look:
                return look, texts
            seen, now = self._look(path), self._monotonic()
            if seen != look:
                look, since = seen, now
            if now - since > _OPEN_WRITER_S or now - began > _RESTLESS_S:
                raise SourceUnavailable(
                    f"{item.key} is being written and was not closed; it is taken when it is whole. "
                    "To be taken at once, write it aside and rename it"
                )

    def _at_once(self, item: Item) -> tuple[_Look, tuple[SourceText, ...]]:
        """After a write of our own, which is whole."""
        look = self._look(Path(item.key))
        return look, self._texts(Path(item.key), look) or ()

    def _still_to_wait(self, item: Item, look: _Look, unchanged_s: float) -> float:
        """Seconds; none or less when it can be taken. `unchanged_s`: how long it has been seen to look like that."""
        with self._lock:
            last, told = self._returned.get(item.key), self._told.get(item.key)
            if told is not None and told.writing:
                return _TURN_S
        if look == last or not look.stamps:
            return 0.0
        if told is not None and told.ended == look:
            return _QUIET_S - unchanged_s
        age_s = self._now().timestamp() - look.written_ns / 1e9
        return _QUIET_UNTOLD_S - max(unchanged_s, age_s)

    def _look(self, path: Path) -> _Look:
        """Raises OSError for all but absence, SourceMisconfigured for what can never be rules."""
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return _Look(())
        if not stat.S_ISDIR(status.st_mode):
            files = [(path.name, status)]
        else:
            files = list(self._folder(path))
        for name, each in files:
            if not stat.S_ISREG(each.st_mode):
                raise SourceMisconfigured(f"{path}: {name} is neither a file nor a folder of files")
        check_size(sum(each.st_size for _, each in files), str(path))
        is_folder = stat.S_ISDIR(status.st_mode)
        places = [path / name for name, _ in files] if is_folder else [path]
        # An overlay that is there tells of its own changes; that it is gone only its folder tells, which other
        # environments' files move too.
        overlaid = any(name in self._layout.overlays for name, _ in files)
        gone = [] if overlaid else _ctimes(path / OVERLAYS)
        return _Look(
            tuple((name, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in files),
            links_ns=_newest_link_ns(path, places),
            folder_ns=max((status.st_ctime_ns, *gone)) if is_folder else 0,
        )

    def _folder(self, path: Path) -> Iterator[tuple[str, os.stat_result]]:
        """The documents, and the overlay; nothing where there is an overlay alone, which is no document."""
        base = list(_present(path, documents(os.listdir(path), str(path))))  # noqa: PTH208 - names are what is wanted
        overlays = list(_present(path, self._layout.overlays)) if base else []
        one_overlay([name for name, _ in overlays], str(path))
        yield from (*base, *overlays)

    def _texts(self, path: Path, look: _Look) -> tuple[SourceText, ...] | None:
        """None when a file was replaced between the look and the read."""
        files = [path / stamp[0] for stamp in look.stamps] if path.is_dir() else [path] * len(look.stamps)
        try:
            return tuple(SourceText(str(file), file.read_bytes(), self._layout.format) for file in files)
        except FileNotFoundError:
            return None

    # -- watching ----------------------------------------------------------------------------------------------------

    def watch(self, item: Item, seen: Reading | None, wake: Wake, stop: StopSignal) -> None:  # noqa: ARG002 - see `last`
        path = Path(item.key)

        last: object = None  # what `seen` looked like from outside is not known: the first turn always wakes

        def changed(notes: Sequence[Note]) -> None:
            nonlocal last
            self._hear(item, notes)
            if notes and all(note.is_open_write for note in notes):
                return  # the closing of the file will be told
            look = self._look_or_error(path)
            self._heard(item, notes, look)
            if look != last:
                last = look
                wake()

        try:
            watch_folders(lambda: self._watched(path), changed, stop, poll_s=self._poll_s)
        finally:
            with self._lock:
                self._told.pop(item.key, None)

    def _watched(self, path: Path) -> frozenset[Path]:
        """The overlay's folder may come later: until then the folder is watched in which it would be made."""
        return folders_of(path).union(*(folders_of(path / name) for name in self._layout.overlays))

    def _hear(self, item: Item, notes: Sequence[Note]) -> None:
        """Notes who writes. Without notes nothing is known: the watch begins, or there is none but polling."""
        overlays = os.path.realpath(Path(item.key) / OVERLAYS)
        with self._lock:
            if not notes:
                self._told.pop(item.key, None)
                return
            writing = self._told.setdefault(item.key, _Told()).writing
            for note in notes:
                is_overlay = os.path.realpath(note.folder) == overlays
                name = f"{OVERLAYS}/{note.name}" if is_overlay else note.name
                counts = name in self._layout.overlays if is_overlay else is_rule_file(note.name)
                if note.is_open_write and counts:
                    writing.add(name)
                elif note.is_ending:
                    writing.discard(name)

    def _heard(self, item: Item, notes: Sequence[Note], look: _Look | str) -> None:
        with self._lock:
            told = self._told.get(item.key)
            if told is not None and isinstance(look, _Look) and any(note.is_ending for note in notes):
                told.ended = look

    def _look_or_error(self, path: Path) -> _Look | str:
        try:
            return self._look(path)
        except (OSError, SourceMisconfigured) as error:
            return str(error)  # the read will say it

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(
        self, item: Item, texts: Sequence[SourceText], *, expected: str | None, provenance: Provenance
    ) -> Written:
        """First the provenance, to which the time is added. Then each file is replaced in one step and keeps its mode;
        in a folder, files that are not among `texts` are removed. Several files are replaced one after the other:
        readers may see the steps."""
        path = Path(os.path.realpath(item.key))
        files = self._targets(path, texts)
        _check_folder(path.parent)
        provenance = replace(provenance, published_at=provenance.published_at or self._now())
        named = [SourceText(str(file), text.content, self._layout.format) for file, text in files.items()]
        told = beside.document(path, named, item.kinds, provenance) if named else None
        try:
            with exclusive(path.parent):
                self._check_expected(item, expected)
                with beside.telling(path, told, _mode(next(iter(files), path))):
                    self._replace(path, files)
                written = self._read(item, self._at_once)
        except PermissionError as error:
            raise SourceDenied(f"{error.filename}: {error.strerror}; let this user write there") from error
        except OSError as error:
            raise SourceUnavailable(f"{error.filename or item.key}: {error.strerror}") from error
        if isinstance(written, Absent):
            return Written(written.version, ())
        return Written(written.version, written.texts)

    def _replace(self, path: Path, files: Mapping[Path, SourceText]) -> None:
        for file, text in files.items():
            file.parent.mkdir(exist_ok=True)
            replace_file(file, text.content, mode=_mode(file))
        if path.is_dir():
            for file in {path / stamp[0] for stamp in self._look(path).stamps} - files.keys():
                file.unlink()
                sync_folder(file.parent)

    def _targets(self, path: Path, texts: Sequence[SourceText]) -> dict[Path, SourceText]:
        if path.is_dir():
            places = self._layout.places([text.name for text in texts], self.uri)
            return {path / places[text.name]: text for text in texts}
        if len(texts) != 1:
            raise SourceMisconfigured(f"{path} is one file and cannot take {len(texts)} texts; make it a folder")
        return {path: texts[0]}

    # -- notes -------------------------------------------------------------------------------------------------------

    def note(self, item: Item, name: str) -> bytes | None:
        """In a hidden file beside the file or folder."""
        return beside.read(beside.place(Path(item.key), name))

    def write_note(self, item: Item, name: str, content: bytes, *, expected: bytes | None, why: str) -> None:  # noqa: ARG002 - a file has no place for it
        place = beside.place(Path(item.key), name)
        _check_folder(place.parent)
        try:
            with exclusive(place.parent):
                if self.note(item, name) != expected:
                    raise note_conflict(item, name)
                replace_file(place, content, mode=_mode(place))
        except PermissionError as error:
            raise SourceDenied(f"{error.filename}: {error.strerror}; let this user write there") from error
        except OSError as error:
            raise SourceUnavailable(f"{error.filename or place}: {error.strerror}") from error

    def _check_expected(self, item: Item, expected: str | None) -> None:
        current = self.read(item)
        stands = current.version if isinstance(current, Revision) else None
        if not is_at(current, expected):
            raise SourceConflict(
                f"{item.key} stands at version {stands or 'absent'}, not at {expected or 'absent'}: it was changed "
                "meanwhile; read it again and repeat the change on top"
            )

    def close(self) -> None:
        """Nothing is held."""


def _present(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    for name in names:
        try:
            yield name, (folder / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed meanwhile, or a dangling link: not there


def _version(look: _Look, texts: Sequence[SourceText]) -> str:
    """The time tells A→B today from A→B tomorrow; the digest tells two writes within one tick of the clock apart. It is
    the time at which this host saw a change: a copy may keep the time of writing, and a link may point back."""
    return f"{look.changed_ns}-{content_digest(texts)[:12]}"


def _newest_link_ns(path: Path, places: Sequence[Path]) -> int:
    """Among the links to `path` and those that its files are."""
    links = [*links_of(path), *(link for place in places if place.is_symlink() for link in links_of(place))]
    return max((ns for link in links for ns in _ctimes(link)), default=0)


def _ctimes(path: Path) -> list[int]:
    """The one of what is there, itself and not what it points to; none where nothing is."""
    try:
        return [path.lstat().st_ctime_ns]
    except OSError:
        return []


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0o644


def _check_folder(folder: Path) -> None:
    """A folder that is not there is a slip in the URI rather than a wish. Raises SourceMisconfigured."""
    if not folder.is_dir():
        raise SourceMisconfigured(f"there is no folder {folder}; correct the path, or make it: mkdir -p {folder}")


def _open(uri: SourceUri, *, poll_ms: float | None = None, **options: Any) -> FileSource:
    if not uri.path:
        raise SourceMisconfigured("file:// needs a path, for example file:///etc/sentinel/rules.yaml")
    return FileSource(without_dots(uri.path), poll_s=poll_ms, **options)


SCHEME = Scheme(
    names=("file",),
    open=_open,
    options={"poll_ms": milliseconds, "kind": str, "format": parse_format, "environment": str},
    form="file:///path/to/rules.yaml",
)

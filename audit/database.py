"""One SQLite file, opened so that a commit that returned survives a power cut. Used by the outbox and the store.

Rules kept here: WAL with `synchronous=FULL`; write transactions are IMMEDIATE, so that a deadlock between two writers
is a wait; a connection never crosses a fork; nothing that looks damaged is deleted or repaired: it is evidence.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sentinel_core.audit.errors import AuditError

BUSY_TIMEOUT_S = 5.0
WAL_LIMIT_BYTES = 16 * 1024 * 1024
CHECKPOINT_PAGES = WAL_LIMIT_BYTES // 4096
"""A page of an index that many commits touch is written back once, not with every few of them."""
CACHE_KIB = 16 * 1024

FORK_WAIT_S = 2.0
"""Longest time that a fork waits for transactions of this process to end."""
Migration = str | Callable[[sqlite3.Connection], None]
"""Statements separated by `;`, or what SQL alone cannot do; both within the transaction of the migration."""

_opened: weakref.WeakSet[Database] = weakref.WeakSet()
_paused: dict[int, list[Database]] = {}
"""By the thread that forks; several may at a time."""
_inherited: list[sqlite3.Connection] = []
"""Connections of the parent that could not be closed before the fork. Closing one in the child could check-point under
the parent's feet."""


class Database:
    """A file with a schema. Opened at first use, again after a fork, and again when the file was replaced.

    Safe for any number of threads (one connection behind a lock) and processes (SQLite's own locks).
    """

    def __init__(
        self,
        path: Path,
        *,
        migrations: Sequence[Migration],
        application_id: int,
        failure: type[AuditError],
        damaged: type[AuditError] | None = None,
        misfit: Callable[[sqlite3.Connection, int, int], str | None] = lambda *_: None,
        read_only: bool = False,
        readable_from: int | None = None,
        busy_s: float | None = None,
        functions: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        """`damaged`: raised where the file is not what was written (default: `failure`). `misfit`: what is wrong with a
        header of this layout and application id, asked where it is not the one of today.

        `readable_from`: the oldest layout that who only reads can do with (default: the newest alone).

        `functions`: what statements may call, each of one argument. `busy_s`: how long a call waits for another thread
        or process that holds the file, in all (default: BUSY_TIMEOUT_S)."""
        self.path = path
        self._migrations = migrations
        self._application_id = application_id
        self._failure = failure
        self._damaged = damaged or failure
        self._misfit = misfit
        self._read_only = read_only
        self._readable_from = len(migrations) if readable_from is None else readable_from
        self._busy_s = BUSY_TIMEOUT_S if busy_s is None else busy_s
        self._functions = functions or {}
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._as_it_is: tuple[int, ...] | None = None
        """The state of a file that is read without locks, as nothing may be written beside it: once another one has
        written to it, it is opened anew."""
        _opened.add(self)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction; durable when the block was left without an exception. Raises the failure class."""
        with self._told(), self._held() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite rolls back by itself when the disk is full.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view. Raises the failure class."""
        with self._told(), self._held() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Idempotent; the next use opens again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone. All that is waited for together takes no longer than `busy_s`."""
        lock, deadline = self._lock, time.monotonic() + self._busy_s
        if not lock.acquire(timeout=self._busy_s):
            raise self._failure(f"{self.path}: {_LOCKED}")
        try:
            connection = self._current_locked(deadline)
            connection.execute(f"PRAGMA busy_timeout={_milliseconds_to(deadline)}")
            yield connection
        finally:
            lock.release()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError):
            # Not the file but what was to be written: trying again would never end.
            raise
        except (sqlite3.Error, OSError) as error:
            words = _FOLDER if self.path.is_dir() else _explain(error)
            raise (self._damaged if self._is_damaged(error) else self._failure)(f"{self.path}: {words}") from error

    def _is_damaged(self, error: Exception) -> bool:
        """Whether the file is, or may once have been, a database: a text is somebody's wrong path."""
        if _code(error) == sqlite3.SQLITE_NOTADB:
            with self.path.open("rb") as file:
                return b"\0" in file.read(4096)
        return _code(error) == sqlite3.SQLITE_CORRUPT

    def _current_locked(self, deadline: float) -> sqlite3.Connection:
        is_changed = self._as_it_is is not None and self._as_it_is != _state(self.path)
        if self._connection is not None and (is_changed or self._file != _identity(self.path)):
            # The file was moved or removed: what is written now must not go into an unlinked inode.
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = self._open_locked(deadline)
            self._file = _identity(self.path)
        return self._connection

    def _open_locked(self, deadline: float) -> sqlite3.Connection:
        self._as_it_is = None
        if not self._read_only:
            _create(self.path)
            return self._connected_locked(deadline, "mode=rw")
        try:
            return self._connected_locked(deadline, "mode=ro")
        except sqlite3.OperationalError as error:
            if _code(error) not in _NO_RIGHT or not os.access(self.path, os.R_OK):
                raise
        # To read a log SQLite writes beside the file. Where that may not be, the file can still be read as it is.
        log = self.path.with_name(f"{self.path.name}-wal")
        if _size(log):
            raise self._failure(
                f"{self.path}: this user may not write beside it, so what is in {log.name} cannot be read; copy both "
                "files into a folder of your own, and look there"
            )
        self._as_it_is = _state(self.path)
        return self._connected_locked(deadline, "mode=ro&immutable=1")

    def _connected_locked(self, deadline: float, options: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{options}",
            uri=True,
            timeout=_milliseconds_to(deadline) / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            for name, function in self._functions.items():
                connection.create_function(name, 1, function, deterministic=True)
            self._version_locked(connection)  # before anything is written into a file of somebody else
            if not self._read_only:
                connection.execute("PRAGMA journal_mode=WAL")
            self._migrate_locked(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate_locked(self, connection: sqlite3.Connection) -> None:
        version = self._version_locked(connection)
        if version == len(self._migrations) or (self._read_only and version >= self._readable_from):
            return
        if self._read_only and _is_empty(connection):
            raise self._failure(f"{self.path}: empty; nothing was ever written to it. The first event makes it whole")
        if self._read_only:
            raise self._failure(f"{self.path}: its layout is older than this program's; open it once for writing")
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been first.
            for number in range(self._version_locked(connection), len(self._migrations)):
                migrate(connection, self._migrations[number])
                connection.execute(f"PRAGMA user_version={number + 1}")
            connection.execute(f"PRAGMA application_id={self._application_id}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _version_locked(self, connection: sqlite3.Connection) -> int:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        is_todays = owner == self._application_id and version == len(self._migrations)
        is_read = self._read_only and self._readable_from <= version < len(self._migrations)
        if not (is_todays or (is_read and owner == self._application_id)) and (
            wrong := self._misfit(connection, version, owner)
        ):
            raise self._damaged(f"{self.path}: {wrong}; nothing was changed. {_KEEP}")
        if owner != self._application_id and (version or owner or not _is_empty(connection)):
            raise self._failure(f"{self.path}: this SQLite file holds something else; give another path")
        if version > len(self._migrations):
            raise self._failure(f"{self.path}: written by a newer version (layout {version}); upgrade this program")
        return int(version)

    def _pause_for_fork(self, deadline: float) -> bool:
        """Closes the connection and keeps the lock; False where a transaction does not end in time.

        SQLite keeps its locks in tables of the process. A child that inherits an open connection inherits those of it
        that other threads held, for ever, and believes in others that the kernel has not given it.
        """
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        if self._connection is not None and not self._connection.in_transaction:  # else it is this thread's own
            with suppress(sqlite3.Error):  # then the child sets it aside
                self._connection.close()
                self._connection = None
        return True

    def _go_on_after_fork(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        if self._connection is not None:
            _inherited.append(self._connection)
            self._connection = None
        # Another thread of the parent may have held it.
        self._lock = threading.RLock()


def _before_fork() -> None:
    paused = _paused[threading.get_ident()] = []  # first: what is paused goes on, even if a signal handler raises
    deadline = time.monotonic() + FORK_WAIT_S
    for database in list(_opened):
        if database._pause_for_fork(deadline):  # noqa: SLF001  the class's own hook
            paused.append(database)  # noqa: PERF401  told one by one, see above


def _after_fork_in_parent() -> None:
    for database in _paused.pop(threading.get_ident()):
        database._go_on_after_fork()  # noqa: SLF001  as above


def _after_fork_in_child() -> None:
    _paused.clear()
    for database in list(_opened):
        database._after_fork_in_child()  # noqa: SLF001  as above


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def migrate(connection: sqlite3.Connection, migration: Migration) -> None:
    """One step from a layout to the next, in the transaction of the caller."""
    if callable(migration):
        migration(connection)
        return
    for statement in migration.split(";"):
        connection.execute(statement)


def _is_empty(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) = 0 FROM sqlite_master").fetchone()[0])


def _create(path: Path) -> None:
    """An empty file that only its owner reads (rules name customers), with its directory entry on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _milliseconds_to(deadline: float) -> int:
    return max(0, round((deadline - time.monotonic()) * 1000))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, _size(path.with_name(f"{path.name}-wal"))


def _size(path: Path) -> int:
    """0 for a file that is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _explain(error: Exception) -> str:
    """What happened to the file and what to do, in words."""
    if isinstance(error, OSError):
        return f"{error.strerror or error}; give a path that this user may write"
    return _ADVICE.get(_code(error), f"{error}")


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


_FOLDER = "a folder; give the path of a file"
_KEEP = "Keep the file as evidence: move it aside, then start again"
_LOCKED = "locked by another process or thread for too long; end what holds it"
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, what waits is written then",
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_CORRUPT: f"damaged; nothing was changed. {_KEEP}",
    sqlite3.SQLITE_NOTADB: "not a SQLite file, or damaged; nothing was changed. Move it aside, then start again",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that it exists and that this user may read and write it",
    sqlite3.SQLITE_READONLY: "read-only; give a path that this user may write",
    sqlite3.SQLITE_IOERR: "the disk reports an error; check the disk and its free space",
}
_NO_RIGHT = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)

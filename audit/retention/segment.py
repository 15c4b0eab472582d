"""A sealed segment: purged events with their links, a JSON object a line, compressed by gzip.

The first line is a head, each other one an event: `number`, `previous`, `hash`, `columns`, `rows` and `data` are what
the hash covers (`audit/chain.py`), `data` as a text so that its bytes stay; `sightings` are not covered.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from sentinel_core.audit.chain import Entry, Linked, Page
from sentinel_core.audit.errors import PurgeFailed
from sentinel_core.audit.retention.record import Segment
from sentinel_core.audit.store._reading import about

FORMAT_VERSION = 1
HEAD = {"formatVersion": FORMAT_VERSION, "type": "sentinel.audit.segment"}
PAGE = 2000
MOST_LINE_BYTES = 256 * 2**20
"""Longer than any event: what has no end must not fill the memory."""


def write_segment(folder: Path, place: int, events: Iterable[Linked]) -> Segment:
    """Durable when it returns, under a name that holds its digest: nothing is ever written over.

    Raises PurgeFailed where the disk refuses it, and what `events` raises; nothing is left then.
    """
    part = folder / f".audit-{place:06}.{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            digest, count = _Digest(file), 0
            with gzip.GzipFile("", "wb", fileobj=digest, mtime=0) as packed:
                packed.write(_line(HEAD))
                for event in events:
                    packed.write(_line(_document(event)))
                    count += 1
            file.flush()
            os.fsync(file.fileno())
        made = digest.hash.hexdigest()
        name = f"audit-{place:06}-{made[:12]}.ndjson.gz"
        part.replace(folder / name)
        flush_folder(folder)
    except OSError as error:
        raise PurgeFailed(
            f"{folder}: {error.strerror or error}",
            next_step="give --to a folder that this user may write, on a disk with room",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return Segment(name, made, count)


class _Digest:
    """Writes through, and hashes what passes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = sha256()

    def write(self, content: bytes) -> int:
        self.hash.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _document(event: Linked) -> dict[str, Any]:
    return event._asdict() | {
        "previous": event.previous.hex(),
        "hash": event.hash.hex(),
        "data": event.data.decode(),
    }


def flush_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. Raises OSError."""
    made = sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            made.update(block)
    return made.hexdigest()


def segment_pages(path: Path) -> Iterator[Page]:
    """The events of a segment for a walk, whatever was done to it; what is no event of one is an entry without a hash
    that could be computed. Ends early where the rest cannot be read: what is missing is found by the walk."""
    entries: list[Entry] = []
    for entry in _entries(path):
        entries.append(entry)
        if len(entries) == PAGE:
            yield _page(entries)
            entries = []
    if entries:
        yield _page(entries)


def _page(entries: list[Entry]) -> Page:
    return Page(len(entries), None, lambda: entries)


def _entries(path: Path) -> Iterator[Entry]:
    try:
        with gzip.open(path, "rb") as file:
            file.readline(MOST_LINE_BYTES)
            while line := file.readline(MOST_LINE_BYTES):
                yield _entry(line)
    except (OSError, EOFError, zlib.error):
        return


def _entry(line: bytes) -> Entry:
    try:
        told = json.loads(line)
        event = Linked(
            told["number"], bytes.fromhex(told["previous"]), bytes.fromhex(told["hash"]), tuple(told["columns"]),
            tuple(map(tuple, told["rows"])), told["data"].encode(), (),
        )  # fmt: skip
        source, computed = event.source, event.hash if event.is_whole() else None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return Entry("", 0, b"", b"", None)
    return Entry(source, event.number, event.previous, event.hash, computed, about(event.columns, event.rows))

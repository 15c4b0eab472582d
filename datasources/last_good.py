"""The last revisions that were activated, kept on disk so that a service starts with rules when its store is down.

A file holds one item: a line with the format's version and the SHA-256 of all that follows, a line of JSON (per
revision its identity, provenance, kinds and the lengths of its texts), then the texts as they were delivered. Usually
that is one revision; an older one stays for the kinds that newer ones do not carry any more, because their rules stay
active too. Anything that does not add up is refused with a reason; a folder that cannot be written costs the safety net
and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sentinel_core.datasources.atomic import replace_file
from sentinel_core.datasources.contract import Item
from sentinel_core.datasources.layout import MAX_BYTES
from sentinel_core.rules import Kind, Provenance, Revision, SourceText

_MAGIC = "sentinel-last-good"
_FORMAT = 1
_TIMES = ("committed_at", "published_at")
_MOST_BYTES = 4 * MAX_BYTES
"""Of several revisions: more than could have been saved is not read."""


class _NotUsableError(Exception):
    """Why a saved revision is not taken."""


class LastGood:
    """A folder with one file per item. `load` and `save` never raise; `problem` says what went wrong last."""

    def __init__(self, folder: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._folder = Path(folder)
        self._now = now
        self._problems: dict[str, str] = {}
        self._saved: dict[str, tuple[_Saved, ...]] = {}

    def path(self, item: Item) -> Path:
        """The item's file: a readable name plus enough of a hash to tell sources apart."""
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", item.source).strip("-.")[-80:]
        return self._folder / f"{readable}.{hashlib.sha256(item.source.encode()).hexdigest()[:16]}.last-good"

    def problem(self, item: Item) -> str | None:
        """What the last `load` or `save` of this item met; None when it went well."""
        return self._problems.get(item.source)

    def load(self, item: Item) -> tuple[Revision, ...]:
        """The saved revisions, oldest first: applied in this order they are what was active. Empty when there are none
        or they cannot be trusted."""
        self._problems.pop(item.source, None)
        try:
            saved = _decode(_read(self.path(item)), item.source)
        except FileNotFoundError:
            saved = ()
        except (OSError, _NotUsableError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._problems[item.source] = f"{self.path(item)} is not used: {why}; it is replaced at the next activation"
            saved = ()
        self._saved[item.source] = saved
        return tuple(entry.revision for entry in saved)

    def save(self, item: Item, revision: Revision, kinds: frozenset[Kind]) -> None:
        """Adds the revision that was activated with its kinds, in one step: after a crash the file is the old one or
        the new one, whole."""
        path = self.path(item)
        if item.source not in self._saved:
            self.load(item)
        older = (_Saved(entry.kinds - kinds, entry.revision) for entry in self._saved[item.source])
        saved = (*(entry for entry in older if entry.kinds), _Saved(kinds, revision))
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, _encode(saved, self._now()), mode=0o600)
        except OSError as error:
            self._problems[item.source] = (
                f"{path} cannot be written: {error.strerror}; a restart would find older rules"
            )
        else:
            self._saved[item.source] = saved
            self._problems.pop(item.source, None)


class _Saved(NamedTuple):
    """A revision and the kinds whose active rules are its."""

    kinds: frozenset[Kind]
    revision: Revision


def _read(path: Path) -> bytes:
    """Whatever somebody put there, a start waits for nothing. Raises OSError, _NotUsableError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _NotUsableError("it is no file")
        if found.st_size > _MOST_BYTES:
            raise _NotUsableError(f"it is larger than {_MOST_BYTES // 2**20} MiB")
        return file.read(_MOST_BYTES)


def _encode(saved: tuple[_Saved, ...], saved_at: datetime) -> bytes:
    header = {"savedAt": saved_at.isoformat(), "revisions": [_header(entry) for entry in saved]}
    contents = b"".join(text.content for entry in saved for text in entry.revision.texts)
    # Half a surrogate pair, such as an author may have, is written as the JSON escape that it is.
    body = json.dumps(header, ensure_ascii=False).encode(errors="backslashreplace") + b"\n" + contents
    return f"{_MAGIC} {_FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def _header(entry: _Saved) -> dict[str, Any]:
    revision = entry.revision
    return {
        "kinds": sorted(entry.kinds),
        "source": revision.source,
        "version": revision.version,
        "observed": revision.observed,
        "provenance": _provenance_to_json(revision.provenance),
        "texts": [{"name": text.name, "format": text.format, "length": len(text.content)} for text in revision.texts],
    }


def _decode(data: bytes, source: str) -> tuple[_Saved, ...]:
    first, _, body = data.partition(b"\n")
    words = first.decode("ascii", "replace").split(" ")
    if len(words) != 3 or words[0] != _MAGIC:
        raise _NotUsableError("it is not a saved revision")
    if words[1] != str(_FORMAT):
        raise _NotUsableError(f"its format is {words[1]}, this version reads {_FORMAT}")
    if hashlib.sha256(body).hexdigest() != words[2]:
        raise _NotUsableError("its checksum is wrong (torn or altered)")
    line, _, contents = body.partition(b"\n")
    try:
        saved = tuple(_entries(json.loads(line)["revisions"], contents))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _NotUsableError(f"its header cannot be read ({error})") from error
    for entry in saved:
        if entry.revision.source != source:
            raise _NotUsableError(f"it belongs to {entry.revision.source}")
    return saved


def _entries(headers: list[dict[str, Any]], contents: bytes) -> Iterator[_Saved]:
    start = 0
    for header in headers:
        texts = []
        for text in header["texts"]:
            end = start + abs(text["length"])
            texts.append(SourceText(_text(text["name"]), contents[start:end], _text(text["format"])))
            start = end
        provenance = _provenance_from_json(header["provenance"])
        source, version = _text(header["source"]), _text(header["version"])
        revision = Revision(tuple(texts), source, version, provenance, observed=bool(header["observed"]))
        yield _Saved(frozenset(map(_text, header["kinds"])), revision)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _provenance_to_json(provenance: Provenance) -> dict[str, str]:
    values = ((each.name, getattr(provenance, each.name)) for each in fields(Provenance))
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values if value is not None
    }


def _provenance_from_json(values: dict[str, str]) -> Provenance:
    known = {each.name for each in fields(Provenance)}
    parsed: dict[str, Any] = {
        name: datetime.fromisoformat(value) if name in _TIMES else _text(value)
        for name, value in values.items()
        if name in known
    }
    return Provenance(**parsed)

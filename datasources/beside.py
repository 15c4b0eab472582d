"""What a file store keeps beside its rules, in hidden files: notes, and the provenance, which says whose they are.

The provenance is written first, then the rules: whoever is told of new rules finds whose they are. It carries the
digest of the bytes that it tells of. Beside any others, which an editor wrote, or where a writer was killed before it
wrote the rules, it counts for nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePath

from sentinel_core.datasources.atomic import replace_file, sync_folder
from sentinel_core.datasources.contract import Absent, DatasourceError, SourceMisconfigured, SourceUnavailable
from sentinel_core.datasources.names import YAML_SUFFIXES
from sentinel_core.datasources.provenance import NAME, decode, encode, rules_digests
from sentinel_core.datasources.quoting import quoted
from sentinel_core.masking import mask_text
from sentinel_core.rules import Kind, Provenance, SourceText, content_digest

MAX_BYTES = 2**20
"""Read of a file at most. A provenance that we write is shorter; what is longer counts as damaged."""
_MOST_OF_A_NAME = 200


def place(path: Path, name: str) -> Path:
    """Of a note, for rules at `path`. A folder takes its provenance along wherever it is mounted. Other notes never
    stand in a folder of rules, whose version a new file would change."""
    path = Path(os.path.realpath(path))
    if name == NAME and path.is_dir():
        return path / f".{name}"
    return path.with_name(f".{path.name}.{name}")


def read(file: Path) -> bytes | None:
    """Its first `MAX_BYTES`; None where there is none. Raises SourceMisconfigured, SourceUnavailable."""
    try:
        _check_regular(file)
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceUnavailable(f"{file}: {error.strerror}; let this user read it") from error


def provenance_of(path: Path, texts: Sequence[SourceText]) -> Provenance | None:
    """Whose these texts are; None where nothing tells of them. Raises DatasourceError where that cannot be read."""
    content = read(place(path, NAME))
    if content is None:
        return None
    found = decode(content)
    if found is None:
        raise SourceMisconfigured(f"{place(path, NAME)} is damaged; remove it, or publish again")
    provenance, told_of = found
    return provenance if told_of == _digest(path, texts) else None


def document(path: Path, texts: Sequence[SourceText], kinds: Sequence[Kind], provenance: Provenance) -> bytes:
    """What tells of these texts, which are named by their files."""
    return encode(provenance, _digest(path, texts), rules_digests(texts, kinds))


@contextmanager
def telling(path: Path, told: bytes | None, mode: int) -> Iterator[None]:
    """Within it the rules are written that `told` tells of, or removed (None). Where that fails, what told of the older
    ones comes back; where that fails too, it tells of nothing that stands there. Raises OSError, DatasourceError."""
    file = place(path, NAME)
    with suppress(FileNotFoundError):
        _check_regular(file)
    before = None
    if told is not None:
        with suppress(DatasourceError):  # what is damaged is replaced
            before = read(file)
        replace_file(file, told, mode=mode)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if before is not None:
                replace_file(file, before, mode=mode)
            elif told is not None:
                file.unlink()
        raise
    if told is None:
        file.unlink(missing_ok=True)
        sync_folder(file.parent)


def absent(path: Path) -> Absent:
    """Why nothing stands there: as far as can be known nothing ever did, or it was published and is gone."""
    if not path.parent.is_dir():
        return Absent(
            f"{path} is missing: there is no folder {path.parent}",
            next_step=f"correct the path, or make it: mkdir -p {path.parent}",
        )
    found = None
    with suppress(DatasourceError):
        found = decode(read(place(path, NAME)) or b"")
    if found is not None:
        return Absent(
            f"{path} is gone: {_said(found[0])}",
            next_step="sentinelctl rules publish    (brings back what is committed)",
        )
    if path.is_dir():
        return Absent(f"{path} holds no rule files")
    if path.suffix.lower() in {*YAML_SUFFIXES, ".json"}:
        return Absent(f"{path} is missing")
    return Absent(
        f"{path} is missing",
        next_step=f"check its path; where it is to be a folder: mkdir -p {path}; then: sentinelctl rules publish",
    )


def _said(provenance: Provenance) -> str:
    who = quoted(mask_text((provenance.author or provenance.published_by or "somebody")[:_MOST_OF_A_NAME]))
    when = f" at {provenance.published_at:%Y-%m-%d %H:%M} UTC" if provenance.published_at else ""
    return f"rules of {who} were published there{when}"


def _digest(path: Path, texts: Sequence[SourceText]) -> str:
    """Of the bytes, wherever the store is mounted and whatever it is called there."""
    named = [replace(text, name=str(PurePath(text.name).relative_to(path))) for text in texts]
    return content_digest(sorted(named, key=lambda text: text.name))


def _check_regular(file: Path) -> None:
    """Raises OSError, SourceMisconfigured."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise SourceMisconfigured(f"{file} is no file; remove it")

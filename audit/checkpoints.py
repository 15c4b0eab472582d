"""Signed statements of how far each chain has come, kept outside the store: whoever rewrites the store lacks the key.

One JSON object a line, appended and never changed. The signature covers the canonical bytes (RFC 8785) of the line
without its member `signature`.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import rfc8785

from sentinel_core.audit.chain import START, Head
from sentinel_core.audit.errors import CheckpointsUnusable, KeyUnusable
from sentinel_core.audit.instants import rfc3339, whole_ms
from sentinel_core.audit.signing import SigningKey, VerifyKey
from sentinel_core.audit.verify import Finding, Promise

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What a file of checkpoints says."""

    promises: Sequence[Promise]
    """Those whose signature is good; without a key to verify with, all."""
    findings: Sequence[Finding]
    """Lines that are no checkpoints, and signatures that are not the key's."""


def signed(heads: Sequence[Head], key: SigningKey, at: datetime) -> list[dict[str, Any]]:
    """A checkpoint for each chain."""
    return [_signed(head, key, at) for head in heads]


def _signed(head: Head, key: SigningKey, at: datetime) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION,
        "time": rfc3339(at),
        "source": head.source,
        "number": head.number,
        "hash": head.hash.hex(),
        "adopted": head.adopted,
        "keyId": key.public.id,
    }
    return statement | {"signature": b64encode(key.sign(rfc8785.dumps(statement))).decode()}


def append(path: Path, checkpoints: Sequence[dict[str, Any]]) -> None:
    """Durable when it returns. Several processes may append to one file. Raises CheckpointsUnusable."""
    lines = b"".join(json.dumps(checkpoint, ensure_ascii=False).encode() + b"\n" for checkpoint in checkpoints)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                lines = b"\n" + lines  # a line that a crash cut off stays one line
            os.write(descriptor, lines)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CheckpointsUnusable(
            f"{path}: {error.strerror}; give audit.checkpoints a path that this user may write"
        ) from error


def read(path: Path, keys: Sequence[VerifyKey]) -> Checkpoints:
    """All checkpoints of a file; one that is not there has none. Raises CheckpointsUnusable, and KeyUnusable where each
    of them is of another key than those: then nothing is wrong with them that these keys could tell."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        lines = []
    except OSError as error:
        raise CheckpointsUnusable(f"{path}: {error.strerror}; let this user read it") from error
    by_id = {key.id: key for key in keys}
    promises: list[Promise] = []
    findings: list[Finding] = []
    for number, line in enumerate(lines, 1):
        told = _judged(line, by_id, f"line {number} of {path.name}")
        if isinstance(told, Promise):
            promises.append(told)
        else:
            findings.append(told)
    if keys and findings and not promises and all(finding.text.endswith(_OTHER_KEY) for finding in findings):
        raise KeyUnusable(
            f"none of the {len(findings)} checkpoints in {path} is signed with {' or '.join(by_id)}, the key that was "
            f"given, but with {_key_of(lines[0])}; give --key the public half of audit.signingKey. Where that is this "
            "one, somebody put another file there"
        )
    return Checkpoints(promises, findings)


_OTHER_KEY = "is signed with a key that was not given"


def _key_of(line: bytes) -> str:
    told = str(json.loads(line).get("keyId"))[:16]
    return told if told.isalnum() else "another"


def newest(path: Path) -> dict[str, Promise]:
    """The last checkpoint of each source among the last lines of a file, without looking at signatures: quick, and
    nothing that evidence could rest on. Empty where the file cannot be read."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES)
            file.seek(start)
            lines = file.read().splitlines()[1 if start else 0 :]
    except OSError:
        return {}
    told = (_judged(line, {}, "") for line in lines)
    return {promise.source: promise for promise in told if isinstance(promise, Promise)}


_LAST_BYTES = 64 * 1024


def _judged(line: bytes, keys: dict[str, VerifyKey], where: str) -> Promise | Finding:
    try:
        statement = json.loads(line)
        signature = b64decode(statement.pop("signature"), validate=True)
        source, number, made = statement["source"], statement["number"], bytes.fromhex(statement["hash"])
        at = rfc3339(whole_ms(datetime.fromisoformat(statement["time"])))
        adopted = statement.get("adopted")  # older lines do not tell
        promise = Promise(source, number, made, at, adopted=adopted if type(adopted) is int else None)
        content = rfc8785.dumps(statement)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Finding("bad signature", "", 0, 0, f"{where} is no checkpoint")
    if not (isinstance(source, str) and type(number) is int and number > 0 and len(made) == len(START)):
        return Finding("bad signature", "", 0, 0, f"{where} is no checkpoint")
    if not keys:
        return promise
    key = keys.get(str(statement.get("keyId")))
    if key is None:
        return Finding("bad signature", source, number, number, f"{where} {_OTHER_KEY}")
    if not key.is_signed(content, signature):
        return Finding("bad signature", source, number, number, f"{where} was not signed like this")
    return promise

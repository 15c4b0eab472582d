"""What remains of a purge: an event of its own, in a chain like any other, signed where there is a key.

The newest record alone says all: which segments there are, and where the chain of each source begins now.
"""

from __future__ import annotations

import json
import uuid
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import rfc8785

from sentinel_core.audit.chain import Head
from sentinel_core.audit.errors import EventInvalid
from sentinel_core.audit.event import NAMESPACE, Event
from sentinel_core.audit.instants import milliseconds, rfc3339, whole_ms
from sentinel_core.audit.retention.contract import PURGED
from sentinel_core.audit.signing import SigningKey, VerifyKey
from sentinel_core.masking import mask_text

FORMAT_VERSION = 1
Signature = Literal["none", "good", "bad", "unknown key"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of purged events."""

    file: str
    """Its name; it lies in the folder that the purge was given."""
    sha256: str
    """Of the file, hexadecimal."""
    events: int


@dataclass(frozen=True, slots=True)
class PurgeRecord:
    """What an event of type PURGED says."""

    before: datetime
    """Events of before that time were purged, as far as no later one stood before them in their chain."""
    segments: tuple[Segment, ...]
    """Of all purges so far, oldest first."""
    chains: tuple[Head, ...]
    """The last purged event of each source."""
    statement: dict[str, Any]
    """The data of the event, with the signature."""

    def signature(self, keys: Sequence[VerifyKey]) -> Signature:
        """Whether one of the keys signed exactly this."""
        statement = dict(self.statement)
        signature = statement.pop("signature", None)
        if signature is None:
            return "none"
        key = next((key for key in keys if key.id == statement.get("keyId")), None)
        if key is None:
            return "unknown key"
        try:
            good = key.is_signed(rfc8785.dumps(statement), b64decode(str(signature), validate=True))
        except ValueError:
            good = False
        return "good" if good else "bad"


def purged(
    *,
    environment: str,
    before: datetime,
    at: datetime,
    by: str | None,
    reason: str | None,
    segments: Sequence[Segment],
    chains: Sequence[Head],
    key: SigningKey | None,
) -> Event:
    """The record of a purge; the last of `segments` is the one that it made."""
    made = segments[-1]
    source = f"/{environment}/audit"
    statement: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION,
        "environment": environment,
        "timestamp": milliseconds(at),
        "channel": "cli",
        "publishedBy": by,
        "reason": reason and mask_text(reason),
        "before": rfc3339(before),
        "events": made.events,
        "segments": [{"file": each.file, "sha256": each.sha256, "events": each.events} for each in segments],
        "chains": [{"source": head.source, "number": head.number, "hash": head.hash.hex()} for head in chains],
    }
    if key is not None:
        statement["keyId"] = key.public.id
        statement["signature"] = b64encode(key.sign(rfc8785.dumps(statement))).decode()
    identity = str(uuid.uuid5(NAMESPACE, json.dumps([PURGED, source, made.sha256])))
    data = json.dumps(statement, ensure_ascii=False).encode()
    return Event(identity, source, PURGED, "audit", whole_ms(at), data)


def read_record(event: Event) -> PurgeRecord:
    """Raises EventInvalid where the event is no such record, as one that was tampered with may be."""
    try:
        statement = event.payload
        return PurgeRecord(
            whole_ms(datetime.fromisoformat(statement["before"])),
            tuple(
                Segment(_name(each["file"]), str(each["sha256"]), int(each["events"])) for each in statement["segments"]
            ),
            tuple(
                Head(str(each["source"]), int(each["number"]), bytes.fromhex(each["hash"]))
                for each in statement["chains"]
            ),
            statement,
        )
    except KeyError as error:
        raise EventInvalid(f"event {event.id} is no record of a purge: it has no {error}") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise EventInvalid(f"event {event.id} is no record of a purge: {error}") from error


def _name(file: Any) -> str:
    """A name in a folder, and no way out of it."""
    if not isinstance(file, str) or {"/", "\0"} & {*file} or file in {"", ".", ".."}:
        raise ValueError(f"{file!r} is no name of a file")
    return file

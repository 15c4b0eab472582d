"""What a walk through a store must know of the events that have left it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentinel_core.audit.chain import ChainedStore, Fault, FaultyStore, Head, Page, Wanted
from sentinel_core.audit.errors import EventInvalid, StoreDamaged, StoreMissing, StoreUnavailable
from sentinel_core.audit.event import Event
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.retention.contract import PurgingStore
from sentinel_core.audit.retention.record import PurgeRecord, read_record
from sentinel_core.audit.retention.segment import digest_of, segment_pages
from sentinel_core.audit.signing import VerifyKey
from sentinel_core.audit.verify import Finding, Promise, Verdict, verify


@dataclass(slots=True)
class Past:
    """Purged events: where the chains begin without them, or they themselves."""

    begins: Sequence[Promise] = ()
    """The last purged event of each source, as far as the record can be believed."""
    pages: Iterator[Page] | None = None
    """The purged events, to be walked first; None where no segments were given."""
    findings: list[Finding] = field(default_factory=list)
    record: PurgeRecord | None = None
    event: Event | None = None
    """The one that holds the record."""


def walked(
    store: ChainedStore, promises: Sequence[Promise], keys: Sequence[VerifyKey], folder: Path | None
) -> tuple[Past, Verdict]:
    """What `verify` finds in the store, and with a folder in its segments, too. Walks again where a purge went on
    meanwhile, as what it took away looks as if it were missing. A file that is none any more is a finding, and so is a
    store that is gone and has checkpoints. Raises StoreUnavailable."""
    beside = _Beside(store.faults) if isinstance(store, FaultyStore) else None
    past, verdict = Past(), Verdict(0, (), (), 0)
    try:
        for left in range(TRIES, 0, -1):
            past = past_of(store, keys, folder)
            verdict = verify(store, promises, begins=past.begins, sealed=past.pages)
            if left == 1 or not _went_on(store, past, verdict):
                break
        for each in beside.result() if beside else ():
            past.findings.append(Finding(each.kind, each.source, each.number, each.number, each.text))
    except StoreMissing:
        if not promises:
            raise
        verdict = verify(_Nothing(), promises)
    except StoreDamaged as error:
        past.findings.append(Finding("damaged file", "", 0, 0, str(error)))
    return past, verdict


TRIES = 3


class _Nothing:
    """What is left of a store that is gone, and of which there are checkpoints."""

    def heads(self) -> Sequence[Head]:
        return ()

    def pages(self, wanted: Wanted) -> tuple[Sequence[Head], Iterator[Page]]:  # noqa: ARG002  there are none
        return (), iter(())


class _Beside:
    """What a store says of itself, found while this thread walks: SQLite reads a file without Python's lock. Nobody
    waits for it who is interrupted."""

    def __init__(self, look: Callable[[], Sequence[Fault]]) -> None:
        self._look = look
        self._told: Sequence[Fault] = ()
        self._error: StoreUnavailable | None = None
        self._thread = threading.Thread(target=self._run, name="sentinel-verify", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._told = self._look()
        except StoreUnavailable as error:
            self._error = error

    def result(self) -> Sequence[Fault]:
        """Waits for it."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._told


def _went_on(store: ChainedStore, past: Past, verdict: Verdict) -> bool:
    """Whether another purge was recorded, or something is missing of what an earlier one may just be removing."""
    if not verdict.findings or not isinstance(store, PurgingStore):
        return False
    begins = {begin.source: begin.number for begin in past.begins}
    return store.last_purge() != past.event or any(
        finding.kind == "gap" and finding.last <= begins.get(finding.source, 0) for finding in verdict.findings
    )


def past_of(store: object, keys: Sequence[VerifyKey], folder: Path | None) -> Past:
    """What the record of the last purge says, judged by the keys: without any it is believed, as it stands in a chain.

    Segments prove themselves, so with a folder nothing depends on the signature. Raises StoreUnavailable.
    """
    event = store.last_purge() if isinstance(store, PurgingStore) else None
    if event is None:
        return Past()
    try:
        record = read_record(event)
    except EventInvalid as error:
        return Past(findings=[Finding("hash mismatch", event.source, 0, 0, str(error))], event=event)
    begins = [Promise(head.source, head.number, head.hash, rfc3339(event.time), "purge") for head in record.chains]
    past = Past(begins, record=record, event=event)
    signature = record.signature(keys) if keys else "good"
    if signature != "good":
        text = f"the record of the purge {_WORDS[signature]}"
        past.findings.append(Finding("bad signature", event.source, 0, 0, text))
        past.begins = ()
    if folder is not None:
        past.begins = begins
        past.findings += _differing(record, folder)
        past.pages = (page for segment in record.segments for page in segment_pages(folder / segment.file))
    return past


_WORDS = {
    "none": "is not signed",
    "bad": "was not signed like this",
    "unknown key": "is signed with a key that was not given",
}


def _differing(record: PurgeRecord, folder: Path) -> Iterator[Finding]:
    for segment in record.segments:
        try:
            if digest_of(folder / segment.file) == segment.sha256:
                continue
            trouble = "is not as it was sealed"
        except OSError as error:
            trouble = f"cannot be read from {folder}: {error.strerror}"
        yield Finding("bad segment", "", 0, 0, f"{segment.file} {trouble}")

"""From Kafka into the audit store: at least once, each event once in the store, and no message stops the line.

One thread polls, stores, and only then commits. What cannot be stored for good goes to a topic of its own with the
reason, and the line goes on; while the store is down nothing is fetched, and the consumer stays in its group.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sentinel_core.audit.each import ingest_each
from sentinel_core.audit.errors import (
    AuditError,
    EventInvalid,
    PublisherDenied,
    PublisherMisconfigured,
    StoreUnavailable,
)
from sentinel_core.audit.event import Event, parse_event
from sentinel_core.audit.kafka import clients
from sentinel_core.audit.kafka.dead_letters import DeadLetter, DeadLetters
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.troubles import told
from sentinel_core.audit.store.contract import AuditStore, Ingested

BATCH = 1000
POLL_S = 0.5
LONGEST_PAUSE_S = 3.0
MAX_FETCH_BYTES = 64 * 2**20
STORE_WAIT_S = 30.0
"""With `until_idle`, how long a store that is down is waited for."""
SESSION_MS = 10_000
"""How long the partitions of one that was killed wait for another to take them."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IngestStatus:
    """How the line goes."""

    stored: int
    duplicates: int
    dead: int
    """Messages that went to the dead letters."""
    lag: int | None
    """Messages of the own partitions that are not stored yet; None before the first answer."""
    behind_s: float
    """Age of the message that was stored last while more wait, in seconds; 0 without any waiting."""
    last_error: str | None
    """Why nothing moves; None when it does."""


class Ingest:
    """Runs on the caller's thread. Nothing is connected before `run`; `status` may be asked from any thread."""

    def __init__(
        self,
        target: Target,
        store: AuditStore,
        *,
        topics: Topics | None = None,
        group: str = "sentinel-audit",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._store = store
        self._topics = topics or Topics()
        self._group = group
        self._now = now
        self._monotonic = monotonic
        self._dead_letters = DeadLetters(target, self._topics.dead_letters)
        self._consumer: Any = None
        self._failures = 0
        self._patient = True
        self._let_in = False
        """Whether Kafka ever answered; from then on a refusal is trouble of its own that passes, and not a mistake."""
        self._status = IngestStatus(0, 0, 0, None, 0.0, None)

    def status(self) -> IngestStatus:
        return self._status

    def run(self, stop: threading.Event, *, until_idle: bool = False) -> None:
        """Goes on until `stop` is set, whatever fails; with `until_idle`, until everything there was is stored.

        Raises PublisherDenied or PublisherMisconfigured where Kafka never let it in, and with `until_idle`
        PublisherUnavailable where it has no connection, and StoreUnavailable where the store is down for STORE_WAIT_S:
        whoever waits for the end wants to know.
        """
        self._target.options()
        library()
        self._patient = not until_idle
        try:
            while not stop.is_set():
                if self._step(stop) and until_idle and self._status.lag == 0:
                    break
        finally:
            self.close()

    def _step(self, stop: threading.Event) -> bool:
        """One batch; whether it went well."""
        try:
            consumer = self._connected()
            batch = [message for messages in consumer.poll(POLL_S * 1000, BATCH).values() for message in messages]
            if batch:
                self._take(batch, stop)
                consumer.commit(timeout_ms=self._target.timeout_s * 1000)
            self._tell(consumer, batch)
        except Exception as error:
            reason = error if isinstance(error, AuditError) else told(self._target, error)
            if not self._may_pass(reason):
                raise reason from error
            # Nothing is committed that is not stored, so all can be done again.
            self._failed(reason, stop)
            return False
        self._let_in = True
        if self._failures:
            _log.info("events are taken again after %d attempts", self._failures)
        self._failures = 0
        return True

    def _may_pass(self, reason: AuditError) -> bool:
        if isinstance(reason, (PublisherDenied, PublisherMisconfigured)):
            return self._let_in
        return self._patient or (self._consumer is not None and not isinstance(reason, StoreUnavailable))

    def _connected(self) -> Any:
        if self._consumer is None:
            self._consumer = clients.consumer(
                self._target,
                group_id=self._group,
                auto_offset_reset="earliest",
                max_poll_records=BATCH,
                max_partition_fetch_bytes=MAX_FETCH_BYTES,
                session_timeout_ms=SESSION_MS,
            )
            self._consumer.subscribe([self._topics.changes, self._topics.status])
        return self._consumer

    # -- storing -----------------------------------------------------------------------------------------------------

    def _take(self, batch: Sequence[Any], stop: threading.Event) -> None:
        """Returns when each of them is in the store or among the dead letters; waits for as long as that takes."""
        dead: list[DeadLetter] = []
        events: list[Event] = []
        messages: list[Any] = []
        for message in batch:
            try:
                events.append(parse_event(message.value or b""))
                messages.append(message)
            except EventInvalid as error:
                dead.append(DeadLetter.of(message, str(error)))
        done = self._stored(events, stop) if events else Ingested(0, 0)
        dead += [DeadLetter.of(messages[each.place], each.reason) for each in done.refused]
        if dead:
            self._dead_letters.send(dead)
            for letter in dead:
                _log.error(
                    "%s cannot be stored and is in %s: %s", letter.place, self._dead_letters.topic, letter.reason
                )
        was = self._status
        self._status = replace(
            was, stored=was.stored + done.new, duplicates=was.duplicates + done.duplicate, dead=was.dead + len(dead)
        )

    def _stored(self, events: Sequence[Event], stop: threading.Event) -> Ingested:
        """While the store is down this keeps the place in the group and asks again."""
        attempt, began = 0, self._monotonic()
        while True:
            try:
                return ingest_each(self._store, events)
            except StoreUnavailable as error:
                if stop.is_set():
                    raise
                if not self._patient and self._monotonic() - began >= STORE_WAIT_S:
                    raise StoreUnavailable(
                        f"{error}; waited {STORE_WAIT_S:g} s, and what is not stored stays in Kafka"
                    ) from error
                attempt += 1
                self._note(error, first=attempt == 1)
                self._hold()
                stop.wait(_pause(attempt))

    def _hold(self) -> None:
        """Takes part in the group without taking messages."""
        consumer = self._consumer
        consumer.pause(*consumer.assignment())
        consumer.poll(0, update_offsets=False)
        consumer.resume(*consumer.paused())

    # -- telling -----------------------------------------------------------------------------------------------------

    def _tell(self, consumer: Any, batch: Sequence[Any]) -> None:
        assigned = consumer.assignment()
        marks = [(consumer.highwater(each), each) for each in assigned]
        known = [(mark, consumer.position(each)) for mark, each in marks if mark is not None]
        lag = sum(max(0, mark - place) for mark, place in known) if len(known) == len(marks) and marks else None
        behind = 0.0
        if lag and batch:
            behind = max(0.0, self._now().timestamp() - max(message.timestamp for message in batch) / 1000)
        self._status = replace(self._status, lag=lag, behind_s=behind, last_error=None)
        trouble = None if batch else clients.trouble_of(consumer)
        if trouble is not None:
            reason = told(self._target, trouble)
            if not self._patient or isinstance(reason, (PublisherDenied, PublisherMisconfigured)):
                raise reason
            # kafka-python connects again by itself; nothing has to be made anew.
            self._note(reason, first=False)

    def _failed(self, error: AuditError, stop: threading.Event) -> None:
        self._failures += 1
        self._note(error, first=self._failures == 1)
        self._disconnect()
        stop.wait(_pause(self._failures))

    def _note(self, error: AuditError, *, first: bool) -> None:
        if first:
            _log.warning("events wait: %s", error)
        self._status = replace(self._status, last_error=str(error))

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            clients.leave(consumer)

    def close(self) -> None:
        """Leaves the group. Idempotent; the store stays open."""
        self._disconnect()
        self._dead_letters.close()


def _pause(attempt: int) -> float:
    return min(LONGEST_PAUSE_S, 0.1 * 2.0 ** min(attempt - 1, 10))

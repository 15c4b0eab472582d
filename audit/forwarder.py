"""Carries events from the outbox to a publisher: in order, as often as it takes, never in anybody's way."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sentinel_core.audit.errors import AuditError, EventRefused, PublisherUnavailable, SinkUnavailable
from sentinel_core.audit.event import Event
from sentinel_core.audit.lease import Lease
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.contract import Publisher

BATCH = 200
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
IDLE_POLL_S = 1.0
"""How soon events of other processes that share the outbox are seen; this process's own are seen at once."""
UNEXPECTED_BEFORE_PARKING = 5
"""A lone event with which the publisher fails in an undocumented way so often is taken for the cause."""

_COUNTING_S = 0.2
"""Of the time of a close, what is left for counting what stays."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForwarderStatus:
    """What `status`, `doctor` and the metrics show."""

    waiting: int
    parked: int
    oldest: datetime | None
    """Time of the event that waits longest."""
    last_error: str | None
    """Why the last attempt failed; None after a success."""


class Forwarder:
    """One thread per process; of the processes that share an outbox one forwards at a time, the others stand by.

    An event is marked sent only when the publisher acknowledged it. Trouble is logged once per outage and shown by
    `status`; nothing is raised into the service. Threads do not survive a fork: make a new Forwarder in the child.
    """

    def __init__(
        self, outbox: Outbox, publisher: Publisher, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._outbox = outbox
        self._publisher = publisher
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._turn = threading.Lock()
        """Held while a batch is under way: the thread and a `drain` take turns."""
        self._lease = Lease(outbox.path.with_name(f"{outbox.path.name}.forwarder"))
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._last_error: str | None = None
        self._suspect: tuple[tuple[str, str], int] | None = None
        """Id and source of the event that is sent alone after an undocumented failure, and how often it failed so."""

    def start(self) -> None:
        """Begins in the background; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sentinel-audit-forwarder", daemon=True)
            self._thread.start()

    def drain(self, timeout_s: float) -> bool:
        """Delivers what waits, here and now; True when nothing waits any more. Works with and without the thread.

        Raises SinkUnavailable when the outbox cannot be read.
        """
        deadline = self._monotonic() + timeout_s
        while True:
            if self._turn.acquire(timeout=max(0.0, deadline - self._monotonic())):
                try:
                    self._pump_locked()
                finally:
                    self._turn.release()
            if self._outbox.depth() == 0:
                return True
            left = deadline - self._monotonic()
            if left <= 0:
                return False
            # Standing by for another process's forwarder, or backing off.
            self._stop.wait(min(left, self._pause()))

    def close(self, timeout_s: float = 5.0) -> int:
        """Delivers what can be delivered in that time, then stops; returns how many events stay in the outbox.

        Raises SinkUnavailable when the outbox cannot be read. A publisher that hangs is left behind with a daemon
        thread: an end is bounded.
        """
        deadline = self._monotonic() + timeout_s - min(_COUNTING_S, timeout_s / 5)
        failed: list[SinkUnavailable] = []
        ending = threading.Thread(target=self._end, args=(deadline, failed), name="sentinel-audit-end", daemon=True)
        try:
            ending.start()
        except RuntimeError:  # the interpreter is ending, and starts nothing any more
            self._end(deadline, failed)
        else:
            ending.join(max(0.0, deadline - self._monotonic()))
        self._stop.set()
        self._outbox.appended.set()
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - self._monotonic()))
        if failed:
            raise failed[0]
        left = self._outbox.depth()
        if left:
            _log.warning("%d audit events are not delivered yet; they stay in %s", left, self._outbox.path)
        return left

    def _end(self, deadline: float, failed: list[SinkUnavailable]) -> None:
        try:
            self.drain(max(0.0, deadline - self._monotonic()))
        except SinkUnavailable as error:
            failed.append(error)
        self._stop.set()
        self._outbox.appended.set()
        with self._turn:
            self._publisher.flush(max(0.0, deadline - self._monotonic()))
            self._publisher.close()
            self._lease.release()

    def status(self) -> ForwarderStatus:
        """What waits and why. Raises SinkUnavailable when the outbox cannot be read."""
        return ForwarderStatus(
            self._outbox.depth(), self._outbox.parked_count(), self._outbox.oldest(), self._last_error
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._outbox.appended.clear()
            with self._turn:
                moved = not self._stop.is_set() and self._pump_locked()
            if self._failures:
                self._stop.wait(self._pause())
            elif not moved:
                self._outbox.appended.wait(IDLE_POLL_S)

    def _pump_locked(self) -> bool:
        """Tries one batch; whether anything left the line. Never raises: the next try may go well."""
        try:
            moved = self._lease.acquire() and self._send_locked()
        except Exception as error:  # noqa: BLE001  whatever it is, the events are safe and the thread must live
            self._failures += 1
            self._last_error = str(error) or type(error).__name__
            if self._failures == 1:
                _log.warning("audit events wait in %s: %s", self._outbox.path, self._last_error)
            return False
        if self._failures and moved:
            _log.info("audit events are delivered again after %d attempts", self._failures)
        if moved:
            self._failures, self._last_error = 0, None
        return moved

    def _send_locked(self) -> bool:
        batch = self._outbox.pending(1 if self._suspect else BATCH)
        if not batch:
            return False
        try:
            acknowledged = self._publisher.publish(batch)
        except EventRefused as refusal:
            refused = next((event for event in batch if _is(event, refusal)), None)
            if refused is None:
                raise
            self._park(refused, refusal.reason)
            return True
        except AuditError:
            raise
        except Exception as error:
            if not self._is_to_blame_locked(batch, error):
                raise
            return True
        if not acknowledged:
            raise PublisherUnavailable("nothing was acknowledged")
        self._outbox.mark_sent(acknowledged)
        self._suspect = None
        return True

    def _is_to_blame_locked(self, batch: Sequence[Event], error: Exception) -> bool:
        """After an undocumented failure: send one at a time, and park the one that fails again and again alone."""
        first = batch[0]
        failed_alone = 0 if len(batch) > 1 else 1
        if self._suspect is not None and self._suspect[0] == (first.id, first.source):
            failed_alone += self._suspect[1]
        self._suspect = ((first.id, first.source), failed_alone)
        if failed_alone < UNEXPECTED_BEFORE_PARKING:
            return False
        self._park(first, f"the publisher failed {failed_alone} times with it alone: {type(error).__name__}: {error}")
        self._suspect = None
        return True

    def _park(self, event: Event, reason: str) -> None:
        self._outbox.park(event, reason)
        _log.error("audit event %s was refused and is parked in %s: %s", event.id, self._outbox.path, reason)

    def _pause(self) -> float:
        """Seconds until the next attempt: doubling, at most LONGEST_PAUSE_S, spread so that a fleet does not march."""
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(max(self._failures - 1, 0), 16))
        return longest * (0.5 + random.random() / 2)  # noqa: S311  spreads load, guards nothing


def _is(event: Event, refusal: EventRefused) -> bool:
    return event.id == refusal.event_id and refusal.source in {None, event.source}

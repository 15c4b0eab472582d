"""An engine as a service runs it: wired with stores, outbox, forwarder and audit store, and taken down in order.

Made by `start`. Not imported by `sentinel_core` itself: whoever only loads rules pays for no outbox and no store.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentinel_core import datasources
from sentinel_core.applied_events import AppliedEvents
from sentinel_core.audit.errors import AuditError, KeyUnusable, SinkUnavailable, StoreUnavailable
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.contract import Publisher
from sentinel_core.audit.publish.kafka import KafkaPublisher
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.redaction import Redaction
from sentinel_core.audit.store import open_store
from sentinel_core.breaker_events import BreakerEvents
from sentinel_core.clock import Clock
from sentinel_core.collectors import Collector
from sentinel_core.collectors import open as open_collector
from sentinel_core.datasources.contract import DatasourceError, Readable
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.datasources.subscription import Subscription
from sentinel_core.datasources.uri import mask_uri
from sentinel_core.engine import Engine
from sentinel_core.metrics.block_log import BlockLog
from sentinel_core.metrics.metric_log import MetricLog
from sentinel_core.options import Statistics
from sentinel_core.settings import Kafka, Observe, Settings, SettingsError
from sentinel_core.status_file import StatusFile

if TYPE_CHECKING:
    from sentinel_core.observation.recorder import Recorder

logger = logging.getLogger("sentinel_core")
_LEAST_S = 0.05
"""What a step of a close is given where earlier ones took all the time: what waits in memory is told to the outbox."""


class ServiceEngine(Engine):
    """An engine that owns what it was wired with, and releases it in `close`."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self.outbox = Outbox(settings.audit.outbox)
        self._publisher = _publisher(settings)
        self.forwarder = Forwarder(self.outbox, self._publisher)
        self.subscriptions: tuple[Subscription, ...] = ()
        """One for each store, in the order of the settings."""
        self.bootstrap: Subscription | None = None
        self.recorder: Recorder | None = None
        """Writes business metrics down, where the settings say so."""
        self._sources: list[Readable] = []
        self._status: StatusFile | None = None
        self._released = False
        redaction = redaction_of(settings)
        super().__init__(
            settings.app,
            environment=settings.environment,
            instance=_instance(settings),
            clock=clock,
            audit=self.outbox,
            redaction=redaction,
            last_good=LastGood(Path(settings.last_known_good)),
            compat=settings.compat,
            statistics=Statistics(minutes=settings.metric_log.folder is not None),
        )
        self._logs = _logs(self, settings.metric_log.folder)
        self._moves = BreakerEvents(self, self.outbox, redaction=redaction)
        self._applied = AppliedEvents(self, self.outbox)
        self._activation.applied = self._applied.applied
        if settings.observe.file is not None:
            self.recorder = _recorder(self, settings.observe)

    def begin(self, stores: Sequence[Readable], bootstrap: Readable | None = None) -> None:
        """Delivers what the last run left behind, and follows these stores; they are closed with the engine."""
        self.forwarder.start()
        if self.recorder is not None:
            self.recorder.start()
        for collector in collectors_of(self.settings):
            self.collectors.register(collector)
        self._sources = [*stores, *([bootstrap] if bootstrap else [])]
        followed = self.follow(stores, bootstrap=bootstrap)
        self.subscriptions = followed[: len(stores)]
        self.bootstrap = followed[-1] if bootstrap else None
        self._moves.start()
        self._applied.start()
        for log in self._logs:
            log.start()
        if self.settings.status is not None:
            folder = Path(self.settings.status)
            self._status = StatusFile(self, folder, redaction=redaction_of(self.settings)).start()

    def renew_after_fork(self) -> None:
        super().renew_after_fork()
        self.outbox.appended = threading.Event()
        self.instance = self._activation.instance = _instance(self.settings)
        if self.recorder is not None and not self._released:
            self.recorder.renew_after_fork()

    def _restart(self) -> None:
        # Of the processes that share the outbox one forwards at a time; this one stands by.
        if not self._released:
            self.forwarder = Forwarder(self.outbox, self._publisher)
            self.forwarder.start()
            if self.recorder is not None:
                self.recorder.start()
        super()._restart()

    def wait_ready(self, timeout_s: float) -> bool:
        """Waits until every store was read and what it holds is active; False when that took too long.

        A service that must not take a call without rules asks this before its first one.
        """
        deadline = time.monotonic() + timeout_s
        return all(each.wait_ready(max(0.0, deadline - time.monotonic())) for each in self.subscriptions)

    def status(self) -> dict[str, Any]:
        found = super().status()
        found["audit"] |= self._delivery()
        if self.recorder is not None:
            found["observe"] = {"file": self.settings.observe.file, "error": self.recorder.error}
        return found

    def _delivery(self) -> dict[str, Any]:
        """What waits in the outbox, since when, and why it goes no further."""
        try:
            status = self.forwarder.status()
        except SinkUnavailable as error:
            return {"waiting": None, "parked": None, "oldest": None, "delivery": str(error)}
        oldest = status.oldest and rfc3339(status.oldest)
        return {"waiting": status.waiting, "parked": status.parked, "oldest": oldest, "delivery": status.last_error}

    def close(self, timeout_s: float | None = None) -> None:
        """Backwards along the way of a rule: no more changes, then the last events to the outbox and on to the store.

        All of it takes no longer than the time-out (default: that of the settings). What cannot be delivered in it
        stays in the outbox for the next start. Idempotent; entries go on working.
        """
        if self._released:
            return
        self._released = True
        deadline = time.monotonic() + (self.settings.timeout if timeout_s is None else timeout_s)

        def left() -> float:
            return max(_LEAST_S, deadline - time.monotonic())

        steps: list[Callable[[], object]] = [] if self._status is None else [self._status.close]
        steps += [lambda: super(ServiceEngine, self).close(left())]
        steps += [source.close for source in self._sources]
        if self.recorder is not None:
            recorder = self.recorder
            steps.append(lambda: recorder.close(left()))
        steps += [log.close for log in self._logs]
        steps += [lambda: self._moves.close(left()), lambda: self._applied.close(left())]
        steps += [lambda: self.forwarder.close(left()), self.outbox.close]
        for step in steps:
            try:
                step()
            except (AuditError, DatasourceError) as error:
                logger.warning("while closing: %s", error)


def _recorder(engine: Engine, observe: Observe) -> Recorder:
    from sentinel_core.observation.recorder import Recorder
    from sentinel_core.observation.store import ObservationStore

    store = ObservationStore(Path(str(observe.file)))
    return Recorder(engine, store, every_s=observe.every, keep_s=observe.keep, max_bytes=observe.max_size)


def _instance(settings: Settings) -> str:
    return settings.instance or f"{socket.gethostname()}-{os.getpid()}"


def open_stores(settings: Settings, undo: ExitStack) -> tuple[list[Readable], Readable | None]:
    """The stores and the bootstrap; no I/O. `undo` closes them. Raises SourceMisconfigured."""

    def opened(uri: str) -> Readable:
        source = datasources.open(uri, environment=settings.environment)
        undo.callback(source.close)
        return source

    return [opened(uri) for uri in settings.stores], opened(settings.bootstrap) if settings.bootstrap else None


def _logs(engine: Engine, folder: str | None) -> tuple[MetricLog | BlockLog, ...]:
    """Sentinel's metric log and block log, where a folder is named for them."""
    if folder is None:
        return ()
    return MetricLog(engine, Path(folder)), BlockLog(engine, Path(folder))


def collectors_of(settings: Settings) -> Iterator[Collector]:
    """The collectors of the settings; reads nothing. Raises SettingsError."""
    for text in settings.collectors:
        metric, equals, uri = text.partition("=")
        if not equals or "://" in metric or not metric:
            wanted = "write METRIC=URI, e.g. STOCK_DEPTH=redis://host/0?key=stock"
            raise SettingsError([f"collectors: {mask_uri(text)}: {wanted}"])
        try:
            yield open_collector(metric, uri)
        except ValueError as error:
            raise SettingsError([f"collectors: {metric}: {error}"]) from error


def redaction_of(settings: Settings) -> Redaction:
    """What the settings hide of rules. Raises SettingsError."""
    try:
        return Redaction(settings.audit.redact, settings.audit.redact_key)
    except (ValueError, KeyUnusable) as error:
        raise SettingsError([f"audit.redact: {error}"]) from error


def _publisher(settings: Settings) -> Publisher:
    """Kafka where the settings name it, the audit store itself where they do not."""
    if settings.audit.kafka is not None:
        return KafkaPublisher(*kafka_of(settings.audit.kafka, settings.timeout))
    try:
        return StorePublisher(open_store(settings.audit.store))
    except StoreUnavailable as error:
        raise SettingsError([f"audit.store: {error}"]) from error


def kafka_of(kafka: Kafka, timeout_s: float) -> tuple[Target, Topics]:
    """Where the settings say that Kafka is, and its topics. Raises SettingsError; reads nothing."""
    bootstrap = tuple(part.strip() for part in kafka.bootstrap.split(",") if part.strip())
    if not bootstrap or not all(
        host and port.isdigit() for host, _, port in (each.rpartition(":") for each in bootstrap)
    ):
        raise SettingsError(
            [f"audit.kafka.bootstrap is {kafka.bootstrap!r}; write host:port, more of them after commas"]
        )
    files = {name: Path(text) for name in ("ca", "cert", "key", "password_file") if (text := getattr(kafka, name))}
    target = Target(
        bootstrap, tls=kafka.tls, user=kafka.user, mechanism=kafka.mechanism, timeout_s=timeout_s, **files
    )  # fmt: skip
    return target, Topics(kafka.changes, kafka.status)

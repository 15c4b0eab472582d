"""Events on their way to Kafka: acknowledged by all replicas, in order for each source, from one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sentinel_core.audit.errors import EventRefused, PublisherUnavailable
from sentinel_core.audit.event import Event
from sentinel_core.audit.kafka.clients import abandon, lacks, producer
from sentinel_core.audit.kafka.messages import HEADERS, Topics, key_of
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.troubles import told


class KafkaPublisher:
    """A batch is sent and waited for, at most the target's time-out; what was not acknowledged by then is given up with
    the connection, so that nothing overtakes it when it is sent again. No connection is made before the first batch."""

    def __init__(
        self, target: Target, topics: Topics | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._target = target
        self._topics = topics or Topics()
        self._monotonic = monotonic
        self._producer: Any = None

    def publish(self, batch: Sequence[Event]) -> Sequence[Event]:
        deadline = self._monotonic() + self._target.timeout_s
        kafka = library()
        try:
            sent = self._send(batch)
            return self._acknowledged(sent, deadline)
        except (EventRefused, PublisherUnavailable):
            self._give_up()
            raise
        except (kafka.errors.KafkaError, OSError) as error:
            self._give_up()
            raise told(self._target, error, f"{self._topics.changes} and {self._topics.status}") from error

    def _send(self, batch: Sequence[Event]) -> list[tuple[Event, Any]]:
        """Up to the first event that can never be sent; raises EventRefused if that is the first of all."""
        connected = self._connected()
        sent: list[tuple[Event, Any]] = []
        for event in batch:
            try:
                future = connected.send(self._topics.of(event), event.to_json(), key=key_of(event), headers=HEADERS)
            except library().errors.KafkaTimeoutError as error:
                if not lacks(connected, self._topics.of(event)):
                    raise
                raise library().errors.UnknownTopicOrPartitionError(self._topics.of(event)) from error
            except library().errors.MessageSizeTooLargeError as error:
                if sent:
                    break
                raise EventRefused(
                    event.id, f"Kafka takes no message so large: {error}", source=event.source
                ) from error
            sent.append((event, future))
        return sent

    def _acknowledged(self, sent: Sequence[tuple[Event, Any]], deadline: float) -> list[Event]:
        """The events up to the first one that failed. Raises for that one if nothing came before it."""
        errors = library().errors
        acknowledged: list[Event] = []
        for event, future in sent:
            try:
                future.get(timeout=max(0.0, deadline - self._monotonic()))
            except (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError) as error:
                self._give_up()
                if acknowledged:
                    break
                step = "raise max.message.bytes of the topic (sentinelctl audit init does)"
                reason = f"{self._target} refuses its size ({error}); {step}"
                raise EventRefused(event.id, reason, source=event.source) from error
            except errors.KafkaError:
                if not acknowledged:
                    raise
                self._give_up()
                break
            acknowledged.append(event)
        return acknowledged

    def _connected(self) -> Any:
        if self._producer is None:
            self._producer = producer(self._target)
        return self._producer

    def _give_up(self) -> None:
        """Nothing of what is still in flight will be sent once more."""
        given_up, self._producer = self._producer, None
        if given_up is not None:
            abandon(given_up)

    def flush(self, timeout_s: float) -> None:
        """Nothing is in flight between batches."""

    def close(self) -> None:
        self._give_up()

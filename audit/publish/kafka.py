"""Events on their way to Kafka: acknowledged by all replicas, in order for each source, from one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sentinel_core.audit.errors import EventRefused, PublisherUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.kafka.messages import HEADERS, Topics, key_of
from sentinel_core.audit.kafka.producer import abandon, connect
from sentinel_core.audit.kafka.target import Target, library


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

    def publish(self, batch: Sequence[Event]) -> Sequence[str]:
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
            raise PublisherUnavailable(self._why(error)) from error

    def _send(self, batch: Sequence[Event]) -> list[tuple[str, Any]]:
        """Up to the first event that can never be sent; raises EventRefused if that is the first of all."""
        producer = self._connected()
        sent: list[tuple[str, Any]] = []
        for event in batch:
            try:
                future = producer.send(self._topics.of(event), event.to_json(), key=key_of(event), headers=HEADERS)
            except library().errors.MessageSizeTooLargeError as error:
                if sent:
                    break
                raise EventRefused(event.id, f"Kafka takes no message so large: {error}") from error
            sent.append((event.id, future))
        return sent

    def _acknowledged(self, sent: Sequence[tuple[str, Any]], deadline: float) -> list[str]:
        """The ids up to the first one that failed. Raises for that one if nothing came before it."""
        errors = library().errors
        acknowledged: list[str] = []
        for identity, future in sent:
            try:
                future.get(timeout=max(0.0, deadline - self._monotonic()))
            except (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError) as error:
                self._give_up()
                if acknowledged:
                    break
                step = "raise max.message.bytes of the topic (sentinelctl audit init does)"
                raise EventRefused(identity, f"{self._target} refuses its size ({error}); {step}") from error
            except errors.KafkaError:
                if not acknowledged:
                    raise
                self._give_up()
                break
            acknowledged.append(identity)
        return acknowledged

    def _connected(self) -> Any:
        if self._producer is None:
            self._producer = connect(self._target)
        return self._producer

    def _why(self, error: BaseException) -> str:
        errors = library().errors
        words = self._target.words(error)
        if isinstance(error, errors.SaslAuthenticationFailedError):
            return f"{self._target} refuses the login of {self._target.user} ({words}); check user and password"
        if isinstance(error, errors.AuthorizationError):
            both = f"{self._topics.changes} and {self._topics.status}"
            return f"{self._target} denies this ({words}); grant Write on the topics {both}"
        if isinstance(error, errors.UnknownTopicOrPartitionError):
            return f"{self._target}: a topic is missing ({words}); make the topics with: sentinelctl audit init"
        return f"{self._target} did not take events ({words}); check the address, and that the brokers run"

    def _give_up(self) -> None:
        """Nothing of what is still in flight will be sent once more."""
        producer, self._producer = self._producer, None
        if producer is not None:
            abandon(producer)

    def flush(self, timeout_s: float) -> None:
        """Nothing is in flight between batches."""

    def close(self) -> None:
        self._give_up()

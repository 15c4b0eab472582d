"""The topic for messages that no store takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sentinel_core.audit.kafka.clients import abandon, lacks, producer
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.troubles import told

REASON = "sentinel-reason"
PLACE = "sentinel-place"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message as it came, and why it goes no further."""

    key: bytes | None
    value: bytes | None
    place: str
    """topic/partition/offset of the original."""
    reason: str

    @classmethod
    def of(cls, message: Any, reason: str) -> DeadLetter:
        """`message` as kafka-python's consumer gives it."""
        return cls(message.key, message.value, f"{message.topic}/{message.partition}/{message.offset}", reason)


class DeadLetters:
    """Not thread-safe."""

    def __init__(self, target: Target, topic: str) -> None:
        self.topic = topic
        self._target = target
        self._producer: Any = None

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when Kafka has them all. Raises PublisherUnavailable."""
        try:
            self._producer = self._producer or producer(self._target)
            sent = [
                self._producer.send(
                    self.topic,
                    letter.value,
                    key=letter.key,
                    headers=[(REASON, letter.reason.encode()), (PLACE, letter.place.encode())],
                )
                for letter in letters
            ]
            for future in sent:
                future.get(timeout=self._target.timeout_s)
        except library().errors.KafkaTimeoutError as error:
            missing = self._producer is not None and lacks(self._producer, self.topic)
            self.close()
            unknown = library().errors.UnknownTopicOrPartitionError
            raise told(self._target, unknown(self.topic) if missing else error, self.topic) from error
        except (library().errors.KafkaError, OSError) as error:
            self.close()
            raise told(self._target, error, self.topic) from error

    def close(self) -> None:
        """Idempotent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            abandon(producer)

"""The topic for messages that no store takes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from sentinel_core.audit.kafka.clients import MAX_BYTES, abandon, lacks, producer
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.troubles import told

REASON = "sentinel-reason"
PLACE = "sentinel-place"
WHOLE = "sentinel-whole"
"""Header of a letter that holds only the beginning: size in bytes and SHA-256 of what there was."""
MOST_BYTES = MAX_BYTES - 2**20
"""Of a body; with key and headers beside it a message is still one that a producer takes."""
HEAD_BYTES = 16 * 2**10
REASON_CHARACTERS = 1000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message as it came, and why it goes no further."""

    key: bytes | None
    value: bytes | None
    place: str
    """topic/partition/offset of the original."""
    reason: str
    whole: str | None = None
    """Of a letter that was cut: size and hash of what there was."""

    @classmethod
    def of(cls, message: Any, reason: str) -> DeadLetter:
        """`message` as kafka-python's consumer gives it."""
        place = f"{message.topic}/{message.partition}/{message.offset}"
        return cls(message.key, message.value, place, reason[:REASON_CHARACTERS])

    def cut(self) -> DeadLetter:
        """The same with the beginning of its body alone."""
        body = self.value or b""
        whole = f"{len(body)} bytes, SHA-256 {sha256(body).hexdigest()}"
        return replace(self, key=(self.key or b"")[:HEAD_BYTES] or None, value=body[:HEAD_BYTES], whole=whole)

    def headers(self) -> list[tuple[str, bytes]]:
        told = ((REASON, self.reason), (PLACE, self.place), (WHOLE, self.whole))
        return [(name, text.encode(errors="backslashreplace")) for name, text in told if text is not None]


class DeadLetters:
    """Not thread-safe."""

    def __init__(self, target: Target, topic: str) -> None:
        self.topic = topic
        self._target = target
        self._producer: Any = None

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when Kafka has them all; of one that is too large for the topic only the beginning, and where even
        that is, it is told in the log. Raises PublisherUnavailable."""
        sizes = [len(letter.value or b"") + len(letter.key or b"") for letter in letters]
        self._send(
            [letter if size <= MOST_BYTES else letter.cut() for letter, size in zip(letters, sizes, strict=True)]
        )

    def _send(self, letters: Sequence[DeadLetter]) -> None:
        if self._is_taken(letters):
            return
        if len(letters) > 1:
            middle = len(letters) // 2
            self._send(letters[:middle])
            self._send(letters[middle:])
        elif letters[0].whole is None:
            self._send([letters[0].cut()])
        else:
            told = (self.topic, letters[0].place, letters[0].whole)
            _log.error("%s takes not even the beginning of %s (%s); raise its max.message.bytes", *told)

    def _is_taken(self, letters: Sequence[DeadLetter]) -> bool:
        """False where Kafka has not taken them for their size. Raises PublisherUnavailable."""
        errors = library().errors
        try:
            self._producer = self._producer or producer(self._target)
            sent = [
                self._producer.send(
                    self.topic,
                    letter.value,
                    key=letter.key,
                    headers=letter.headers(),
                )
                for letter in letters
            ]
            for future in sent:
                future.get(timeout=self._target.timeout_s)
        except (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError):
            self.close()  # what follows in its partition would be out of order for this producer
            return False
        except errors.KafkaTimeoutError as error:
            missing = self._producer is not None and lacks(self._producer, self.topic)
            self.close()
            unknown = errors.UnknownTopicOrPartitionError
            raise told(self._target, unknown(self.topic) if missing else error, self.topic) from error
        except (errors.KafkaError, OSError) as error:
            self.close()
            raise told(self._target, error, self.topic) from error
        return True

    def close(self) -> None:
        """Idempotent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            abandon(producer)

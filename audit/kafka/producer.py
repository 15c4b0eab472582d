"""Producers of kafka-python, made and given up without what they leave behind."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sentinel_core.audit.kafka.target import Target, library

MAX_BYTES = 64 * 2**20
"""Of one message before it is compressed. What a topic takes is told by its `max.message.bytes`."""


def connect(target: Target) -> Any:
    """Connected. Bounded by the target's time-out; leaves no thread behind where it fails."""
    from kafka.net.compat import KafkaNetClient

    clients: list[Any] = []

    def client(**settings: Any) -> Any:
        clients.append(KafkaNetClient(**settings))
        return clients[0]

    limit = max(1, round(target.timeout_s * 1000))
    try:
        return library().KafkaProducer(
            **target.options(),
            acks="all",
            enable_idempotence=True,
            compression_type="gzip",
            linger_ms=5,
            batch_size=2**17,
            max_request_size=MAX_BYTES,
            max_block_ms=limit,
            # Longer than anybody waits: a message that this client has given up may come back out of order.
            delivery_timeout_ms=10 * limit + 10_000,
            allow_auto_create_topics=False,
            kafka_client=client,
        )
    except BaseException:
        for each in clients:
            each.close()
        raise


def abandon(producer: Any) -> None:
    """Its own `close` would wait for what is in flight, or raise."""
    producer._sender.force_close()  # noqa: SLF001 - there is no other way
    producer._sender.join(1.0)  # noqa: SLF001
    with suppress(Exception):  # it is given up, whatever it says
        producer.close(timeout=0)

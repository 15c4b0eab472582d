"""Producers, consumers and admin clients of kafka-python, made and given up without what they leave behind.

Each is made within the target's time-out, makes no topic by itself, and where it cannot be made leaves no thread and no
socket behind and raises PublisherUnavailable that says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.troubles import told

MAX_BYTES = 64 * 2**20
"""Of one message before it is compressed. What a topic takes is told by its `max.message.bytes`."""
CLOSE_MS = 1000
FRESH_S = 1.0


def producer(target: Target) -> Any:
    """Idempotent, acknowledged by all replicas, in order for each partition."""
    limit = target.timeout_ms
    return _made(
        target,
        library().KafkaProducer,
        acks="all",
        enable_idempotence=True,
        compression_type="gzip",
        linger_ms=5,
        batch_size=2**17,
        max_request_size=MAX_BYTES,
        max_block_ms=limit,
        # Longer than anybody waits: a message that this client has given up may come back out of order.
        delivery_timeout_ms=10 * limit + 10_000,
    )


def abandon(made: Any) -> None:
    """Gives a producer up; its own `close` would wait for what is in flight, or raise."""
    made._sender.force_close()  # noqa: SLF001 - there is no other way
    made._sender.join(CLOSE_MS / 1000)  # noqa: SLF001
    with suppress(Exception):  # it is given up, whatever it says
        made.close(timeout=0)


def lacks(made: Any, topic: str) -> bool:
    """Whether a producer was told by a broker a moment ago that there is no such topic."""
    cluster = made._metadata  # noqa: SLF001 - its public ways wait for the topic
    asked_s = time.monotonic() - cluster._last_successful_refresh_ms / 1000  # noqa: SLF001
    return topic not in cluster.topics() and bool(asked_s < FRESH_S)


def consumer(target: Target, **settings: Any) -> Any:
    """Commits nothing by itself."""
    return _made(target, library().KafkaConsumer, enable_auto_commit=False, fetch_max_wait_ms=100, **settings)


def leave(made: Any) -> None:
    """Gives a consumer up; it leaves its group if the group can be told soon."""
    with suppress(Exception):  # it is given up, whatever it says
        made.close(autocommit=False, timeout_ms=CLOSE_MS)


def admin(target: Target) -> Any:
    """To make topics and to look at them."""
    return _made(target, library().KafkaAdminClient)


def trouble_of(made: Any) -> BaseException | None:
    """Why a consumer has no connection; None when it has one."""
    found: BaseException | None = made._client.trouble  # noqa: SLF001 - it keeps its client to itself
    return found


def _made(target: Target, kind: Callable[..., Any], **settings: Any) -> Any:
    from sentinel_core.audit.kafka.net import Client

    clients: list[Client] = []

    def client(**options: Any) -> Client:
        clients.append(Client(**options))
        return clients[0]

    try:
        return kind(**target.options(), **settings, kafka_client=client)
    except BaseException as error:
        for each in clients:
            each.close()
        why = clients[0].trouble if clients else None
        if isinstance(error, (library().errors.KafkaError, OSError)):
            raise told(target, why or error) from error
        raise

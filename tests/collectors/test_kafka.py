"""A real Kafka: how far a consumer group is behind, and a broker that goes and comes back."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine
from sentinel_core.collectors import SourceLost
from sentinel_core.collectors.kafka import KafkaLagCollector
from tests.collectors.conftest import running
from tests.services.kafka import Kafka
from tests.services.server import free_port, wait_until

pytestmark = [
    pytest.mark.service("kafka"),
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),  # kafka-python on 3.11
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # kafka-python, where nobody listens
]


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """What kafka-python leaves to the garbage collector is collected here, and not in the next test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def make(folder: Path) -> Kafka:
    server = Kafka(folder)
    server.format()
    return server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Kafka]:
    with running(lambda: make(tmp_path)) as started:
        yield started


def send(server: Kafka, topic: str, number: int) -> None:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=server.bootstrap)
    for _ in range(number):
        producer.send(topic, b"bill")
    producer.flush(10)
    producer.close(10)


def consume(server: Kafka, topic: str, group: str, number: int) -> None:
    import kafka

    consumer = kafka.KafkaConsumer(
        topic,
        group_id=group,
        bootstrap_servers=server.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
    )
    for _ in range(number):
        next(consumer)
    consumer.commit()
    consumer.close()


def kafka_threads() -> int:
    return sum("kafka" in thread.name for thread in threading.enumerate())


@pytest.mark.slow
def test_lag_is_what_was_not_committed_and_survives_the_broker(server: Kafka) -> None:
    """One test for both: a broker takes seconds to start."""
    send(server, "orders", 10)
    consume(server, "orders", "billing", 4)

    def lag(group: str, **options: Any) -> Any:
        collector = KafkaLagCollector("LAG", server.bootstrap, group, **options)
        try:
            return collector.collect()
        finally:
            collector.close()

    assert lag("billing", resource="settle") == {"settle": 6}
    assert lag("billing", by_topic=True) == {"": 6, ("", "orders"): 6}
    assert lag("newcomer", topics=["orders"]) == {"": 10}, "nothing committed: from the beginning"
    assert lag("newcomer") == {}
    assert kafka_threads() == 0

    with Engine(app="test") as engine:
        collector = KafkaLagCollector("LAG", server.bootstrap, "billing", every_s=0.1, timeout_s=1)
        engine.collectors.register(collector)

        def state() -> str:
            return str(engine.collectors.status()[0]["state"])

        assert wait_until(lambda: state() == "ok")
        server.kill()
        assert wait_until(lambda: engine.collectors.failures >= 2, 15)
        assert state() == "failing"
        server.start()
        assert wait_until(lambda: state() == "ok", 30)
        assert engine.metrics.gauge("LAG", "", "").value == 6  # type: ignore[union-attr]  # it was read
    assert kafka_threads() == 0


def test_a_broker_that_is_not_there_leaves_no_thread_behind() -> None:
    collector = KafkaLagCollector("LAG", f"127.0.0.1:{free_port()}", "settle", timeout_s=0.2)
    for _ in range(3):
        with pytest.raises(SourceLost, match="no answer"):
            collector.collect()
    assert kafka_threads() == 0


@pytest.mark.parametrize(("bootstrap", "group"), [("", "g"), (" , ", "g"), ("host:9092", "")])
def test_bootstrap_and_group_are_needed(bootstrap: str, group: str) -> None:
    with pytest.raises(ValueError, match="are needed"):
        KafkaLagCollector("LAG", bootstrap, group)

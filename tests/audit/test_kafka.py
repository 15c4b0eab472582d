"""A real Kafka between the outbox and the audit store: each event once, in order, whatever goes down on the way."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine
from sentinel_core.applied_events import AppliedEvents
from sentinel_core.audit.errors import EventRefused, PublisherMisconfigured, PublisherUnavailable, StoreUnavailable
from sentinel_core.audit.events import Event, RuleApplied, RuleChanged
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.ingest import Ingest
from sentinel_core.audit.kafka import clients
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target
from sentinel_core.audit.kafka.topics import make_topics
from sentinel_core.audit.kafka.troubles import told
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.kafka import KafkaPublisher
from sentinel_core.audit.query.grammar import parse_query
from sentinel_core.audit.store.contract import Ingested, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.datasources.memory import MemorySource
from tests.audit.conftest import History
from tests.collectors.conftest import running
from tests.services.kafka import Kafka
from tests.services.server import free_port, wait_until

pytestmark = pytest.mark.service("kafka")


def make(folder: Path) -> Kafka:
    server = Kafka(folder)
    server.format()
    return server


@pytest.fixture
def store(sqlite: SqliteStore) -> SqliteStore:
    return sqlite


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with running(lambda: make(tmp_path_factory.mktemp("kafka"))) as started:
        yield started


@pytest.fixture
def target(server: Kafka) -> Target:
    return Target((server.bootstrap,), timeout_s=5)


@pytest.fixture
def topics(target: Target, request: pytest.FixtureRequest) -> Topics:
    """Made for one test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:80]
    topics = Topics(f"{name}.changes", f"{name}.status")
    make_topics(target, topics, partitions=3)
    return topics


def changes(history: History, number: int, *, start: int = 1) -> list[Event]:
    return [history.commit(rules=[{"resource": "r", "count": count}]) for count in range(start, start + number)]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def messages(target: Target, topic: str, number: int) -> list[Any]:
    """What stands in a topic, once there are so many."""
    import kafka

    consumer = kafka.KafkaConsumer(topic, **target.options(), auto_offset_reset="earliest", enable_auto_commit=False)
    found: list[Any] = []
    with closing(consumer):
        deadline = time.monotonic() + 15
        while len(found) < number and time.monotonic() < deadline:
            found += [each for part in consumer.poll(200).values() for each in part]
    return found


def stored(store: SqliteStore) -> list[str]:
    """Ids in the order in which they were stored."""
    heads = [row.event for row in store.query(Query(limit=10_000)).rows]
    return [head.id for head in sorted(heads, key=lambda head: head.time)]


def take(target: Target, topics: Topics, store: Any, **options: Any) -> Ingest:
    """Takes everything there is; returns the line as it ended."""
    line = Ingest(target, store, topics=topics, **options)
    stop = threading.Event()
    bound = threading.Timer(30, stop.set)
    bound.start()
    line.run(stop, until_idle=True)
    assert not stop.is_set(), line.status()
    bound.cancel()
    return line


# -- publishing --------------------------------------------------------------------------------------------------------


def test_an_event_is_a_structured_cloud_event_keyed_by_its_source(target: Target, topics: Topics) -> None:
    history = History()
    events = changes(history, 5)
    publisher = KafkaPublisher(target, topics)
    assert publisher.publish(events) == events
    publisher.close()
    found = messages(target, topics.changes, 5)
    assert [json.loads(each.value) for each in found] == [json.loads(event.to_json()) for event in events]
    assert {each.key.decode() for each in found} == {events[0].source}
    assert {tuple(each.headers) for each in found} == {
        (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
    }
    assert len({each.partition for each in found}) == 1


def test_partitions_are_those_of_javas_client(target: Target, topics: Topics) -> None:
    """The numbers are what Java's `Utils.toPositive(Utils.murmur2(key)) % 3` gives for these keys."""
    from kafka.partitioner.default import murmur2

    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: murmur2(key) - 2**32 * (murmur2(key) >> 31) for key in known} == known
    publisher = KafkaPublisher(target, topics)
    (event,) = changes(History(), 1)
    publisher.publish([event])
    publisher.close()
    (found,) = messages(target, topics.changes, 1)
    assert found.partition == (murmur2(event.source.encode()) & 0x7FFFFFFF) % 3


def test_nothing_is_published_where_a_topic_is_missing(target: Target) -> None:
    publisher = KafkaPublisher(Target(target.bootstrap, timeout_s=1), Topics("not-made", "nor-this"))
    with pytest.raises(PublisherUnavailable, match="sentinelctl audit init"):
        publisher.publish(changes(History(), 1))
    publisher.close()
    admin = clients.admin(target)
    assert "not-made" not in admin.list_topics(), "a topic that a broker makes by itself forgets after a week"
    admin.close()


def test_without_a_broker_a_try_is_short_and_leaves_nothing_behind(target: Target) -> None:
    publisher = KafkaPublisher(Target((f"127.0.0.1:{free_port()}",), timeout_s=0.5))
    threads, files = threading.active_count(), open_files()
    for _ in range(3):
        begun = time.monotonic()
        with pytest.raises(PublisherUnavailable, match="check the address, and that the brokers run"):
            publisher.publish(changes(History(), 1))
        assert time.monotonic() - begun < 2
    assert wait_until(lambda: threading.active_count() <= threads)
    assert open_files() <= files
    publisher.close()


def test_an_event_that_is_too_large_for_the_topic_is_refused_by_name(target: Target, topics: Topics) -> None:
    import kafka

    admin = kafka.KafkaAdminClient(**target.options())
    resource = kafka.admin.ConfigResource("TOPIC", topics.changes, configs={"max.message.bytes": "500"})
    admin.alter_configs([resource])
    admin.close()
    events = changes(History(), 2)
    publisher = KafkaPublisher(target, topics)

    refused: list[str] = []

    def is_told() -> bool:
        try:
            publisher.publish(events)
        except EventRefused as error:
            refused.append(error.event_id)
        return bool(refused)

    assert wait_until(is_told, 10)
    assert refused == [events[0].id]
    publisher.close()


# -- taking ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "remote"])
def test_each_event_is_stored_once_and_in_order(
    target: Target, topics: Topics, request: pytest.FixtureRequest, kind: str
) -> None:
    store = request.getfixturevalue(kind)
    events = changes(History(), 50)
    publisher = KafkaPublisher(target, topics)
    publisher.publish(events)
    publisher.publish(events[20:30])
    publisher.close()
    line = take(target, topics, store)
    assert stored(store) == [event.id for event in events]
    assert (line.status().stored, line.status().duplicates, line.status().lag) == (50, 10, 0)


def test_a_second_run_begins_where_the_first_ended(target: Target, topics: Topics, store: SqliteStore) -> None:
    history = History()
    publisher = KafkaPublisher(target, topics)
    publisher.publish(changes(history, 3))
    take(target, topics, store)
    publisher.publish(changes(history, 2, start=4))
    publisher.close()
    line = take(target, topics, store)
    assert (line.status().stored, line.status().duplicates) == (2, 0)


def test_a_message_that_no_store_takes_goes_to_the_dead_letters_with_its_reason(
    target: Target, topics: Topics, store: SqliteStore
) -> None:
    import kafka

    history = History()
    first, second = changes(history, 2)
    producer = kafka.KafkaProducer(**target.options())
    poison = [b"\xff\x00", b"{}", second.to_json().replace(b'"changes":[', b'"changes":[7,')]
    for value in (first.to_json(), *poison, second.to_json()):
        producer.send(topics.changes, value, key=history.source.encode())
    producer.flush(10)
    producer.close(10)
    line = take(target, topics, store)
    assert stored(store) == [first.id, second.id]
    assert line.status().dead == 3
    letters = messages(target, topics.dead_letters, 3)
    assert [letter.value for letter in letters] == poison
    reasons = [dict(letter.headers)["sentinel-reason"].decode() for letter in letters]
    assert "not a CloudEvents document" in reasons[0]
    assert "its data cannot be read" in reasons[2]
    assert dict(letters[0].headers)["sentinel-place"].decode().startswith(f"{topics.changes}/")


class Failing:
    """A real store behind a door that is shut a number of times."""

    def __init__(self, inner: SqliteStore, times: int) -> None:
        self.inner = inner
        self.left = times

    def ingest(self, events: Any) -> Ingested:
        if self.left > 0:
            self.left -= 1
            raise StoreUnavailable("the disk is full")
        return self.inner.ingest(events)


def sent(target: Target, topic: str, values: list[bytes]) -> None:
    import kafka

    producer = kafka.KafkaProducer(
        **target.options(), acks="all", compression_type="gzip", max_request_size=200 * 2**20
    )
    for made in [producer.send(topic, value, key=b"k") for value in values]:
        made.get(30)
    producer.close()


def test_no_message_stops_the_line_or_takes_another_with_it(target: Target, topics: Topics, store: SqliteStore) -> None:
    good = [event.to_json() for event in changes(History(), 5)]
    envelope = json.loads(good[0])
    poison = [
        json.dumps(envelope | {"source": "/mallory", "data": {"changes": [1]}}).encode(),
        json.dumps(envelope | {"id": "\0" + envelope["id"]}).encode(),
        json.dumps(envelope | {"source": "/s\ud800"}).encode(),
        b"x" * (70 * 2**20),
    ]
    sent(target, topics.changes, [*good[:2], *poison, *good[2:], *poison[:3]])
    line = take(target, topics, store)
    assert (line.status().stored, line.status().dead) == (5, 7)
    letters = {each.value[:80]: dict(each.headers) for each in messages(target, topics.dead_letters, 7)}
    whole = letters[b"x" * 80]
    digest = hashlib.sha256(poison[-1]).hexdigest()
    assert whole["sentinel-whole"] == f"{len(poison[-1])} bytes, SHA-256 {digest}".encode()
    assert whole["sentinel-reason"] == b"longer than 64 MiB, which no event is"


@pytest.mark.parametrize(("most", "kept"), [(20_000, 16 * 2**10), (700, None)])
def test_a_letter_too_large_is_kept_by_its_beginning_or_told(
    target: Target, topics: Topics, store: SqliteStore, most: int, kept: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    import kafka

    admin = kafka.KafkaAdminClient(**target.options())
    admin.alter_configs(
        [kafka.admin.ConfigResource("TOPIC", topics.dead_letters, configs={"max.message.bytes": str(most)})]
    )
    admin.close()
    noise = os.urandom(100_000)
    (event,) = changes(History(), 1)
    sent(target, topics.changes, [b"poison", noise, event.to_json()])
    line = take(target, topics, store)
    assert (line.status().stored, line.status().dead) == (1, 2)
    sizes = {len(each.value) for each in messages(target, topics.dead_letters, 1 + (kept is not None))}
    assert sizes == {len(b"poison")} | ({kept} if kept else set())
    said = f"100000 bytes, SHA-256 {hashlib.sha256(noise).hexdigest()}"
    assert (said in caplog.text) == (kept is None)


def test_while_the_store_is_down_nothing_is_lost_and_nothing_committed(
    target: Target, topics: Topics, store: SqliteStore
) -> None:
    events = changes(History(), 5)
    publisher = KafkaPublisher(target, topics)
    publisher.publish(events)
    publisher.close()
    line = take(target, topics, Failing(store, 4))
    assert stored(store) == [event.id for event in events]
    assert line.status().last_error is None


def test_until_idle_gives_up_on_a_store_that_stays_down_and_the_next_run_has_all(
    target: Target, topics: Topics, store: SqliteStore
) -> None:
    events = changes(History(), 5)
    publisher = KafkaPublisher(target, topics)
    publisher.publish(events)
    publisher.close()
    clock = iter(range(0, 1000, 10))
    shut: Any = Failing(store, 1000)
    line = Ingest(target, shut, topics=topics, monotonic=lambda: float(next(clock)))
    with pytest.raises(StoreUnavailable, match=r"the disk is full; waited 30 s, and what is not stored stays in Kafka"):
        line.run(threading.Event(), until_idle=True)
    take(target, topics, store)
    assert stored(store) == [event.id for event in events]


# -- the whole way -----------------------------------------------------------------------------------------------------


def test_a_broker_that_is_killed_and_comes_back_loses_nothing(
    server: Kafka, topics: Topics, tmp_path: Path, store: SqliteStore
) -> None:
    target = Target((server.bootstrap,), timeout_s=2)
    outbox = Outbox(tmp_path / "outbox.db")
    forwarder = Forwarder(outbox, KafkaPublisher(target, topics))
    forwarder.start()
    stop = threading.Event()
    line = Ingest(target, store, topics=topics)
    taking = threading.Thread(target=line.run, args=(stop,), daemon=True)
    taking.start()
    history = History()
    sent: list[str] = []
    for number in range(60):
        if number == 20:
            server.kill()
        if number == 40:
            server.start()
            back = time.monotonic()
        (event,) = changes(history, 1, start=number + 1)
        begun = time.monotonic()
        outbox.append([event])
        assert time.monotonic() - begun < 1, "a swap never waits for Kafka"
        sent.append(event.id)
        time.sleep(0.02)
    assert wait_until(lambda: store.count() == 60, 45), (forwarder.status(), line.status())
    assert time.monotonic() - back < 20, "a second where the machine has time"
    stop.set()
    taking.join(15)
    assert not taking.is_alive()
    assert stored(store) == sent
    assert forwarder.close(5) == 0
    outbox.close()


@contextmanager
def instances(number: int, folder: Path, target: Target, topics: Topics) -> Iterator[list[Engine]]:
    """Engines of one service, each with an outbox of its own that Kafka is fed from."""
    with ExitStack() as stack:
        made = []
        for name in range(number):
            outbox = Outbox(folder / f"{name}.db")
            stack.callback(outbox.close)
            forwarder = Forwarder(outbox, KafkaPublisher(target, topics))
            stack.callback(forwarder.close, 20)
            engine = stack.enter_context(Engine("order", environment="prod", instance=f"i-{name}", audit=outbox))
            applied = AppliedEvents(engine, outbox)
            stack.callback(applied.close)
            engine._activation.applied = applied.applied
            made.append(engine)
        yield made


def test_a_fleet_that_sees_the_same_changes_tells_each_once_and_each_run_of_it(
    target: Target, topics: Topics, tmp_path: Path, store: SqliteStore
) -> None:
    fleet, steps = 4, 25
    source = MemorySource("rules")
    with instances(fleet, tmp_path, target, topics) as engines:
        followed = [engine.subscribe(("flow",), source) for engine in engines]
        for count in range(steps):
            source.set("flow", json.dumps([{"resource": "r", "grade": 1, "count": count}]))
            assert all(each.refresh(10) for each in followed)
    take(target, topics, store)
    types = Counter(row.event.type for row in store.query(Query(limit=10_000)).rows)
    assert types == {RuleChanged.TYPE: steps, RuleApplied.TYPE: steps * fleet}
    assert len(store.query(parse_query("", now=datetime.now(UTC), zone=UTC).query(limit=1000)).rows) == steps


def test_a_message_that_is_packed_by_a_codec_without_a_library_here_names_the_library(target: Target) -> None:
    import kafka

    reason = told(target, kafka.errors.UnsupportedCodecError("zstd"))
    assert isinstance(reason, PublisherMisconfigured)
    assert "install the library of its codec here" in str(reason)

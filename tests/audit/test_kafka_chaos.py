"""Kill -9 at moments drawn from a seed: the service, the ingesters, the store. Each change is stored once, in order."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sentinel_core.audit.events import Event, parse_event
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.ingest import Ingest
from sentinel_core.audit.kafka import clients
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.topics import make_topics
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.kafka import KafkaPublisher
from sentinel_core.audit.store.contract import Query
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.audit.conftest import History, flow_rule
from tests.collectors.conftest import running
from tests.services.kafka import Kafka
from tests.services.server import wait_until

pytestmark = pytest.mark.service("kafka")

Child = Callable[..., int]


@pytest.fixture
def store(sqlite: SqliteStore) -> SqliteStore:
    return sqlite


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    def make() -> Kafka:
        made = Kafka(tmp_path_factory.mktemp("kafka"))
        made.format()
        return made

    library()  # in the parent, so that a child that is killed soon got somewhere
    with running(make) as started:
        yield started


@pytest.fixture
def target(server: Kafka) -> Target:
    return Target((server.bootstrap,), timeout_s=5)


@pytest.fixture
def topics(target: Target, request: pytest.FixtureRequest) -> Topics:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:80]
    topics = Topics(f"{name}.changes", f"{name}.status")
    make_topics(target, topics, partitions=3)
    return topics


def histories(number: int) -> list[History]:
    """Sources that change in turn; keys that go to several partitions."""
    return [History(source=f"/prod/git/rules-{name}@main") for name in range(number)]


def change(history: History, count: int) -> Event:
    return history.commit("flow", [flow_rule(count=count)])


def stored(store: SqliteStore) -> dict[str, list[str]]:
    """Ids of each source in the order of their arrival."""
    with store._database.read() as connection:
        rows = connection.execute("SELECT source, id FROM events ORDER BY seq").fetchall()
    found: dict[str, list[str]] = {}
    for source, identity in rows:
        found.setdefault(source, []).append(identity)
    return found


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


@contextmanager
def taking(target: Target, topics: Topics, store: SqliteStore) -> Iterator[Ingest]:
    """An ingester on a thread, for as long as the block runs."""
    line, stop = Ingest(target, store, topics=topics), threading.Event()
    thread = threading.Thread(target=line.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield line
    finally:
        stop.set()
        thread.join(20)


def forward(outbox: Path, target: Target, topics: Topics) -> None:
    forwarder = Forwarder(Outbox(outbox), KafkaPublisher(target, topics))
    forwarder.start()
    time.sleep(60)


def ingest(store: Path, target: Target, topics: Topics) -> None:
    Ingest(target, SqliteStore(store), topics=topics).run(threading.Event())


@pytest.mark.parametrize("seed", [1, 2])
def test_a_service_that_is_killed_again_and_again_publishes_each_change_once_and_in_order(
    target: Target, topics: Topics, tmp_path: Path, store: SqliteStore, child: Child, seed: int
) -> None:
    draw, path = random.Random(seed), tmp_path / "outbox.db"
    sources = histories(3)
    sent: dict[str, list[str]] = {}
    outbox = Outbox(path)
    for number in range(300):
        event = change(sources[number % 3], number + 1)
        begun = time.monotonic()
        outbox.append([event])
        assert time.monotonic() - begun < 1.5, "a swap never waits for Kafka"
        sent.setdefault(event.source, []).append(event.id)
        if number % 60 == 0:
            process = child(forward, path, target, topics, wait=False)
            time.sleep(draw.uniform(0.1, 1.2))
            kill(process)
    assert Forwarder(outbox, KafkaPublisher(target, topics)).close(30) == 0
    outbox.close()
    with taking(target, topics, store) as line:
        assert wait_until(lambda: store.count() == 300, 30), line.status()
    assert stored(store) == sent


def test_of_two_ingesters_one_is_killed_and_the_other_takes_over(
    target: Target, topics: Topics, store: SqliteStore, child: Child
) -> None:
    moment = random.Random(3).randrange(60, 140)
    sources = histories(6)
    sent: dict[str, list[str]] = {}
    publisher = KafkaPublisher(target, topics)
    first = child(ingest, store.path, target, topics, wait=False)
    with taking(target, topics, store) as line:
        for number in range(200):
            event = change(sources[number % 6], number + 1)
            publisher.publish([event])
            sent.setdefault(event.source, []).append(event.id)
            if number == moment:
                kill(first)
        publisher.close()
        assert wait_until(lambda: store.count() == 200, 40), line.status()
    assert stored(store) == sent


def test_a_store_that_is_locked_for_a_while_makes_the_line_wait(
    target: Target, topics: Topics, store: SqliteStore
) -> None:
    history = History()
    events = [change(history, count) for count in range(1, 51)]
    publisher = KafkaPublisher(target, topics)
    publisher.publish(events[:10])
    with taking(target, topics, store) as line:
        assert wait_until(lambda: store.count() == 10, 20), line.status()
        holder = sqlite3.connect(store.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        publisher.publish(events[10:])
        publisher.close()
        assert wait_until(lambda: "locked" in str(line.status().last_error), 20)
        holder.execute("ROLLBACK")
        holder.close()
        assert wait_until(lambda: store.count() == 50, 20), line.status()
    assert stored(store) == {events[0].source: [event.id for event in events]}


HEAD = b'{"specversion":"1.0","id":"a","source":"b","type":"c","subject":"d",'
POISON = {
    "nothing": b"",
    "not JSON": b"\x00\x01\x02",
    "half a letter": '{"specversion": "1.0", "id": "é'.encode()[:-1],
    "a number": b"7",
    "nested too deep": b"[" * 100_000,
    "another version": b'{"specversion": "0.3"}',
    "data that is a text": HEAD + b'"time":"2026-11-30T00:00:00Z","data":"x"}',
    "a time that is none": HEAD + b'"time":"soon","data":{}}',
    "huge": b"x" * (4 * 2**20),
}


def test_no_message_stops_the_line_and_an_unknown_type_is_kept(
    target: Target, topics: Topics, store: SqliteStore
) -> None:
    history = History()
    first, last = change(history, 1), change(history, 2)
    text = first.to_json().replace(b"sentinel.rules.changed.v1", b"sentinel.rollout.paused.v7")
    future = parse_event(text.replace(first.id.encode(), b"of-the-future"))
    producer = clients.producer(target)
    for value in (first.to_json(), *POISON.values(), future.to_json(), last.to_json()):
        producer.send(topics.changes, value, key=history.source.encode()).get(timeout=10)
    clients.abandon(producer)
    with taking(target, topics, store) as line:
        assert wait_until(lambda: line.status().stored == 3, 20), line.status()
        assert wait_until(lambda: line.status().lag == 0, 20), line.status()
    assert line.status().dead == len(POISON)
    assert stored(store) == {first.source: [first.id, "of-the-future", last.id]}
    assert {row.event.type for row in store.query(Query()).rows} == {first.type, future.type}

"""A01, A02: without Kafka rules change as fast as ever, nothing is lost, an exit is bounded, and it is told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import BlockException
from sentinel_core.audit.forwarder import Forwarder
from sentinel_core.audit.ingest import Ingest
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target
from sentinel_core.audit.kafka.topics import make_topics
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.kafka import KafkaPublisher
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.audit.conftest import History, flow_rule
from tests.collectors.conftest import running
from tests.services.kafka import Kafka
from tests.services.server import free_port, wait_until

SWAP_S = 0.5
"""A few milliseconds, and room for a busy machine; the shortest wait for Kafka is `timeout`, a second here."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Kafka]:
    def make() -> Kafka:
        folder = tmp_path / "kafka"
        folder.mkdir()
        made = Kafka(folder)
        made.format()
        return made

    with running(make) as started:
        yield started


@pytest.mark.service("kafka")
def test_a01_a_hundred_changes_of_an_outage_arrive_in_order_and_flush_says_what_is_undelivered(
    server: Kafka, tmp_path: Path, sqlite: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target((server.bootstrap,), timeout_s=1)
    make_topics(target, Topics(), partitions=3)
    outbox = Outbox(tmp_path / "outbox.db")
    forwarder = Forwarder(outbox, KafkaPublisher(target))
    history, sent = History(), []
    for count in range(1, 121):
        if count == 11:
            assert forwarder.drain(20), "ten are delivered before"
            server.kill()
        event = history.commit("flow", [flow_rule(count=count)])
        began = time.monotonic()
        outbox.append([event])
        assert time.monotonic() - began < SWAP_S
        sent.append(event.id)
        if count == 110:
            began = time.monotonic()
            assert forwarder.close(2) == 100, "what is undelivered is told, and stays"
            assert time.monotonic() - began < 5
            assert "100 audit events are not delivered yet" in caplog.text
            server.start()
            forwarder = Forwarder(outbox, KafkaPublisher(target))
            forwarder.start()
    assert forwarder.close(30) == 0
    outbox.close()
    _take(target, sqlite)
    with sqlite._database.read() as connection:
        assert [identity for (identity,) in connection.execute("SELECT id FROM events ORDER BY seq")] == sent


def _take(target: Target, store: SqliteStore) -> None:
    stop = threading.Event()
    bound = threading.Timer(30, stop.set)
    bound.start()
    Ingest(target, store).run(stop, until_idle=True)
    bound.cancel()
    assert not stop.is_set()


@pytest.fixture
def without_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of a service whose Kafka is not there; the folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, 20)
    settings = {
        "stores": [f"file://{tmp_path / 'sentinel-flow-rules.json'}"],
        "audit": {"kafka": {"bootstrap": f"127.0.0.1:{free_port()}"}},
        "timeout": "1s",
    }
    (tmp_path / "sentinel.yaml").write_text(json.dumps(settings))
    return tmp_path


CLOSED_S = 1.4
"""`timeout` for all of a close, and room for a busy machine."""


def _write(folder: Path, count: int) -> None:
    aside = folder / "aside"
    aside.write_text(json.dumps([{"resource": "pay", "grade": 1, "count": count}]))
    aside.replace(folder / "sentinel-flow-rules.json")


def _until(engine: ServiceEngine, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    assert wait_until(lambda: condition(engine.status()["audit"]), 10), engine.status()["audit"]
    audit: dict[str, Any] = engine.status()["audit"]
    return audit


def test_a02_without_a_broker_rules_become_active_at_once_and_the_status_says_what_waits(without_broker: Path) -> None:
    engine = start(load_settings())
    assert engine.wait_ready(5)
    took = []
    for count in range(5):
        _write(without_broker, count)
        began = time.monotonic()
        assert engine.subscriptions[0].refresh(5)
        took.append(time.monotonic() - began)
        assert engine.rules("flow").rules[0].count == count
    assert sorted(took)[2] < SWAP_S
    _write(without_broker, 0)
    assert engine.subscriptions[0].refresh(5)
    with pytest.raises(BlockException):
        engine.entry("pay")
    told = _until(engine, lambda audit: audit["delivery"] is not None)
    assert told["waiting"] >= 6
    assert told["oldest"]
    assert (told["parked"], told["error"], told["lostEvents"]) == (0, None, 0)
    assert "does not answer" in told["delivery"]
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < CLOSED_S


def test_a_broker_that_accepts_and_never_answers_holds_no_close_up(without_broker: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = json.loads((without_broker / "sentinel.yaml").read_text())
        settings["audit"]["kafka"]["bootstrap"] = f"127.0.0.1:{silent.getsockname()[1]}"
        (without_broker / "sentinel.yaml").write_text(json.dumps(settings))
        engine = start(load_settings())
        assert engine.wait_ready(5)
        began = time.monotonic()
        engine.close()
        assert time.monotonic() - began < CLOSED_S


def test_a_store_that_cannot_be_read_holds_no_close_up(without_broker: Path) -> None:
    settings = json.loads((without_broker / "sentinel.yaml").read_text())
    settings["audit"] = {"store": "sqlite:///broken.db"}
    (without_broker / "sentinel.yaml").write_text(json.dumps(settings))
    (without_broker / "broken.db").write_bytes(b"no database at all" * 1000)
    engine = start(load_settings())
    assert engine.wait_ready(5)
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < CLOSED_S


def test_an_outbox_that_cannot_be_read_is_told_in_the_status(without_broker: Path) -> None:
    engine = start(load_settings())
    assert engine.wait_ready(5)
    engine.outbox.close()
    (without_broker / ".sentinel" / "outbox.db").write_bytes(b"no database at all" * 1000)
    told = _until(engine, lambda audit: audit["waiting"] is None)
    assert "not a SQLite file" in told["delivery"]
    engine.close()


ENDS = {
    "that closes": "engine.close()",
    "that does not": "",
    "that fails": "raise SystemExit(3)",
}
PROGRAM = """
from sentinel_core import start
from sentinel_core.settings import load_settings
engine = start(load_settings())
assert engine.wait_ready(10)
print("ready", flush=True)
"""


@pytest.mark.parametrize("end", ENDS)
def test_a02_a_process_without_a_broker_ends_in_bounded_time_and_keeps_its_events(
    without_broker: Path, end: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{PROGRAM}{ENDS[end]}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
        cwd=without_broker,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    began = time.monotonic()
    _, said = process.communicate(timeout=30)
    assert time.monotonic() - began < 8, "a few times `timeout`, and room for a busy machine"
    assert process.returncode == (3 if end == "that fails" else 0), said
    assert b"Traceback" not in said, said
    outbox = Outbox(without_broker / ".sentinel" / "outbox.db")
    assert outbox.depth() >= 1
    outbox.close()

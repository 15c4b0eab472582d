"""Moves of breakers become events, without a call waiting for a disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sentinel_core import Engine, context, set_default_engine, start
from sentinel_core.audit.errors import SinkUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.query.grammar import parse_query
from sentinel_core.audit.redaction import Redaction
from sentinel_core.audit.store import open_store
from sentinel_core.breaker_events import BreakerEvents
from sentinel_core.later_events import MOST
from sentinel_core.settings import AuditSettings, Settings
from sentinel_core.testing import FakeClock

RULE = {"resource": "pay", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5, "dimension": "channel"}
NOW = datetime(2026, 11, 30, tzinfo=UTC)


class Sink:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.broken = False

    def append(self, events: Sequence[Event]) -> None:
        if self.broken:
            raise SinkUnavailable("disk full")
        self.events += events


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def engine(clock: FakeClock) -> Engine:
    engine = Engine(app="shop", environment="prod", instance="i-1", clock=clock)
    engine.load_rules("biz_metric", [RULE])
    return engine


@pytest.fixture
def moves(engine: Engine, sink: Sink) -> Iterator[BreakerEvents]:
    moves = BreakerEvents(engine, sink, every_s=0)
    yield moves
    moves.close()


def trip(engine: Engine, channel: str = "card") -> None:
    engine.report("PAY_FAIL_RATE", ok=False, resource="pay", dimension=channel, count=10)
    with context(tags={"channel": channel}):
        assert not engine.try_entry("pay")


def test_what_is_redacted_of_rules_is_redacted_of_their_moves(engine: Engine, sink: Sink) -> None:
    redaction = Redaction(("limitApp",), "0123456789abcdef")
    moves = BreakerEvents(engine, sink, redaction=redaction, every_s=0)
    rule = {"resource": "slow", "grade": 2, "count": 1, "timeWindow": 10, "minRequestAmount": 1, "limitApp": "vip-4711"}
    engine.load_rules("degrade", [rule])
    with context("c", origin="vip-4711"):
        for _ in range(2):
            entry = engine.entry("slow")
            entry.trace(ValueError())
            entry.exit()
    moves.close()
    (event,) = sink.events
    assert event.payload["rule"] == f"degrade/slow/{redaction.keyed('vip-4711')}"


def test_each_move_is_an_event_that_says_what_moved_and_why(
    engine: Engine, clock: FakeClock, sink: Sink, moves: BreakerEvents
) -> None:
    trip(engine)
    clock.advance(ms=30_000)
    with context(tags={"channel": "card"}):
        engine.entry("pay").exit()
    assert not sink.events, "a call writes nothing"
    moves.flush()
    moves.flush()
    opened, trial = sink.events
    assert (opened.type, trial.type) == ("sentinel.breaker.open.v1", "sentinel.breaker.half_open.v1")
    assert (opened.source, opened.subject) == ("/prod/instances/shop/i-1", "pay")
    told = opened.payload
    assert {name: told[name] for name in ("kind", "rule", "before", "after", "value", "metric", "threshold")} == {
        "kind": "biz_metric",
        "rule": "biz_metric/pay/PAY_FAIL_RATE",
        "before": "CLOSED",
        "after": "OPEN",
        "value": 100.0,
        "metric": "PAY_FAIL_RATE",
        "threshold": 5.0,
    }
    assert (told["dimension"], told["shadow"], told["rulesDigest"]) == (
        "card",
        False,
        engine.rules("biz_metric").digest,
    )
    assert opened.id != trial.id


def test_a_sink_that_fails_is_tried_again_and_what_waits_is_bounded(
    engine: Engine, sink: Sink, moves: BreakerEvents
) -> None:
    sink.broken = True
    for number in range(MOST // 2):
        trip(engine, f"c{number}")
    moves.flush()
    sink.broken = False
    moves.flush()
    assert len(sink.events) == MOST // 2
    sink.broken = True
    engine.load_rules("degrade", [{"resource": "d", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}])
    clock = engine.clock
    assert isinstance(clock, FakeClock)
    for _ in range(MOST):
        with engine.entry("d") as call:
            call.trace(ValueError())
        clock.advance(ms=1000)
    moves.flush()
    sink.broken = False
    moves.flush()
    assert len(sink.events) == MOST // 2 + MOST
    assert moves.lost > 0


def test_a_child_tells_its_own_moves_alone(engine: Engine, sink: Sink, moves: BreakerEvents) -> None:
    trip(engine)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            trip(engine, "transfer")
            moves.flush()
            os.write(write, str(len(sink.events)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 9) == b"1"
    moves.flush()
    assert len(sink.events) == 1


def test_a_service_leaves_them_in_the_audit_store_beside_the_changes(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/audit.db"
    audit = AuditSettings(outbox=str(tmp_path / "outbox.db"), store=uri)
    before = set_default_engine(None)
    try:
        service = start(Settings(app="shop", audit=audit, last_known_good=str(tmp_path / "good"), status=None))
        service.load_rules("biz_metric", [RULE])
        trip(service)
        service.close()
    finally:
        set_default_engine(before)
    assert Outbox(tmp_path / "outbox.db").depth() == 0
    store = open_store(uri, read_only=True)

    def actions(text: str) -> list[str]:
        return [row.action for row in store.query(parse_query(text, now=NOW, zone=UTC).query()).rows]

    assert actions("type:breaker resource:pay") == actions("action:moved") == ["moved"]
    assert "moved" not in actions("resource:pay")
    assert actions("resource:pay")
    assert actions("type:sentinel.breaker.open.v1 rule:biz_metric/pay/PAY_FAIL_RATE") == ["moved"]
    store.close()

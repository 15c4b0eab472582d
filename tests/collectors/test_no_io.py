"""No I/O in a decision: the helper for tests, and the debug mode."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sentinel_core import BizMetricBlockException, Engine, context
from sentinel_core.collectors.function import FunctionCollector
from sentinel_core.collectors.guarded import IoInDecision
from sentinel_core.plan import PASS, Call, Checker
from sentinel_core.slots.flow import SLOT
from sentinel_core.testing import FakeClock, no_io

FLOW = [{"resource": "r", "count": 100}]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.mark.parametrize(
    "use",
    [
        lambda left: left.send(b"x"),
        lambda left: left.sendall(b"x"),
        lambda left: left.recv(1),
        lambda left: left.recv_into(bytearray(1)),
        lambda left: left.makefile("rb").read(1),
        lambda left: left.connect(("127.0.0.1", 9)),
        lambda _: socket.create_connection(("127.0.0.1", 9)),
        lambda _: socket.getaddrinfo("localhost", 80),
    ],
)
def test_a_socket_cannot_be_used(pair: tuple[socket.socket, socket.socket], use: Any) -> None:
    with pytest.raises(IoInDecision), no_io():
        use(pair[0])
    pair[0].sendall(b"y")
    assert pair[1].recv(1) == b"y", "afterwards it can"


def test_what_was_caught_inside_is_raised_at_the_end(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(IoInDecision, match="socket send"), no_io(), contextlib.suppress(Exception):
        pair[0].send(b"x")


def test_other_threads_are_not_concerned(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    with no_io():
        thread = threading.Thread(target=left.sendall, args=(b"x",))
        thread.start()
        thread.join()
    assert right.recv(1) == b"x"


def test_sources_cannot_be_read(engine: Engine) -> None:
    collector = FunctionCollector("STOCK_DEPTH", lambda: 5)
    engine.collectors.register(collector, thread=False)
    for attempt in (collector.collect, engine.collectors.refresh):
        with pytest.raises(IoInDecision, match="STOCK_DEPTH"), no_io():
            attempt()
    engine.collectors.refresh()
    assert engine.collectors.status()[0]["reads"] == 1


def test_a_decision_reads_nothing(engine: Engine) -> None:
    engine.load_rules("flow", FLOW)
    engine.load_rules("biz_metric", [{"resource": "r", "bizMetricType": "STOCK_DEPTH", "threshold": 5}])
    engine.collectors.register(FunctionCollector("STOCK_DEPTH", lambda: 3), thread=False)
    engine.collectors.refresh()
    with no_io():
        for _ in range(20):
            engine.try_entry("r")
            engine.report("STOCK_DEPTH", ok=True)
            engine.gauge("STOCK_DEPTH", 3)


class Asks(Checker):
    """A rule of somebody who reads the source where the gauge would do."""

    collector = FunctionCollector("STOCK_DEPTH", lambda: 5)

    def check(self, now: int, count: int, call: Call) -> int:
        self.collector.collect()
        return PASS


@pytest.mark.parametrize("debug", [False, True])
def test_debug_mode_finds_a_rule_that_reads(debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = replace(SLOT, compile=lambda _build, _node, rules: [Asks("flow", rules[0])])
    monkeypatch.setattr("sentinel_core.engine.discover", lambda: {"flow": asking})
    with Engine(app="test", debug=debug) as engine:
        engine.load_rules("flow", FLOW)
        assert engine.try_entry("r"), "an internal error lets the call pass"
        errors = engine.status()["internalErrors"]
        assert errors["count"] == (1 if debug else 0)
        assert not debug or "STOCK_DEPTH is read from FunctionCollector inside a decision" in errors["last"]


def test_debug_mode_decides_the_same() -> None:
    with Engine(app="test", debug=True) as engine:
        engine.load_rules("flow", [{"resource": "r", "count": 2}, {"resource": "r", "count": 1, "mode": "shadow"}])
        assert [bool(engine.try_entry("r")) for _ in range(3)] == [True, True, False]
        assert engine.shadows()[0]["wouldBlock"] == 1
        blocked = engine.try_entry("r")
        assert blocked.rule.path == "flow/r/default"  # type: ignore[union-attr]  # it is refused


def test_debug_mode_decides_as_ever() -> None:
    """What stands in for a checker hands on all that it is asked."""
    engine = Engine(clock=FakeClock(), debug=True)
    rule = {"resource": "r", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5, "dimension": "channel"}
    engine.load_rules("biz_metric", [rule])
    engine.load_rules("degrade", [{"resource": "d", "grade": 2, "count": 0, "timeWindow": 9, "minRequestAmount": 1}])
    engine.report("PAY_FAIL_RATE", ok=False, resource="r", dimension="card", count=10)
    with context(tags={"channel": "card"}), pytest.raises(BizMetricBlockException) as caught:
        engine.entry("r")
    assert (caught.value.dimension, caught.value.value, caught.value.retry_after) == ("card", 100, 30_000)
    with context(tags={"channel": "transfer"}):
        assert engine.try_entry("r")
    with engine.entry("d") as call:
        call.trace(ValueError())
    assert not engine.try_entry("d")
    assert engine.status()["internalErrors"]["count"] == 0

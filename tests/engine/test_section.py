"""The critical section: nobody comes between a check and its count, and nobody waits for itself."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from threading import RLock

import pytest

from sentinel_core import Engine, Entry, section


@pytest.fixture
def often_switched() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(engine: Engine, threads: int = 4, calls: int = 2000) -> int:
    """Calls of `r` from several threads; returns how many passed."""
    passed = [0] * threads

    def work(number: int) -> None:
        for _ in range(calls):
            entry = engine.try_entry("r")
            if isinstance(entry, Entry):
                passed[number] += 1
                entry.exit()

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(passed)


@pytest.mark.usefixtures("often_switched")
def test_a_real_lock_orders_threads_where_the_interpreter_does_not(engine: Engine) -> None:
    """As on a free-threaded build: the flag is always set, and giving way takes the lock."""
    engine.load_rules("flow", [{"resource": "r", "grade": 1, "count": 5000}])
    core = engine.core
    core.alone, core.lock, core.busy = False, RLock(), True
    assert in_threads(engine) == 5000
    stats = engine.stats("r")
    assert (stats.passed, stats.blocked, stats.threads) == (5000, 3000, 0)
    assert core.lock.acquire(blocking=False), "the lock was given back"


@pytest.mark.usefixtures("often_switched")
def test_a_signal_handler_enters_in_the_middle_of_a_call() -> None:
    engine = Engine()
    handled = [0]

    def handler(_signal: int, _frame: object) -> None:
        engine.entry("r").exit()
        engine.stats("r")
        handled[0] += 1
        signal.setitimer(signal.ITIMER_REAL, 1e-4)  # not before: handlers of which each is interrupted never end

    def collected(_phase: str, _info: dict[str, int]) -> None:
        return

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-4)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    gc.callbacks.append(collected)  # what a collection calls lets a handler in, wherever an object is made
    calls = 0
    deadline = time.monotonic() + 10
    try:
        while handled[0] < 300 and time.monotonic() < deadline:
            calls += 100
            for _ in range(100):
                engine.entry("r").exit()
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*threshold)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    totals = engine.totals("r")
    assert handled[0] >= 300
    assert (totals.passed, totals.success) == (calls + handled[0],) * 2
    assert engine.stats("r").threads == 0


def test_a_finalizer_enters_in_the_middle_of_a_call() -> None:
    engine = Engine()
    ended = [0]

    class Loop:
        """Garbage that only the collector finds, at any allocation."""

        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            engine.entry("r").exit()
            ended[0] += 1

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(500):
            Loop()
            engine.entry("r").exit()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert ended[0] == 500
    assert engine.totals("r").success == 1000


def test_a_section_may_be_nested_and_others_wait_for_its_end(engine: Engine) -> None:
    core = engine.core
    core.alone = False  # compiled it is alone, and nobody need wait
    ended = threading.Event()

    def call() -> None:
        engine.entry("r").exit()
        ended.set()

    caller = threading.Thread(target=call)

    def outer() -> None:
        core.inside(lambda: engine.entry("mine").exit())
        caller.start()
        assert not ended.wait(0.05)

    core.inside(outer)
    assert ended.wait(5)
    caller.join()
    assert not core.busy
    assert engine.stats("r").success == 1


def test_a_thread_that_never_leaves_hangs_nobody(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer can end a thread between any two lines."""
    monkeypatch.setattr(section, "PATIENCE", 3)
    engine.core.alone = False
    engine.core.busy = True
    engine.entry("r").exit()
    assert engine.stats("r").success == 1
    assert "ten seconds" in engine.status()["internalErrors"]["last"]
    assert not engine.core.busy


class Interrupted(BaseException):
    """What a time limit raises from its signal handler."""


@pytest.mark.parametrize("look", ["report", "stats", "breakers", "gauge"])
def test_a_signal_handler_that_raises_leaves_nobody_inside(look: str) -> None:
    engine = Engine(collect=False)
    engine.load_rules("biz_metric", [{"resource": "r", "bizMetricType": "FAIL_RATE", "threshold": 99}])
    core = engine.core
    looks: dict[str, Callable[[], object]] = {
        "report": lambda: engine.report("FAIL_RATE", ok=True, resource="r"),
        "stats": lambda: engine.stats("r"),
        "breakers": lambda: engine.breakers("r"),
        "gauge": lambda: engine.gauge("DEPTH", 1.0),
    }
    armed = [False]

    def handler(_signal: int, _frame: object) -> None:
        if armed[0]:
            armed[0] = False
            raise Interrupted

    def look_until_interrupted() -> None:  # of its own: CPython 3.13 may raise between a loop and the `try` around it
        armed[0] = True
        while armed[0]:
            looks[look]()

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    gc.disable()  # what is raised in a callback of the collector is lost
    raised = 0
    deadline = time.monotonic() + 10
    try:
        while raised < 1000 and time.monotonic() < deadline:
            try:
                look_until_interrupted()
            except Interrupted:
                raised += 1
            assert (core.busy, core.owner) == (core.lock is not None, 0)
    finally:
        armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert raised >= 1000

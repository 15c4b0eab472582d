"""A forked child has the rules of its parent, counts for itself, and follows its sources with threads of its own."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine, default_engine, entry, set_default_engine, start
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import Query
from sentinel_core.datasources import FileSource, Item, MemorySource, Reading, SubscriptionOptions
from sentinel_core.settings import load_settings

FLOW = {"resource": "r", "grade": 1, "count": 3}
QUICK = SubscriptionOptions(compare_s=0.2)


def in_child(work: Callable[[], Any], timeout_s: float = 20) -> Any:
    """What `work` returns in a forked child; a child that hangs is ended and fails the test."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer: tuple[bool, Any] = (True, work())
        except BaseException as error:  # told to the parent
            answer = (False, repr(error))
        os.write(write, pickle.dumps(answer))
        os._exit(0)
    os.close(write)
    watchdog = threading.Timer(timeout_s, os.kill, (child, signal.SIGKILL))
    watchdog.start()
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    watchdog.cancel()
    assert data, "the child hangs"
    good, value = pickle.loads(data)  # noqa: S301 (our own child)
    assert good, value
    return value


def wait_for(condition: Callable[[], bool], timeout_s: float = 10) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def let(engine: Engine, calls: int = 9) -> int:
    return sum(bool(engine.try_entry("r")) for _ in range(calls))


@pytest.fixture
def busy() -> Iterator[Engine]:
    """A real engine that other threads call and reload all the time."""
    engine = Engine()
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            with engine.entry("busy"):
                pass

    def load() -> None:
        count = 0
        while not stop.is_set():
            count += 1
            engine.load_rules("degrade", [{"resource": "busy", "grade": 1, "count": 0.5, "timeWindow": 1 + count % 9}])

    threads = [threading.Thread(target=work) for work in (call, call, load)]
    for thread in threads:
        thread.start()
    yield engine
    stop.set()
    for thread in threads:
        thread.join()
    engine.close()


def test_a_child_of_a_busy_process_neither_hangs_nor_inherits_counts(busy: Engine) -> None:
    busy.load_rules("flow", [FLOW])

    def work() -> tuple[int, int, int, int]:
        before = busy.stats("busy")
        return before.passed, before.threads, let(busy), len(busy.load_rules("flow", []).rules)

    for _ in range(10):
        assert in_child(work) == (0, 0, 3, 0)
    assert busy.rules("flow").rules, "the parent's rules are its own"


def test_a_call_from_before_the_fork_ends_without_a_trace_in_the_child() -> None:
    engine = Engine()
    engine.load_rules("flow", [{**FLOW, "grade": 0}])
    with engine.entry("r", inbound=True) as held:

        def work() -> tuple[int, int, int]:
            held.exit()
            node = engine.node("__total_inbound_traffic__")
            return engine.stats("r").threads, node.threads if node else -1, let(engine)

        assert in_child(work) == (0, 0, 3)
        assert engine.stats("r").threads == 1
    assert engine.stats("r").threads == 0


def test_business_samples_reach_the_rules_of_the_child() -> None:
    engine = Engine()
    rule = {"resource": "r", "bizMetricType": "PAY_FAIL_RATE", "threshold": 5, "minRequestAmount": 3}
    engine.load_rules("biz_metric", [rule])

    def work() -> int:
        engine.report("PAY_FAIL_RATE", ok=False, count=3)
        return let(engine)

    assert in_child(work) == 0
    assert let(engine) == 9


def test_a_lock_that_a_thread_holds_in_the_parent_does_not_hold_the_child(tmp_path: Path) -> None:
    engine = Engine()
    source = FileSource(tmp_path / "sentinel-flow-rules.json", kind="flow")
    locks: list[Any] = [engine._activation.lock, engine._following._lock, engine.collectors._lock, source._lock]
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in locks:
            lock.acquire()
        held.set()
        done.wait()
        for lock in locks:
            lock.release()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()

    def work() -> int:
        engine.load_rules("flow", [FLOW])
        engine.collectors.refresh()
        (item,) = source.items(["flow"])
        source.read(item)
        return let(engine)

    try:
        assert in_child(work) == 3
    finally:
        done.set()
        holder.join()


def test_a_child_follows_its_sources_and_a_change_is_one_event(tmp_path: Path) -> None:
    """Parent and two children see the same change; the outbox that they share holds it once."""
    path = tmp_path / "sentinel-flow-rules.json"
    path.write_text(json.dumps([FLOW]))
    outbox = Outbox(tmp_path / "outbox.db")

    def limit(engine: Engine) -> float:
        return engine.rules("flow").rules[0].count  # type: ignore[no-any-return]  # a FlowRule

    with Engine(audit=outbox) as engine:
        subscription = engine.subscribe("flow", FileSource(path, kind="flow"), QUICK)
        assert subscription.wait_ready(10)
        ready = tmp_path / "ready"
        ready.mkdir()

        def work() -> tuple[int, bool, str]:
            let(engine)  # the first call starts the threads again
            (ready / str(os.getpid())).touch()
            changed = wait_for(lambda: limit(engine) == 5)
            subscription.wait_ready(10)
            return let(engine), changed, subscription.state.value

        def change() -> None:
            assert wait_for(lambda: len(list(ready.iterdir())) == 2)
            path.write_text(json.dumps([{**FLOW, "count": 5}]))

        writer = threading.Thread(target=change)
        writer.start()
        answers: list[Any] = []
        first = threading.Thread(target=lambda: answers.append(in_child(work)))
        first.start()
        answers.append(in_child(work))
        first.join()
        writer.join()
        assert wait_for(lambda: limit(engine) == 5)
        assert [answer[1:] for answer in answers] == [(True, "ready")] * 2
        assert all(calls > 0 for calls, *_ in answers)
        told = [event for event in outbox.pending() if event.type == "sentinel.rules.changed.v1"]
        assert len(told) == 2, "the first rules and the change, once each"
    outbox.close()


def test_collectors_are_read_in_the_child_too() -> None:
    class Counter:
        metric = "STOCK"
        reads = 0

        def collect(self) -> dict[str, float]:
            self.reads += 1
            return {"": float(os.getpid())}

    counter = Counter()
    with Engine() as engine:
        engine.collectors.register(counter, every_s=0.01)

        def work() -> bool:
            engine.status()
            before = counter.reads
            return wait_for(lambda: counter.reads > before + 2)

        assert in_child(work)


def test_a_child_that_never_looks_at_the_engine_gets_no_threads() -> None:
    with Engine() as engine:
        engine.collectors.register(Steady(), every_s=0.01)
        assert in_child(threading.active_count) == 1
        assert in_child(lambda: (engine.status(), threading.active_count())[1]) == 2


class Steady:
    metric = "STOCK"

    def collect(self) -> dict[str, float]:
        return {"": 1.0}


def worker(_: int) -> int:
    engine = default_engine()
    with entry("before"):
        pass
    return sum(bool(engine.try_entry("r")) for _ in range(9))


def test_the_default_engine_works_in_a_pool_of_workers() -> None:
    with Engine() as engine:
        engine.load_rules("flow", [FLOW])
        before = set_default_engine(engine)
        try:
            assert let(engine) == 3
            with multiprocessing.get_context("fork").Pool(1) as pool:
                assert pool.map(worker, [1]) == [3]
        finally:
            set_default_engine(before)


def test_a_service_delivers_from_its_children_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pre-fork server that starts before it forks: each worker follows the store, and every change is told once."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sentinel-flow-rules.json"
    path.write_text(json.dumps([FLOW]))
    (tmp_path / "sentinel.yaml").write_text(f"app: shop\nstores: ['{path.as_uri()}']\n")
    before = set_default_engine(None)
    engine = start(load_settings(tmp_path / "sentinel.yaml"))
    try:
        assert engine.wait_ready(10)

        def work() -> tuple[str, bool]:
            engine.status()
            assert engine.wait_ready(10)
            path.write_text(json.dumps([{**FLOW, "count": 5}]))
            changed = wait_for(lambda: engine.rules("flow").rules[0].count == 5)
            return engine.instance, changed and engine.forwarder.drain(10)

        instance, delivered = in_child(work)
        assert delivered
        assert instance != engine.instance
        assert wait_for(lambda: engine.rules("flow").rules[0].count == 5)
    finally:
        engine.close()
        set_default_engine(before)
    store = open_store("sqlite:///.sentinel/audit.db")
    types = [row.event.type for row in store.query(Query()).rows]
    assert types.count("sentinel.rules.changed.v1") == 2
    assert types.count("sentinel.rules.applied.v1") in (2, 3), "the parent ran both; a child may end before it tells"
    store.close()


# -- what other threads are in the middle of ---------------------------------------------------------------------------


SLOW_MODULE = "import time\ntime.sleep(0.4)\nvalue = 7\n"


def test_a_module_that_another_thread_is_importing_can_be_imported_in_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock would be held for ever: a source that imports its library in a worker would never be read there."""
    (tmp_path / "slow_to_import.py").write_text(SLOW_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    engine = Engine()
    importing = threading.Thread(target=importlib.import_module, args=("slow_to_import",))
    importing.start()
    time.sleep(0.1)
    assert in_child(lambda: importlib.import_module("slow_to_import").value) == 7
    importing.join()
    engine.close()


def test_a_fork_in_the_middle_of_a_transaction_leaves_the_child_no_lock(tmp_path: Path) -> None:
    """SQLite keeps its locks in tables of the process; a child would inherit those of threads that it has not."""
    outbox = Outbox(tmp_path / "outbox.db", busy_s=3.0)
    database = outbox._database
    inside, stop = threading.Event(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            with database.write() as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS t (n)")
                connection.execute("INSERT INTO t VALUES (1)")
                inside.set()
                time.sleep(0.05)
            time.sleep(0.05)  # else nobody else would have a turn

    thread = threading.Thread(target=write)
    thread.start()
    assert inside.wait(5)

    def work() -> int:
        outbox.append([])
        with database.write() as connection:
            connection.execute("INSERT INTO t VALUES (2)")
        return int(outbox.depth())

    try:
        for _ in range(5):
            assert in_child(work) == 0
    finally:
        stop.set()
        thread.join()
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM t WHERE n = 2").fetchone() == (5,)
    outbox.close()


def test_a_fork_waits_a_moment_for_a_source_that_is_asked_for_the_first_time(tmp_path: Path) -> None:
    class Slow(MemorySource):
        def read(self, item: Item) -> Reading:
            time.sleep(0.3)
            return super().read(item)

    source = Slow()
    source.set("flow", json.dumps([FLOW]))
    with Engine() as engine:
        engine.subscribe("flow", source, QUICK)
        assert in_child(lambda: len(engine.rules("flow"))) == 1, "it was read before the fork"
        began = time.monotonic()
        assert in_child(lambda: len(engine.rules("flow"))) == 1
        assert time.monotonic() - began < 5


def test_a_fork_does_not_wait_long_for_a_source_that_hangs() -> None:
    go_on = threading.Event()

    class Hanging(MemorySource):
        def read(self, item: Item) -> Reading:
            go_on.wait(20)
            return super().read(item)

    with Engine() as engine:
        engine.subscribe("flow", Hanging(), QUICK)
        began = time.monotonic()
        assert in_child(lambda: 1) == 1
        assert time.monotonic() - began < 5
        go_on.set()


def test_several_threads_may_fork_at_the_same_time(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    with Engine(audit=outbox) as engine:
        engine.load_rules("flow", [FLOW])
        answers: list[Any] = []

        def fork_often() -> None:
            answers.extend(in_child(lambda: let(engine) and outbox.depth()) for _ in range(8))

        threads = [threading.Thread(target=fork_often) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert answers == [1] * 24
        assert let(engine) == 3
        engine.load_rules("flow", [])
    outbox.close()

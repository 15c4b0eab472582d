"""What is reported is on disk soon, whether a rule asks for it or not; and no disk can do harm."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine
from sentinel_core.collectors.local import GAUGES
from sentinel_core.observation.recorder import Recorder
from sentinel_core.observation.store import ObservationStore, Reading, Series, Span
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import AuditSettings, Observe, Settings
from sentinel_core.testing import FakeClock
from tests.engine.test_fork import in_child, wait_for

EVERY = 10_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start_ms=1_000_000)


@pytest.fixture
def engine(clock: FakeClock) -> Engine:
    return Engine(clock=clock, instance="i-1")


@pytest.fixture
def recorder(engine: Engine, store: ObservationStore) -> Recorder:
    """Writes when told to: no thread."""
    return Recorder(engine, store)


def readings(store: ObservationStore, metric: str) -> list[tuple[Series, list[Reading]]]:
    return store.readings(metric, 0, 1 << 60)


def tick(clock: FakeClock, recorder: Recorder, seconds: float = 10) -> None:
    clock.advance(ms=seconds * 1000)
    recorder.flush()


def test_an_interval_is_what_was_reported_in_it_without_any_rule(
    engine: Engine, clock: FakeClock, recorder: Recorder, store: ObservationStore
) -> None:
    engine.report("PAY", ok=True, resource="order", dimension="wechat", count=8)
    engine.report("PAY", ok=False, resource="order", dimension="wechat", count=2)
    tick(clock, recorder)
    tick(clock, recorder)
    engine.report("PAY", ok=False, resource="order", dimension="wechat")
    tick(clock, recorder)
    series = Series("PAY", "order", "wechat", "rate", "i-1")
    assert readings(store, "PAY") == [(series, [Reading(1_010_000, 10, 2), Reading(1_030_000, 1, 1)])]


def test_a_gauge_is_its_value_and_its_age(
    engine: Engine, clock: FakeClock, recorder: Recorder, store: ObservationStore
) -> None:
    engine.gauge("STOCK", 7.5)
    tick(clock, recorder)
    engine.gauge("STOCK", 6)
    recorder.flush()
    tick(clock, recorder, 4)
    series = Series("STOCK", "", "", "gauge", "i-1")
    expected = [Reading(1_010_000, value=6.0), Reading(1_014_000, value=6.0, age=4000)]
    assert readings(store, "STOCK") == [(series, expected)]


def test_time_without_samples_was_watched_and_time_without_a_recorder_was_not(
    clock: FakeClock, recorder: Recorder, store: ObservationStore
) -> None:
    for _ in range(3):
        tick(clock, recorder)
    tick(clock, recorder, 3600)
    assert store.spans(0, 1 << 60) == [
        Span("i-1", 1_000_000, 1_030_000, 10_000),
        Span("i-1", 4_620_000, 4_630_000, 10_000),
    ]


def test_spans_follow_each_other_without_a_gap(clock: FakeClock, recorder: Recorder, store: ObservationStore) -> None:
    for _ in range(5):
        tick(clock, recorder, 1800)
    assert len(store.spans(0, 1 << 60)) == 5, "half an hour is a gap for a recorder of ten seconds"
    patient = Recorder(recorder._engine, store, every_s=1800)
    for _ in range(5):
        tick(clock, patient, 1800)
    spans = store.spans(clock.now_ns // 1_000_000 - 9_000_000, 1 << 60)
    assert all(before.until == after.began for before, after in pairwise(spans))
    assert spans[-1].until - spans[-1].began < 2 * 3_600_000


def test_a_wall_clock_that_is_set_back_loses_no_sample(
    engine: Engine, clock: FakeClock, recorder: Recorder, store: ObservationStore
) -> None:
    for _ in range(2):
        engine.report("PAY", ok=False, count=3)
        tick(clock, recorder)
        clock.step_wall(-10)
    ((_, found),) = readings(store, "PAY")
    assert found == [Reading(1_010_000, 6, 6)]


def test_what_is_older_than_asked_is_removed(engine: Engine, clock: FakeClock, store: ObservationStore) -> None:
    recorder = Recorder(engine, store, keep_s=3600)
    engine.report("OLD", ok=True)
    tick(clock, recorder)
    engine.gauge("NEW", 1)
    tick(clock, recorder, 3700)
    assert {each.metric for each in store.recorded()} == {"NEW"}
    assert [span.until for span in store.spans(0, 1 << 60)] == [1_000_000 + 3_710_000]


def test_a_file_that_grows_too_large_loses_its_oldest_readings_first(
    engine: Engine, clock: FakeClock, store: ObservationStore, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(engine, store, every_s=600, max_bytes=64 * 1024)
    for number in range(60):
        for name in range(100):
            engine.gauge("G", number, resource=f"r{name}")
        tick(clock, recorder, 600)
    assert store.size() < 2 * 64 * 1024
    (_, found), *_ = readings(store, "G")
    assert found[-1].value == 59
    assert found[0].value > 10
    assert sum("before their time" in record.message for record in caplog.records) == 1


def test_names_beyond_the_bound_are_refused_and_counted(
    engine: Engine, clock: FakeClock, recorder: Recorder, store: ObservationStore
) -> None:
    for number in range(GAUGES + 5):
        engine.report("PAY", ok=True, resource=f"r{number}")
    engine.report("PAY", ok=True, resource="r0")
    tick(clock, recorder)
    found = readings(store, "PAY")
    assert len(found) == GAUGES
    assert (found[0][0].resource, found[0][1][0].total) == ("r0", 2)
    assert engine.status()["metrics"]["refused"] == 5


def test_without_a_recorder_nothing_is_kept(engine: Engine, recorder: Recorder) -> None:
    assert Engine().metrics.tallies is None
    recorder.close()
    engine.report("PAY", ok=True)
    assert engine.metrics.tallies is None


def test_a_disk_that_fails_is_told_once_and_what_was_lost_is_a_gap(
    engine: Engine, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "folder"
    in_the_way.write_text("")
    store = ObservationStore(in_the_way / "o.db")
    recorder = Recorder(engine, store)
    for _ in range(3):
        engine.report("PAY", ok=False)
        tick(clock, recorder)
    assert "ObservationsUnavailable" in str(recorder.error)
    in_the_way.unlink()
    engine.report("PAY", ok=True)
    tick(clock, recorder)
    assert recorder.error is None
    ((_, found),) = readings(store, "PAY")
    assert found == [Reading(1_040_000, 1, 0)]
    assert [(record.levelno, "written again" in record.message) for record in caplog.records] == [
        (logging.WARNING, False),
        (logging.WARNING, True),
    ]


def test_a_full_disk_is_no_matter_for_the_business(
    engine: Engine, clock: FakeClock, recorder: Recorder, store: ObservationStore
) -> None:
    tick(clock, recorder)
    with store._database.write() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}")
    for number in range(200):
        engine.report("PAY", ok=True, resource=f"{number} " * 100)
    tick(clock, recorder)
    assert "disk is full" in str(recorder.error)
    engine.entry("r").exit()


def test_two_instances_write_one_file_while_it_is_read(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "o.db"
    engines = [Engine(clock=clock, instance=f"i-{number}") for number in (1, 2)]
    recorders = [Recorder(engine, ObservationStore(path)) for engine in engines]
    reader = ObservationStore(path, read_only=True)
    for engine, recorder in zip(engines, recorders, strict=True):
        engine.report("PAY", ok=True)
        recorder.flush()
        assert reader.recorded()
    assert sorted(series.instance for series, _ in readings(reader, "PAY")) == ["i-1", "i-2"]
    for recorder in recorders:
        recorder.close()
    reader.close()


def test_a_file_that_somebody_locks_delays_close_no_longer_than_allowed(
    engine: Engine, store: ObservationStore
) -> None:
    recorder = Recorder(engine, store, every_s=3600).start()
    recorder.flush()
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    recorder.close(timeout_s=0.2)
    assert time.monotonic() - began < 1
    holder.close()


SERVICE = """
import os, sys, time
from sentinel_core import start
from sentinel_core.settings import Settings
engine = start(Settings(instance="victim", observe={"file": sys.argv[1], "every": 1}, stores=(),
    last_known_good="lkg", audit={"outbox": "outbox.db", "store": "sqlite:///audit.db"}))
while True:
    engine.report("PAY", ok=True, resource="order")
    time.sleep(0.01)
"""


def test_a_kill_loses_no_interval_that_was_written_and_the_next_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    victim = subprocess.Popen([sys.executable, "-c", SERVICE, str(path)], cwd=tmp_path)
    try:
        store = ObservationStore(path, read_only=True)
        assert wait_for(lambda: path.is_file() and path.stat().st_size > 0)
        assert wait_for(lambda: _count(store) >= 1)
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    seen = _count(store)
    assert seen >= 1
    heir = Recorder(Engine(instance="heir"), ObservationStore(path))
    heir.flush()
    assert _count(store) >= seen
    assert {span.instance for span in store.spans(0, 1 << 60)} == {"victim", "heir"}


def _count(store: ObservationStore) -> int:
    try:
        return sum(len(found) for _, found in readings(store, "PAY"))
    except Exception:
        return 0  # it is being made


def service(folder: Path, **observe: Any) -> ServiceEngine:
    return ServiceEngine(
        Settings(
            observe=Observe(**observe),
            last_known_good=str(folder / "lkg"),
            audit=AuditSettings(outbox=str(folder / "outbox.db"), store=f"sqlite:///{folder}/audit.db"),
        )
    )


def test_a_service_records_where_the_settings_say_so(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    engine = service(tmp_path, file=str(path))
    engine.begin([])
    engine.report("PAY", ok=False, resource="order")
    engine.close()
    store = ObservationStore(path, read_only=True)
    ((series, found),) = readings(store, "PAY")
    assert (series.instance, found[0].total, found[0].bad) == (engine.instance, 1, 1)
    store.close()


def test_status_tells_why_nothing_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    engine = service(tmp_path, file=str(tmp_path / "file" / "o.db"))
    assert engine.recorder is not None
    engine.recorder.flush()
    assert "may write" in engine.status()["observe"]["error"]
    engine.close()


def test_a_service_records_nothing_by_itself(tmp_path: Path) -> None:
    engine = service(tmp_path)
    engine.begin([])
    assert (engine.recorder, engine.metrics.tallies) == (None, None)
    engine.close()


def test_a_forked_child_records_its_own_samples_under_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    engine = service(tmp_path, file=str(path))
    engine.begin([])
    engine.report("PAY", ok=False, count=100)

    def work() -> str:
        engine.report("PAY", ok=True, count=3)
        engine.close()
        return engine.instance

    child = in_child(work)
    engine.close()
    store = ObservationStore(path, read_only=True)
    totals = {series.instance: sum(each.total for each in found) for series, found in readings(store, "PAY")}
    assert totals == {engine.instance: 100, child: 3}
    store.close()

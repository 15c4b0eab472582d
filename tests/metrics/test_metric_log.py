"""The metric log of an engine: every second once, whatever clocks and disks do."""

from __future__ import annotations

import os
import threading
from datetime import UTC
from pathlib import Path

import pytest

from sentinel_core import Engine, Entry, Statistics
from sentinel_core.metrics.block_log import BlockLog
from sentinel_core.metrics.metric_file import Line, files, read
from sentinel_core.metrics.metric_log import MetricLog
from sentinel_core.testing import FakeClock

BASE = "shop-metrics.log"
ALWAYS = 1 << 40


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start_ms=1_796_013_337_000)


@pytest.fixture
def engine(clock: FakeClock) -> Engine:
    return Engine(app="shop", clock=clock, statistics=Statistics(minutes=True))


def call(engine: Engine, clock: FakeClock, resource: str, times: int = 1, rt_ms: int = 0, **more: bool) -> None:
    for _ in range(times):
        entry = engine.try_entry(resource, **more)  # type: ignore[arg-type]  # flags only
        clock.advance(ms=rt_ms)
        if isinstance(entry, Entry):
            entry.exit()


def log_of(engine: Engine, folder: Path) -> MetricLog:
    return MetricLog(engine, folder, every_s=0, zone=UTC)


def lines(folder: Path) -> list[Line]:
    return list(read(folder, BASE, 0, ALWAYS))


def test_a_second_is_written_when_it_is_over(engine: Engine, clock: FakeClock, tmp_path: Path) -> None:
    log = log_of(engine, tmp_path)
    engine.load_rules("flow", [{"resource": "a|b", "count": 2}])
    call(engine, clock, "a|b", 3, rt_ms=10)
    call(engine, clock, "in", inbound=True)
    log.flush()
    assert not files(tmp_path, BASE)
    clock.advance(ms=1000)
    log.flush()
    log.flush()
    (path,) = files(tmp_path, BASE)
    assert path.read_text() == (
        "1796013337000|2026-11-30 04:35:37|a_b|2|1|2|0|10|0|0|0\n"
        "1796013337000|2026-11-30 04:35:37|in|1|0|1|0|0|0|0|0\n"
        "1796013337000|2026-11-30 04:35:37|__total_inbound_traffic__|1|0|1|0|0|0|0|0\n"
    )
    log.close()


def test_seconds_that_were_missed_are_caught_up_and_idle_ones_left_out(
    engine: Engine, clock: FakeClock, tmp_path: Path
) -> None:
    log = log_of(engine, tmp_path)
    for times in (1, 0, 2, 3):
        call(engine, clock, "r", times)
        clock.advance(ms=1000)
    log.flush()
    assert [(line.second - 1_796_013_337, line.passed) for line in lines(tmp_path)] == [(0, 1), (2, 2), (3, 3)]
    log.close()


def test_what_is_passed_ahead_of_its_time_counts_at_once(engine: Engine, clock: FakeClock, tmp_path: Path) -> None:
    engine.load_rules("flow", [{"resource": "r", "count": 2}])
    log = log_of(engine, tmp_path)
    clock.advance(ms=100)
    call(engine, clock, "r", 2)
    clock.advance(ms=800)
    call(engine, clock, "r", 1, priority=True)
    clock.advance(ms=2000)
    log.flush()
    assert [(line.passed, line.occupied, line.success) for line in lines(tmp_path)] == [(3, 1, 2), (0, 0, 1)]
    assert sum(line.passed for line in lines(tmp_path)) == engine.totals("r").passed == 3
    log.close()


def test_a_step_of_the_wall_clock_neither_doubles_nor_splits_a_second(
    engine: Engine, clock: FakeClock, tmp_path: Path
) -> None:
    log = log_of(engine, tmp_path)
    for step in (0.0, 0.4, -0.6, 3600.0, 0.0, -7200.0, 0.0):
        call(engine, clock, "r")
        clock.advance(ms=1000)
        clock.step_wall(step)
        log.flush()
    written = [line.second for line in lines(tmp_path)]
    assert written == sorted(set(written))
    assert len(written) == 5, "two seconds went back behind what was written"
    log.close()


def test_a_disk_that_fails_is_told_once_and_made_up_for(
    engine: Engine, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("no folder")
    log = log_of(engine, folder)
    for _ in range(3):
        call(engine, clock, "r")
        clock.advance(ms=1000)
        log.flush()
    assert caplog.text.count("metric log cannot be written") == 1
    folder.unlink()
    log.flush()
    assert log.error is None
    assert len(lines(folder)) == 3
    log.close()


def test_the_process_id_can_stand_in_the_name(engine: Engine, clock: FakeClock, tmp_path: Path) -> None:
    log = MetricLog(engine, tmp_path, use_pid=True, every_s=0)
    call(engine, clock, "r")
    clock.advance(ms=1000)
    log.close()
    assert len(files(tmp_path, f"{BASE}.pid{os.getpid()}")) == 1


def test_an_engine_without_seconds_says_what_to_write(clock: FakeClock, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Statistics\(minutes=True\)"):
        MetricLog(Engine(clock=clock), tmp_path)


def test_the_thread_exists_only_when_started(tmp_path: Path) -> None:
    engine = Engine(app="shop", statistics=Statistics(minutes=True))
    names = {thread.name for thread in threading.enumerate()}
    log = MetricLog(engine, tmp_path, every_s=0.01)
    assert {thread.name for thread in threading.enumerate()} == names
    log.start()
    assert "sentinel-metric log" in {thread.name for thread in threading.enumerate()}
    log.close()
    assert {thread.name for thread in threading.enumerate()} == names


def test_a_forked_child_writes_files_of_its_own(engine: Engine, clock: FakeClock, tmp_path: Path) -> None:
    log = log_of(engine, tmp_path)
    refused = BlockLog(engine, tmp_path, every_s=0, zone=UTC)
    engine.load_rules("flow", [{"resource": "r", "count": 1}])
    call(engine, clock, "r", 2)
    clock.advance(ms=1000)
    log.flush()
    child = os.fork()
    if child == 0:
        try:
            call(engine, clock, "r", 3)
            clock.advance(ms=1000)
            log.close()
            refused.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    refused.flush()
    mine, of_child = files(tmp_path, BASE)
    assert "|r|1|1|1|" in mine.read_text()
    assert "|r|1|2|1|" in of_child.read_text()
    blocked = (tmp_path / "sentinel-block.log").read_text().splitlines()
    assert sorted(line.rsplit("|", 1)[1] for line in blocked) == ["1,0", "2,0"], "each tells its own refusals once"


def test_a_thread_that_writes_goes_on_in_a_forked_child(tmp_path: Path) -> None:
    engine = Engine(app="shop", statistics=Statistics(minutes=True))
    log = MetricLog(engine, tmp_path, every_s=0.01, zone=UTC).start()
    child = os.fork()
    if child == 0:
        engine.entry("r").exit()
        os._exit(sum(thread.name == "sentinel-metric log" for thread in threading.enumerate()))
    status = os.waitpid(child, 0)[1]
    log.close()
    assert os.waitstatus_to_exitcode(status) == 1


def test_a_name_that_is_no_text_for_a_file_holds_nothing_up(engine: Engine, clock: FakeClock, tmp_path: Path) -> None:
    log = log_of(engine, tmp_path)
    call(engine, clock, "plain")
    call(engine, clock, "/\udc80")
    clock.advance(ms=1000)
    log.flush()
    assert log.error is None
    assert [line.resource for line in lines(tmp_path)] == ["plain", "/?"]

"""The block log, in the spelling of Java Sentinel 1.8.9 (whose output the expected lines are taken from)."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from sentinel_core import Engine, context
from sentinel_core.metrics.block_log import BlockLog
from sentinel_core.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start_ms=1_796_013_337_000)


@pytest.fixture
def log(engine: Engine, tmp_path: Path) -> BlockLog:
    return BlockLog(engine, tmp_path, every_s=0, zone=UTC, max_bytes=200, backups=2)


def written(folder: Path) -> list[str]:
    return (folder / "sentinel-block.log").read_bytes().decode().split("\r\n")


def test_refusals_are_added_up_by_second_rule_and_caller(
    engine: Engine, clock: FakeClock, log: BlockLog, tmp_path: Path
) -> None:
    rules = [{"resource": "plain", "count": 0, "id": 17}, {"resource": "a|b,c", "count": 0}]
    engine.load_rules("flow", [*rules, {"resource": "new\\sline", "count": 0, "regex": True}])
    for origin in ("", "app-a"):
        engine.try_entry("plain", origin=origin, count=3)
        engine.try_entry("plain", origin=origin, count=3)
    with context("web", origin="ambient"):
        engine.try_entry("a|b,c", count=3)
    engine.try_entry("new\nline")
    clock.advance(ms=1000)
    engine.try_entry("plain")
    log.flush()
    assert written(tmp_path) == [
        "2026-11-30 04:35:37|1|a|b,c,FlowException,default,ambient,|3,0",
        "2026-11-30 04:35:37|1|new line,FlowException,default,,|1,0",
        "2026-11-30 04:35:37|1|plain,FlowException,default,,17|6,0",
        "2026-11-30 04:35:37|1|plain,FlowException,default,app-a,17|6,0",
        "2026-11-30 04:35:38|1|plain,FlowException,default,,17|1,0",
        "",
    ]


def test_limits_of_other_kinds_say_what_was_hit(engine: Engine, log: BlockLog, tmp_path: Path) -> None:
    engine.load_rules("authority", [{"resource": "auth", "limitApp": "x,y"}])
    engine.load_rules("system", [{"qps": 0}])
    engine.try_entry("auth", origin="app-a")
    engine.try_entry("sys", count=2, inbound=True)
    log.flush()
    assert written(tmp_path) == [
        "2026-11-30 04:35:37|1|auth,AuthorityException,app-a,app-a,|1,0",
        "2026-11-30 04:35:37|1|sys,SystemBlockException,qps,,|2,0",
        "",
    ]


def test_full_files_get_numbers(engine: Engine, clock: FakeClock, log: BlockLog, tmp_path: Path) -> None:
    engine.load_rules("flow", [{"resource": "r" * 200, "count": 0}])
    for _ in range(5):
        engine.try_entry("r" * 200)
        clock.advance(ms=1000)
        log.flush()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"sentinel-block.log{n}" for n in ("", ".1", ".2")]
    seconds = [(tmp_path / f"sentinel-block.log{n}").read_text()[17:19] for n in (".2", ".1", "")]
    assert seconds == ["39", "40", "41"]


def test_a_disk_that_fails_loses_nothing_and_is_told_once(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("no folder")
    log = BlockLog(engine, folder, every_s=0)
    engine.load_rules("flow", [{"resource": "r", "count": 0}])
    for _ in range(3):
        assert not engine.try_entry("r")
        log.flush()
    assert caplog.text.count("block log cannot be written") == 1
    folder.unlink()
    log.flush()
    assert written(folder)[0].endswith("|3,0")


def test_after_its_end_refusals_cost_nothing_again(engine: Engine, log: BlockLog) -> None:
    assert engine.core.observer is not None
    log.close()
    assert engine.core.observer is None


def test_a_listener_that_raises_changes_no_decision(engine: Engine) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("listener")

    engine.on_block(fail)
    engine.load_rules("flow", [{"resource": "r", "count": 0}])
    assert not engine.try_entry("r")
    assert engine.status()["internalErrors"]["count"] == 1


def test_a_call_that_waited_in_vain_is_heard_of(engine: Engine, log: BlockLog, tmp_path: Path) -> None:
    queue = {"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}
    engine.load_rules("flow", [queue])
    engine.load_rules("param_flow", [{"resource": "r", "paramIdx": 0, "count": 1}])
    outcomes = [bool(engine.try_entry("r", args=("hot",))) for _ in range(2)]
    assert outcomes == [True, False]
    log.flush()
    assert "ParamFlowException" in written(tmp_path)[0]

"""A service tells of itself in a file; who reads it takes nothing for granted."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel_core import Engine
from sentinel_core.audit.redaction import Redaction
from sentinel_core.status_file import StatusFile, read, stopped
from sentinel_core.testing import FakeClock

BIZ = {"resource": "r", "bizMetricType": "QUEUE", "threshold": 5, "minRequestAmount": 1}


@pytest.fixture
def engine(clock: FakeClock) -> Engine:
    return Engine(app="shop", environment="prod", instance="host/1", clock=clock)


def test_it_says_what_status_says_and_what_breakers_stand_at(engine: Engine, tmp_path: Path) -> None:
    engine.load_rules("biz_metric", [BIZ])
    engine.load_rules("degrade", [{"resource": name, "grade": 2, "count": 0, "timeWindow": 9} for name in ("a", "b")])
    for _ in range(5):
        entry = engine.entry("a")
        entry.trace(ValueError())
        entry.exit()
    engine.entry("b").exit()
    engine.gauge("QUEUE", 7, resource="r")
    engine.try_entry("r")
    StatusFile(engine, tmp_path / "made", every_s=0).flush()
    (status,) = read(tmp_path / "made")
    assert (status.app, status.environment, status.instance, status.ended) == ("shop", "prod", "host/1", False)
    assert status.path.name == f"host_1.{os.getpid()}.json"
    assert [(each["resource"], each["kind"], each["state"]) for each in status.breakers] == [
        ("r", "biz_metric", "OPEN"),
        ("a", "degrade", "OPEN"),
    ]
    assert status.document["kinds"]["degrade"]["rules"] == 2


def test_a_service_removes_its_own_and_what_a_killed_one_left(engine: Engine, tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    first = StatusFile(engine, tmp_path, every_s=0)
    first.flush()
    left = tmp_path / f"killed.{ended.pid}.json"
    left.write_text(json.dumps({**json.loads(first.path.read_text()), "pid": ended.pid}))
    elsewhere = tmp_path / "elsewhere.1.json"
    elsewhere.write_text(json.dumps({**json.loads(first.path.read_text()), "pid": ended.pid, "host": "another"}))
    assert [status.ended for status in read(tmp_path)] == [False, False, True]
    second = StatusFile(engine, tmp_path, every_s=60).start()
    assert not left.exists()
    second.close()
    assert [path.name for path in tmp_path.glob("*.json")] == [elsewhere.name]


def test_one_that_was_closed_leaves_its_name_until_it_starts_again(engine: Engine, tmp_path: Path) -> None:
    first = StatusFile(engine, tmp_path, every_s=60).start()
    first.flush()
    assert stopped(tmp_path) == stopped(tmp_path / "nowhere") == set()
    first.close()
    assert (stopped(tmp_path), read(tmp_path)) == ({"host/1"}, [])
    old = tmp_path / "old.stopped"
    old.write_text("old")
    month_ago = engine.clock.wall().timestamp() - 31 * 86400
    os.utime(old, (month_ago, month_ago))
    StatusFile(engine, tmp_path, every_s=60).start()
    assert stopped(tmp_path) == set(), "and what nobody asks for any more is gone"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"breakers": 1}', "\xff", '{"instance": []}'])
def test_what_is_no_status_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_bytes(content.encode("latin-1"))
    assert read(tmp_path) == []
    assert read(tmp_path / "nowhere") == []


def test_a_folder_that_cannot_be_written_is_told_once(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    status = StatusFile(engine, tmp_path / "file" / "folder", every_s=0)
    with caplog.at_level(logging.WARNING):
        status.flush()
        status.flush()
        status.close()
    assert caplog.text.count("status file cannot be written") == 1


def test_a_forked_child_writes_a_file_of_its_own(engine: Engine, tmp_path: Path) -> None:
    status = StatusFile(engine, tmp_path, every_s=0)
    status.flush()
    child = os.fork()
    if child == 0:
        try:
            engine.status()
            status.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = {document["pid"]: document["host"] for document in (each.document for each in read(tmp_path))}
    assert found == {os.getpid(): socket.gethostname(), child: socket.gethostname()}


def test_names_that_are_no_texts_for_a_file_are_escaped(engine: Engine, tmp_path: Path) -> None:
    engine.load_rules("degrade", [{"resource": "/.*", "regex": True, "grade": 2, "count": 0, "timeWindow": 9}])
    for _ in range(5):
        with pytest.raises(ValueError, match="bad"), engine.entry("/\udc80"):
            raise ValueError("bad")
    StatusFile(engine, tmp_path, every_s=0).flush()
    (written,) = tmp_path.iterdir()
    assert json.loads(written.read_text())["breakers"][0]["resource"] == "/\udc80"


def test_fields_that_events_do_not_show_are_not_in_it_and_its_owner_alone_may_read_it(
    engine: Engine, tmp_path: Path
) -> None:
    allowed = {"resource": "pay", "limitApp": "partner-a,partner-c", "strategy": 0}
    engine.load_rules("authority", [allowed, {**allowed, "resource": "refund", "limitApp": "partner-a, partner-c"}])
    engine.load_rules("flow", [{"resource": "pay", "count": 5, "limitApp": "partner-a"}])
    engine.entry("pay", origin="partner-a").exit()
    engine.entry("refund", origin="partner-a").exit()
    StatusFile(engine, tmp_path, every_s=0, redaction=Redaction(["limitApp"], key="k" * 32)).flush()
    (written,) = tmp_path.iterdir()
    assert "partner" not in written.read_text()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    StatusFile(engine, tmp_path, every_s=0).flush()
    assert "partner-a" in written.read_text()

"""Counts, warm-ups, queues: rows of `docs/troubleshooting.md` as symptoms in running services, and what is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from sentinel_core import Engine
from sentinel_core.cli.moments import utc_now
from sentinel_core.clock import Clock
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from sentinel_core.status_file import StatusFile
from sentinel_core.testing import FakeClock
from tests.cli.conftest import Run
from tests.cli.troubles import Start, calls, findings, found, load_revision, tell, wait_until

# -- QPS lower than the traffic ----------------------------------------------------------------------------------------


def test_what_is_counted_over_which_time(service: Start, sentinelctl: Run) -> None:
    engine = service("flowRules: [{resource: a, grade: 1, count: 5}]\n")
    calls(engine, "a", 8)
    tell(engine)
    what, _ = found(findings(sentinelctl, "a"), "counted are calls that passed")
    assert "a sliding window of 1000 ms in 2 buckets of 500 ms" in what
    assert "up to twice the limit can pass within 1000 ms around a border" in what
    document = json.loads(sentinelctl("rules", "explain", "a", "-o", "json").out)
    (told,) = document["calls"]
    assert (told["passed"], told["blocked"], told["lately"]["blockedBy"]) == (5, 3, {"flow": 3})
    assert "lately (0 s) 5 passed, 3 refused (3 by flow)" in sentinelctl("rules", "explain", "a").out


def test_several_processes_count_each_by_itself(service: Start, sentinelctl: Run) -> None:
    engines = [
        service("flowRules: [{resource: a, grade: 1, count: 20}]\n", f"instance: shop-{number}\n") for number in (1, 2)
    ]
    for number, engine in enumerate(engines, start=1):
        calls(engine, "a", 10 * number)
        tell(engine)
    what, _ = found(findings(sentinelctl, "a"), "count each by itself")
    assert "2 × 20 = 40 a second on this machine; now 30 pass and 0 are refused, all together" in what
    assert "for 20 in all write count: 10" in what
    assert "2 services here, 30 calls seen; each counts by itself" in sentinelctl("doctor").out


def test_a_clock_that_was_set(service: Start, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = service("flowRules: [{resource: a, grade: 1, count: 20}]\n")
    tell(engine)
    right = engine.clock.wall
    monkeypatch.setattr(engine.clock, "wall", lambda: right() + timedelta(minutes=3, seconds=1))
    tell(engine)
    told = sentinelctl("doctor").out
    assert f"{engine.instance} is 3 min ahead; {engine.instance} saw its clock set by +181" in told
    assert "limits do not move with it" in told
    (check,) = [
        each for each in json.loads(sentinelctl("doctor", "-o", "json").out)["checks"] if each["check"] == "clocks"
    ]
    assert check["facts"]["steps"][engine.instance]["count"] == 1
    assert check["facts"]["skewSeconds"][engine.instance] == pytest.approx(181, abs=1)


WORKERS = """
import os, sys, time
from sentinel_core import start
from sentinel_core.settings import load_settings

engine = start(load_settings())
assert engine.wait_ready(10)
for _ in range(2):
    if os.fork() == 0:
        break
else:
    sys.stdin.read()
    os._exit(0)
while True:
    if entry := engine.try_entry("a"):
        entry.exit()
    time.sleep(0.01)
"""


def test_workers_of_a_server_that_forks_are_told_apart(here: Path, sentinelctl: Run) -> None:
    """As gunicorn runs them, in processes of their own that write their status by themselves."""
    (here / "rules.yaml").write_text("flowRules: [{resource: a, grade: 1, count: 20}]\n", encoding="utf-8")
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/rules.yaml']\n", encoding="utf-8")
    parent = subprocess.Popen([sys.executable, "-c", WORKERS], cwd=here, stdin=subprocess.PIPE, start_new_session=True)
    try:
        wait_until(lambda: bool([each for each in findings(sentinelctl, "a") if "count each by itself" in each]), 20)
        what, _ = found(findings(sentinelctl, "a"), "count each by itself")
        assert what.startswith("2 processes here count each by itself: qps ≤ 20 means up to 2 × 20 = 40 a second")
        told = json.loads(sentinelctl("rules", "explain", "a", "-o", "json").out)["calls"]
        assert len({each["instance"] for each in told}) == 2
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def clock_that_is(ahead_s: float) -> Callable[[], datetime]:
    return lambda: utc_now() + timedelta(seconds=ahead_s)


def test_instances_of_other_machines_whose_clocks_differ(
    service: Start, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    """By their own words they ran a revision before it was published, or will run it in a while."""
    for name, off_s in (("early", -240), ("late", 60), ("right", 0)):
        (here / "rules.yaml").write_text("flowRules: [{resource: a, grade: 1, count: 20}]\n", encoding="utf-8")
        clock = Clock(wall=clock_that_is(off_s))
        (here / "sentinel.yaml").write_text(
            f"app: shop\ninstance: {name}\nlastKnownGood: {name}\nstatus: null\nstores: ['file://{here}/rules.yaml']\n",
            encoding="utf-8",
        )
        engine = start(load_settings(), clock=clock)
        assert engine.wait_ready(10)
        engine.close()
    checks = json.loads(sentinelctl("doctor", "-o", "json").out)["checks"]
    (check,) = [each for each in checks if each["check"] == "clocks"]
    assert check["what"].startswith("by their events early is at least ")
    assert set(check["facts"]["skewSeconds"]) == {"early", "late"}
    assert -240 <= check["facts"]["skewSeconds"]["early"] < -200
    assert 30 < check["facts"]["skewSeconds"]["late"] <= 60


def test_calls_beyond_the_bound_are_told(service: Start, sentinelctl: Run) -> None:
    engine = service("flowRules: [{resource: a, grade: 1, count: 20}]\n")
    for number in range(6001):
        calls(engine, f"order/{number}", 1)
    tell(engine)
    assert "has let 1 calls pass uncounted" in found(findings(sentinelctl, "a"), "uncounted")[0]
    assert "are beyond the bound and not told by name" in found(findings(sentinelctl, "a"), "no call of it")[0]


# -- a warm-up that falls ----------------------------------------------------------------------------------------------

WARM = "flowRules: [{resource: a, grade: 1, count: 100, controlBehavior: warm_up, warmUpPeriodSec: 60%s}]\n"


def test_a_restart_begins_cold(service: Start, sentinelctl: Run) -> None:
    engine = service(WARM % "")
    calls(engine, "a")
    tell(engine)
    what, _ = found(findings(sentinelctl, "a"), "is cold")
    assert "33.33 of 100 a second may pass now; it is full after 60 s of as much traffic as may pass" in what
    assert "the process started 0 s ago, which begins cold; a common start is off" in what
    assert "cold: 33.33 may pass, full in 60 s" in sentinelctl("rules", "explain", "a").out


def test_a_changed_rule_begins_cold(here: Path, sentinelctl: Run) -> None:
    (here / "rules.yaml").write_text(WARM % "", encoding="utf-8")
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/rules.yaml']\n", encoding="utf-8")
    clock = FakeClock(start_ms=int(utc_now().timestamp() * 1000) - 100_000)
    engine = Engine(instance="shop-1", clock=clock)
    engine.load_rules("flow", [])
    status = StatusFile(engine, here / ".sentinel" / "status", every_s=0)
    clock.advance(ms=100_000)
    engine.load_rules("flow", load_revision(here / "rules.yaml")["flow"])
    calls(engine, "a")
    status.flush()
    assert "the rule was changed 0 s ago, which begins cold" in found(findings(sentinelctl, "a"), "is cold")[0]


def test_a_service_that_idled_is_cold_again(here: Path, sentinelctl: Run) -> None:
    (here / "rules.yaml").write_text(WARM % "", encoding="utf-8")
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/rules.yaml']\n", encoding="utf-8")
    clock = FakeClock(start_ms=int(utc_now().timestamp() * 1000) - 400_000)
    engine = Engine(instance="shop-1", clock=clock)
    engine.load_rules("flow", load_revision(here / "rules.yaml")["flow"])
    status = StatusFile(engine, here / ".sentinel" / "status", every_s=0)
    for _ in range(1500):  # 150 s of traffic at the limit
        calls(engine, "a", 12)
        clock.advance(ms=100)
    clock.step_wall(250)
    status.flush()
    assert "shop-1 is warm: 100 of 100 a second may pass" in found(findings(sentinelctl, "a"), "shop-1 is")[0]
    clock.step_wall(-250)
    clock.advance(ms=250_000)
    status.flush()
    what, _ = found(findings(sentinelctl, "a"), "shop-1 is")
    assert "shop-1 is cold: 33.33 of 100" in what
    assert "with fewer than 33 calls a second it cools down again" in what


def test_instances_that_are_out_of_step(here: Path, sentinelctl: Run) -> None:
    (here / "rules.yaml").write_text(WARM % "", encoding="utf-8")
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/rules.yaml']\n", encoding="utf-8")
    for name, before_s in (("old", 60), ("new", 0)):
        clock = FakeClock(start_ms=int(utc_now().timestamp() * 1000) - before_s * 1000)
        engine = Engine(instance=name, clock=clock)
        engine.load_rules("flow", load_revision(here / "rules.yaml")["flow"])
        for _ in range(10 * before_s):
            calls(engine, "a", 12)
            clock.advance(ms=100)
        calls(engine, "a", 1)
        StatusFile(engine, here / ".sentinel" / "status", every_s=0).flush()
    what, step = found(findings(sentinelctl, "a"), "out of step")
    assert "instances are out of step: from 33.33 to " in what
    assert "write warmUpStart" in step


# -- a queue that eats the worker pool ---------------------------------------------------------------------------------

QUEUE = "flowRules: [{resource: a, grade: 1, count: 500, controlBehavior: rate_limiter, maxQueueingTimeMs: 5000}]\n"


def test_a_queue_that_can_take_every_worker(service: Start, sentinelctl: Run) -> None:
    engine = service(QUEUE, "workers: 40\nrequestTimeout: 3s\n")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(200):
            pool.submit(calls, engine, "a", 1)
        wait_until(lambda: engine.explain("a")[2]["rules"][0]["live"]["waiting"] > 0)
        tell(engine)
    told = findings(sentinelctl, "a")
    what, step = found(told, "no worker is left for anything else")
    assert "up to 40 of 40 workers wait at once in each process (500 a second × 5000 ms = 2500); waiting now: " in what
    assert "maxQueueingTimeMs: 40 or less" in step
    found(told, "a call may wait 5000 ms, and callers give up after 3000 ms")
    ended = sentinelctl("rules", "validate", "rules.yaml")
    assert (
        "warning SR223 a: up to 2500 calls wait at once (500 a second × 5000 ms), each on a thread: all 40 worker"
        in ended.out
    )
    assert "warning SR224 a: a call may wait 5000 ms, and callers give up after 3000 ms" in ended.out


def test_a_queue_that_opens_a_breaker_by_itself(service: Start, sentinelctl: Run) -> None:
    service(QUEUE + "degradeRules: [{resource: a, grade: 0, count: 300, timeWindow: 5, slowRatioThreshold: 0.5}]\n")
    what, step = found(findings(sentinelctl, "a"), "waiting counts as response time")
    assert "calls that queued for more than 300 ms are slow" in what
    assert "below 300" in step


def test_a_queue_that_is_longer_than_the_patience_of_a_client(service: Start, sentinelctl: Run) -> None:
    breaker = "{resource: a, grade: 0, count: 300, timeWindow: 5, slowRatioThreshold: 0.5, clientTimeoutMs: 2000}"
    service(f"{QUEUE}degradeRules: [{breaker}]\n")
    what, step = found(findings(sentinelctl, "a"), "its client gives up after 2000 ms")
    assert what.startswith("a call may wait 5000 ms, and its client gives up after 2000 ms (clientTimeoutMs of ")
    assert "below 2000" in step

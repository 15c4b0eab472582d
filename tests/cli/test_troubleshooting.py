"""Each row of `docs/troubleshooting.md`: the symptom in a running service, and what the tools make of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine, context
from sentinel_core.cli.moments import utc_now
from sentinel_core.clock import Clock
from sentinel_core.context import wrap
from sentinel_core.datasources import FileSource
from sentinel_core.entry import Entry
from sentinel_core.rules import KINDS, Revision, RuleSet, parse_revision
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from sentinel_core.status_file import StatusFile
from sentinel_core.testing import FakeClock
from tests.cli.conftest import Run

Start = Callable[..., ServiceEngine]


@pytest.fixture
def service(here: Path) -> Iterator[Start]:
    """Starts services that follow a file with these rules, as services are started; closed at the end."""
    running: list[ServiceEngine] = []

    def run(rules: str = "", settings: str = "") -> ServiceEngine:
        if rules:
            (here / "rules.yaml").write_text(rules, encoding="utf-8")
            (here / "sentinel.yaml").write_text(
                f"app: shop\nrules: rules.yaml\nstores: ['file://{here}/rules.yaml']\n{settings}", encoding="utf-8"
            )
        engine = start(load_settings())
        running.append(engine)
        assert engine.wait_ready(10)
        return engine

    yield run
    for engine in running:
        engine.close()


def tell(engine: ServiceEngine) -> None:
    """The service writes its status now, and not within two seconds."""
    assert engine._status is not None
    engine._status.flush()
    assert engine._status.error is None


def calls(engine: Engine, resource: str, number: int = 3, **said: Any) -> None:
    for _ in range(number):
        entry = engine.try_entry(resource, **said)
        if isinstance(entry, Entry):
            entry.exit()


def load_revision(path: Path) -> dict[str, RuleSet]:
    """The rules of a file as a service has them."""
    source = FileSource(path)
    (item,) = source.items(KINDS)
    reading = source.read(item)
    source.close()
    assert isinstance(reading, Revision)
    return parse_revision(reading, KINDS)


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def findings(sentinelctl: Run, resource: str) -> dict[str, str | None]:
    """What explain found → what to do."""
    ended = sentinelctl("rules", "explain", resource, "-o", "json")
    assert ended.code == 0, ended
    return {each["what"]: each["next"] for each in json.loads(ended.out)["findings"]}


def found(told: dict[str, str | None], part: str) -> tuple[str, str]:
    (what,) = [each for each in told if part in each]
    return what, told[what] or ""


# -- a rule that never triggers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "difference"),
    [
        ("OrderCreate", "they differ in case and separators"),
        ("order-create", "they differ in separators"),
        ("order_create ", "they differ in blanks at an end"),
        ("order_creat\uff45", "they differ in full-width or other forms of characters (U+FF45 FULLWIDTH LATIN SMALL"),
        ("\u043erder_create", "letters of another script that look alike (U+043E CYRILLIC SMALL LETTER O)"),
        ("order_create\u200b", "characters that draw nothing (U+200B ZERO WIDTH SPACE)"),
        ("shop.orders:order_create", "a guard that is given no name calls its resource module:function"),
    ],
)
def test_a_name_that_differs_from_the_one_that_is_seen(
    service: Start, sentinelctl: Run, seen: str, difference: str
) -> None:
    engine = service("flowRules: [{resource: order_create, grade: 1, count: 1}]\n")
    calls(engine, seen, 5)
    tell(engine)
    what, step = found(findings(sentinelctl, "order_create"), "is seen as")
    assert "(5 calls in " in what
    assert difference in what
    assert "names are compared letter by letter" in step
    told = sentinelctl("doctor").out
    assert "warn  rules " in told
    assert "order_create is seen as" in told


def test_who_asks_by_the_name_that_is_seen_is_told_the_name_that_has_rules(service: Start, sentinelctl: Run) -> None:
    service("flowRules: [{resource: order_create, grade: 1, count: 1}]\n")
    ended = sentinelctl("rules", "explain", "OrderCreate")
    assert "'order_create' has rules: they differ in case and separators." in ended.err


def test_a_guard_that_nobody_came_to(service: Start, sentinelctl: Run) -> None:
    engine = service("flowRules: [{resource: payment_invoke, grade: 1, count: 1}]\n")
    calls(engine, "payment_invok")
    tell(engine)
    what, step = found(findings(sentinelctl, "payment_invoke"), "no call of it was seen in 1 service, for ")
    assert what.endswith("; payment_invok was (3 calls)")
    assert 'guard("payment_invoke")' in step


def test_a_name_that_holds_a_secret_is_told_masked_and_nothing_is_concluded(service: Start, sentinelctl: Run) -> None:
    name = "pay?password=hunter2-secret"
    engine = service(f"flowRules: [{{resource: '{name}', grade: 1, count: 1, limitApp: 'token=hunter2-secret'}}]\n")
    calls(engine, name, origin="token=hunter2-secret")
    tell(engine)
    assert not [each for each in findings(sentinelctl, name) if "seen" in each or "never came" in each]
    ended = sentinelctl("doctor")
    assert "hunter2" not in ended.out
    assert "had no call" not in ended.out


def test_an_executor_that_lost_the_context(service: Start, sentinelctl: Run) -> None:
    engine = service(
        "flowRules:\n  - {resource: user, grade: 1, count: 1, strategy: chain, refResource: web}\n"
        "  - {resource: user, grade: 1, count: 1, limitApp: console}\n"
    )
    with context("web", origin="console"), ThreadPoolExecutor(1) as pool:
        pool.submit(calls, engine, "user").result()
        tell(engine)
        told = findings(sentinelctl, "user")
        what, step = found(told, "context web never came")
        assert what == "context web never came: of 3 calls 3 named none"
        assert "sentinel_core.context.wrap(function)" in step
        assert found(told, "caller console never came: of 3 calls 3 named none")
        assert "context web never came" in sentinelctl("doctor").out
        pool.submit(wrap(calls), engine, "user").result()
        tell(engine)
    assert not [each for each in findings(sentinelctl, "user") if "never came" in each]


def test_a_caller_that_is_named_otherwise(service: Start, sentinelctl: Run) -> None:
    engine = service("flowRules: [{resource: user, grade: 1, count: 1, limitApp: web_app}]\n")
    calls(engine, "user", origin="WebApp")
    tell(engine)
    what, _ = found(findings(sentinelctl, "user"), "caller web_app never came")
    assert what.endswith("there came WebApp (3); WebApp: they differ in case and separators")


def test_limit_app_other_where_callers_have_no_name(service: Start, sentinelctl: Run) -> None:
    engine = service("flowRules: [{resource: user, grade: 1, count: 1, limitApp: other}]\n")
    calls(engine, "user")
    tell(engine)
    what, step = found(findings(sentinelctl, "user"), "no caller came but those that rules name")
    assert "3 calls named none" in what
    assert "limitApp: default" in step


def test_a_parameter_that_calls_do_not_bring(service: Start, sentinelctl: Run) -> None:
    engine = service("paramFlowRules: [{resource: user, grade: 1, count: 1, paramIdx: 0}]\n")
    calls(engine, "user")
    tell(engine)
    _, step = found(findings(sentinelctl, "user"), "no call brought the parameter")
    assert "args=(...)" in step
    calls(engine, "user", args=("tea",))
    tell(engine)
    assert not [each for each in findings(sentinelctl, "user") if "no call brought" in each]


def test_a_limit_behind_a_smaller_one(service: Start, sentinelctl: Run) -> None:
    engine = service("flowRules:\n  - {resource: a, grade: 1, count: 5}\n  - {resource: a, grade: 1, count: 9}\n")
    calls(engine, "a")
    tell(engine)
    what, _ = found(findings(sentinelctl, "a"), "is never reached")
    assert what == "qps ≤ 9 is never reached: qps ≤ 5 of the same calls is smaller and decides"


def test_a_rule_in_shadow_by_hand_and_one_by_its_field(service: Start, sentinelctl: Run) -> None:
    engine = service(
        "flowRules:\n  - {resource: a, grade: 1, count: 1}\n  - {resource: b, grade: 1, count: 1, mode: shadow}\n"
    )
    engine.shadow()
    calls(engine, "a", 4)
    calls(engine, "b", 4)
    tell(engine)
    what, step = found(findings(sentinelctl, "a"), "everything is put into shadow by hand")
    assert "(3 calls so far)" in what
    assert 'engine.control("*", None)' in step
    assert found(findings(sentinelctl, "b"), "its field mode is shadow")[1] == ""
    assert "shadow: would have blocked 3" in sentinelctl("rules", "explain", "a").out


def test_a_breaker_that_is_held_closed(service: Start, sentinelctl: Run) -> None:
    engine = service("degradeRules: [{resource: a, grade: 2, count: 1, timeWindow: 5}]\n")
    calls(engine, "a")
    engine.control("a", "closed")
    tell(engine)
    what, step = found(findings(sentinelctl, "a"), "a is put into closed by hand")
    assert "every call passes" in what
    assert 'engine.control("a", None)' in step


def test_under_compat_the_second_authority_rule_does_not_count(service: Start, sentinelctl: Run) -> None:
    engine = service(
        "authorityRules:\n  - {resource: a, limitApp: web}\n  - {resource: a, limitApp: app, strategy: black}\n",
        "compat: sentinel-1.8.9\n",
    )
    calls(engine, "a", origin="web")
    tell(engine)
    found(findings(sentinelctl, "a"), "only the first authority rule of a resource counts")


def test_a_service_that_runs_older_rules(service: Start, sentinelctl: Run, here: Path) -> None:
    engine = service("flowRules: [{resource: a, grade: 1, count: 5}]\n")
    calls(engine, "a")
    tell(engine)
    engine.subscriptions[0].close()
    (here / "rules.yaml").write_text("flowRules: [{resource: a, grade: 1, count: 6}]\n", encoding="utf-8")
    what, step = found(findings(sentinelctl, "a"), "runs other flow rules")
    assert "than the store holds" in what
    assert step == f"sentinelctl instances show {engine.instance}"


def test_breakers_that_have_too_little_to_judge(service: Start, sentinelctl: Run) -> None:
    engine = service(
        "degradeRules:\n"
        "  - {resource: a, grade: 1, count: 0.5, timeWindow: 5, minRequestAmount: 20, statIntervalMs: 60000}\n"
        "bizMetricRules: [{resource: a, bizMetricType: PAY_FAIL_RATE, threshold: 5}]\n"
    )
    calls(engine, "a", 7)
    tell(engine)
    told = findings(sentinelctl, "a")
    found(told, "it judges from 20 calls in 60000 ms on; at most 7 are counted now in one service")
    assert 'engine.report("PAY_FAIL_RATE"' in found(told, "nobody reports PAY_FAIL_RATE")[1]


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


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_says_what_the_tools_say() -> None:
    """Each sentence that it quotes is one that a test above has heard."""
    heard = Path(__file__).read_text(encoding="utf-8").partition("# -- the page")[0]
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = [
        line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and not line.startswith("| cause")
    ]
    quoted = [said for row in rows for said in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 20
    assert [said for said in quoted if said not in heard] == []

"""Rules that never trigger: rows of `docs/troubleshooting.md` as symptoms in a running service, and what is said."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sentinel_core import context
from sentinel_core.context import wrap
from tests.cli.conftest import Run
from tests.cli.troubles import Start, calls, findings, found, tell

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
    assert "warn  findings" in told
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


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_says_what_the_tools_say() -> None:
    """Each sentence that it quotes is one that a test above has heard."""
    heard = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_troubleshooting*.py"))
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = [
        line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and not line.startswith("| cause")
    ]
    quoted = [said for row in rows for said in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 20
    assert [said for said in quoted if said not in heard] == []

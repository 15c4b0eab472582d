"""Several stores and a bootstrap in the settings: what holds, and whose it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel_core.settings import Settings, load_settings
from sentinel_core.starting import start
from tests.cli.conftest import Run

UPPER = "flowRules: [{resource: pay, grade: qps, count: 1}]\n"
LOWER = "flowRules: [{resource: pay, grade: qps, count: 2}, {resource: refund, grade: qps, count: 3}]\n"
UNDER = "flowRules: []\nauthorityRules: [{resource: pay, limitApp: web, strategy: white}]\n"


@pytest.fixture
def layers(here: Path) -> Path:
    """Two stores and a bootstrap, in files."""
    for name, text in (("upper", UPPER), ("lower", LOWER), ("under", UNDER)):
        (here / f"{name}.yaml").write_text(text, encoding="utf-8")
    (here / "sentinel.yaml").write_text("stores: [upper.yaml, lower.yaml]\nbootstrap: under.yaml\n", encoding="utf-8")
    return here


def test_the_bootstrap_of_the_settings_stands_beside_them(layers: Path) -> None:
    assert load_settings().bootstrap == str(layers / "under.yaml")


def test_a_service_follows_them_in_order(layers: Path) -> None:
    engine = start(load_settings())
    try:
        assert engine.wait_ready(10)
        assert [(rule.resource, rule.count) for rule in engine.rules("flow").rules] == [("pay", 1), ("refund", 3)]
        assert len(engine.subscriptions) == 2
        assert len(engine.rules("authority")) == 1
    finally:
        engine.close()


def test_the_bootstrap_is_in_force_when_start_returns(layers: Path) -> None:
    for name in ("upper", "lower"):
        (layers / f"{name}.yaml").unlink()
    engine = start(load_settings())
    try:
        assert len(engine.rules("authority")) == 1
        assert not engine.wait_ready(0), "the stores say nothing"
    finally:
        engine.close()


def test_show_tells_the_store_of_each_rule_and_what_stands_by(layers: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "show", "-o", "json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)

    def stores(name: str) -> dict[str, str]:
        return {f"{each['kind']} {each['rule'].get('resource')}": Path(each["store"]).stem for each in told[name]}

    assert stores("rules") == {"flow pay": "upper", "flow refund": "lower", "authority pay": "under"}
    assert stores("standingBy") == {"flow pay": "lower"}
    table = sentinelctl("rules", "show").out
    assert "STORE" in table
    assert "stands by: " in table


def test_explain_tells_the_store_of_each_rule_and_what_stands_by(layers: Path, sentinelctl: Run) -> None:
    said = sentinelctl("rules", "explain", "pay").out
    assert f"from {layers}/upper.yaml" in said or "/upper.yaml" in said
    assert "stands by: qps ≤ 2" in said
    told = json.loads(sentinelctl("rules", "explain", "refund", "-o", "json").out)
    (flow,) = next(each["rules"] for each in told["slots"] if each["slot"] == "flow")
    assert Path(flow["store"]).name == "lower.yaml"


def test_with_one_store_nothing_speaks_of_stores(here: Path, sentinelctl: Run) -> None:
    (here / "upper.yaml").write_text(UPPER, encoding="utf-8")
    (here / "sentinel.yaml").write_text("stores: [upper.yaml]\n", encoding="utf-8")
    assert "STORE" not in sentinelctl("rules", "show").out
    assert "from /" not in sentinelctl("rules", "explain", "pay").out


def test_doctor_looks_at_each_and_names_the_bootstrap(layers: Path, sentinelctl: Run) -> None:
    checks = [each["check"] for each in json.loads(sentinelctl("doctor", "-o", "json").out)["checks"]]
    assert [name for name in checks if name in {"store", "bootstrap"}] == ["store", "store", "bootstrap"]


def test_one_store_named_twice_is_bad_settings(layers: Path, sentinelctl: Run) -> None:
    (layers / "sentinel.yaml").write_text("stores: [upper.yaml, ./upper.yaml]\n", encoding="utf-8")
    ended = sentinelctl("doctor")
    assert ended.code == 78
    assert "name it once" in ended.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bootstrap: [a, b]\n", "bootstrap: write text"),
        ("bootstrap: ''\n", "bootstrap"),
        ("bootstap: a.yaml\n", "did you mean bootstrap?"),
        ("bootstrap: 'https://user:hunter2@host/x'\n", "a password stands in the file; set SENTINEL_BOOTSTRAP"),
        ("bootstrap: 'gopher://x'\n", "unknown scheme gopher"),
    ],
)
def test_a_bad_bootstrap_is_told(here: Path, sentinelctl: Run, text: str, said: str) -> None:
    (here / "sentinel.yaml").write_text(f"stores: [a.yaml]\n{text}", encoding="utf-8")
    ended = sentinelctl("doctor")
    assert ended.code == 78
    assert said in ended.out
    assert "hunter2" not in ended.out + ended.err


def test_settings_without_stores_may_have_a_bootstrap(here: Path) -> None:
    (here / "under.yaml").write_text(UNDER, encoding="utf-8")
    engine = start(Settings(bootstrap=str(here / "under.yaml"), last_known_good=str(here / "lkg"), status=None))
    try:
        assert len(engine.rules("authority")) == 1
    finally:
        engine.close()

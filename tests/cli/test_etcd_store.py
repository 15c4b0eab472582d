"""Commands and a service on a store that is a real etcd: show, diff, history, rollback, doctor, start."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from sentinel_core import start
from sentinel_core.cli.exits import Exit
from sentinel_core.settings import load_settings
from tests.cli.conftest import Run
from tests.services import etcd
from tests.services.etcd import EtcdServer


def rules(count: int) -> bytes:
    return json.dumps([{"resource": "payment_invoke", "grade": 1, "count": count}]).encode()


class Shop:
    """A service whose rules stand in etcd."""

    def __init__(self, server: EtcdServer, here: Path) -> None:
        self.server = server
        self.uri = server.uri(f"/cli/{here.parent.name}")
        self.key = f"/sentinel/cli/{here.parent.name}/sentinel-flow-rules"
        text = f'app: shop\nenvironment: prod\nstores: ["{self.uri}"]\n'
        (here / "sentinel.yaml").write_text(text, encoding="utf-8")

    def put(self, count: int) -> None:
        self.server.put(self.key, rules(count))


@pytest.fixture
def shop(here: Path) -> Shop:
    etcd.needed()
    return Shop(etcd.shared(), here)


def test_what_stands_there_is_shown_and_compared(shop: Shop, sentinelctl: Run, here: Path) -> None:
    shop.put(20)
    shown = sentinelctl("rules", "show", shop.uri, "-o", "json")
    assert shown.code == 0, shown.err
    assert '"count": 20' in shown.out
    (here / "new.yaml").write_text("flowRules:\n  - {resource: payment_invoke, grade: qps, count: 30}\n")
    compared = sentinelctl("rules", "diff", "live", "new.yaml")
    assert compared.code == 1
    assert "count  20 → 30" in compared.out


def test_a_blank_key_hides_no_rules_of_other_kinds(shop: Shop, sentinelctl: Run) -> None:
    shop.put(20)
    shop.server.put(shop.key.replace("flow", "degrade"), b" ")
    shown = sentinelctl("rules", "show", "-o", "json")
    assert shown.code == 0, shown.err
    assert '"count": 20' in shown.out


def test_the_history_and_a_rollback_with_its_reason(shop: Shop, sentinelctl: Run) -> None:
    shop.put(20)
    shop.put(30)
    listed = sentinelctl("rules", "history", "--kind", "flow", "-o", "json")
    assert listed.code == 0, listed.err
    assert len(json.loads(listed.out)["revisions"]) == 2
    done = sentinelctl("rules", "rollback", "--kind", "flow", "--reason", "too much", "--yes")
    assert done.code == 0, done.err
    assert "count  30 → 20" in done.err
    assert json.loads(shop.server.ctl("get", shop.key, "--print-value-only")) == json.loads(rules(20))
    beside = json.loads(shop.server.ctl("get", f"{shop.key}.provenance", "--print-value-only"))
    assert (beside["channel"], beside["reason"], beside["environment"]) == ("cli", "too much", "prod")
    assert beside["rollbackOf"].isdecimal()
    assert beside["publishedAt"].endswith("+00:00")
    newest = json.loads(sentinelctl("rules", "history", "--kind", "flow", "-o", "json").out)["revisions"][0]
    assert (newest["number"], newest["rollbackOfNumber"]) == (3, 2)
    assert beside["publishedBy"] in sentinelctl("rules", "history", "--kind", "flow").out
    again = sentinelctl("rules", "rollback", "--kind", "flow", "--yes")
    assert "Already rolled back" in again.err


def test_doctor_finds_it_well(shop: Shop, sentinelctl: Run) -> None:
    shop.put(20)
    ended = sentinelctl("doctor")
    assert ended.code == 0, ended.out + ended.err
    assert f"{shop.uri}: " in ended.out
    assert "1 rule, valid" in ended.out
    assert "; etcd 3." in ended.out
    (check,) = [
        each for each in json.loads(sentinelctl("doctor", "-o", "json").out)["checks"] if each["check"] == "store"
    ]
    assert abs(check["facts"]["clockSkewSeconds"]) < 5
    assert check["facts"]["mayWrite"] is True


def test_doctor_says_why_it_cannot_be_reached(sentinelctl: Run, here: Path) -> None:
    etcd.needed()
    (here / "sentinel.yaml").write_text('stores: ["etcd://127.0.0.1:1"]\n', encoding="utf-8")
    ended = sentinelctl("doctor")
    assert ended.code == Exit.UNREACHABLE
    assert "etcd 127.0.0.1:1 cannot be reached" in ended.out


def test_a_password_file_may_be_named_in_a_settings_file_and_a_password_not(here: Path, sentinelctl: Run) -> None:
    settings = here / "sentinel.yaml"
    settings.write_text('stores: ["etcd://h?user=u&password_file=/run/secrets/etcd"]\n', encoding="utf-8")
    assert "password_file=/run/secrets/etcd" in load_settings(settings).stores[0]
    settings.write_text('stores: ["etcd://u:hunter2@h"]\n', encoding="utf-8")
    ended = sentinelctl("doctor")
    assert ended.code == Exit.BAD_SETTINGS
    assert "a password stands in the file" in ended.out
    assert "hunter2" not in ended.out + ended.err


def test_a_service_follows_it(shop: Shop, here: Path) -> None:
    shop.put(20)
    engine = start(load_settings(here / "sentinel.yaml"))
    try:
        changed = threading.Event()
        engine.wait_ready(timeout_s=1)
        assert [rule.count for rule in engine.rules("flow").rules] == [20]
        (subscription,) = engine.subscriptions
        subscription.on_state(lambda status: changed.set() if status.key == shop.key else None)
        shop.put(30)
        assert changed.wait(5)
        assert [rule.count for rule in engine.rules("flow").rules] == [30]
    finally:
        engine.close()

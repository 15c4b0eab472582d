"""Commands and a service on a store that is a real Nacos: show, diff, history, rollback, doctor, start."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from sentinel_core import start
from sentinel_core.cli.exits import Exit
from sentinel_core.settings import load_settings
from tests.cli.conftest import Run
from tests.services import nacos
from tests.services.nacos import NacosServer
from tests.services.server import wait_until

KEY = "sentinel-flow-rules"


def rules(count: int) -> bytes:
    return json.dumps([{"resource": "payment_invoke", "grade": 1, "count": count}]).encode()


class Shop:
    """A service whose rules stand in Nacos, in a group of its own."""

    def __init__(self, server: NacosServer, transport: str, here: Path) -> None:
        self.server = server
        self.group = here.parent.name
        self.uri = server.uri(group=self.group, transport=transport)
        text = f'app: shop\nenvironment: prod\nstores: ["{self.uri}"]\n'
        (here / "sentinel.yaml").write_text(text, encoding="utf-8")

    def put(self, count: int) -> None:
        """As somebody does in the console."""
        self.server.put(KEY, rules(count), group=self.group)
        assert wait_until(lambda: self.server.read(KEY, group=self.group) == rules(count))

    def get(self, data_id: str) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.server.get(data_id, group=self.group) or b"null")
        return found


@pytest.fixture(params=[(3, "http"), (3, "grpc"), (2, "http")], ids=lambda manner: "-".join(map(str, manner)))
def shop(request: pytest.FixtureRequest, here: Path) -> Shop:
    major, transport = request.param
    nacos.needed(major)
    return Shop(nacos.shared(major), transport, here)


def test_what_stands_there_is_shown_and_compared(shop: Shop, sentinelctl: Run, here: Path) -> None:
    shop.put(20)
    shown = sentinelctl("rules", "show", shop.uri, "-o", "json")
    assert shown.code == 0, shown.err
    assert '"count": 20' in shown.out
    (here / "new.yaml").write_text("flowRules:\n  - {resource: payment_invoke, grade: qps, count: 30}\n")
    compared = sentinelctl("rules", "diff", "live", "new.yaml")
    assert compared.code == 1
    assert "count  20 → 30" in compared.out


def test_the_history_and_a_rollback_with_its_reason(shop: Shop, sentinelctl: Run) -> None:
    shop.put(20)
    shop.put(30)
    listed = sentinelctl("rules", "history", "--kind", "flow", "-o", "json")
    assert listed.code == 0, listed.err
    assert len(json.loads(listed.out)["revisions"]) == 2
    assert "unknown <127.0.0.1>" in sentinelctl("rules", "history", "--kind", "flow").out
    done = sentinelctl("rules", "rollback", "--kind", "flow", "--reason", "too much", "--yes")
    assert done.code == 0, done.err
    assert "count  30 → 20" in done.err
    assert shop.get(KEY) == json.loads(rules(20))
    beside = shop.get(f"{KEY}.provenance")
    assert (beside["channel"], beside["reason"], beside["environment"]) == ("cli", "too much", "prod")
    newest = json.loads(sentinelctl("rules", "history", "--kind", "flow", "-o", "json").out)["revisions"][0]
    assert (newest["number"], newest["rollbackOfNumber"]) == (3, 2)
    assert beside["publishedBy"] in sentinelctl("rules", "history", "--kind", "flow").out
    again = sentinelctl("rules", "rollback", "--kind", "flow", "--yes")
    assert "Already rolled back" in again.err
    (held,) = sentinelctl("rules", "quarantine", "-o", "name").out.split()
    assert sentinelctl("rules", "release", held, "--reason", "tried", "--yes").code == 0
    to_first = sentinelctl("rules", "rollback", "--kind", "flow", "--to-commit", beside["rollbackOf"], "--yes")
    assert to_first.code == 0, to_first.err
    assert shop.get(KEY) == json.loads(rules(30))


def test_doctor_finds_it_well(shop: Shop, sentinelctl: Run) -> None:
    shop.put(20)
    ended = sentinelctl("doctor")
    assert ended.code == 0, ended.out + ended.err
    assert f"nacos://{shop.server.address}" in ended.out
    assert "1 rule, valid" in ended.out
    (check,) = [
        each for each in json.loads(sentinelctl("doctor", "-o", "json").out)["checks"] if each["check"] == "store"
    ]
    assert check["facts"]["server"].startswith("Nacos ")
    assert abs(check["facts"]["clockSkewSeconds"]) < 5
    assert check["facts"]["mayRead"] is True


def test_a_service_follows_it(shop: Shop, here: Path) -> None:
    shop.put(20)
    engine = start(load_settings(here / "sentinel.yaml"))
    try:
        changed = threading.Event()
        engine.wait_ready(timeout_s=5)
        assert [rule.count for rule in engine.rules("flow").rules] == [20]
        (subscription,) = engine.subscriptions
        subscription.on_state(lambda status: changed.set() if status.key == KEY else None)
        shop.put(30)
        assert changed.wait(5)
        assert [rule.count for rule in engine.rules("flow").rules] == [30]
    finally:
        engine.close()


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_doctor_says_why_it_cannot_be_reached(sentinelctl: Run, here: Path, transport: str) -> None:
    (here / "sentinel.yaml").write_text(f'stores: ["nacos://127.0.0.1:1?transport={transport}"]\n', encoding="utf-8")
    ended = sentinelctl("doctor")
    assert ended.code == Exit.UNREACHABLE
    assert "nacos 127.0.0.1:1" in ended.out
    assert "cannot be reached" in ended.out


def test_doctor_says_that_a_namespace_is_none(sentinelctl: Run, here: Path) -> None:
    nacos.needed()
    uri = nacos.shared().uri("nowhere", transport="http")
    (here / "sentinel.yaml").write_text(f'stores: ["{uri}"]\n', encoding="utf-8")
    ended = sentinelctl("doctor")
    assert ended.out.count("there is no namespace nowhere") == 1
    assert "next: check its namespace and group" in ended.out

"""Collectors of the settings: read by a service, looked at by `doctor`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from sentinel_core import set_default_engine, start
from sentinel_core.settings import AuditSettings, Settings, SettingsError
from tests.services.redis import Redis
from tests.services.server import free_port, wait_until


@pytest.fixture(autouse=True)
def own_default_engine() -> Iterator[None]:
    before = set_default_engine(None)
    yield
    set_default_engine(before)


def settings(folder: Path, *collectors: str) -> Settings:
    audit = AuditSettings(outbox=str(folder / "outbox.db"), store=f"sqlite:///{folder}/audit.db")
    return Settings(
        audit=audit, last_known_good=str(folder / "last-good"), status=str(folder / "status"), collectors=collectors
    )


@pytest.mark.service("redis")
def test_a_service_reads_what_its_settings_name(redis_server: Redis, tmp_path: Path) -> None:
    with redis.Redis.from_url(redis_server.url) as store:
        store.set("stock:tea", 3)
    service = start(settings(tmp_path, f"STOCK_DEPTH={redis_server.url}?key=stock:tea&resource=deduct&every=20ms"))
    try:
        rule = {"resource": "deduct", "bizMetricType": "STOCK_DEPTH", "threshold": 10, "minRequestAmount": 1}
        service.load_rules("biz_metric", [rule])
        wait_until(lambda: not service.try_entry("deduct"), 5)
    finally:
        service.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("redis://u:hunter2@host/0?key=a", "write METRIC=URI"),
        ("redis", "write METRIC=URI"),
        ("=redis://host/0?key=a", "write METRIC=URI"),
        ("STOCK=rediss", "STOCK: "),
        ("STOCK=redys://u:hunter2@host/0?key=a", "did you mean redis"),
        ("STOCK=redis://host/0?key=a&every=soon", "STOCK: "),
    ],
)
def test_what_is_no_collector_stops_the_start_and_says_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        start(settings(tmp_path, text))
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.service("redis")
def test_doctor_reads_each_collector_once(redis_server: Redis, tmp_path: Path) -> None:
    with redis.Redis.from_url(redis_server.url) as store:
        store.set("stock:tea", 3)
        store.set("text", "many")
    found = [
        f"STOCK_DEPTH={redis_server.url}?key=stock:tea",
        f"TEXT={redis_server.url}?key=text",
        f"NOTHING={redis_server.url}?key=missing",
        f"DOWN=redis://127.0.0.1:{free_port()}/0?key=a&timeout=300ms",
    ]
    (tmp_path / "sentinel.yaml").write_text(json.dumps({"collectors": found}))
    done = subprocess.run(
        [sys.executable, "-m", "sentinel_core.cli", "doctor", "-o", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    checks: list[dict[str, Any]] = [each for each in json.loads(done.stdout)["checks"] if each["check"] == "collector"]
    assert [each["health"] for each in checks] == ["ok", "warn", "warn", "fail"], done.stdout
    assert "1 value that is no number" in checks[1]["what"]
    assert "no value stands there" in checks[2]["what"]

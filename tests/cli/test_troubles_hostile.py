"""What services tell is foreign text: nothing in it ends `explain` or `doctor` in a traceback, or fills a screen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine
from sentinel_core.cli.moments import utc_now
from sentinel_core.status_file import StatusFile
from sentinel_core.testing import FakeClock
from tests.cli.conftest import Run

RULES = """\
flowRules:
  - {resource: a, grade: 1, count: 100, controlBehavior: warm_up, warmUpPeriodSec: 60}
  - {resource: a, grade: 1, count: 50, controlBehavior: rate_limiter, maxQueueingTimeMs: 500}
  - {resource: a, grade: 0, count: 5, limitApp: web}
  - {resource: a, grade: 1, count: 5, strategy: chain, refResource: api}
degradeRules:
  - {resource: a, grade: 2, count: 10, timeWindow: 10}
bizMetricRules:
  - {resource: a, bizMetricType: COUPON_POOL, threshold: 7, dimension: shop}
"""
HOSTILE: tuple[Any, ...] = (
    None,
    [],
    {},
    "\x1b[31m",
    -1,
    1e308,
    float("nan"),
    float("inf"),
    10**400,
    True,
    [[]],
    {"": {}},
)
Place = tuple[str | int, ...]


@pytest.fixture
def told(here: Path) -> tuple[Path, dict[str, Any]]:
    """The status file of a service with a little of everything, and what stands in it."""
    (here / "rules.yaml").write_text(RULES, encoding="utf-8")
    (here / "sentinel.yaml").write_text(f"stores: ['file://{here}/rules.yaml']\n", encoding="utf-8")
    clock = FakeClock(start_ms=int(utc_now().timestamp() * 1000))
    engine = Engine(instance="shop-1", clock=clock)
    engine.load_rules(
        "flow",
        [
            {"resource": "a", "grade": 1, "count": 100, "controlBehavior": 1, "warmUpPeriodSec": 60},
            {"resource": "a", "grade": 1, "count": 50, "controlBehavior": 2, "maxQueueingTimeMs": 500},
            {"resource": "a", "grade": 0, "count": 5, "limitApp": "web"},
            {"resource": "a", "grade": 1, "count": 5, "strategy": 2, "refResource": "api"},
        ],
    )
    engine.load_rules("degrade", [{"resource": "a", "grade": 2, "count": 10, "timeWindow": 10}])
    engine.load_rules(
        "biz_metric", [{"resource": "a", "bizMetricType": "COUPON_POOL", "threshold": 7, "dimension": "shop"}]
    )
    engine.control("a", "shadow")
    engine.gauge("COUPON_POOL", 3, dimension="north")
    for _ in range(3):
        engine.entry("a", origin="app").exit()
        engine.entry("A").exit()
    status = StatusFile(engine, here / ".sentinel" / "status", every_s=0)
    status.flush()
    clock.step_wall(3)
    status.flush()
    return status.path, json.loads(status.path.read_bytes())


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every place in a document, the inner ones too."""
    if here:
        yield here
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from places(each, (*here, name))


def with_value(value: Any, place: Sequence[Any], other: Any) -> Any:
    """A copy with another value at a place."""
    if not place:
        return other
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = with_value(value[place[0]], place[1:], other)
    return copy


def test_nothing_that_a_service_tells_is_taken_for_granted(told: tuple[Path, dict[str, Any]], sentinelctl: Run) -> None:
    path, document = told
    assert "A (3 calls in " in sentinelctl("rules", "explain", "a").out
    concerned = [each for each in places(document) if each[0] in ("traffic", "clock", "statistics", "control", "kinds")]
    assert len(concerned) > 100
    for number, place in enumerate(concerned):
        hostile = HOSTILE[number % len(HOSTILE)]
        path.write_text(json.dumps(with_value(document, place, hostile)), encoding="utf-8")
        ended = sentinelctl("rules", "explain", "a")
        assert (ended.code, "internal" in ended.err.lower()) == (0, False), (place, hostile, ended)
        if number % 8 == 0:
            ended = sentinelctl("doctor")
            assert (ended.code, "internal" in ended.err.lower()) == (0, False), (place, hostile, ended)
        assert "\x1b" not in ended.out


def test_a_thousand_findings_are_ten_lines_and_a_sum(
    told: tuple[Path, dict[str, Any]], sentinelctl: Run, here: Path
) -> None:
    path, document = told
    names = [f"order_{number}" for number in range(1000)]
    rules = [{"resource": name, "grade": 1, "count": 1} for name in names]
    (here / "rules.yaml").write_text(json.dumps({"flowRules": rules}), encoding="utf-8")
    seen = [{"resource": name.upper(), "passed": 1} for name in names]
    path.write_text(json.dumps(with_value(document, ("traffic", "resources"), seen)), encoding="utf-8")
    ended = sentinelctl("doctor")
    assert ended.out.count("warn  findings") == 11
    assert "and 991 more findings" in ended.out
    checks = json.loads(sentinelctl("doctor", "-o", "json").out)["checks"]
    assert [each["facts"]["beyond"] for each in checks if "beyond" in each.get("facts", {})] == [801]
